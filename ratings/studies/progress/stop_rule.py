"""The stop rule defines when a study has collected enough ratings. Until then its results are interim."""

from datetime import date
from typing import NamedTuple

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce, Least
from django.utils import timezone

from ratings.models import Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol import study_protocol

_IS_COUNTED = Q(assignment__occasion=FIRST, assignment__released_at__isnull=True, assignment__surplus=False)


class StopStatus(NamedTuple):
    """`given` ratings count and `wanted` are planned. `said` is a sentence that states what is missing, or that
    nothing is missing.
    """

    met: bool
    given: int
    wanted: int
    said: str


class RatingTally(NamedTuple):
    """Items of a study, ratings that count, and ratings that items lack.

    An item with more ratings than planned does not compensate for one with too few. `imported` and `cannot_judge` are
    among the ratings that count, `surplus` ones are not.
    """

    items: int
    given: int
    missing: int
    imported: int
    cannot_judge: int
    surplus: int


def evaluate_stop_rule(study: Study, today: date | None = None, tally: RatingTally | None = None) -> StopStatus:
    """Return whether the study meets its stop rule: all ratings, a number of ratings, or the end of the day of its
    deadline.

        `tally` avoids counting again in callers that have already counted.
    """
    protocol, counts = study_protocol.load_protocol(study.protocol), tally or tally_ratings(study)
    given, planned = counts.given, counts.items * study.ratings_per_item
    if protocol.stop == "deadline" and study.deadline:
        # The deadline's day is included: raters read it as the last day on which they can rate.
        met = (today or timezone.localdate()) > study.deadline
        return StopStatus(met, given, planned, _describe_deadline(study.deadline, met))
    if protocol.stop == "ratings" and protocol.stop_ratings:
        missing = protocol.stop_ratings - given
        return StopStatus(missing <= 0, given, protocol.stop_ratings, _describe_missing(missing))
    if not planned:
        return StopStatus(False, given, planned, "It has no items to rate yet.")
    return StopStatus(counts.missing == 0, given, planned, _describe_missing(counts.missing))


def tally_ratings(study: Study) -> RatingTally:
    """Count the study's ratings in one pass of the database."""
    ratings = Rating.objects.filter(assignment__rater__study=study, assignment__rater__dropped=False)
    per_item = ratings.order_by().values("assignment__item").annotate(
        n=Count("pk", filter=_IS_COUNTED),
        n_imported=Count("pk", filter=_IS_COUNTED & Q(imported=True)),
        n_cannot_judge=Count("pk", filter=_IS_COUNTED & Q(cannot_judge=True)),
        n_surplus=Count("pk", filter=Q(assignment__surplus=True)),
    )  # fmt: skip
    optional_sums = {name: Coalesce(Sum(f"n_{name}"), 0) for name in ("imported", "cannot_judge", "surplus")}
    # Capped for each item, so that a surplus of one does not hide that another lacks ratings.
    filled = Coalesce(Sum(Least("n", study.ratings_per_item)), 0)
    totals = per_item.aggregate(given=Coalesce(Sum("n"), 0), filled=filled, **optional_sums)
    items = study.items.count()
    missing = items * study.ratings_per_item - totals.pop("filled")
    return RatingTally(items=items, missing=missing, **totals)


def count_ratings(study: Study) -> int:
    """Return the number of ratings that count: first occasion, not released, not surplus, of raters who were not
    dropped.
    """
    return Rating.objects.filter(_IS_COUNTED, assignment__rater__study=study, assignment__rater__dropped=False).count()


def _describe_deadline(deadline: date, met: bool) -> str:
    day = f"{deadline.day} {deadline:%B %Y}"
    return f"The last day was {day}." if met else f"Ratings are collected until the end of {day}."


def _describe_missing(missing: int) -> str:
    if missing <= 0:
        return "All the ratings the study set out to collect are there."
    return f"{missing:,} rating{'s' * (missing != 1)} to go."
