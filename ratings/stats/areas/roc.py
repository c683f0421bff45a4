"""Compute ROC curves of the signed rating: how many errors and how many unperturbed items each threshold calls."""

from typing import NamedTuple

import numpy as np

from ratings.stats.table import Ratings


class Point(NamedTuple):
    """The rates if every rating of at most `threshold` is called an error. None: no rating is called."""

    threshold: int | None
    false_alarm_rate: float
    hit_rate: float


class RocCurve(NamedTuple):
    """The curve of one error source against all unperturbed items, all raters' ratings pooled; from (0, 0) to (1, 1).

    `n_error` and `n_genuine` count ratings. The area by trapezia is auc_signed of the source. No points, with the reason,
    where a class is empty.
    """

    source: str
    points: tuple[Point, ...]
    n_error: int
    n_genuine: int
    reason: str = ""


LEVELS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)  # certainly not plausible to certainly plausible


def curves(table: Ratings) -> list[RocCurve]:
    """Return one curve for each error source of a binary table; for one rater pass table.select_rater(name)."""
    return [curve(table, source) for source in table.error_sources] if table.binary else []


def curve(table: Ratings, source: str) -> RocCurve:
    """Return the curve of this source; ratings without confidence are left out."""
    ratings = table.against_unperturbed(source)
    ratings = ratings.where(np.isfinite(ratings.signed))
    error, genuine = ratings.signed[ratings.reference == 0], ratings.signed[ratings.reference == 1]
    if not len(error) or not len(genuine):
        missing = "with" if not len(error) else "without"
        return RocCurve(
            source, (), len(error), len(genuine), f"no rating of an item {missing} an error has a confidence"
        )
    points = [Point(None, 0.0, 0.0)]
    points += [Point(level, float(np.mean(genuine <= level)), float(np.mean(error <= level))) for level in LEVELS]
    return RocCurve(source, tuple(points), len(error), len(genuine))
