"""A digest of the state of a study's ratings. A result that was computed at another digest is out of date."""

import hashlib
import json
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from ratings.models import Assignment, ItemSource, PracticeAnswer, RatingEvent, Study


def compute_state_digest(study: Study) -> str:
    """Return the digest of the state of the study's ratings, from counts and keys alone. Five queries; six once it is
    unblinded.

    It changes with any answer, correction, import, withdrawal, dropped rater, assignment released or added, rating by
    a model, or new verdict of the checker on what was rated.
    """
    values = [*_collect_progress(study), list(study.machine_raters.order_by("pk").values_list("pk", "changes"))]
    if study.is_unblinded:
        values.append(_collect_check_results(study))
    return _hash_values(values)


def compute_progress_digest(study: Study) -> str:
    """Return a digest of raters' answers and assignments alone, in five queries."""
    # Neither sources nor model ratings are read: pages of a sealed study use this digest.
    return _hash_values(["progress", study.items.count(), *_collect_progress(study)])


def _hash_values(values: list[Any]) -> str:
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def _collect_progress(study: Study) -> list[Any]:
    places = _aggregate_rows(Assignment.objects.filter(rater__study=study), **_ASSIGNMENT_AGGREGATES)
    events = _filter_rating_events(study, places["first"] or 0, places["last"] or 0)
    return [
        [str(study.code), study.status, study.ratings_per_item, str(study.deadline)],
        _aggregate_rows(events, n=Count("*"), of=Sum("assignment"), made=Sum("revision")),
        places,
        _aggregate_rows(
            study.raters,
            n=Count("pk"),
            **_sum_keys("out", dropped=True),
            **_sum_keys("left", withdrawn_at__isnull=False),
        ),
        _aggregate_rows(PracticeAnswer.objects.filter(rater__study=study), n=Count("pk"), last=Max("pk")),
    ]


def _filter_rating_events(study: Study, first: int, last: int) -> QuerySet[RatingEvent]:
    """Return the log of a study's answers."""
    events = RatingEvent.objects.filter(assignment__rater__study=study)
    # The log is only added to, so three columns of one index distinguish its states. A study's assignments mostly
    # have consecutive keys: with their range, PostgreSQL reads that part of the index in one scan.
    return events.filter(assignment__gte=first, assignment__lte=last)


def _collect_check_results(study: Study) -> list[str]:
    """Return the checker's verdicts on twins and steps, with the number of items for each and sums that identify the
    items.
    """
    sources = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
    verdicts = sources.values_list("twin__findings__verdict", "transition__findings__verdict")
    return sorted(map(repr, verdicts.annotate(n=Count("pk"), keys=Sum("pk"), squares=Sum(_KEY_SQUARE))))


_KEY_SQUARE = (
    F("pk") * F("pk") % 1_000_003
)  # the sum of the keys alone stays the same when two rows exchange their states


def _sum_keys(name: str, **conditions: Any) -> dict[str, Sum]:
    """Return aggregates over keys that change if other rows match the conditions, even if the number of rows is the
    same.
    """
    return {name: Sum("pk", filter=Q(**conditions)), f"{name}_squares": Sum(_KEY_SQUARE, filter=Q(**conditions))}


_ASSIGNMENT_AGGREGATES = {
    "n": Count("pk"),
    "first": Min("pk"),
    "last": Max("pk"),
    **_sum_keys("back", released_at__isnull=False),
    **_sum_keys("over", surplus=True),
}


def _aggregate_rows(rows: Any, **aggregates: Any) -> dict[str, Any]:
    values: dict[str, Any] = rows.order_by().aggregate(**aggregates)
    return values
