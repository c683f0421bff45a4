"""Create the objects that run the roles. The only module that imports every implementation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulation.casts.run_config import PERSON, RoleConfig, RunConfig
from simulation.lab.actions import Action, Catalogue
from simulation.lab.deviations import SizeRange
from simulation.lab.errors import LabError
from simulation.lab.experiment_files import find_amount_dimension
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import PREFIX, ProtocolMask
from simulation.lab.outcomes import Perturbation
from simulation.lab.roles import Agent, EvidenceClassifier, Perturber, Situation, TransitionModel
from simulation.lab.truths import draws
from simulation.llm.agent import LLMAgent
from simulation.llm.evidence_classifier import LLMEvidenceClassifier
from simulation.llm.model_rater import LLMRater, RatingKind
from simulation.llm.prompt_sets import PromptTexts
from simulation.llm.transition_model import LLMPerturber, LLMTransitionModel
from simulation.offline import hidden_truth
from simulation.offline.agents import ProtocolAgent, RandomAgent
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.handlers import describe_missing_part
from simulation.offline.hidden_steps.gap_agent import build_gap_agent
from simulation.offline.hidden_steps.prefix_agent import PrefixAgent
from simulation.offline.injectors import Injector
from simulation.offline.rules import RuleBasedTransitionModel
from simulation.offline.vessels import PHASES
from simulation.providers import CompletionFunction


class Judge(NamedTuple):
    """A classifier and the name under which its verdict is stored."""

    name: str
    classifier: EvidenceClassifier


class Cast(NamedTuple):
    """The three roles of one episode. The first judge's verdict ends the episode; the other judges form the panel."""

    agent: Agent
    transition_model: TransitionModel
    judges: tuple[Judge, ...]

    def is_given(self, situation: Situation) -> bool:
        """Return whether the next step is one that is done for the agent (PrefixAgent)."""
        return isinstance(self.agent, PrefixAgent) and self.agent.find_given_action(situation) is not None


# By experiment, seed and the numbers of the steps that are hidden from the agent.
AGENTS: Mapping[str, Callable[[ExperimentSpec, int, Sequence[int]], Agent]] = {
    "offline/protocol": lambda spec, seed, hidden: ProtocolAgent(spec, seed),
    "offline/protocol-lapses": lambda spec, seed, hidden: ProtocolAgent(spec, seed, lapses=True),
    "offline/protocol-gaps": lambda spec, seed, hidden: build_gap_agent(spec, hidden, seed),
    "offline/random": lambda spec, seed, hidden: RandomAgent(seed),
}


@dataclass(frozen=True)
class HumanAgent:
    """A person as agent. `chosen` is the action that the person has chosen, or None."""

    chosen: Action | None

    def choose_action(self, situation: Situation) -> Action:
        if self.chosen is None:
            # A unit that needs a person waits; it must not be run before they have chosen.
            raise LabError("nobody has chosen an action yet")
        return self.chosen


@dataclass(frozen=True)
class PromptTools:
    """What language models need to run: a completion function for each role, the texts of a prompt set, the agent's notes."""

    speaker: Callable[[RoleConfig], CompletionFunction]
    texts: Callable[[], PromptTexts]
    memory: dict[str, Any]


def build_cast(
    setup: RunConfig,
    spec: ExperimentSpec,
    seed: int,
    prompter: PromptTools,
    chosen: Action | None = None,
    mask: ProtocolMask | None = None,
) -> Cast:
    """Return the roles of one episode. The same seed gives the same episode if no language model or person takes part.

    `mask` names the steps that are hidden from the agent. With its help "prefix", the agent is a PrefixAgent.
    """
    agent = _build_agent(setup.agent, spec, seed, prompter, chosen, mask.hidden if mask else ())
    if mask and mask.help == PREFIX:
        n_given = len(spec.protocol) if mask.steps_before is None else mask.steps_before
        agent = PrefixAgent.build(spec, n_given, seed, agent)
    return Cast(
        agent=agent,
        transition_model=_build_transition_model(setup.transition_model, spec, seed, prompter),
        judges=tuple(Judge(one.name, _build_classifier(one, setup, spec, prompter)) for one in setup.classifiers),
    )


def build_perturber(
    setup: RunConfig,
    spec: ExperimentSpec,
    perturbation: Perturbation,
    seed: int,
    sizes: SizeRange,
    prompter: PromptTools,
) -> Perturber:
    """Return the perturber of this cast: its transition model if that is a language model, otherwise rules.

    Rules draw the deviations of subtle numeric errors from `sizes` and the noise that the experiment declares; a language
    model chooses its own.
    """
    player = setup.transition_model
    # The role that simulates outcomes also plants the errors.
    if player.model:
        return LLMPerturber(prompter.speaker(player), prompter.texts(), perturbation)
    return Injector(perturbation, seed, sizes, spec.truth)


def build_rater(setup: RunConfig, kind: RatingKind, question: str, guide: str, prompter: PromptTools) -> LLMRater:
    """Return the model rater of a run configuration. Raises LabError if it has none."""
    if setup.rater is None or not setup.rater.model:
        raise LabError("this run configuration has no model rater")
    player, limit = setup.rater, setup.get_context_limit(setup.rater)
    return LLMRater(prompter.speaker(player), prompter.texts(), kind, question, guide, limit, player.params.max_tokens)


def _build_agent(
    player: RoleConfig,
    spec: ExperimentSpec,
    seed: int,
    prompter: PromptTools,
    chosen: Action | None,
    hidden: Sequence[int],
) -> Agent:
    if player.model:
        speak, texts = prompter.speaker(player), prompter.texts()
        return LLMAgent(speak, texts, player.scaffold, player.history, prompter.memory)
    if player.plays == PERSON:
        return HumanAgent(chosen)
    return AGENTS[player.plays](spec, seed, hidden)


def _build_transition_model(
    player: RoleConfig, spec: ExperimentSpec, seed: int, prompter: PromptTools
) -> TransitionModel:
    if player.model:
        return LLMTransitionModel(prompter.speaker(player), prompter.texts())
    return RuleBasedTransitionModel(seed, spec.truth)


def _build_classifier(
    player: RoleConfig, setup: RunConfig, spec: ExperimentSpec, prompter: PromptTools
) -> EvidenceClassifier:
    if not player.model:
        return ChecklistClassifier(spec.rubric)
    limit = setup.get_context_limit(player)
    return LLMEvidenceClassifier(prompter.speaker(player), prompter.texts(), limit, player.params.max_tokens)


def check_handlers(catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return each action that the offline transition model cannot carry out, and what its handler lacks."""
    return [(kind.name, lacking) for kind in catalogue.types.values() if (lacking := describe_missing_part(kind))]


def check_truth(data: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    """Return every problem of the hidden truth and phases, which only the offline transition model reads.

    A truth that is drawn is checked with its reference values.
    """
    data = draws.fill_references(data, draws.draw_values(data, None))
    entries = [(f"materials[{index}]", entry) for index, entry in enumerate(data["materials"])]
    entries += [
        (f"{path}.wells[{at}]", well) for path, plate in entries for at, well in enumerate(plate.get("wells", ()))
    ]
    problems = [
        f"{path}.properties.phase: is {phase!r}; allowed: {', '.join(PHASES)}"
        for path, entry in entries
        # An unknown phase would make every action on the material impossible.
        if (phase := entry.get("properties", {}).get("phase")) not in PHASES
    ]
    components = {
        name: find_amount_dimension(content)
        for _, entry in entries
        for name, content in entry.get("contents", {}).items()
    }
    keys = [entry["key"] for _, entry in entries]
    return problems + hidden_truth.check_truth(data.get("truth", {}), catalogue, components, keys)
