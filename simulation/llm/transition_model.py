"""The transition model as a language model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from simulation.lab.actions import Action
from simulation.lab.outcomes import Outcome
from simulation.lab.roles import Situation
from simulation.llm.errors import MalformedCompletion, RecognisableTwin
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.prompts.transition_prompt import TransitionQuestion, build_question
from simulation.llm.repair_loop import request_answer
from simulation.llm.replies import format_check
from simulation.llm.replies.parsing import ParsedOutcome, parse_outcome
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
        format_problems = format_check.find_problems(action, asked.inputs.materials, reading.outcome)
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
