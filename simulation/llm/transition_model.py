"""The transition model as a language model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from simulation.lab.actions import Action
from simulation.lab.outcomes import Outcome
from simulation.lab.roles import Situation
from simulation.llm.errors import MalformedCompletion, Recognisable
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.prompts.questions import Question, question
from simulation.llm.replies import form
from simulation.llm.replies.parsing import Reading, read_outcome
from simulation.llm.turns import ask
from simulation.providers import Message, Prompt, Speaker

REPAIRS = 2  # repair turns; an outcome has many fields that can be wrong


@dataclass(frozen=True)
class LLMTransitionModel:
    """Answers an action by prompting a model. Every outcome it returns is possible on a bench."""

    speak: Speaker
    texts: PromptTexts

    def predict(self, action: Action, situation: Situation) -> Outcome:
        """Return the outcome of an action that the catalogue accepts. Raises Refusal, TooLong or NoUsableAnswer if there is none."""
        transition_question = question(action, situation)
        prompt = plain_prompt(self.texts, transition_question)
        return annotated(read(self.speak, self.texts, prompt, action, transition_question, "invalid_transition"))


def plain_prompt(texts: PromptTexts, asked: Question) -> Prompt:
    """Return the prompt for a correct outcome."""
    text = texts.fill("transition.user.txt", **asked.values())
    return Prompt(
        texts.fill("transition.system.txt"), (Message("user", text),), "answer", texts.sha256, wants_json=True
    )


def read(
    speak: Speaker,
    texts: PromptTexts,
    prompt: Prompt,
    action: Action,
    asked: Question,
    reason: str,
    gives_away: Callable[[Reading], Sequence[str]] | None = None,
) -> Reading:
    """Return the parsed reply, after repair turns if necessary. Raises NoUsableAnswer if the format is still wrong.

    For a twin, `gives_away` finds tells, which are repaired as well; if they or prompt text remain, raises UnusableTwin.
    """

    def checked(text: str) -> Reading:
        reading = read_outcome(text, asked.inputs)
        format_problems = form.problems(action, asked.inputs.materials, reading.outcome)
        tells = (*format_problems.leaks, *(gives_away(reading) if gives_away else ()))
        # In a correct outcome, tells are format errors like any other; in a twin they are a reason of their own to
        # reject it.
        if format_problems.form or (tells and not gives_away):
            raise MalformedCompletion(*format_problems.form, *tells)
        if tells:
            raise Recognisable(*tells)
        return reading

    return ask(speak, prompt, checked, lambda told: texts.fill("transition.repair.txt", problems=told), REPAIRS, reason)


def annotated(reading: Reading) -> Outcome:
    """Return the outcome with notes on interpreted values appended to the reasoning, which only staff see."""
    if not reading.notes:
        return reading.outcome
    notes = f"[As read by WetBench: {'; '.join(reading.notes)[:2000]}]"  # characters of notes, which staff read
    return replace(reading.outcome, reasoning=f"{reading.outcome.reasoning}\n\n{notes}".strip())
