"""The progress of a study and of its raters, counted by the database. It is the same before and after unblinding.

Nothing here reads where an item came from; results by source are in `ratings.results.analyses`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from statistics import mean
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from django.core.cache import cache
from django.db.models import Case, Count, F, Max, Q, QuerySet, Sum, Value, When, Window
from django.db.models.functions import Coalesce, Least, RowNumber
from django.utils import timezone

from ratings.models import TRANSITION, Assignment, ItemSource, PracticeAnswer, Rater, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol import study_protocol
from ratings.studies.item_counts import ITEM_COUNTS
from wetbench_site.text import format_count, hash_text

T = TypeVar("T")
# Minutes for one outcome, for a full record: an estimate, shown before anybody has rated.
MINUTES_PER_ITEM = {True: 2, False: 5}
PREPARATION_MINUTES = 10  # minutes for the guide and the practice items
_IS_COUNTED = Q(assignment__occasion=FIRST, assignment__released_at__isnull=True, assignment__surplus=False)
# The sum of the keys alone stays the same when two rows exchange their states.
_KEY_SQUARE = F("pk") * F("pk") % 1_000_003
_RATER = "assignment__rater"
# Imported ratings without a known time have 0 seconds: they must not pull a median down.
_ELAPSED_SECONDS = Case(When(imported=True, seconds=0, then=Value(None)), default=F("seconds"))


def count_items(rater: Rater) -> int | None:
    """Return how many items are assigned to the rater; None if items are reserved one at a time."""
    return Assignment.objects.filter(rater=rater, released_at__isnull=True).count() or None


def describe_time_needed(study: Study, items: int | None) -> str:
    """Return an estimate of the time that a rater with so many items needs, in a sentence."""
    minutes_per_item = MINUTES_PER_ITEM[study.kind == TRANSITION]
    if items is None:
        return f"About {PREPARATION_MINUTES} minutes to start with, then about {minutes_per_item} minutes per item"
    minutes = PREPARATION_MINUTES + items * minutes_per_item
    # Rounded up to five minutes, and to half hours from an hour on: more digits would promise too much.
    if minutes < 55:
        duration = f"{-(-minutes // 5) * 5} minutes"
    else:
        halves = round(minutes / 30)
        hours, half = divmod(halves, 2)
        duration = f"{hours}{' and a half' if half else ''} hour{'' if halves == 2 else 's'}"
    return f"About {duration} in all; you can stop and come back as often as you like"


class StopStatus(NamedTuple):
    """`given` ratings count, `wanted` are planned. `said` states in a sentence what is missing, if anything."""

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
    """Return whether the study meets its stop rule: all ratings, a number of ratings, or the end of its deadline's day.

    `tally` avoids counting again in callers that have already counted.
    """
    protocol, counts = study_protocol.load_protocol(study.protocol), tally or tally_ratings(study)
    given, planned = counts.given, counts.items * study.ratings_per_item
    if protocol.stop == "deadline" and study.deadline:
        met = is_deadline_over(study, today)
        day = f"{study.deadline.day} {study.deadline:%B %Y}"
        text = f"The last day was {day}." if met else f"Ratings are collected until the end of {day}."
        return StopStatus(met, given, planned, text)
    if protocol.stop == "ratings" and protocol.stop_ratings:
        missing = protocol.stop_ratings - given
        return StopStatus(missing <= 0, given, protocol.stop_ratings, _describe_missing(missing))
    if not planned:
        return StopStatus(False, given, planned, "It has no items to rate yet.")
    return StopStatus(counts.missing == 0, given, planned, _describe_missing(counts.missing))


def is_deadline_over(study: Study, today: date | None = None) -> bool:
    """Return whether the study has a deadline that has passed."""
    # The deadline's day is included: raters read it as the last day on which they can rate.
    return study.deadline is not None and (today or timezone.localdate()) > study.deadline


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


def has_people(study: Study) -> bool:
    """Return whether anybody takes or took part as a rater; False if all raters are simulated and other places are empty."""
    return study.raters.filter(simulated=False).exclude(user=None, consented_at=None, answered_items=0).exists()


def count_ratings(study: Study) -> int:
    """Return the number of ratings that count: first occasion, not released, surplus or of dropped raters."""
    return Rating.objects.filter(_IS_COUNTED, assignment__rater__study=study, assignment__rater__dropped=False).count()


def _describe_missing(missing: int) -> str:
    if missing <= 0:
        return "All the ratings the study set out to collect are there."
    return f"{format_count(missing, 'rating')} to go."


def compute_state_digest(study: Study) -> str:
    """Return the digest of the state of the study's ratings, from counts in the rows of raters, in three or four queries.

    It changes with any answer, correction, import, withdrawal, dropped rater, change in the number of a rater's
    assignments, rating by a model, or new verdict of the checker on what was rated.
    """
    values = [*_collect_progress(study), list(study.machine_raters.order_by("pk").values_list("pk", "changes"))]
    if study.is_unblinded:
        # The checker's verdicts on twins and steps, with the number of items for each and sums that identify the items.
        sources = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
        verdicts = sources.values_list("twin__findings__verdict", "transition__findings__verdict")
        counted = verdicts.annotate(n=Count("pk"), keys=Sum("pk"), squares=Sum(_KEY_SQUARE))
        values.append(sorted(map(repr, counted)))
    return _hash_values(values)


def compute_progress_digest(study: Study) -> str:
    """Return a digest of raters' answers and assignments alone, in three queries."""
    # Neither sources nor model ratings are read: pages of a sealed study use this digest.
    return _hash_values(["progress", study.items.count(), *_collect_progress(study)])


def _hash_values(values: list[Any]) -> str:
    return hash_text(json.dumps(values, default=str))


def _collect_progress(study: Study) -> list[Any]:
    practice = PracticeAnswer.objects.filter(rater__study=study).order_by()
    return [
        [str(study.code), study.status, study.ratings_per_item, str(study.deadline)],
        # Answers are never removed, so these counts distinguish the states of a rater's answers.
        list(study.raters.order_by("pk").values_list("pk", "dropped", "withdrawn_at", *ITEM_COUNTS, "corrections")),
        practice.aggregate(n=Count("pk"), last=Max("pk")),
    ]


def compute_median_times(ratings: QuerySet[Rating], two_stage: bool = False) -> Mapping[int, float]:
    """Return the median seconds per item, by the rater's key.

    The active time that the browser counted is used, else the elapsed time; imported ratings count if their time is known.
    With `two_stage`, the time before the first verdict of the confirm layout is added.
    """
    active: Any = F("active_seconds")
    if two_stage:
        # The browser counts from zero again when the balance sheet is shown.
        active += Coalesce(F("assignment__initial_rating__active_seconds"), 0.0)
    timed = ratings.order_by().annotate(timed=Coalesce(active, _ELAPSED_SECONDS)).filter(timed__isnull=False)
    # Of n times in order, those with rank p and n <= 2p <= n + 2: both middle ones of an even n, the one of an odd n.
    # In SQL that both databases have: SQLite lacks percentile_cont.
    ranked = timed.annotate(
        twice=2 * Window(RowNumber(), partition_by=F(_RATER), order_by="timed"),
        of=Window(Count("pk"), partition_by=F(_RATER)),
    )
    middle: dict[int, list[float]] = defaultdict(list)
    for key, seconds in ranked.filter(twice__gte=F("of"), twice__lte=F("of") + 2).values_list(_RATER, "timed"):
        middle[key].append(seconds)
    return {key: mean(times) for key, times in middle.items()}


class RaterTimes(NamedTuple):
    """When a rater last answered, and the median time per item; each is None before the first such time is known."""

    last_rated: datetime | None = None
    median_seconds: float | None = None


class StudyCounts(NamedTuple):
    """The counts of the study, and the times of its raters by key."""

    study: RatingTally
    raters: Mapping[int, RaterTimes]


def count_study(study: Study) -> StudyCounts:
    """Return the current counts: counted now, or cached within the last minute for the same state of the study."""
    return cache_by_state(study, "tallies", _compute_counts)


def cache_by_state(study: Study, name: str, compute: Callable[[Study], T]) -> T:
    """Return what `compute` returns for the study: computed now, or within the last minute for the same state of its ratings."""
    if not settings.TALLY_SECONDS:
        return compute(study)
    digest = compute_progress_digest(study)
    cached: T | None = cache.get(f"{name}/{digest}")
    if cached is not None:
        return cached
    value = compute(study)
    # A rating may have come in while computing: then the value belongs to no digest, and is not cached.
    if compute_progress_digest(study) == digest:
        cache.set(f"{name}/{digest}", value, settings.TALLY_SECONDS)
    return value


def _compute_counts(study: Study) -> StudyCounts:
    two_stage = "confirm" in study_protocol.load_protocol(study.protocol).display.layouts
    medians = compute_median_times(Rating.objects.filter(assignment__rater__study=study), two_stage)
    # One query for all raters: a query for each would make the page slower with every rater.
    last_rated = study.raters.order_by().values_list("pk", Max("assignments__answered_at"))
    times_by_rater = {pk: RaterTimes(last, medians.get(pk)) for pk, last in last_rated}
    return StudyCounts(tally_ratings(study), times_by_rater)


class StudyProgress(NamedTuple):
    """First ratings, those planned, items, raters, and raters who are done; `missing` as in RatingTally."""

    done: int
    total: int
    items: int
    raters: int
    raters_done: int
    missing: int


class RaterProgress(NamedTuple):
    """A rater with all their ratings and assignments, including repeats; the median is None before the first rating.

    `total` is None in a pool study without a limit per rater: the number of items to come is then unknown.
    """

    rater: Rater
    done: int
    total: int | None
    median_seconds: float | None
    is_finished: bool


@dataclass(frozen=True)
class StudyReport:
    """What a study's page shows in any state. Nothing in it depends on where an item came from, or on a verdict."""

    progress: StudyProgress
    raters: tuple[RaterProgress, ...]
    simulated: str  # which of the raters are simulated, in a sentence; "" if none
    imported: str  # how many ratings were collected elsewhere, in a sentence; "" if none
    cannot_judge: int
    surplus: int

    @property
    def by_simulated(self) -> int:
        """Return how many ratings simulated raters gave, including repeats."""
        return sum(line.done for line in self.raters if line.rater.simulated)


def build_report(study: Study, counted: StudyCounts | None = None) -> StudyReport:
    """Return the progress of a study, in a constant number of queries. `counted` avoids counting again."""
    counts = counted or count_study(study)
    tally = counts.study
    protocol = study_protocol.load_protocol(study.protocol)
    raters = []
    for rater in study.raters.order_by("number", "pk"):
        times = counts.raters.get(rater.pk, RaterTimes())
        # A dropped rater's times would suggest that their ratings count.
        median_seconds = None if rater.dropped else times.median_seconds
        limit = protocol.items_per_rater
        total = limit if protocol.is_pool else rater.answered_items + rater.waiting_items
        # In a pool, a rater who has rated every claimed item can claim more, up to the limit, while ratings are missing.
        can_claim = protocol.is_pool and tally.missing > 0 and (limit is None or rater.answered_items < limit)
        has_rated_all = rater.answered_items > 0 and not rater.waiting_items and not can_claim
        is_finished = rater.finished_at is not None or has_rated_all
        raters.append(RaterProgress(rater, rater.answered_items, total, median_seconds, is_finished))
    planned, n_finished = tally.given + tally.missing, sum(line.is_finished for line in raters)
    imported = f"{tally.imported} of {tally.given} ratings were collected elsewhere and imported."
    return StudyReport(
        progress=StudyProgress(tally.given, planned, tally.items, len(raters), n_finished, tally.missing),
        raters=tuple(raters),
        simulated=_describe_simulated(raters),
        imported=imported if tally.imported else "",
        cannot_judge=tally.cannot_judge,
        surplus=tally.surplus,
    )


def _describe_simulated(raters: Sequence[RaterProgress]) -> str:
    # Dropped raters are not in the results that this sentence is about.
    raters = [line for line in raters if not line.rater.dropped]
    simulated = [line for line in raters if line.rater.simulated]
    if not simulated:
        return ""
    if len(simulated) == len(raters):
        return f"All {len(raters)} raters are simulated."
    n_simulated, n_ratings = (sum(line.done for line in lines) for lines in (simulated, raters))
    given = f"they gave {n_simulated:,} of {n_ratings:,} ratings"
    return f"{len(simulated)} of {len(raters)} raters are simulated; {given}."
