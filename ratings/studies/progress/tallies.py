"""What the pages of a study count of its ratings, kept by a process for as long as nothing of it changes (state_digest.progress_mark)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, Max, Q

from ratings.models import Rating, Study
from ratings.studies.progress import paces, state_digest, stopping
from ratings.studies.progress.stopping import Tally

_LIVE = Q(assignments__released_at__isnull=True)
_RATED = Q(assignments__rating__isnull=False)


class Seat(NamedTuple):
    """How far one seat is. rated, dealt: of all its places that were not taken back unrated; live_rated, live: of those
    that were not taken back at all. `median_seconds` is None before the first rating whose time is known."""

    rated: int
    dealt: int
    live_rated: int
    live: int
    last_rated: datetime | None
    median_seconds: float | None


class Tallies(NamedTuple):
    """Of the study, and of its seats by key."""

    study: Tally
    seats: Mapping[int, Seat]


def of(study: Study) -> Tallies:
    """As they are now: counted, or what was counted in the last minute when the study was in this very state."""
    if not settings.TALLY_SECONDS:
        return _counted(study)
    mark = state_digest.progress_mark(study)
    kept: Tallies | None = cache.get(_key(mark))
    if kept is not None:
        return kept
    found = _counted(study)
    if state_digest.progress_mark(study) == mark:
        cache.set(_key(mark), found, settings.TALLY_SECONDS)
    return found


def _key(mark: str) -> str:
    return f"tallies/{mark}"


def _counted(study: Study) -> Tallies:
    medians = paces.medians(Rating.objects.filter(assignment__rater__study=study))
    seats: Any = study.raters.order_by().values_list("pk").annotate(
        rated=Count("assignments", filter=_RATED),
        dealt=Count("assignments", filter=_RATED | _LIVE),
        live_rated=Count("assignments__rating", filter=_LIVE),
        live=Count("assignments", filter=_LIVE),
        last_rated=Max("assignments__rating__submitted_at"),
    )  # fmt: skip
    found = {pk: Seat._make((*numbers, medians.get(pk))) for pk, *numbers in seats}
    return Tallies(stopping.count(study), found)
