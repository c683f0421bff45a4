"""What the paper prints for the same questions, to stand beside our numbers. It says nothing of n, and has no intervals.

The values and where they stand in the paper: shared/spec/simulation.md section 4.6. A rate is of one model's outcomes: GPT-5's,
or Claude 4 Sonnet's without an error.
"""

from collections.abc import Collection
from typing import NamedTuple

from ratings.models import TRANSITION


class Published(NamedTuple):
    """A value of the paper and what it is of, in a sentence. `value` is None where the sentence names several."""

    value: float | None
    said: str


_RATES = {("gpt-5", "none"): 0.93, ("claude", "none"): 0.90, ("gpt-5", "obvious"): 0.03}
_PLAUSIBLE = "The paper has 93% for GPT-5 and 90% for Claude 4 Sonnet."
AUC = Published(0.609, "The paper has 0.609 for confidence against correctness; it gives no n and no interval.")
KAPPA_TRANSITIONS = Published(0.811, "The paper has a kappa of 0.811, apparently over all sources together.")
KAPPA_EVIDENCE = Published(0.526, "The paper has a kappa of 0.526 between people, with an agreement of 75.0%.")


def rate(kind: str, source: str, error: str) -> float | None:
    """The paper's share of outcomes called plausible, for a source whose name has the model in it.

    None where it prints none: for other models, and for subtle errors of any.
    """
    if kind != TRANSITION:
        return None
    found = [value for (model, planted), value in _RATES.items() if model in source.casefold() and planted == error]
    return found[0] if len(found) == 1 else None


def plausible(sources: Collection[str]) -> Published:
    """What it has for outcomes without an error, by model; the value where that of all these sources is the same."""
    values = {rate(TRANSITION, source, "none") for source in sources}
    return Published(values.pop() if len(values) == 1 else None, _PLAUSIBLE)


def kappa(kind: str) -> Published:
    return KAPPA_TRANSITIONS if kind == TRANSITION else KAPPA_EVIDENCE
