"""Checks of ratings and their log: a rating equals its last version, and every version is in the log."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import F, Q

from ratings.models import InitialRating, Rating, RatingEvent, UnsavedAnswer
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

ANSWER_COLUMNS = ("verdict", "confidence", "cannot_judge", "marks", "note")
CLOCK_TOLERANCE = timedelta(minutes=1)  # difference allowed between the clocks of two hosts
_RATING_COLUMNS = (
    "assignment_id",
    "assignment__code",
    "revision",
    "submission_id",
    "imported",
    "submitted_at",
    "revised_at",
)
_EVENT_COLUMNS = ("assignment_id", "assignment__code", "revision", "submission_id", "kind", "at")
Versions = list[dict[str, Any]]


@build_check(
    "ratings and their log",
    "each rating equals its last version in the log, and has the times of its first and last version",
    Rating,
)
def check_rating_logs() -> Iterator[Violation]:
    # Both queries are sorted by assignment and read side by side: neither table has to fit into memory.
    log = _group_by_assignment(
        iter_rows(RatingEvent.objects.order_by("assignment_id", "revision").values(*_EVENT_COLUMNS, *ANSWER_COLUMNS))
    )
    versions = next(log, None)
    for rating in iter_rows(Rating.objects.order_by("assignment_id").values(*_RATING_COLUMNS, *ANSWER_COLUMNS)):
        while versions and versions[0]["assignment_id"] < rating["assignment_id"]:
            yield _report_missing_rating(versions)
            versions = next(log, None)
        if versions and versions[0]["assignment_id"] == rating["assignment_id"]:
            yield from _compare_with_log(rating, versions)
            versions = next(log, None)
        else:
            yield build_violation(Rating, rating["assignment__code"], "a version of it in the log", "none")
    while versions:
        yield _report_missing_rating(versions)
        versions = next(log, None)


@build_check("unsaved answers of rated items", "a rated assignment has no unsaved answer", UnsavedAnswer)
def check_unsaved_answers() -> Iterator[Violation]:
    both = UnsavedAnswer.objects.filter(assignment__rating__isnull=False).values_list("assignment__code", flat=True)
    for code in iter_rows(both):
        yield build_violation(
            UnsavedAnswer, code, "no unsaved answer after the rating", "an unsaved answer and a rating"
        )


@build_check(
    "first answers", "a first answer exists only in the confirm arm, and was given before the final one", InitialRating
)
def check_first_answers() -> Iterator[Violation]:
    is_late = Q(assignment__rating__submitted_at__lt=F("at") - CLOCK_TOLERANCE)
    first_answers = InitialRating.objects.filter(is_late | ~Q(assignment__layout="confirm"))
    for code, layout, at, final in iter_rows(
        first_answers.values_list("assignment__code", "assignment__layout", "at", "assignment__rating__submitted_at")
    ):
        if layout != "confirm":
            yield build_violation(InitialRating, code, "layout confirm", f"layout {layout}")
        else:
            yield build_violation(InitialRating, code, f"before the rating of {final}", at)


@build_check(
    "times of ratings",
    "the duration of a rating is the time from opening to submission, and no correction is before the submission",
    Rating,
)
def check_rating_times() -> Iterator[Violation]:
    columns = ("assignment__code", "opened_at", "submitted_at", "revised_at", "seconds")
    for code, opened, submitted, revised, seconds in iter_rows(Rating.objects.values_list(*columns)):
        duration = (submitted - opened).total_seconds()
        if abs(duration - seconds) > 0.01:
            yield build_violation(Rating, code, f"{duration:.3f} s between opening and submission", f"{seconds:.3f} s")
        if revised and revised < submitted - CLOCK_TOLERANCE:
            yield build_violation(Rating, code, f"a correction after {submitted}", revised)


def _group_by_assignment(events: Iterator[dict[str, Any]]) -> Iterator[Versions]:
    versions: Versions = []
    for event in events:
        if versions and versions[0]["assignment_id"] != event["assignment_id"]:
            yield versions
            versions = []
        versions.append(event)
    if versions:
        yield versions


def _report_missing_rating(versions: Versions) -> Violation:
    return build_violation(
        RatingEvent, versions[0]["assignment__code"], "a rating", f"{len(versions)} versions and no rating"
    )


def _compare_with_log(rating: dict[str, Any], versions: Versions) -> Iterator[Violation]:
    code, last = rating["assignment__code"], versions[-1]
    revisions = [version["revision"] for version in versions]
    if revisions != list(range(1, len(revisions) + 1)):
        yield build_violation(RatingEvent, code, f"versions 1 to {len(revisions)}", revisions)
    if any(later["at"] < earlier["at"] - CLOCK_TOLERANCE for earlier, later in itertools.pairwise(versions)):
        yield build_violation(
            RatingEvent, code, "versions one after another", [str(version["at"]) for version in versions]
        )
    kinds = ["imported" if rating["imported"] else "answer", *["correction"] * (len(versions) - 1)]
    if [version["kind"] for version in versions] != kinds:
        yield build_violation(RatingEvent, code, kinds, [version["kind"] for version in versions])
    compared_columns = (
        (*ANSWER_COLUMNS, "revision") if rating["imported"] else (*ANSWER_COLUMNS, "revision", "submission_id")
    )
    for name in compared_columns:
        if rating[name] != last[name]:
            yield build_violation(Rating, code, f"{name} {last[name]!r}, as its last version", repr(rating[name]))
    if rating["submitted_at"] != versions[0]["at"]:
        yield build_violation(Rating, code, f"submitted at {versions[0]['at']}", rating["submitted_at"])
    if rating["revised_at"] != (last["at"] if len(versions) > 1 else None):
        yield build_violation(
            Rating, code, f"corrected at {last['at'] if len(versions) > 1 else None}", rating["revised_at"]
        )


CHECKS = (check_rating_logs, check_rating_times, check_unsaved_answers, check_first_answers)
