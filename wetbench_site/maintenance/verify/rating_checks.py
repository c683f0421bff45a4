"""Rules that answers and assignments must meet in every database."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet

from ratings.models import (
    Assignment,
    InitialRating,
    Rater,
    Rating,
    RatingEvent,
    RenderedItem,
    StudyEvent,
    UnsavedAnswer,
)
from ratings.models.answers import FIRST, SECOND
from ratings.protocol import Arm
from ratings.studies import rendered_items
from ratings.studies.item_counts import ITEM_COUNTS, count_items
from ratings.studies.rendered_items import Screen
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows, report_rows

ANSWER_COLUMNS = ("verdict", "confidence", "cannot_judge", "marks", "note")
MAX_RENDERED = 1000  # items that are rendered again: each takes 2 ms
CLOCK_TOLERANCE = timedelta(minutes=1)  # difference allowed between the clocks of two hosts
_RATING_COLUMNS = (
    "assignment_id", "assignment__code", "revision", "submission_id", "imported", "submitted_at", "revised_at",
)  # fmt: skip
_EVENT_COLUMNS = ("assignment_id", "assignment__code", "revision", "submission_id", "kind", "at")
Versions = list[dict[str, Any]]


@build_check("ratings and their log", Rating)
def check_rating_logs() -> Iterator[Violation]:
    """Each rating equals its last version in the log, and has the times of its first and last version."""
    # Both queries are sorted by assignment and read side by side: neither table has to fit into memory.
    events = RatingEvent.objects.order_by("assignment_id", "revision").values(*_EVENT_COLUMNS, *ANSWER_COLUMNS)
    by_assignment = itertools.groupby(iter_rows(events), lambda event: event["assignment_id"])
    log = (list(group) for _, group in by_assignment)
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


@build_check("unsaved answers of rated items", UnsavedAnswer)
def check_unsaved_answers() -> Iterator[Violation]:
    """A rated assignment has no unsaved answer."""
    both = UnsavedAnswer.objects.filter(assignment__rating__isnull=False)
    found = "an unsaved answer and a rating"
    yield from report_rows(both, "no unsaved answer after the rating", found, "{assignment__code}")


@build_check("first answers", InitialRating)
def check_first_answers() -> Iterator[Violation]:
    """A first answer exists only in the confirm arm, and was given before the final one."""
    code, confirm = "{assignment__code}", Q(assignment__layout="confirm")
    others = InitialRating.objects.filter(~confirm)
    yield from report_rows(others, "layout confirm", "layout {assignment__layout}", code)
    final = "assignment__rating__submitted_at"
    late = InitialRating.objects.filter(confirm, **{f"{final}__lt": F("at") - CLOCK_TOLERANCE})
    yield from report_rows(late, f"before the rating of {{{final}}}", "{at}", code)


@build_check("times of ratings", Rating)
def check_rating_times() -> Iterator[Violation]:
    """The duration of a rating is the time from opening to submission, and no correction is before the submission."""
    columns = ("assignment__code", "opened_at", "submitted_at", "revised_at", "seconds")
    for code, opened, submitted, revised, seconds in iter_rows(Rating.objects.values_list(*columns)):
        duration = (submitted - opened).total_seconds()
        if abs(duration - seconds) > 0.01:
            yield build_violation(Rating, code, f"{duration:.3f} s between opening and submission", f"{seconds:.3f} s")
        if revised and revised < submitted - CLOCK_TOLERANCE:
            yield build_violation(Rating, code, f"a correction after {submitted}", revised)


def _report_missing_rating(versions: Versions) -> Violation:
    found = f"{len(versions)} versions and no rating"
    return build_violation(RatingEvent, versions[0]["assignment__code"], "a rating", found)


def _compare_with_log(rating: dict[str, Any], versions: Versions) -> Iterator[Violation]:
    code, first, last = rating["assignment__code"], versions[0], versions[-1]
    revisions = [version["revision"] for version in versions]
    if revisions != list(range(1, len(revisions) + 1)):
        yield build_violation(RatingEvent, code, f"versions 1 to {len(revisions)}", revisions)
    times = [version["at"] for version in versions]
    if any(later < earlier - CLOCK_TOLERANCE for earlier, later in itertools.pairwise(times)):
        yield build_violation(RatingEvent, code, "versions one after another", list(map(str, times)))
    kinds = ["imported" if rating["imported"] else "answer", *["correction"] * (len(versions) - 1)]
    if (logged := [version["kind"] for version in versions]) != kinds:
        yield build_violation(RatingEvent, code, kinds, logged)
    # An imported rating was not submitted here, so it has no submission.
    for name in (*ANSWER_COLUMNS, "revision", *([] if rating["imported"] else ["submission_id"])):
        if rating[name] != last[name]:
            yield build_violation(Rating, code, f"{name} {last[name]!r}, as its last version", repr(rating[name]))
    if rating["submitted_at"] != first["at"]:
        yield build_violation(Rating, code, f"submitted at {first['at']}", rating["submitted_at"])
    if rating["revised_at"] != (corrected_at := last["at"] if len(versions) > 1 else None):
        yield build_violation(Rating, code, f"corrected at {corrected_at}", rating["revised_at"])


ANSWER_CHECKS = (check_rating_logs, check_rating_times, check_unsaved_answers, check_first_answers)


_PLANNED = Q(rater__imported_as="")  # imported ratings follow no plan of this site
_LIVE = Q(occasion=FIRST, released_at__isnull=True, slot__isnull=False)
# Without those of an opening that was not published: it may have been interrupted at any assignment, nobody sees what it
# stored, and it is deleted with the next opening (ratings.studies.preparations).
_ALL = Assignment.objects.filter(rater__study__preparation_of=None).order_by()


@build_check("slots of items", Assignment)
def check_item_slots() -> Iterator[Violation]:
    """An item has at most as many slots as the study plans ratings per item, each used by one rater."""
    out_of_range = _ALL.filter(Q(slot__lt=1) | Q(slot__gt=F("item__study__ratings_per_item")))
    yield from report_rows(out_of_range, "a slot from 1 to {item__study__ratings_per_item}", "{slot}")
    shared = _ALL.filter(_LIVE).values("item__code", "slot").annotate(n=Count("pk")).filter(n__gt=1)
    yield from report_rows(shared, "slot {slot} used once", "used {n} times", "item {item__code}")


@build_check("slots of ratings", Assignment)
def check_rating_slots() -> Iterator[Violation]:
    """A rating that counts has a slot; a surplus one, a repeat and one of a dropped rater have none."""
    rated = _ALL.filter(_PLANNED, rating__isnull=False)
    lacks_slot = Q(occasion=FIRST, slot__isnull=True, surplus=False, rater__dropped=False)
    yield from report_rows(rated.filter(lacks_slot), "a slot, or to be surplus", "neither")
    with_slot = _ALL.filter(Q(surplus=True) | Q(rater__dropped=True) | Q(occasion=SECOND), slot__isnull=False)
    yield from report_rows(with_slot, "no slot: it is surplus, dropped or a repeat", "slot {slot}")
    not_settled = _ALL.filter(Q(released_at__isnull=False) | Q(reserved_until__isnull=False), rating__isnull=False)
    yield from report_rows(not_settled, "rated: neither released nor reserved", "it is released or reserved")
    yield from report_rows(_ALL.filter(surplus=True, rating__isnull=True), "surplus: a rating", "none")


@build_check("repeated items of raters", Assignment)
def check_repeated_items() -> Iterator[Violation]:
    """A rater sees an item once per occasion, one version of a transition per session, and one item per position."""
    yield from _find_duplicates(_ALL, "item__code", "one item", "occasion")
    yield from _find_duplicates(_ALL, "pair", "one version of a pair in a session", "occasion", "session")
    yield from _find_duplicates(_ALL, "position", "one item at a position")
    steps = _ALL.filter(_PLANNED, item__source__transition__isnull=False)
    transition = "item__source__transition__code"
    yield from _find_duplicates(steps, transition, "one version of a transition in a session", "occasion", "session")


@build_check("sessions of crossovers", Assignment)
def check_crossover_sessions() -> Iterator[Violation]:
    """Only crossover studies have a second session; it starts after the washout, with each pair once per
    session, unless the version that was not shown yet was reassigned.
    """
    crossover = Q(rater__study__protocol__design="crossover")
    second = _ALL.filter(~crossover, session=2)
    yield from report_rows(second, "session 1: its study is not a crossover", "session 2")
    live = _ALL.filter(crossover, released_at__isnull=True)
    # An item that its rater can read elsewhere is reassigned; then one version of the pair is missing.
    reassigned = StudyEvent.objects.filter(kind="taken back").values("study")
    sessions = (
        live.values("rater__code", "rater__study", "pair")
        .annotate(n=Count("session", distinct=True), shown=Max("opened_at"))
        .filter(rater__withdrawn_at=None)
        .exclude(n=2)
        .exclude(n=1, shown__isnull=False, rater__study__in=reassigned)
    )
    yield from report_rows(sessions, "pair {pair} in both sessions", "in {n}", "rater {rater__code}")
    # Simulated raters answer both sessions at once.
    of_people = live.filter(rater__simulated=False)
    last_answer = Max("rating__submitted_at", filter=Q(session=1))
    times = of_people.values("rater__code", "rater__study__protocol__washout_days").annotate(
        ended=last_answer, began=Min("opened_at", filter=Q(session=2))
    )
    columns = ("rater__code", "rater__study__protocol__washout_days", "ended", "began")
    for rater, days, ended, began in iter_rows(times.exclude(began=None).values_list(*columns)):
        if ended is None or began < ended + timedelta(days=days):
            expected = f"{days} days between the sessions"
            yield build_violation(Assignment, f"rater {rater}", expected, f"{ended} and {began}")


@build_check("studies of assignments", Assignment)
def check_assignment_studies() -> Iterator[Violation]:
    """The item and the rater of an assignment are of the same study, and its pair is that of the item."""
    different = _ALL.exclude(item__study=F("rater__study"))
    yield from report_rows(different, "an item of {rater__study__slug}", "one of {item__study__slug}")
    wrong_pairs = _ALL.filter(_PLANNED).exclude(pair=F("item__source__pair"))
    yield from report_rows(wrong_pairs, "pair {item__source__pair}", "pair {pair}")


@build_check("assignments of withdrawn raters", Assignment)
def check_remaining_assignments() -> Iterator[Violation]:
    """Withdrawn raters have nothing left to rate, and every repeat has a first occasion."""
    of_withdrawn = _ALL.filter(rater__withdrawn_at__isnull=False, rating__isnull=True, released_at__isnull=True)
    yield from report_rows(of_withdrawn, "released: {rater__label} has withdrawn", "still to be rated")
    first_occasion = Assignment.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), occasion=FIRST)
    repeats = _ALL.filter(~Exists(first_occasion), occasion=SECOND)
    yield from report_rows(repeats, "a first occasion of the same item and rater", "none")


@build_check("times of answers", Assignment)
def check_answer_times() -> Iterator[Violation]:
    """An assignment is marked as answered at the time of its rating, and only if it has one."""
    submitted_at = Q(rating__submitted_at=F("answered_at"))
    wrong = _ALL.filter(Q(rating__isnull=False) | Q(answered_at__isnull=False)).exclude(submitted_at)
    yield from report_rows(wrong, "answered at {rating__submitted_at}", "{answered_at}")


@build_check("counts of items", Rater)
def check_item_counts() -> Iterator[Violation]:
    """Each rater's counts of answered, waiting, counted and corrected items are those of the assignments and the log."""
    counts = {name: count_items(condition) for name, condition in ITEM_COUNTS.items()}
    counts["corrections"] = count_items(Q(rating_events__kind="correction"))
    raters = Rater.objects.filter(study__preparation_of=None).order_by("pk")
    raters = raters.annotate(**{f"found_{name}": count for name, count in counts.items()})
    wrong = raters.exclude(**{name: F(f"found_{name}") for name in counts})
    expected = ", ".join(f"{{found_{name}}} {name.partition('_')[0]}" for name in counts)
    yield from report_rows(wrong, expected, ", ".join(f"{{{name}}}" for name in counts))


@build_check("stored HTML of items", RenderedItem)
def check_rendered_items() -> Iterator[Violation]:
    """The stored HTML of items, of at most a thousand evenly chosen ones, is what their payloads give."""
    current = RenderedItem.objects.filter(version=rendered_items.compute_version()).select_related("item")
    step = max(1, current.count() // MAX_RENDERED)
    chosen = current.annotate(part=F("pk") % step).filter(part=0).order_by("pk")
    for row in iter_rows(chosen):
        screen = Screen(Arm(row.layout, row.with_context, row.marks), row.stage)
        if row.html != rendered_items.render_html(row.item, screen):
            yield build_violation(RenderedItem, row.item.code, f"the HTML of its payload, {row.layout}", "other HTML")


def _find_duplicates(
    assignments: "QuerySet[Assignment]", name: str, expected: str, *within: str
) -> Iterator[Violation]:
    columns = ("rater__code", name, *within)
    duplicates = assignments.values(*columns).annotate(n=Count("pk")).filter(n__gt=1)
    return report_rows(duplicates, f"{expected}: {{{name}}}", "{n} assignments", "rater {rater__code}")


ASSIGNMENT_CHECKS = (
    check_item_slots, check_rating_slots, check_repeated_items, check_crossover_sessions, check_assignment_studies,
    check_remaining_assignments, check_answer_times, check_item_counts, check_rendered_items,
)  # fmt: skip
