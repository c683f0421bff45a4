"""What would tell raters a twin from an original by its form, before any science is looked at."""

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
    """What has to change before the twin may stand beside its original: whether it succeeds, and what its texts say.

    What stood on the labels, in the action or in the original may be said again, and so may the secret quote the outcome.
    """
    before = [form.brought(action, inputs), *(text for _, text in _shown(original))]
    known = {hint for text in before for hint in giving_away.hints(text)}
    runs = giving_away.own_runs(secret) - giving_away.runs(*before)
    found = [_other_ending(original)] if twin.success != original.success else []
    for place, text in _shown(twin):
        if hints := sorted(set(giving_away.hints(text)) - known):
            found.append(f"{place} gives the mistake away by the word {quoted(hints[0])}; tell only what is seen")
        if shared := sorted(giving_away.runs(text) & runs):
            said = quoted(" ".join(shared[0]))
            found.append(
                f"{place} and what follows SECRET: both say {said}; put one of them in other words or in quotes"
            )
    return tuple(found)


def _other_ending(original: Outcome) -> str:
    now = "true: the action is carried out" if original.success else "false: the action cannot be begun"
    return f"success must be {now}, and the mistake lies in what is told of it"


def _shown(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Every text that raters read, with its place."""
    for at, draft in enumerate(outcome.new_materials):
        yield f"new_materials[{at}].name", draft.name
        yield f"new_materials[{at}].properties", json.dumps(draft.properties, ensure_ascii=False)
    for at, seen in enumerate(outcome.new_observations):
        yield f"new_observations[{at}].description", seen.description
        yield f"new_observations[{at}].measurement_type", seen.measurement_type
        yield f"new_observations[{at}].value", seen.value
    yield "failure_reason", outcome.failure_reason
