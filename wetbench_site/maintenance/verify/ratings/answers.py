"""Checks of ratings and their log: a rating equals its last version, and every version is in the log."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import F, Q

from ratings.models import Draft, FirstLook, Rating, RatingEvent
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

SAID = ("verdict", "confidence", "cannot_judge", "marks", "note")
APART = timedelta(minutes=1)  # difference allowed between the clocks of two hosts
_RATING = ("assignment_id", "assignment__code", "revision", "submission_id", "imported", "submitted_at", "revised_at")
_EVENT = ("assignment_id", "assignment__code", "revision", "submission_id", "kind", "at")
Versions = list[dict[str, Any]]


@check(
    "ratings and their log",
    "each rating equals its last version in the log, and has the times of its first and last version",
    Rating,
)
def ratings_against_their_log() -> Iterator[Wrong]:
    # Both queries are sorted by assignment and read side by side: neither table has to fit into memory.
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


@check("unsaved answers of rated items", "a rated assignment has no unsaved answer", Draft)
def drafts_beside_ratings() -> Iterator[Wrong]:
    both = Draft.objects.filter(assignment__rating__isnull=False).values_list("assignment__code", flat=True)
    for code in rows(both):
        yield wrong(Draft, code, "no draft after the rating", "a draft and a rating")


@check("first answers", "a first answer exists only in the confirm arm, and was given before the final one", FirstLook)
def first_looks() -> Iterator[Wrong]:
    is_late = Q(assignment__rating__submitted_at__lt=F("at") - APART)
    first_answers = FirstLook.objects.filter(is_late | ~Q(assignment__layout="confirm"))
    for code, layout, at, final in rows(
        first_answers.values_list("assignment__code", "assignment__layout", "at", "assignment__rating__submitted_at")
    ):
        if layout != "confirm":
            yield wrong(FirstLook, code, "layout confirm", f"layout {layout}")
        else:
            yield wrong(FirstLook, code, f"before the rating of {final}", at)


@check(
    "times of ratings",
    "the duration of a rating is the time from opening to submission, and no correction is before the submission",
    Rating,
)
def times_of_ratings() -> Iterator[Wrong]:
    columns = ("assignment__code", "opened_at", "submitted_at", "revised_at", "seconds")
    for code, opened, submitted, revised, seconds in rows(Rating.objects.values_list(*columns)):
        duration = (submitted - opened).total_seconds()
        if abs(duration - seconds) > 0.01:
            yield wrong(Rating, code, f"{duration:.3f} s between opening and submission", f"{seconds:.3f} s")
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
    revisions = [version["revision"] for version in versions]
    if revisions != list(range(1, len(revisions) + 1)):
        yield wrong(RatingEvent, code, f"versions 1 to {len(revisions)}", revisions)
    if any(later["at"] < earlier["at"] - APART for earlier, later in itertools.pairwise(versions)):
        yield wrong(RatingEvent, code, "versions one after another", [str(version["at"]) for version in versions])
    kinds = ["imported" if rating["imported"] else "answer", *["correction"] * (len(versions) - 1)]
    if [version["kind"] for version in versions] != kinds:
        yield wrong(RatingEvent, code, kinds, [version["kind"] for version in versions])
    compared_columns = (*SAID, "revision") if rating["imported"] else (*SAID, "revision", "submission_id")
    for name in compared_columns:
        if rating[name] != last[name]:
            yield wrong(Rating, code, f"{name} {last[name]!r}, as its last version", repr(rating[name]))
    if rating["submitted_at"] != versions[0]["at"]:
        yield wrong(Rating, code, f"submitted at {versions[0]['at']}", rating["submitted_at"])
    if rating["revised_at"] != (last["at"] if len(versions) > 1 else None):
        yield wrong(Rating, code, f"corrected at {last['at'] if len(versions) > 1 else None}", rating["revised_at"])


CHECKS = (ratings_against_their_log, times_of_ratings, drafts_beside_ratings, first_looks)
