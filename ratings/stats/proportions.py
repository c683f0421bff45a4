"""Shares of yes-answers with their intervals."""

from collections.abc import Sequence
from typing import NamedTuple

from scipy.stats import binomtest


class Rate(NamedTuple):
    """k of n, with the 95 % Wilson interval (no continuity correction). All None, with the reason, where n is 0.

    The interval treats ratings as independent; ratings of one item or by one rater are not, so it is too narrow
    for statements about new raters or new items.
    """

    value: float | None
    low: float | None
    high: float | None
    k: int
    n: int
    reason: str = ""


def rate(answers: Sequence[bool], level: float = 0.95) -> Rate:
    """Share of True, every answer counting alike."""
    k, n = sum(answers), len(answers)
    if n == 0:
        return Rate(None, None, None, 0, 0, "there are no ratings")
    interval = binomtest(k, n).proportion_ci(confidence_level=level, method="wilson")
    return Rate(k / n, float(interval.low), float(interval.high), k, n)
