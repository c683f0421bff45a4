"""Assemble the role set of a row from its run configuration, connected to the models that it names."""

from dataclasses import dataclass
from typing import Any

from simulation.calls import Connector, connect
from simulation.calls.replay import CallReplayer
from simulation.casts import RunConfig, casting, prompt_store
from simulation.casts.casting import Cast, PromptTools
from simulation.casts.run_config import PERSON
from simulation.lab.actions import Action
from simulation.lab.outcomes import Perturbation
from simulation.lab.roles import Perturber
from simulation.leases import Lease
from simulation.llm.model_rater import LLMRater, RatingKind
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.models import Episode, Job, Run, Twin
from simulation.runs import benches


@dataclass(frozen=True)
class RoleSet:
    """The roles of one unit, and the notes that the agent may have changed in it."""

    cast: Cast
    by_person: bool
    memory: dict[str, Any]
    notes_before: str

    def changed_notes(self) -> dict[str, Any]:
        """Return the change to the episode's row that stores the agent's notes, or {} if the notes did not change."""
        return {"memory": self.memory} if repr(self.memory) != self.notes_before else {}


def build_episode_roles(lease: Lease[Episode], connector: Connector = connect) -> RoleSet:
    """Return the roles for the next unit of this episode."""
    episode = lease.row
    setup, memory = get_run_config(episode.run, episode.cast), dict(episode.memory)
    # A verdict that is requested again must be a new call: under the same number, the model's earlier refusal would be
    # replayed from the call log.
    number = episode.next_number + (episode.verdict_requests if episode.phase == "verdict" else 0)
    replayer = CallReplayer(lease, setup, episode.phase, number, connector)
    prompter = PromptTools(replayer.create_speaker, lambda: _load_prompts(setup), memory)
    pending_action = Action.from_json(episode.pending) if episode.pending else None
    spec = benches.get_specification(episode.experiment)
    cast = casting.build_cast(setup, spec, episode.seed, prompter, pending_action)
    return RoleSet(cast, setup.agent.plays == PERSON, memory, repr(memory))


def build_perturber(lease: Lease[Twin], connector: Connector = connect) -> Perturber:
    """Return the perturber that creates this twin."""
    twin = lease.row
    setup = get_run_config(twin.run, twin.cast)
    replayer = CallReplayer(lease, setup, "twin", twin.tries, connector)
    prompter = PromptTools(replayer.create_speaker, lambda: _load_prompts(setup), {})
    return casting.build_perturber(setup, Perturbation(twin.perturbation), twin.seed, prompter)


def build_model_rater(
    lease: Lease[Job],
    kind: RatingKind,
    question: str,
    guide: str,
    number: int,
    job_ids: tuple[int, ...],
    connector: Connector = connect,
) -> LLMRater:
    """Return the model that rates item `number` of a study, for one unit of a job."""
    run = lease.row.run
    assert run is not None, "model raters have a run that pays for their calls"
    setup = get_run_config(run, run.cast)
    replayer = CallReplayer(lease, setup, "rating", number, connector, job_ids=job_ids)
    return casting.build_rater(
        setup, kind, question, guide, PromptTools(replayer.create_speaker, lambda: _load_prompts(setup), {})
    )


def get_run_config(run: Run, cast: str) -> RunConfig:
    """Return the configuration with which the run was created.

    For a rule-based cast no configuration is stored; it is built from the code.
    """
    if not run.setup_sha256:
        return casting.get_rule_based_cast(cast).to_run_config()
    if cached := _cached_configs.get(run.setup_sha256):
        return cached
    # One query for both: a configuration that was corrected in between must not be cached under its old hash.
    sha256, data = Run.objects.values_list("setup_sha256", "setup").get(pk=run.pk)
    if len(_cached_configs) > _MAX_CACHED_CONFIGS:
        _cached_configs.clear()
    _cached_configs[sha256] = RunConfig.from_json(data)
    return _cached_configs[sha256]


# By hash, so that all runs of one configuration share an entry and none can be out of date.
_cached_configs: dict[str, RunConfig] = {}
_MAX_CACHED_CONFIGS = 200


def _load_prompts(setup: RunConfig) -> PromptTexts:
    return prompt_store.load_texts(setup.prompt_sha256)
