"""Compute ROC curves of the signed rating: the shares of errors and of unperturbed items called errors at each
threshold.
"""

from typing import NamedTuple

import numpy as np

from ratings.stats.ratings_table import Ratings


class RocPoint(NamedTuple):
    """The rates if every signed rating of at most `threshold` is called an error.

    None: no rating is called an error.
    """

    threshold: int | None
    false_alarm_rate: float
    hit_rate: float


class RocCurve(NamedTuple):
    """The ROC curve of one error source against all unperturbed items, from (0, 0) to (1, 1), all raters' ratings pooled.

    `n_error` and `n_genuine` are numbers of ratings. The trapezoidal area under the curve is auc_signed of the source. If a
    class is empty, there are no points, and `reason` states why.
    """

    source: str
    points: tuple[RocPoint, ...]
    n_error: int
    n_genuine: int
    reason: str = ""


LEVELS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)  # from certainly not plausible to certainly plausible


def build_roc_curves(table: Ratings) -> list[RocCurve]:
    """Return one curve for each error source of a binary table.

    For the curves of one rater, pass table.select_rater(name).
    """
    return [build_roc_curve(table, source) for source in table.error_sources] if table.is_binary else []


def build_roc_curve(table: Ratings, source: str) -> RocCurve:
    """Return the curve of this error source; ratings without a confidence are left out."""
    ratings = table.select_against_unperturbed(source)
    ratings = ratings.select_ratings(np.isfinite(ratings.signed_ratings))
    error, genuine = ratings.signed_ratings[ratings.reference == 0], ratings.signed_ratings[ratings.reference == 1]
    if not len(error) or not len(genuine):
        missing = "with" if not len(error) else "without"
        return RocCurve(
            source, (), len(error), len(genuine), f"no rating of an item {missing} an error has a confidence"
        )
    points = [RocPoint(None, 0.0, 0.0)]
    points += [RocPoint(level, float(np.mean(genuine <= level)), float(np.mean(error <= level))) for level in LEVELS]
    return RocCurve(source, tuple(points), len(error), len(genuine))
