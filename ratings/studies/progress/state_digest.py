"""The state that a study's ratings are in as one digest: what was computed at one digest is out of date at another."""

import hashlib
import json
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from ratings.models import Assignment, ItemSource, PracticeAnswer, RatingEvent, Study


def mark(study: Study) -> str:
    """The state that the study's ratings are in, from counts and keys alone, in five queries; six once it is unblinded.

    It is another one after any answer, correction, import, withdrawal, dropped rater, place taken back or given out,
    rating by a machine, or other verdict of the checker on what was rated: what was computed at one mark is stale at another.
    """
    seen = [*_progress(study), list(study.machine_raters.order_by("pk").values_list("pk", "changes"))]
    if study.is_unblinded:
        seen.append(_checked(study))
    return _digest(seen)


def progress_mark(study: Study) -> str:
    """The same of what raters did and are to do alone, in five queries: no source is read, nor what machines said."""
    return _digest(["progress", study.items.count(), *_progress(study)])


def _digest(seen: list[Any]) -> str:
    return hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()


def _progress(study: Study) -> list[Any]:
    places = _counts(Assignment.objects.filter(rater__study=study), **_PLACES)
    log = _versions(study, places["first"] or 0, places["last"] or 0)
    return [
        [str(study.code), study.status, study.ratings_per_item, str(study.deadline)],
        _counts(log, n=Count("*"), of=Sum("assignment"), made=Sum("revision")),
        places,
        _counts(study.raters, n=Count("pk"), **_keys("out", dropped=True), **_keys("left", withdrawn_at__isnull=False)),
        _counts(PracticeAnswer.objects.filter(rater__study=study), n=Count("pk"), last=Max("pk")),
    ]


def _versions(study: Study, first: int, last: int) -> QuerySet[RatingEvent]:
    """The log of a study's answers. It is only added to, so that these columns of an index tell one state from another.

    A study's places mostly stand together: told between which, PostgreSQL reads that part of the index in one go.
    """
    log = RatingEvent.objects.filter(assignment__rater__study=study)
    return log.filter(assignment__gte=first, assignment__lte=last)


def _checked(study: Study) -> list[str]:
    """Of how many items the checker found what in their twin and in the step, and of which."""
    sources = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
    verdicts = sources.values_list("twin__findings__verdict", "transition__findings__verdict")
    return sorted(map(repr, verdicts.annotate(n=Count("pk"), keys=Sum("pk"), squares=Sum(_SQUARE))))


_SQUARE = F("pk") * F("pk") % 1_000_003  # beside the sum of the keys: of two that change places it stays the same


def _keys(name: str, **which: Any) -> dict[str, Sum]:
    """Tell apart which rows they are, where their number alone does not."""
    return {name: Sum("pk", filter=Q(**which)), f"{name}_squares": Sum(_SQUARE, filter=Q(**which))}


_PLACES = {
    "n": Count("pk"),
    "first": Min("pk"),
    "last": Max("pk"),
    **_keys("back", released_at__isnull=False),
    **_keys("over", surplus=True),
}


def _counts(rows: Any, **wanted: Any) -> dict[str, Any]:
    found: dict[str, Any] = rows.order_by().aggregate(**wanted)
    return found
