"""Answers and their log: a rating is the last of its versions, and every version is there."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import F, Q

from ratings.models import Draft, FirstLook, Rating, RatingEvent
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

SAID = ("verdict", "confidence", "cannot_judge", "marks", "note")
APART = timedelta(minutes=1)  # by so much the clocks of two hosts may differ
_RATING = ("assignment_id", "assignment__code", "revision", "submission_id", "imported", "submitted_at", "revised_at")
_EVENT = ("assignment_id", "assignment__code", "revision", "submission_id", "kind", "at")
Versions = list[dict[str, Any]]


@check(
    "ratings and their log",
    "each rating says what its last version says, and was first given and last corrected when the log says so",
    Rating,
)
def ratings_against_their_log() -> Iterator[Wrong]:
    log = _by_assignment(rows(RatingEvent.objects.order_by("assignment_id", "revision").values(*_EVENT, *SAID)))
    versions = next(log, None)
    for rating in rows(Rating.objects.order_by("assignment_id").values(*_RATING, *SAID)):
        while versions and versions[0]["assignment_id"] < rating["assignment_id"]:
            yield _unanswered(versions)
            versions = next(log, None)
        if versions and versions[0]["assignment_id"] == rating["assignment_id"]:
            yield from _compared(rating, versions)
            versions = next(log, None)
        else:
            yield wrong(Rating, rating["assignment__code"], "a version of it in the log", "none")
    while versions:
        yield _unanswered(versions)
        versions = next(log, None)


@check(
    "unsaved answers of rated items", "nothing that a rater has chosen and not saved stands beside their answer", Draft
)
def drafts_beside_ratings() -> Iterator[Wrong]:
    both = Draft.objects.filter(assignment__rating__isnull=False).values_list("assignment__code", flat=True)
    for code in rows(both):
        yield wrong(Draft, code, "no draft once the item is rated", "a draft and a rating")


@check("first answers", "a first answer was given in the arm that asks for one, and before the final one", FirstLook)
def first_looks() -> Iterator[Wrong]:
    late = Q(assignment__rating__submitted_at__lt=F("at") - APART)
    looks = FirstLook.objects.filter(late | ~Q(assignment__layout="confirm"))
    for code, layout, at, final in rows(
        looks.values_list("assignment__code", "assignment__layout", "at", "assignment__rating__submitted_at")
    ):
        if layout != "confirm":
            yield wrong(FirstLook, code, "layout confirm", f"layout {layout}")
        else:
            yield wrong(FirstLook, code, f"before the rating of {final}", at)


@check(
    "times of ratings", "the time a rating took is from its opening to its submission, and its log goes forward", Rating
)
def times_of_ratings() -> Iterator[Wrong]:
    shown = ("assignment__code", "opened_at", "submitted_at", "revised_at", "seconds")
    for code, opened, submitted, revised, seconds in rows(Rating.objects.values_list(*shown)):
        took = (submitted - opened).total_seconds()
        if abs(took - seconds) > 0.01:
            yield wrong(Rating, code, f"{took:.3f} s between opening and submission", f"{seconds:.3f} s")
        if revised and revised < submitted - APART:
            yield wrong(Rating, code, f"a correction after {submitted}", revised)


def _by_assignment(events: Iterator[dict[str, Any]]) -> Iterator[Versions]:
    versions: Versions = []
    for event in events:
        if versions and versions[0]["assignment_id"] != event["assignment_id"]:
            yield versions
            versions = []
        versions.append(event)
    if versions:
        yield versions


def _unanswered(versions: Versions) -> Wrong:
    return wrong(RatingEvent, versions[0]["assignment__code"], "a rating", f"{len(versions)} versions and no rating")


def _compared(rating: dict[str, Any], versions: Versions) -> Iterator[Wrong]:
    code, last = rating["assignment__code"], versions[-1]
    numbers = [version["revision"] for version in versions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield wrong(RatingEvent, code, f"versions 1 to {len(numbers)}", numbers)
    if any(later["at"] < sooner["at"] - APART for sooner, later in itertools.pairwise(versions)):
        yield wrong(RatingEvent, code, "versions one after another", [str(version["at"]) for version in versions])
    kinds = ["imported" if rating["imported"] else "answer", *["correction"] * (len(versions) - 1)]
    if [version["kind"] for version in versions] != kinds:
        yield wrong(RatingEvent, code, kinds, [version["kind"] for version in versions])
    same = (*SAID, "revision") if rating["imported"] else (*SAID, "revision", "submission_id")
    for name in same:
        if rating[name] != last[name]:
            yield wrong(Rating, code, f"{name} {last[name]!r}, as its last version", repr(rating[name]))
    if rating["submitted_at"] != versions[0]["at"]:
        yield wrong(Rating, code, f"submitted at {versions[0]['at']}", rating["submitted_at"])
    if rating["revised_at"] != (last["at"] if len(versions) > 1 else None):
        yield wrong(Rating, code, f"corrected at {last['at'] if len(versions) > 1 else None}", rating["revised_at"])


CHECKS = (ratings_against_their_log, times_of_ratings, drafts_beside_ratings, first_looks)
