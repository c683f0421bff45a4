"""Twins by a language model: an outcome with an error that the model plants and explains, or its plain answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from simulation.lab.actions import Action
from simulation.lab.differences import Difference, differences
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.llm.errors import Unusable
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.llm.prompts.questions import Question, question
from simulation.llm.replies import giveaways
from simulation.llm.replies.parsing import Reading
from simulation.llm.transition_model import annotated, plain_prompt, read
from simulation.providers import Message, Prompt, Speaker

LONGEST_FIELD = 200  # the column of a path
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

    speak: Speaker
    texts: PromptTexts
    perturbation: Perturbation

    def perturb(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """Return the twin's outcome. Raises Refusal, TooLong or NoUsableAnswer; UnusableTwin if it does not differ, does not explain its error,
        or is recognisable by its form.

        `field` is the only path that differs, or "" if several do. The model never sees the correct outcome.
        """
        asked = question(action, situation)
        planted = self.perturbation is not Perturbation.NONE

        def gives_away(reading: Reading) -> tuple[str, ...]:
            return giveaways.problems(action, asked.inputs.materials, correct, reading.outcome, reading.secret)

        prompt = self._prompt(asked)
        reading = read(self.speak, self.texts, prompt, action, asked, "no_twin", gives_away if planted else None)
        changed = differences(correct, reading.outcome)
        explanation = _explained(reading, changed) if planted else ""
        # A twin that is rejected would differ by its ending and not by an error.
        if correct.success and not reading.outcome.success:
            raise Unusable(f"the other model rejects what was accepted: {reading.outcome.failure_reason}")
        # Several differences have no single location, so the error could not be marked.
        only = changed[0].path if len(changed) == 1 and len(changed[0].path) <= LONGEST_FIELD else ""
        return PerturbedOutcome(annotated(reading), "", "", only, explanation)

    def _prompt(self, asked: Question) -> Prompt:
        if self.perturbation is Perturbation.NONE:
            return plain_prompt(self.texts, asked)
        system, user = _FILES[self.perturbation]
        text = self.texts.fill(user, **asked.values())
        return Prompt(self.texts.fill(system), (Message("user", text),), "perturb", self.texts.sha256, wants_json=True)


def _explained(reading: Reading, changed: Sequence[Difference]) -> str:
    """Return the twin's own explanation of its error. Raises UnusableTwin if there is none."""
    if not changed:
        raise Unusable("the twin does not differ from the original in anything that can be seen")
    # Punctuation and spaces are removed, so that "N/A." and "n / a" count as no explanation.
    if re.sub(r"[\W_]", "", reading.secret).casefold() in _NO_EXPLANATION:
        raise Unusable("the twin does not say what is wrong with it: nothing follows SECRET: in its reasoning")
    return reading.secret
