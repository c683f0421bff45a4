"""The transition model as a language model, and the perturber, which answers with a planted error."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from simulation.lab.actions import Action
from simulation.lab.differences import Difference, find_differences
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.llm import reply_checks
from simulation.llm.conversation import request_answer
from simulation.llm.errors import MalformedCompletion, RecognisableTwin, UnusableTwin
from simulation.llm.outcome_parsing import ParsedOutcome, parse_outcome
from simulation.llm.prompt_data import TransitionQuestion, build_question
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Message, Prompt

REPAIRS = 2  # repair turns; an outcome has many fields that can be wrong


@dataclass(frozen=True)
class LLMTransitionModel:
    """Answers an action by prompting a model. Every outcome it returns is possible on a bench."""

    speak: CompletionFunction
    texts: PromptTexts

    def predict_outcome(self, action: Action, situation: Situation) -> Outcome:
        """Return the outcome of an action that the catalogue accepts. Raises Refusal, TooLong or NoUsableAnswer if there is none."""
        transition_question = build_question(action, situation)
        prompt = build_plain_prompt(self.texts, transition_question)
        return append_notes(
            request_outcome(self.speak, self.texts, prompt, action, transition_question, "invalid_transition")
        )


def build_plain_prompt(texts: PromptTexts, asked: TransitionQuestion) -> Prompt:
    """Return the prompt that requests an outcome without a planted error."""
    text = texts.fill_in("transition.user.txt", **asked.placeholder_values())
    return Prompt(
        texts.fill_in("transition.system.txt"), (Message("user", text),), "answer", texts.sha256, wants_json=True
    )


def request_outcome(
    speak: CompletionFunction,
    texts: PromptTexts,
    prompt: Prompt,
    action: Action,
    asked: TransitionQuestion,
    reason: str,
    gives_away: Callable[[ParsedOutcome], Sequence[str]] | None = None,
) -> ParsedOutcome:
    """Return the parsed reply, after repair turns if necessary. Raises NoUsableAnswer if the format is still wrong.

    For a twin, `gives_away` finds tells, which are repaired as well. Raises UnusableTwin if tells or prompt text
    remain.
    """

    def parse_and_check(text: str) -> ParsedOutcome:
        reading = parse_outcome(text, asked.inputs)
        format_problems = reply_checks.find_problems(action, asked.inputs.materials, reading.outcome)
        tells = (*format_problems.leaks, *(gives_away(reading) if gives_away else ()))
        # In a correct outcome, tells are format errors like any other; in a twin they are a reason of their own to
        # reject it.
        if format_problems.form or (tells and not gives_away):
            raise MalformedCompletion(*format_problems.form, *tells)
        if tells:
            raise RecognisableTwin(*tells)
        return reading

    return request_answer(
        speak,
        prompt,
        parse_and_check,
        lambda problems: texts.fill_in("transition.repair.txt", problems=problems),
        REPAIRS,
        reason,
    )


def append_notes(reading: ParsedOutcome) -> Outcome:
    """Return the outcome with notes on interpreted values appended to the reasoning, which only staff see."""
    if not reading.notes:
        return reading.outcome
    notes = f"[As read by WetBench: {'; '.join(reading.notes)[:2000]}]"  # characters of notes, which staff read
    return replace(reading.outcome, reasoning=f"{reading.outcome.reasoning}\n\n{notes}".strip())


MAX_FIELD_LENGTH = 200  # characters; the length of the database column
_NO_EXPLANATION = {
    "",
    "none",
    "na",
    "no",
    "null",
    "nothing",
    "notapplicable",
    "unknown",
    "tbd",
}  # ignoring punctuation and spaces

# System and user file by error type.
_FILES = {
    Perturbation.SUBTLE: ("transition.system.txt", "incorrect.user.txt"),
    Perturbation.OBVIOUS: ("obvious.system.txt", "obvious.user.txt"),
}


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
        asked = build_question(action, situation)
        planted = self.perturbation is not Perturbation.NONE

        def find_tells(reading: ParsedOutcome) -> tuple[str, ...]:
            return reply_checks.find_tells(action, asked.inputs.materials, correct, reading.outcome, reading.secret)

        prompt = self._build_prompt(asked)
        reading = request_outcome(
            self.speak, self.texts, prompt, action, asked, "no_twin", find_tells if planted else None
        )
        changed = find_differences(correct, reading.outcome)
        explanation = _get_explanation(reading, changed) if planted else ""
        # A rejected twin would differ in whether the action succeeded, and not by an error.
        if correct.success and not reading.outcome.success:
            raise UnusableTwin(f"the other model rejects what was accepted: {reading.outcome.failure_reason}")
        # Several differences have no single location, so the error could not be marked.
        only = changed[0].path if len(changed) == 1 and len(changed[0].path) <= MAX_FIELD_LENGTH else ""
        return PerturbedOutcome(append_notes(reading), "", "", only, explanation)

    def _build_prompt(self, asked: TransitionQuestion) -> Prompt:
        if self.perturbation is Perturbation.NONE:
            return build_plain_prompt(self.texts, asked)
        system, user = _FILES[self.perturbation]
        text = self.texts.fill_in(user, **asked.placeholder_values())
        return Prompt(
            self.texts.fill_in(system), (Message("user", text),), "perturb", self.texts.sha256, wants_json=True
        )


def _get_explanation(reading: ParsedOutcome, changed: Sequence[Difference]) -> str:
    """Return the twin's own explanation of its error. Raises UnusableTwin if there is none."""
    if not changed:
        raise UnusableTwin("the twin does not differ from the original in anything that can be seen")
    # Punctuation and spaces are removed, so that "N/A." and "n / a" count as no explanation.
    if re.sub(r"[\W_]", "", reading.secret).casefold() in _NO_EXPLANATION:
        raise UnusableTwin("the twin does not state its error: nothing follows SECRET: in its reasoning")
    return reading.secret
