"""Quantiles of the normal law and of Student's t, from scipy.special: those of scipy.stats cost thirty times as much a call."""

import math

from scipy.special import ndtri, stdtrit

from ratings.stats.estimates import LEVEL

NORMAL = float(ndtri((1 + LEVEL) / 2))  # of a 95 % interval


def find_normal_quantile(share: float) -> float:
    """Return the value that this share of the standard normal law lies below."""
    return float(ndtri(share))


def find_student_quantile(share: float, df: float) -> float:
    """Return the value that this share of Student's t with `df` degrees of freedom lies below; normal for infinitely many."""
    return float(ndtri(share)) if math.isinf(df) else float(stdtrit(df, share))
