"""Twins by a language model: an outcome with an error that the model plants and explains, or its plain answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from simulation.lab.actions import Action
from simulation.lab.differences import Difference, find_differences
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.llm.errors import UnusableTwin
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.prompts.transition_prompt import TransitionQuestion, build_question
from simulation.llm.replies import tells
from simulation.llm.replies.parsing import ParsedOutcome
from simulation.llm.transition_model import append_notes, build_plain_prompt, request_outcome
from simulation.providers import CompletionFunction, Message, Prompt

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
            return tells.find_tells(action, asked.inputs.materials, correct, reading.outcome, reading.secret)

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
