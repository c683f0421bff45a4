"""The prompt of a model rater for a step of a reference protocol, as `manage.py prompts render model-rater` shows it."""

from ratings.blinding import blind_transition, item_view
from ratings.protocol.study_protocol import QUESTIONS, TRANSITION
from simulation.casts.prompt_previews import PlayedProtocol
from simulation.llm.model_rater import PLAUSIBILITY, LLMRater, RatingInput
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import Prompt
from simulation.providers.base import Completion


def build_rater_prompt(played: PlayedProtocol, texts: PromptTexts) -> Prompt:
    """Return the prompt for the last step, blinded as in a study of plausibility without context and instructions."""
    step = played.last_step
    inputs = [material.to_visible() for material in step.inputs]
    payload = blind_transition({"inputs": inputs, "action": step.action.to_json(), "outcome": step.outcome.to_json()})
    rating_input = RatingInput(payload, None, item_view.list_payload_rows(payload))
    rater = LLMRater(_refuse_to_speak, texts, PLAUSIBILITY, QUESTIONS[TRANSITION], "", None, 1)
    return rater.build_prompt(rating_input)


def _refuse_to_speak(prompt: Prompt) -> Completion:
    raise RuntimeError("a preview sends no prompt")
