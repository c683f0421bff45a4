"""What would tell raters a twin from an original by its form, before any science is looked at."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.materials import Material
from simulation.lab.outcomes import Outcome
from simulation.llm import form
from simulation.llm.cleaning import quoted

RUN = 6  # words in a row that an outcome and its own secret may not share
_HINTS = re.compile(
    r"\b(?:secret|perturb\w*|deliberate(?:ly)?|(?:un)?intentional(?:ly)?|implausib\w*|error types?|incorrect transitions?)\b"
)
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"“[^“”]*”|\"[^\"]*\"|`[^`]*`|(?<!\w)[‘'][^’']*[’'](?!\w)")


def problems(
    action: Action, inputs: Sequence[Material], original: Outcome, twin: Outcome, secret: str
) -> tuple[str, ...]:
    """What has to change before the twin may stand beside its original: whether it succeeds, and what its texts say.

    What stood on the labels, in the action or in the original may be said again, and so may the secret quote the outcome.
    """
    before = [form.brought(action, inputs), *(text for _, text in _shown(original))]
    known = {hint for text in before for hint in _HINTS.findall(_folded(text))}
    runs = _runs(*_QUOTED.split(secret)) - _runs(*before)
    found = [_other_ending(original)] if twin.success != original.success else []
    for place, text in _shown(twin):
        folded = _folded(text)
        if hints := sorted(set(_HINTS.findall(folded)) - known):
            found.append(f"{place} gives the mistake away by the word {quoted(hints[0])}; tell only what is seen")
        if shared := sorted(_runs(folded) & runs):
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
        yield f"new_materials[{at}].properties", "; ".join(_names(draft.properties))
    for at, seen in enumerate(outcome.new_observations):
        yield f"new_observations[{at}].description", seen.description
        yield f"new_observations[{at}].measurement_type", seen.measurement_type.replace("_", " ")
        yield f"new_observations[{at}].value", seen.value
    yield "failure_reason", outcome.failure_reason


def _names(value: Any) -> Iterator[str]:
    """Names of properties, however deep; their words may be joined as names in programs are."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield name.replace("_", " ")
            yield from _names(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _names(part)


def _folded(text: str) -> str:
    """One spelling of each letter, no capitals, no signs that cannot be seen."""
    seen = "".join(
        sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf" and sign != "\ufffd"
    )
    return " ".join(seen.casefold().split())


def _runs(*texts: str) -> set[tuple[str, ...]]:
    lists = [_WORD.findall(_folded(text)) for text in texts]
    return {tuple(words[at : at + RUN]) for words in lists for at in range(len(words) - RUN + 1)}
