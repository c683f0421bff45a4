"""Find tells: what would distinguish a twin from its original without any science."""

import json
from collections.abc import Iterator, Sequence

from simulation.lab import giving_away
from simulation.lab.actions import Action
from simulation.lab.materials import Material
from simulation.lab.outcomes import Outcome
from simulation.llm.replies import form
from simulation.llm.replies.cleaning import quoted


def problems(
    action: Action, inputs: Sequence[Material], original: Outcome, twin: Outcome, secret: str
) -> tuple[str, ...]:
    """Return what must change before the twin may be shown: whether it succeeds, and the wording of its texts.

    Wording of labels, of the action or of the original may be repeated, and the explanation may quote the outcome.
    """
    before = [form.brought(action, inputs), *(text for _, text in _shown(original))]
    known_hints = {hint for text in before for hint in giving_away.hints(text)}
    # Runs that were on the bench before are no copy of the explanation.
    runs = giving_away.own_runs(secret) - giving_away.runs(*before)
    problems = [_other_ending(original)] if twin.success != original.success else []
    for place, text in _shown(twin):
        if hints := sorted(set(giving_away.hints(text)) - known_hints):
            problems.append(f"{place} gives the mistake away by the word {quoted(hints[0])}; tell only what is seen")
        if shared := sorted(giving_away.runs(text) & runs):
            said = quoted(" ".join(shared[0]))
            problems.append(
                f"{place} and what follows SECRET: both say {said}; put one of them in other words or in quotes"
            )
    return tuple(problems)


def _other_ending(original: Outcome) -> str:
    now = "true: the action is carried out" if original.success else "false: the action cannot be begun"
    return f"success must be {now}, and the mistake lies in what is told of it"


def _shown(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield every text that raters read, with its path."""
    for index, draft in enumerate(outcome.new_materials):
        yield f"new_materials[{index}].name", draft.name
        yield f"new_materials[{index}].properties", json.dumps(draft.properties, ensure_ascii=False)
    for index, observation in enumerate(outcome.new_observations):
        yield f"new_observations[{index}].description", observation.description
        yield f"new_observations[{index}].measurement_type", observation.measurement_type
        yield f"new_observations[{index}].value", observation.value
    yield "failure_reason", outcome.failure_reason
