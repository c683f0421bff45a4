"""Write the episodes of a run to a file of trajectories."""

import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from simulation.lab.actions import QUIT, SUBMIT, Action
from simulation.lab.bench import Step, step_from_json
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Outcome
from simulation.lab.rendering import render_situation
from simulation.models import Episode, Run
from simulation.recordings import trajectories
from simulation.runs import benches

RULE_ENDINGS = ("submitted", "quit", "rejected_out", "truncated")  # other endings say nothing about the agent
_FINAL_ACTIONS = {"submitted": SUBMIT, "quit": QUIT}  # these actions are not stored as steps


class LeftOutError(LabError):
    """The episode cannot be exported. The message is the reason, worded equally for all such episodes."""


class ExportResult(NamedTuple):
    """The number of trajectories written, and how many episodes were left out for each reason."""

    number_written: int
    left_out: Counter[str]


def write_trajectories(run: Run, path: Path) -> ExportResult:
    """Write one line per episode that ended by the rules. Raise OSError if the file cannot be written."""
    number_written, left_out = 0, Counter[str]()
    # Written under another name and renamed, so that the file is either complete or absent.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("x", encoding="utf-8") as file:
            for episode in _iter_episodes(run):
                try:
                    file.write(json.dumps(build_trajectory(episode)) + "\n")
                    number_written += 1
                except LeftOutError as reason:
                    left_out[str(reason)] += 1
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return ExportResult(number_written, left_out)


def build_trajectory(episode: Episode) -> dict[str, Any]:
    """Return an episode as `trajectories.replay_trajectory` expects it. Raise LeftOutError if it cannot be replayed."""
    _check_exportable(episode)
    bench = benches.build_bench(episode, before=1)
    review = episode.reviews.filter(primary=True).first()
    verdict = trajectories.parse_verdict(review.verdict) if review else None
    steps = trajectories.build_steps(bench, _iter_steps(episode), verdict, episode.memory.get("thoughts", {}))
    if str(bench.ending or "") != episode.status:
        raise LeftOutError("the action catalogue has changed since")
    return {
        "schema": trajectories.SCHEMA,
        "run": str(episode.run.code),
        "episode": str(episode.code),
        "experiment": episode.experiment.slug,
        "experiment_sha256": episode.experiment_sha256,
        "cast": episode.cast,
        "replicate": episode.replicate,
        "seed": episode.seed,
        "manifest": episode.run.manifest,
        "plan": episode.memory.get("plan", ""),
        "steps": steps,
        "final_observation": render_situation(bench.get_situation()),
        "ending": episode.status,
        "verdict": verdict.to_json() if verdict else None,
    }


def _iter_episodes(run: Run) -> Iterator[Episode]:
    rows = run.episodes.select_related("experiment", "run").order_by("experiment__slug", "replicate", "pk")
    return rows.iterator(chunk_size=20)


def _check_exportable(episode: Episode) -> None:
    if episode.status not in RULE_ENDINGS:
        raise LeftOutError(episode.get_status_display())
    if episode.experiment.sha256 != episode.experiment_sha256:
        raise LeftOutError("the experiment has changed since")


def _iter_steps(episode: Episode) -> Iterator[Step]:
    """Yield the stored steps, then the submit or quit action that ended the episode, which is not stored."""
    now, number = 0, 0
    for data in episode.transitions.order_by("number").values_list("step", flat=True):
        step = step_from_json(data)
        now, number = step.ended_at, step.number
        yield step
    if name := _FINAL_ACTIONS.get(episode.status):
        yield Step(number + 1, now, now, Action(name), (), Outcome(success=True), ())
