"""Record runs of episodes in files: every call, to replay the run without a network, or trajectories for training."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction

from simulation import leases
from simulation.calls import ModelConnection, rate_limit
from simulation.casts import RoleConfig, RunConfig, run_config
from simulation.engine import runner
from simulation.lab.actions import QUIT, SUBMIT, Action
from simulation.lab.bench import Bench, Step, step_from_json
from simulation.lab.environment import chat, tool_schemas
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Outcome, Verdict
from simulation.lab.rendering import render_situation
from simulation.lab.truths import truth_seeds
from simulation.models import Episode, Experiment, ModelCall, PromptSet, Run
from simulation.providers import recording
from simulation.providers.base import PROVIDERS, Reply
from simulation.providers.recording import RecordedCall, Recording, ReplayConnection
from simulation.recordings import trajectories
from simulation.recordings.exported_lines import BuildLine, ExportResult, LeftOutError, write_lines
from simulation.runs import benches, control, create
from wetbench_site.text import hash_json

_REPLAY_KEYS = {info.key_variable: "replay" for info in PROVIDERS.values()}  # placeholders: a replay sends nothing
_RUN_FIELDS = ("cast", "seed", "manifest", "truths", "conditions", "setup")  # recorded and restored as they are
# The same for each episode. Older recordings lack some of them, whose defaults are those of their episodes.
_EPISODE_FIELDS = ("replicate", "seed", "initial", "truth_seed", "truth", "mask", "mask_key")
_EPISODE_DEFAULTS: Mapping[str, Any] = {"truth_seed": None, "truth": {}, "mask": {}, "mask_key": ""}
MESSAGES_SCHEMA = "wetbench-messages/1"
RULE_ENDINGS = ("submitted", "quit", "rejected_out", "truncated")  # other endings say nothing about the agent
_FINAL_ACTIONS = {"submitted": SUBMIT, "quit": QUIT}  # these actions are not stored as steps


class ReplayError(LabError):
    """The recording cannot be replayed with the current data. The message states the difference."""


class EpisodeComparison(NamedTuple):
    """A recorded episode beside its replay. `difference` is empty if both are the same, byte for byte."""

    experiment: str
    replicate: int
    steps: int
    difference: str


def record_run(run: Run, path: Path) -> int:
    """Write a run of episodes with every answered or failed call, and return the number of calls. The file has no keys or addresses."""
    if run.kind != "episodes" or not run_config.list_models(run.setup):
        raise ReplayError(
            "Only runs of episodes with language models can be recorded. Rule-based runs are reproducible from their seed"
        )
    if run.setup["cast"]["agent"].get("plays") == run_config.PERSON:
        raise ReplayError("A person's choices are not in the call log. Export this run with export_episodes")
    prompts = PromptSet.objects.filter(sha256=run.setup.get("prompt_set", {}).get("sha256", "")).first()
    header = {name: getattr(run, name) for name in _RUN_FIELDS} | {
        "prompts": {"name": prompts.name, "sha256": prompts.sha256, "files": prompts.files} if prompts else None,
        "episodes": [_episode_to_dict(row) for row in run.episodes.select_related("experiment").order_by("pk")],
    }
    return recording.write_recording(path, header, _iter_calls(run))


def replay_run(path: Path) -> tuple[Run, list[EpisodeComparison]]:
    """Replay a recording as a run of its own that is excluded from all results, and compare each episode with the recorded one."""
    recorded = recording.load_recording(path)
    run, pairs = _create_run(recorded)
    expected = {entry["code"]: entry for entry in recorded.header["episodes"]}
    for code, row in pairs:
        _replay_episode(row, _EpisodeReplay(recorded, code), expected[code])
    return run, [_compare_episode(expected[code], row) for code, row in pairs]


@dataclass
class _EpisodeReplay:
    """The recorded calls of one episode, and the position in each model's calls."""

    recording: Recording
    code: str
    connections: dict[str, ModelConnection] = field(default_factory=dict)

    def connect(self, setup: RunConfig, player: RoleConfig) -> ModelConnection:
        if player.name not in self.connections:
            endpoint = setup.make_endpoint(player, _REPLAY_KEYS)
            calls = self.recording.select_calls(episode=self.code, speaker=player.name)
            self.connections[player.name] = ModelConnection(endpoint, ReplayConnection(endpoint, calls))
        return self.connections[player.name]

    def has_calls_left(self, row: Episode) -> bool:
        """Return whether the recording has more calls than the replay has used."""
        return row.calls.exclude(state="lost").count() < len(self.recording.select_calls(episode=self.code))

    def reopen_limiters(self) -> None:
        # Recorded faults close or block the limiter of the placeholder key. A replay must not wait for it.
        setup = RunConfig.from_json(self.recording.header["setup"])
        for _, player in run_config.list_models(self.recording.header["setup"]):
            rate_limit.reopen_limiter(rate_limit.format_limiter_name(setup.make_endpoint(player, _REPLAY_KEYS)))


def _replay_episode(episode: Episode, episode_replay: _EpisodeReplay, expected: Mapping[str, Any]) -> None:
    """Run the episode to its recorded end in this thread."""
    while (row := Episode.objects.get(pk=episode.pk)).status not in Episode.ENDED:
        # Stop where the recorded episode was blocked for good. If the recording has more calls, a person unblocked it.
        if row.status == "blocked" and (expected["status"] == "blocked" or not episode_replay.has_calls_left(row)):
            return
        if expected["status"] == "cancelled" and row.next_number > len(expected["steps"]):
            control.stop_episode(row)
            continue
        # Recorded faults are repeated, but not their waits and blocks: continue at once.
        Episode.objects.filter(pk=row.pk, status="blocked").update(status="queued", reason="", error="")
        Episode.objects.filter(pk=row.pk).update(not_before=None)
        episode_replay.reopen_limiters()
        lease = leases.claim_row(Episode, row.code, replay=True)
        if lease is None:
            raise ReplayError("another process is running this replay")
        runner.run_episode_unit(lease, episode_replay.connect)


@transaction.atomic
def _create_run(recorded: Recording) -> tuple[Run, list[tuple[str, Episode]]]:
    """Create a run with the recorded configuration. Return it with the recorded code and the new row of each episode."""
    # Older recordings lack these fields; their episodes had the reference truth, and no protocol.
    header = {"truths": truth_seeds.REFERENCE, "conditions": {}, **recorded.header}
    try:
        if prompts := header["prompts"]:
            texts = {"name": prompts["name"], "files": prompts["files"]}
            PromptSet.objects.get_or_create(sha256=prompts["sha256"], defaults=texts)
        run = Run.objects.create(
            **{name: header[name] for name in _RUN_FIELDS},
            submission_id=create.create_submission_id(),
            kind="episodes",
            replay=True,
            setup_sha256=run_config.hash_config(header["setup"]),
        )
        return run, [(entry["code"], _create_episode(run, entry)) for entry in header["episodes"]]
    except (KeyError, TypeError) as error:
        raise ReplayError(f"line 1 of the recording lacks {error}") from error


def _create_episode(run: Run, entry: Mapping[str, Any]) -> Episode:
    experiment = Experiment.objects.filter(slug=entry["experiment"]).first()
    if experiment is None or experiment.sha256 != entry["experiment_sha256"]:
        raise ReplayError(f"The experiment {entry['experiment']!r} is missing or differs from the recorded one")
    return Episode.objects.create(
        run=run,
        experiment=experiment,
        experiment_sha256=experiment.sha256,
        cast=run.cast,
        counts=False,  # a replay must never be part of a result or take a replicate's place
        **{name: {**_EPISODE_DEFAULTS, **entry}[name] for name in _EPISODE_FIELDS},
    )


def _episode_to_dict(row: Episode) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in ("experiment_sha256", *_EPISODE_FIELDS, "status")}
    names = {"code": str(row.code), "experiment": row.experiment.slug}
    return {**names, **columns, "steps": _hash_steps(row), "verdicts": _hash_verdicts(row)}


def _compare_episode(expected: Mapping[str, Any], row: Episode) -> EpisodeComparison:
    row.refresh_from_db()
    steps, verdicts = _hash_steps(row), _hash_verdicts(row)
    pairs = enumerate(zip_longest(expected["steps"], steps), start=1)
    if differing_step := next((number for number, (recorded, replayed) in pairs if recorded != replayed), 0):
        difference = f"step {differing_step} differs"
    elif row.status != expected["status"]:
        difference = f"ended {row.status}, recorded {expected['status']}"
    else:
        difference = "" if verdicts == expected["verdicts"] else "the verdicts differ"
    if difference and row.error:
        difference += f" ({row.error[:200]})"
    return EpisodeComparison(row.experiment.slug, row.replicate, len(steps), difference)


def _hash_steps(row: Episode) -> list[str]:
    """Return a hash of each committed step, computed over the complete stored step."""
    return [hash_json(step) for step in row.transitions.order_by("number").values_list("step", flat=True)]


def _hash_verdicts(row: Episode) -> dict[str, str]:
    return {name: hash_json(verdict) for name, verdict in row.reviews.values_list("classifier", "verdict")}


def _iter_calls(run: Run) -> Iterator[RecordedCall]:
    """Yield every call that ended, in the order in which they were sent."""
    calls = ModelCall.objects.filter(run=run, state__in=("answered", "refused", "failed")).order_by("pk")
    # Replies are large: read them in small batches. The request is identified by its hash, so its body is not needed.
    names = ("role", "speaker", "number", "turn", "attempt")
    for call in calls.defer("request").select_related("episode").iterator(chunk_size=200):
        reply = Reply(call.http_status, call.reply_headers, bytes(call.reply or b"")) if call.http_status else None
        episode = str(call.episode.code) if call.episode else ""
        key = {"episode": episode, **{name: getattr(call, name) for name in names}}
        yield RecordedCall(key, call.request_sha256, reply, call.error_class, call.error)


def write_trajectories(run: Run, path: Path, build_line: BuildLine[Episode] | None = None) -> ExportResult:
    """Write one line per episode that ended by the rules: its trajectory, or what `build_line` returns.

    Raises OSError if the file cannot be written.
    """
    rows = run.episodes.select_related("experiment", "run").order_by("experiment__slug", "replicate", "pk")
    return write_lines(rows.iterator(chunk_size=20), path, build_line or build_trajectory)


def build_trajectory(episode: Episode) -> dict[str, Any]:
    """Return an episode as `trajectories.replay_trajectory` expects it. Raise LeftOutError if it cannot be replayed."""
    bench, verdict = _prepare_export(episode)
    steps = trajectories.build_steps(bench, _iter_steps(episode), verdict, episode.memory.get("thoughts", {}))
    _check_ending(episode, bench)
    return {
        "schema": trajectories.SCHEMA,
        **_build_facts(episode),
        "plan": episode.memory.get("plan", ""),
        "steps": steps,
        "final_observation": render_situation(bench.get_situation()),
        "ending": episode.status,
        "verdict": verdict.to_json() if verdict else None,
    }


def build_chat(episode: Episode, with_tools: bool = False) -> dict[str, Any]:
    """Return an episode as chat messages with tool calls and results. Raise LeftOutError if it cannot be replayed."""
    bench, verdict = _prepare_export(episode)
    messages = chat.episode_to_messages(bench, _iter_steps(episode), episode.memory.get("thoughts", {}))
    _check_ending(episode, bench)
    tools = {"tools": tool_schemas.build_tools(bench.catalogue)} if with_tools else {}
    reward = 1.0 if verdict and verdict.sufficient and episode.status == "submitted" else 0.0
    facts = {"schema": MESSAGES_SCHEMA, **_build_facts(episode), "ending": episode.status, "reward": reward}
    return {**facts, "messages": messages, **tools}


def _prepare_export(episode: Episode) -> tuple[Bench, Verdict | None]:
    """Return the bench at the start of an episode and its verdict. Raise LeftOutError if it cannot be replayed."""
    if episode.status not in RULE_ENDINGS:
        raise LeftOutError(episode.get_status_display())
    if episode.experiment.sha256 != episode.experiment_sha256:
        raise LeftOutError("the experiment has changed since")
    review = episode.reviews.filter(primary=True).first()
    return benches.build_bench(episode, before=1), trajectories.parse_verdict(review.verdict) if review else None


def _check_ending(episode: Episode, bench: Bench) -> None:
    if str(bench.ending or "") != episode.status:
        raise LeftOutError("the action catalogue has changed since")


def _build_facts(episode: Episode) -> dict[str, Any]:
    return {
        "run": str(episode.run.code),
        "episode": str(episode.code),
        "experiment": episode.experiment.slug,
        "experiment_sha256": episode.experiment_sha256,
        "cast": episode.cast,
        "replicate": episode.replicate,
        "seed": episode.seed,
        "truths": episode.run.truths,
        "truth_seed": episode.truth_seed,
        "manifest": episode.run.manifest,
        "practice": episode.run.practice,
        "mask": episode.mask,
        # Always the first ones: they were done for the agent, which did not choose them.
        "given_steps": episode.transitions.filter(given=True).count() if episode.mask else 0,
    }


def _iter_steps(episode: Episode) -> Iterator[Step]:
    """Yield the stored steps, then the submit or quit action that ended the episode, which is not stored."""
    now, number = 0, 0
    for data in episode.transitions.order_by("number").values_list("step", flat=True):
        step = step_from_json(data)
        now, number = step.ended_at, step.number
        yield step
    if name := _FINAL_ACTIONS.get(episode.status):
        yield Step(number + 1, now, now, Action(name), (), Outcome(success=True), ())
