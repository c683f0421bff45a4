"""Find tells: features that would distinguish a twin from its original without any scientific judgement."""

import json
from collections.abc import Iterator, Sequence

from simulation.lab import tell_words
from simulation.lab.actions import Action
from simulation.lab.materials import Material
from simulation.lab.outcomes import Outcome
from simulation.llm.replies import format_check
from simulation.llm.replies.cleaning import quote_short


def find_tells(
    action: Action, inputs: Sequence[Material], original: Outcome, twin: Outcome, secret: str
) -> tuple[str, ...]:
    """Return what must be corrected before the twin may be shown: its success, or wording that reveals the error.

    Wording of labels, of the action or of the original may be repeated, and the explanation may quote the outcome.
    """
    before = [format_check.text_of_inputs(action, inputs), *(text for _, text in _list_texts(original))]
    known_hints = {hint for text in before for hint in tell_words.find_tell_words(text)}
    # Sequences of words that occurred before the step are not copied from the explanation.
    runs = tell_words.unquoted_runs(secret) - tell_words.word_runs(*before)
    problems = [_describe_success_problem(original)] if twin.success != original.success else []
    for place, text in _list_texts(twin):
        if hints := sorted(set(tell_words.find_tell_words(text)) - known_hints):
            problems.append(
                f"{place} reveals the mistake by the word {quote_short(hints[0])}; describe only what is seen"
            )
        if shared := sorted(tell_words.word_runs(text) & runs):
            said = quote_short(" ".join(shared[0]))
            problems.append(
                f"{place} and what follows SECRET: both contain {said}; put one of them in other words or in quotes"
            )
    return tuple(problems)


def _describe_success_problem(original: Outcome) -> str:
    now = "true: the action is carried out" if original.success else "false: the action cannot be begun"
    return f"success must be {now}, and the mistake must be in the reported outcome"


def _list_texts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield every text that raters read, with its path."""
    for index, draft in enumerate(outcome.new_materials):
        yield f"new_materials[{index}].name", draft.name
        yield f"new_materials[{index}].properties", json.dumps(draft.properties, ensure_ascii=False)
    for index, observation in enumerate(outcome.new_observations):
        yield f"new_observations[{index}].description", observation.description
        yield f"new_observations[{index}].measurement_type", observation.measurement_type
        yield f"new_observations[{index}].value", observation.value
    yield "failure_reason", outcome.failure_reason
