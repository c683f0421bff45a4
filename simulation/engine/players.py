"""Assemble the role set of a row from its run configuration, connected to the models that it names."""

from dataclasses import dataclass
from typing import Any

from simulation.calls import Dial, dial
from simulation.calls.journal import Journal
from simulation.casts import Setup, casting, prompting
from simulation.casts.casting import Cast, Prompter
from simulation.casts.setups import PERSON
from simulation.lab.actions import Action
from simulation.lab.outcomes import Perturbation
from simulation.lab.roles import Perturber
from simulation.leases import Lease
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.rater import Kind, LLMRater
from simulation.models import Episode, Job, Run, Twin
from simulation.runs import laboratory


@dataclass(frozen=True)
class Play:
    """The roles of one unit, and the notes that the agent may have changed in it."""

    cast: Cast
    by_person: bool
    memory: dict[str, Any]
    before: str

    def notes(self) -> dict[str, Any]:
        """Return the change of the row that stores the agent's notes, or {} if they did not change."""
        return {"memory": self.memory} if repr(self.memory) != self.before else {}


def of_episode(lease: Lease[Episode], dial: Dial = dial) -> Play:
    """Return the roles for the next unit of this episode."""
    episode = lease.row
    setup, memory = setup_of(episode.run, episode.cast), dict(episode.memory)
    # A verdict that is requested again must be a new call: under the same number, the model's earlier refusal would be
    # replayed from the call log.
    number = episode.next_number + (episode.verdict_requests if episode.phase == "verdict" else 0)
    replayer = Journal(lease, setup, episode.phase, number, dial)
    prompter = Prompter(replayer.speaker, lambda: _texts(setup), memory)
    pending_action = Action.from_json(episode.pending) if episode.pending else None
    spec = laboratory.specification(episode.experiment)
    cast = casting.cast(setup, spec, episode.seed, prompter, pending_action)
    return Play(cast, setup.agent.plays == PERSON, memory, repr(memory))


def of_twin(lease: Lease[Twin], dial: Dial = dial) -> Perturber:
    """Return the perturber that creates this twin."""
    twin = lease.row
    setup = setup_of(twin.run, twin.cast)
    replayer = Journal(lease, setup, "twin", twin.tries, dial)
    prompter = Prompter(replayer.speaker, lambda: _texts(setup), {})
    return casting.perturber(setup, Perturbation(twin.perturbation), twin.seed, prompter)


def of_ratings(
    lease: Lease[Job], kind: Kind, question: str, guide: str, number: int, jobs: tuple[int, ...], dial: Dial = dial
) -> LLMRater:
    """Return the model that rates item `number` of a study, for one unit of a job."""
    run = lease.row.run
    assert run is not None, "model raters have a run that pays for their calls"
    setup = setup_of(run, run.cast)
    replayer = Journal(lease, setup, "rating", number, dial, jobs=jobs)
    return casting.rater(setup, kind, question, guide, Prompter(replayer.speaker, lambda: _texts(setup), {}))


def setup_of(run: Run, cast: str) -> Setup:
    """Return the run configuration that the run was created with. A rule-based cast without a stored one comes from the code."""
    if not run.setup_sha256:
        return casting.known(cast).setup()
    if cached := _setups.get(run.setup_sha256):
        return cached
    # One query for both: a configuration that was corrected in between must not be cached under its old hash.
    sha256, data = Run.objects.values_list("setup_sha256", "setup").get(pk=run.pk)
    if len(_setups) > _MOST_SETUPS:
        _setups.clear()
    _setups[sha256] = Setup.from_json(data)
    return _setups[sha256]


# By hash, so that all runs of one configuration share an entry and none can be out of date.
_setups: dict[str, Setup] = {}
_MOST_SETUPS = 200


def _texts(setup: Setup) -> PromptTexts:
    return prompting.texts(setup.prompt_sha256)
