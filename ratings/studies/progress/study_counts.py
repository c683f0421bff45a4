"""Counts of a study's ratings for its pages.

Each process caches them for as long as the study's progress digest does not change
(`state_digest.compute_progress_digest`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, Max, Q

from ratings.models import Rating, Study
from ratings.studies.progress import rating_times, state_digest, stop_rule
from ratings.studies.progress.stop_rule import RatingTally

_LIVE = Q(assignments__released_at__isnull=True)
_RATED = Q(assignments__rating__isnull=False)


class RaterCounts(NamedTuple):
    """The progress of one rater.

    `rated` and `dealt` count all assignments except those that were released unrated; `live_rated` and `live` count
    those that were not released at all. `median_seconds` is None before the first rating with a known time.
    """

    rated: int
    dealt: int
    live_rated: int
    live: int
    last_rated: datetime | None
    median_seconds: float | None


class StudyCounts(NamedTuple):
    """The counts of the study, and of its raters by key."""

    study: RatingTally
    raters: Mapping[int, RaterCounts]


def count_study(study: Study) -> StudyCounts:
    """Return the current counts: counted now, or cached within the last minute for the same state of the study."""
    if not settings.TALLY_SECONDS:
        return _compute_counts(study)
    mark = state_digest.compute_progress_digest(study)
    cached: StudyCounts | None = cache.get(_cache_key(mark))
    if cached is not None:
        return cached
    counts = _compute_counts(study)
    # A rating may have come in while counting: then the counts belong to no digest, and are not cached.
    if state_digest.compute_progress_digest(study) == mark:
        cache.set(_cache_key(mark), counts, settings.TALLY_SECONDS)
    return counts


def _cache_key(digest: str) -> str:
    return f"tallies/{digest}"


def _compute_counts(study: Study) -> StudyCounts:
    medians = rating_times.compute_median_times(Rating.objects.filter(assignment__rater__study=study))
    # One query for all raters: a query for each would make the page slower with every rater.
    raters: Any = study.raters.order_by().values_list("pk").annotate(
        rated=Count("assignments", filter=_RATED),
        dealt=Count("assignments", filter=_RATED | _LIVE),
        live_rated=Count("assignments__rating", filter=_LIVE),
        live=Count("assignments", filter=_LIVE),
        last_rated=Max("assignments__rating__submitted_at"),
    )  # fmt: skip
    counts_by_rater = {pk: RaterCounts._make((*numbers, medians.get(pk))) for pk, *numbers in raters}
    return StudyCounts(stop_rule.tally_ratings(study), counts_by_rater)
