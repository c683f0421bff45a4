"""When a study has what it set out to collect. Until then its results are interim."""

from datetime import date
from typing import NamedTuple

from django.db.models import Count, QuerySet
from django.utils import timezone

from ratings import protocols
from ratings.models import Rating, Study
from ratings.models.answers import FIRST


class Stop(NamedTuple):
    """`given` ratings count; `wanted` are planned. `said` is a sentence for people: what is missing, or that nothing is."""

    met: bool
    given: int
    wanted: int
    said: str


def look(study: Study, today: date | None = None) -> Stop:
    """Where the study stands by its own rule: complete, a number of ratings, or the end of its deadline's day."""
    protocol = protocols.stored(study.protocol)
    given, planned = counted(study), study.items.count() * study.ratings_per_item
    if protocol.stop == "deadline" and study.deadline:
        met = (today or timezone.localdate()) > study.deadline
        return Stop(met, given, planned, _by_date(study.deadline, met))
    if protocol.stop == "ratings" and protocol.stop_ratings:
        missing = protocol.stop_ratings - given
        return Stop(missing <= 0, given, protocol.stop_ratings, _by_number(missing))
    if not planned:
        return Stop(False, given, planned, "It has no items to rate yet.")
    missing = still_wanted(study)
    return Stop(missing == 0, given, planned, _by_number(missing))


def counted(study: Study) -> int:
    """Ratings that count: first occasion, not released, not surplus, of raters whose ratings were not dropped."""
    return _counting(study).count()


def still_wanted(study: Study) -> int:
    """Ratings that items lack. One with more than it wants makes up for none that has too few."""
    each = study.ratings_per_item
    per_item = dict(_counting(study).values_list("assignment__item").annotate(n=Count("pk")))
    filled: int = sum(min(n, each) for n in per_item.values())
    return study.items.count() * each - filled


def _counting(study: Study) -> QuerySet[Rating]:
    return Rating.objects.filter(
        assignment__item__study=study,
        assignment__occasion=FIRST,
        assignment__released_at__isnull=True,
        assignment__surplus=False,
        assignment__rater__dropped=False,
    )


def _by_date(deadline: date, met: bool) -> str:
    day = f"{deadline.day} {deadline:%B %Y}"
    return f"The last day was {day}." if met else f"Ratings are collected until the end of {day}."


def _by_number(missing: int) -> str:
    if missing <= 0:
        return "All the ratings the study set out to collect are there."
    return f"{missing:,} rating{'s' * (missing != 1)} to go."
