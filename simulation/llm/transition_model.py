"""The transition model, spoken through a language model."""

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

REPAIRS = 2


@dataclass(frozen=True)
class LLMTransitionModel:
    """Answers an action by asking a model. What it returns, a bench can always take."""

    speak: Speaker
    texts: PromptTexts

    def predict(self, action: Action, situation: Situation) -> Outcome:
        """The outcome of an action the catalogue accepts. Refusal, TooLong or NoUsableAnswer where there is none."""
        asked = question(action, situation)
        prompt = plain_prompt(self.texts, asked)
        return annotated(read(self.speak, self.texts, prompt, action, asked, "invalid_transition"))


def plain_prompt(texts: PromptTexts, asked: Question) -> Prompt:
    """The question of a correct outcome."""
    written = texts.fill("transition.user.txt", **asked.values())
    return Prompt(
        texts.fill("transition.system.txt"), (Message("user", written),), "answer", texts.sha256, wants_json=True
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
    """The reading of a reply, after repair turns if need be. What the form still lacks then ends in NoUsableAnswer.

    Of a twin, what `gives_away` finds is repaired as well; that and text of a prompt where people read end in Unusable.
    """

    def checked(text: str) -> Reading:
        reading = read_outcome(text, asked.inputs)
        found = form.problems(action, asked.inputs.materials, reading.outcome)
        told = (*found.leaks, *(gives_away(reading) if gives_away else ()))
        if found.form or (told and not gives_away):
            raise MalformedCompletion(*found.form, *told)
        if told:
            raise Recognisable(*told)
        return reading

    return ask(speak, prompt, checked, lambda told: texts.fill("transition.repair.txt", problems=told), REPAIRS, reason)


def annotated(reading: Reading) -> Outcome:
    """The outcome; what was read differently from how it was written stands behind the reasoning, which only staff see."""
    if not reading.notes:
        return reading.outcome
    told = f"[As read by WetBench: {'; '.join(reading.notes)[:2000]}]"
    return replace(reading.outcome, reasoning=f"{reading.outcome.reasoning}\n\n{told}".strip())
