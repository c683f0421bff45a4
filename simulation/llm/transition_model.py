"""The transition model as a language model, and the perturber, which answers with a planted error."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from simulation.lab.actions import Action
from simulation.lab.differences import find_differences
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.llm import reply_fields, reply_schemas
from simulation.llm.conversation import MalformedCompletion, RecognisableTwin, UnusableTwin, request_answer
from simulation.llm.outcome_parsing import ParsedOutcome, parse_outcome
from simulation.llm.prompt_data import TransitionQuestion, build_question
from simulation.llm.prompt_sets import PromptTexts, find_changing_part
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import ReplySchema

REPAIRS = 2  # repair turns; an outcome has many fields that can be wrong
MAX_FIELD_LENGTH = 200  # characters; the length of the database column
# Secrets that explain nothing, without punctuation and spaces.
_NO_EXPLANATION = {"", "none", "na", "no", "null", "nothing", "notapplicable", "unknown", "tbd"}
# System file, user file and purpose by error type.
_PROMPTS = {
    Perturbation.NONE: ("transition.system.txt", "transition.user.txt", "answer"),
    Perturbation.SUBTLE: ("incorrect.system.txt", "incorrect.user.txt", "perturb"),
    Perturbation.OBVIOUS: ("obvious.system.txt", "obvious.user.txt", "perturb"),
}


@dataclass(frozen=True)
class LLMTransitionModel:
    """Answers an action by prompting a model. Every outcome it returns is possible on a bench."""

    speak: CompletionFunction
    texts: PromptTexts

    def predict_outcome(self, action: Action, situation: Situation) -> Outcome:
        """Return the outcome of an action that the catalogue accepts. Raises Refusal, TooLong or NoUsableAnswer if there is none."""
        question = build_question(action, situation)
        return _append_notes(
            _request_outcome(self.speak, self.texts, Perturbation.NONE, question, "invalid_transition")
        )


@dataclass(frozen=True)
class LLMPerturber:
    """Answers an action with a planted error of the given type. With Perturbation.NONE it answers as well as it can."""

    speak: CompletionFunction
    texts: PromptTexts
    perturbation: Perturbation

    def perturb_outcome(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """Return the twin's outcome. Raises Refusal, TooLong or NoUsableAnswer.

        Raises UnusableTwin if the twin does not differ, does not explain its error, is recognisable by its form, or is
        rejected although the original was accepted.

        `field` is the only path that differs, or "" if several do. The model never sees the correct outcome.
        """
        question = build_question(action, situation)
        is_planted = self.perturbation is not Perturbation.NONE

        def find_twin_problems(reading: ParsedOutcome) -> Sequence[str]:
            return reply_fields.find_twin_problems(
                action, question.inputs.materials, correct, reading.outcome, reading.secret
            )

        reading = _request_outcome(
            self.speak, self.texts, self.perturbation, question, "no_twin", find_twin_problems if is_planted else None
        )
        changed = find_differences(correct, reading.outcome)
        if is_planted and not changed:
            raise UnusableTwin("the twin does not differ from the original in anything that can be seen")
        # Punctuation and spaces are removed, so that "N/A." and "n / a" count as no explanation.
        if is_planted and re.sub(r"[\W_]", "", reading.secret).casefold() in _NO_EXPLANATION:
            raise UnusableTwin("the twin does not state its error: nothing follows SECRET: in its reasoning")
        # A rejected twin would differ in whether the action succeeded, and not by an error.
        if correct.success and not reading.outcome.success:
            raise UnusableTwin(f"the other model rejects what was accepted: {reading.outcome.failure_reason}")
        # Several differences have no single location, so the error could not be marked.
        only = changed[0].path if len(changed) == 1 and len(changed[0].path) <= MAX_FIELD_LENGTH else ""
        return PerturbedOutcome(_append_notes(reading), "", "", only, reading.secret if is_planted else "")


def build_prompt(texts: PromptTexts, perturbation: Perturbation, question: TransitionQuestion) -> Prompt:
    """Return the prompt that asks for an outcome, correct or with a planted error. The same question gives the same bytes."""
    system, user, purpose = _PROMPTS[perturbation]
    # A set with its own texts for these twins, as the paper's, adds them to the rules of the transition model.
    system = system if system in texts.files else "transition.system.txt"
    parts = texts.split_parts(user, **question.values)
    name, start = find_changing_part(parts)
    note = texts.files.get("transition.schema.txt", "").strip()
    return texts.build_prompt(
        texts.fill_in(system),
        "".join(part.text for part in parts),
        purpose,
        wants_json=True,
        schema=ReplySchema("outcome", reply_schemas.OUTCOME, note) if note else None,
        stable_ends=question.observations.shift_ends(start) if name == "observations" else (),
    )


def _request_outcome(
    speak: CompletionFunction,
    texts: PromptTexts,
    perturbation: Perturbation,
    question: TransitionQuestion,
    reason: str,
    find_twin_problems: Callable[[ParsedOutcome], Sequence[str]] | None = None,
) -> ParsedOutcome:
    """Return the parsed reply, after repair turns of its format and, with `find_twin_problems`, of what reveals a twin."""
    prompt = build_prompt(texts, perturbation, question)

    example = find_example(texts, perturbation)

    def parse_and_check(text: str) -> ParsedOutcome:
        reading = parse_outcome(text, question.inputs)
        problems = reply_fields.find_problems(question.action, question.inputs.materials, reading.outcome, example)
        revealing = (*problems.leaks, *(find_twin_problems(reading) if find_twin_problems else ()))
        # Text that reveals its origin is a format error of a correct outcome, but a reason of its own to reject a
        # twin.
        if problems.form or (revealing and not find_twin_problems):
            raise MalformedCompletion(*problems.form, *revealing)
        if revealing:
            raise RecognisableTwin(*revealing)
        return reading

    repair = partial(texts.fill_in, "transition.repair.txt")
    return request_answer(speak, prompt, parse_and_check, reason, repair, REPAIRS)


def find_example(texts: PromptTexts, perturbation: Perturbation) -> str:
    """Return the worked example in the system prompt for this kind of outcome, or "" if it has none."""
    return texts.find_example(_PROMPTS[perturbation][0])


def _append_notes(reading: ParsedOutcome) -> Outcome:
    """Return the outcome with notes on interpreted values appended to the reasoning, which only staff see."""
    if not reading.notes:
        return reading.outcome
    notes = f"[As read by WetBench: {'; '.join(reading.notes)[:2000]}]"  # characters of notes, which staff read
    return replace(reading.outcome, reasoning=f"{reading.outcome.reasoning}\n\n{notes}".strip())
