"""Prompts as a language model would receive them at a step of a reference protocol, in parts with estimated tokens.

The steps before are simulated offline. Model raters belong to the app of ratings: a setting names the function that builds their prompt.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from simulation.lab.actions import QUIT, SUBMIT, Action, Catalogue
from simulation.lab.bench import Bench, Step
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.lab.outcomes import Perturbation
from simulation.llm import TooLong
from simulation.llm.agent import PROMPT_FILES, LLMAgent
from simulation.llm.evidence_classifier import LLMEvidenceClassifier
from simulation.llm.prompt_data import build_question
from simulation.llm.prompt_sets import PromptTexts
from simulation.llm.transition_model import build_prompt
from simulation.offline.agents import ProtocolAgent
from simulation.offline.rules import RuleBasedTransitionModel
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import Completion, Stop

AGENT, TRANSITION_MODEL, CLASSIFIER, RATER = "agent", "transition-model", "evidence-classifier", "model-rater"
TWINS = {"twin-obvious": Perturbation.OBVIOUS, "twin-subtle": Perturbation.SUBTLE}
ROLES = (AGENT, TRANSITION_MODEL, CLASSIFIER, *TWINS, RATER)
SCAFFOLDS = tuple(PROMPT_FILES)
BYTES_PER_TOKEN = 4  # of English text; the tokenizers of the providers are not part of the site
STATIC, DYNAMIC = "static", "dynamic"
_MAX_TOKENS = 4096  # of a reply; it is in no prompt


class PromptPart(NamedTuple):
    """A part of a prompt. `kind` is STATIC if later prompts of the same role begin with it, so that providers can cache it."""

    name: str
    kind: str
    text: str

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class PreviewRequest:
    """Which prompt is shown: that of a role at a step of an experiment's reference protocol, with the offline seed."""

    role: str
    spec: ExperimentSpec
    catalogue: Catalogue
    texts: PromptTexts
    step: int
    seed: int = 1
    scaffold: str = "plain"


class PlayedProtocol(NamedTuple):
    """The bench before a step of the reference protocol, the action of that step, and the bench after it."""

    before: Bench
    action: Action
    after: Bench

    @property
    def last_step(self) -> Step:
        return self.after.history[-1]


def build_preview(request: PreviewRequest) -> Prompt:
    """Return the prompt. Raises LabError, with the allowed values, for a role or a step that there is not."""
    if request.role not in ROLES:
        raise LabError(f"There is no role {request.role!r}; allowed: {', '.join(ROLES)}")
    played = _play_until(request)
    situation, texts = played.before.get_situation(), request.texts
    if request.role == AGENT:
        return capture_prompt(
            lambda speak: LLMAgent(speak, texts, request.scaffold, {"kind": "full"}, {}).choose_action(situation)
        )
    if request.role == CLASSIFIER:
        transcript = played.after.get_transcript()
        return capture_prompt(
            lambda speak: LLMEvidenceClassifier(speak, texts, None, _MAX_TOKENS).judge_evidence(
                request.spec.goal, transcript
            )
        )
    if request.role == RATER:
        prompt: Prompt = import_string(settings.RATER_PROMPT_BUILDER)(played, texts)
        return prompt
    perturbation = TWINS.get(request.role, Perturbation.NONE)
    return build_prompt(texts, perturbation, build_question(played.action, situation))


def split_prompt(prompt: Prompt) -> Iterator[PromptPart]:
    """Yield the parts of a prompt in the order in which a model reads them."""
    if prompt.schema:
        # The provider puts the schema before the system prompt.
        schema = json.dumps(prompt.schema.schema, separators=(",", ":"))
        yield PromptPart("reply schema (only for models with structured_output)", STATIC, schema)
    if prompt.system:
        yield PromptPart("system prompt", STATIC, prompt.system)
    if prompt.schema and prompt.schema.note:
        yield PromptPart("note on the schema (only for models with structured_output)", STATIC, prompt.schema.note)
    [message] = prompt.messages
    end = message.stable_ends[-1] if message.stable_ends else 0
    if end:
        yield PromptPart("message: what later prompts repeat", STATIC, message.text[:end])
    yield PromptPart("message: what changes", DYNAMIC, message.text[end:])


def estimate_tokens(text: str) -> int:
    """Return the number of UTF-8 bytes divided by BYTES_PER_TOKEN, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _play_until(request: PreviewRequest) -> PlayedProtocol:
    """Simulate the reference protocol up to and including the step. Raises LabError if it has fewer steps."""
    spec, seed = request.spec, request.seed
    agent, model = ProtocolAgent(spec, seed), RuleBasedTransitionModel(seed, spec.truth)
    bench = _open_bench(request)
    while bench.ending is None:
        situation = bench.get_situation()
        action = agent.choose_action(situation)
        # Submitting has no outcome, so that the step before is the last one that every role meets.
        if action.name in (SUBMIT, QUIT):
            break
        if len(bench.history) + 1 == request.step:
            before = _open_bench(request)
            for step in bench.history:
                before.record_outcome(step.action, step.outcome)
            bench.take_step(action, model)
            return PlayedProtocol(before, action, bench)
        bench.take_step(action, model)
    raise LabError(
        f"Step {request.step} is not in the reference protocol of {spec.slug}; allowed: 1 to {len(bench.history)}"
    )


def _open_bench(request: PreviewRequest) -> Bench:
    spec, seed = request.spec, request.seed
    inventory = build_inventory(spec.initial_materials(), seed)
    return Bench(spec.goal, request.catalogue, inventory, seed, spec.max_steps)


def capture_prompt(run_role: Callable[[CompletionFunction], object]) -> Prompt:
    """Return the first prompt that a role sends."""
    prompts: list[Prompt] = []

    def speak(prompt: Prompt) -> Completion:
        prompts.append(prompt)
        # The role ends at once, because no reply could be used.
        return Completion("", Stop.CONTEXT, None, "preview")

    with suppress(TooLong):
        run_role(speak)
    return prompts[0]
