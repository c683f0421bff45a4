"""Who plays the roles. The only module that knows every part."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab import material_checks
from simulation.lab.actions import Catalogue
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.outcomes import Perturbation
from simulation.lab.roles import Agent, EvidenceClassifier, Perturber, TransitionModel
from simulation.offline import truths
from simulation.offline.agent import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.handlers import HANDLERS
from simulation.offline.injectors import Injector
from simulation.offline.random_agent import RandomAgent
from simulation.offline.rules import RuleBasedTransitionModel
from simulation.offline.vessels import PHASES


class Cast(NamedTuple):
    """The three roles of one episode."""

    agent: Agent
    transition_model: TransitionModel
    evidence_classifier: EvidenceClassifier


class CastInfo(NamedTuple):
    """A named triple: what each role is called, and who it is for people."""

    name: str
    description: str
    agent: str
    transition_model: str
    evidence_classifier: str
    make_agent: Callable[[ExperimentSpec, int], Agent]


_RULES, _CHECKLIST = "offline/rules", "offline/checklist"

CASTS = {
    info.name: info
    for info in (
        CastInfo(
            "offline",
            "Follows the experiment's reference protocol. Rule-based simulator, checklist classifier.",
            "offline/protocol", _RULES, _CHECKLIST,
            lambda spec, seed: ProtocolAgent(spec, seed),
        ),
        CastInfo(
            "offline-lapses",
            "Follows the reference protocol with seeded lapses: a skipped control, a wrong order, a wrong amount.",
            "offline/protocol-lapses", _RULES, _CHECKLIST,
            lambda spec, seed: ProtocolAgent(spec, seed, lapses=True),
        ),
        CastInfo(
            "offline-random",
            "Takes random actions with valid parameters. A floor to compare with.",
            "offline/random", _RULES, _CHECKLIST,
            lambda spec, seed: RandomAgent(seed),
        ),
    )
}  # fmt: skip


class UnknownCastError(LabError):
    """There is no cast of that name; the message names those there are."""


def known(name: str) -> CastInfo:
    if name not in CASTS:
        raise UnknownCastError(f"There is no cast {name!r}. Known casts: {', '.join(CASTS)}")
    return CASTS[name]


def cast(name: str, spec: ExperimentSpec, seed: int) -> Cast:
    """The players of one episode. The same seed plays the same episode."""
    return Cast(
        agent=known(name).make_agent(spec, seed),
        transition_model=RuleBasedTransitionModel(seed, spec.truth),
        evidence_classifier=ChecklistClassifier(spec.rubric),
    )


def check_handlers(catalogue: Catalogue) -> list[tuple[str, str]]:
    """The actions that name a handler which the offline transition model does not have, each with what is allowed."""
    allowed = ", ".join(sorted(HANDLERS))
    unknown = [kind for kind in catalogue.types.values() if kind.handler not in HANDLERS]
    return [(kind.name, f"is {kind.handler!r}; allowed: {allowed}") for kind in unknown]


def check_truth(data: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    """Every problem of what only the offline transition model reads in an experiment file: hidden truth and phases."""
    materials = data.get("materials", [])
    return _check_phases(materials) + truths.check(
        data.get("truth", {}), catalogue, material_checks.components(materials), material_checks.keys(materials)
    )


def _check_phases(materials: Sequence[Mapping[str, Any]]) -> list[str]:
    """A phase the rules do not know would make a material that nothing can be done to."""
    written = [(f"materials[{at}]", entry) for at, entry in enumerate(materials)]
    written += [
        (f"{place}.wells[{at}]", well)
        for place, plate in list(written)
        for at, well in enumerate(plate.get("wells", ()))
    ]
    return [
        f"{place}.properties.phase: is {phase!r}; allowed: {', '.join(PHASES)}"
        for place, entry in written
        if (phase := entry.get("properties", {}).get("phase")) not in PHASES
    ]


def perturber(name: str, perturbation: Perturbation, seed: int) -> Perturber:
    """Who plants the error in a twin of this cast."""
    known(name)
    return Injector(perturbation, seed)
