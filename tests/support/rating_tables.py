"""Tables of ratings written as strings of verdicts or drawn at random, and the one result that a test checks."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ratings.stats import Estimate
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table


def find_estimate(rows: Iterable[Estimate], stat: str, **args: Any) -> Estimate:
    """Return the result with this name and exactly these arguments."""
    return next(row for row in rows if row.stat == stat and dict(row.args) == args)


def build_table(
    *lines: str, sources: str = "", confidences: Sequence[str] = (), categories: Sequence[Any] = (0, 1)
) -> Ratings:
    """Build a table from one string per rater, with one character per item and a dot where there is no rating; sources and confidences likewise."""
    return build_ratings_table(
        (
            RatingRecord(
                f"{index:03}",
                f"r{rater + 1}",
                int(mark),
                confidence=int(confidences[rater][index]) if confidences else None,
                source=sources[index] if sources else "all",
            )
            for rater, marks in enumerate(lines)
            for index, mark in enumerate(marks)
            if mark != "."
        ),
        categories=categories,
    )


def draw_table(
    items: int, raters: int, each: int, shares: Sequence[float], seed: int, *, confidences: bool = False
) -> Ratings:
    """Draw `each` ratings of every item. Items take the shares of yes in turn, and the index of the share is their source."""
    rng = np.random.default_rng(seed)
    return build_ratings_table(
        RatingRecord(
            f"{index:04}",
            f"r{rater}",
            int(rng.random() < shares[index % len(shares)]),
            confidence=int(rng.integers(1, 6)) if confidences else None,
            source=f"s{index % len(shares)}",
        )
        for index in range(items)
        for rater in rng.choice(raters, each, replace=False)
    )
