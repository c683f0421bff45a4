"""Who plays a row: its run's setup, with a telephone to the models it names."""

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
    """The players of one unit, and what the agent may have written down in it."""

    cast: Cast
    by_person: bool
    memory: dict[str, Any]
    before: str

    def notes(self) -> dict[str, Any]:
        """The change of the row that keeps what the agent wrote down; none if it wrote nothing."""
        return {"memory": self.memory} if repr(self.memory) != self.before else {}


def of_episode(lease: Lease[Episode], dial: Dial = dial) -> Play:
    episode = lease.row
    setup, memory = setup_of(episode.run, episode.cast), dict(episode.memory)
    # A verdict that is requested again is asked for anew: what the model refused before stays in the ledger beside it.
    number = episode.next_number + (episode.verdict_requests if episode.phase == "verdict" else 0)
    journal = Journal(lease, setup, episode.phase, number, dial)
    prompter = Prompter(journal.speaker, lambda: _texts(setup), memory)
    chosen = Action.from_json(episode.pending) if episode.pending else None
    spec = laboratory.specification(episode.experiment)
    cast = casting.cast(setup, spec, episode.seed, prompter, chosen)
    return Play(cast, setup.agent.plays == PERSON, memory, repr(memory))


def of_twin(lease: Lease[Twin], dial: Dial = dial) -> Perturber:
    twin = lease.row
    setup = setup_of(twin.run, twin.cast)
    journal = Journal(lease, setup, "twin", twin.tries, dial)
    prompter = Prompter(journal.speaker, lambda: _texts(setup), {})
    return casting.perturber(setup, Perturbation(twin.perturbation), twin.seed, prompter)


def of_ratings(
    lease: Lease[Job], kind: Kind, question: str, guide: str, number: int, jobs: tuple[int, ...], dial: Dial = dial
) -> LLMRater:
    """The model that rates item `number` of a study, for one unit of a job."""
    run = lease.row.run
    assert run is not None, "machine raters that are models have a run that pays"
    setup = setup_of(run, run.cast)
    journal = Journal(lease, setup, "rating", number, dial, jobs=jobs)
    return casting.rater(setup, kind, question, guide, Prompter(journal.speaker, lambda: _texts(setup), {}))


def setup_of(run: Run, cast: str) -> Setup:
    """As it was ordered; a cast of rules alone is in the code. Read once for all runs of the same hash."""
    if not run.setup_sha256:
        return casting.known(cast).setup()
    if known := _setups.get(run.setup_sha256):
        return known
    # Both together: a setup that was corrected in between must not be remembered under its old hash.
    sha256, data = Run.objects.values_list("setup_sha256", "setup").get(pk=run.pk)
    if len(_setups) > _MOST_SETUPS:
        _setups.clear()
    _setups[sha256] = Setup.from_json(data)
    return _setups[sha256]


_setups: dict[str, Setup] = {}
_MOST_SETUPS = 200


def _texts(setup: Setup) -> PromptTexts:
    return prompting.texts(setup.prompt_sha256)
