"""Tables of ratings written as lines of verdicts, or drawn by chance, and the one result that a test asks about."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ratings.stats import Estimate, Ratings
from ratings.stats.table import Row, build


def one(rows: Iterable[Estimate], stat: str, **args: Any) -> Estimate:
    """The result of that name and those arguments, no others."""
    return next(row for row in rows if row.stat == stat and dict(row.args) == args)


def table(*lines: str, sources: str = "", sure: Sequence[str] = (), categories: Sequence[Any] = (0, 1)) -> Ratings:
    """One line a rater, one character an item, a dot where there is none; sources and confidences likewise."""
    return build(
        (
            Row(
                f"{at:03}",
                f"r{rater + 1}",
                int(mark),
                confidence=int(sure[rater][at]) if sure else None,
                source=sources[at] if sources else "all",
            )
            for rater, marks in enumerate(lines)
            for at, mark in enumerate(marks)
            if mark != "."
        ),
        categories=categories,
    )


def drawn(
    items: int, raters: int, each: int, shares: Sequence[float], seed: int, *, confidences: bool = False
) -> Ratings:
    """Ratings by chance, `each` an item; items take the shares of yes in turn and have them as their source."""
    rng = np.random.default_rng(seed)
    return build(
        Row(
            f"{at:04}",
            f"r{rater}",
            int(rng.random() < shares[at % len(shares)]),
            confidence=int(rng.integers(1, 6)) if confidences else None,
            source=f"s{at % len(shares)}",
        )
        for at in range(items)
        for rater in rng.choice(raters, each, replace=False)
    )
