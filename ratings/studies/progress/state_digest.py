"""The state of a study's ratings as one digest: what was computed at one digest is out of date at another."""

import hashlib
import json
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from ratings.models import Assignment, ItemSource, PracticeAnswer, RatingEvent, Study


def mark(study: Study) -> str:
    """Return the digest of the state of the study's ratings, from counts and keys alone. Five queries; six once it is unblinded.

    It changes with any answer, correction, import, withdrawal, dropped rater, assignment released or added, rating by a model,
    or new verdict of the checker on what was rated.
    """
    values = [*_progress(study), list(study.machine_raters.order_by("pk").values_list("pk", "changes"))]
    if study.is_unblinded:
        values.append(_checked(study))
    return _digest(values)


def progress_mark(study: Study) -> str:
    """Return the digest of what raters did and are to do alone, in five queries."""
    # Neither sources nor model ratings are read: pages of a sealed study use this digest.
    return _digest(["progress", study.items.count(), *_progress(study)])


def _digest(seen: list[Any]) -> str:
    return hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()


def _progress(study: Study) -> list[Any]:
    places = _counts(Assignment.objects.filter(rater__study=study), **_PLACES)
    events = _versions(study, places["first"] or 0, places["last"] or 0)
    return [
        [str(study.code), study.status, study.ratings_per_item, str(study.deadline)],
        _counts(events, n=Count("*"), of=Sum("assignment"), made=Sum("revision")),
        places,
        _counts(study.raters, n=Count("pk"), **_keys("out", dropped=True), **_keys("left", withdrawn_at__isnull=False)),
        _counts(PracticeAnswer.objects.filter(rater__study=study), n=Count("pk"), last=Max("pk")),
    ]


def _versions(study: Study, first: int, last: int) -> QuerySet[RatingEvent]:
    """Return the log of a study's answers."""
    events = RatingEvent.objects.filter(assignment__rater__study=study)
    # The log is only added to, so three columns of one index distinguish its states. A study's assignments mostly
    # have consecutive keys: with their range, PostgreSQL reads that part of the index in one scan.
    return events.filter(assignment__gte=first, assignment__lte=last)


def _checked(study: Study) -> list[str]:
    """Return how many items have which verdict of the checker on their twin and step, and which items."""
    sources = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
    verdicts = sources.values_list("twin__findings__verdict", "transition__findings__verdict")
    return sorted(map(repr, verdicts.annotate(n=Count("pk"), keys=Sum("pk"), squares=Sum(_SQUARE))))


_SQUARE = F("pk") * F("pk") % 1_000_003  # the sum of the keys alone stays the same when two rows exchange their states


def _keys(name: str, **which: Any) -> dict[str, Sum]:
    """Return aggregates that distinguish which rows match, where their number alone does not."""
    return {name: Sum("pk", filter=Q(**which)), f"{name}_squares": Sum(_SQUARE, filter=Q(**which))}


_PLACES = {
    "n": Count("pk"),
    "first": Min("pk"),
    "last": Max("pk"),
    **_keys("back", released_at__isnull=False),
    **_keys("over", surplus=True),
}


def _counts(rows: Any, **wanted: Any) -> dict[str, Any]:
    values: dict[str, Any] = rows.order_by().aggregate(**wanted)
    return values
