"""Checks of assignments: how many raters an item has, who they are, and what a rater must not see twice."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet

from ratings.models import Assignment, StudyEvent
from ratings.models.answers import FIRST, SECOND
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

_PLANNED = Q(rater__imported_as="")  # imported ratings follow no plan of this site
_LIVE = Q(occasion=FIRST, released_at__isnull=True, slot__isnull=False)
_ALL = Assignment.objects.order_by()


@build_check(
    "slots of items",
    "an item has at most as many slots as the study plans ratings per item, each used by one rater",
    Assignment,
)
def check_item_slots() -> Iterator[Violation]:
    out_of_range = _ALL.filter(Q(slot__lt=1) | Q(slot__gt=F("item__study__ratings_per_item")))
    for code, slot, limit in iter_rows(out_of_range.values_list("code", "slot", "item__study__ratings_per_item")):
        yield build_violation(Assignment, code, f"a slot from 1 to {limit}", slot)
    shared = _ALL.filter(_LIVE).values("item__code", "slot").annotate(n=Count("pk")).filter(n__gt=1)
    for item, slot, n in iter_rows(shared.values_list("item__code", "slot", "n")):
        yield build_violation(Assignment, f"item {item}", f"slot {slot} used once", f"used {n} times")


@build_check(
    "slots of ratings",
    "a rating that counts has a slot; a surplus one, a repeat and one of a dropped rater have none",
    Assignment,
)
def check_rating_slots() -> Iterator[Violation]:
    rated = _ALL.filter(_PLANNED, rating__isnull=False)
    lacks_slot = Q(occasion=FIRST, slot__isnull=True, surplus=False, rater__dropped=False)
    for code in iter_rows(rated.filter(lacks_slot).values_list("code", flat=True)):
        yield build_violation(Assignment, code, "a slot, or to be surplus", "neither")
    with_slot = _ALL.filter(Q(surplus=True) | Q(rater__dropped=True) | Q(occasion=SECOND), slot__isnull=False)
    for code, slot in iter_rows(with_slot.values_list("code", "slot")):
        yield build_violation(Assignment, code, "no slot: it is surplus, dropped or a repeat", f"slot {slot}")
    not_settled = _ALL.filter(Q(released_at__isnull=False) | Q(reserved_until__isnull=False), rating__isnull=False)
    for code in iter_rows(not_settled.values_list("code", flat=True)):
        yield build_violation(Assignment, code, "rated: neither released nor reserved", "it is released or reserved")
    unrated = _ALL.filter(surplus=True, rating__isnull=True)
    for code in iter_rows(unrated.values_list("code", flat=True)):
        yield build_violation(Assignment, code, "surplus: a rating", "none")


@build_check(
    "repeated items of raters",
    "a rater sees an item once per occasion, one version of a transition per session, and one item per position",
    Assignment,
)
def check_repeated_items() -> Iterator[Violation]:
    yield from _find_duplicates(_ALL, "item__code", "one item", "occasion")
    yield from _find_duplicates(_ALL, "pair", "one version of a pair in a session", "occasion", "session")
    yield from _find_duplicates(_ALL, "position", "one item at a position")
    steps = _ALL.filter(_PLANNED, item__source__transition__isnull=False)
    transition = "item__source__transition__code"
    yield from _find_duplicates(steps, transition, "one version of a transition in a session", "occasion", "session")


@build_check(
    "sessions of crossovers",
    "only crossover studies have a second session; it starts after the washout, with each pair once per session, unless the "
    "version that was not shown yet was reassigned",
    Assignment,
)
def check_crossover_sessions() -> Iterator[Violation]:
    crossover = Q(rater__study__protocol__design="crossover")
    for code in iter_rows(_ALL.filter(~crossover, session=2).values_list("code", flat=True)):
        yield build_violation(Assignment, code, "session 1: its study is not a crossover", "session 2")
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
    for rater, pair, n in iter_rows(sessions.values_list("rater__code", "pair", "n")):
        yield build_violation(Assignment, f"rater {rater}", f"pair {pair} in both sessions", f"in {n}")
    # Simulated raters answer both sessions at once.
    of_people = live.filter(rater__simulated=False)
    last_answer = Max("rating__submitted_at", filter=Q(session=1))
    times = of_people.values("rater__code", "rater__study__protocol__washout_days").annotate(
        ended=last_answer, began=Min("opened_at", filter=Q(session=2))
    )
    columns = ("rater__code", "rater__study__protocol__washout_days", "ended", "began")
    for rater, days, ended, began in iter_rows(times.exclude(began=None).values_list(*columns)):
        if ended is None or began < ended + timedelta(days=days):
            yield build_violation(
                Assignment, f"rater {rater}", f"{days} days between the sessions", f"{ended} and {began}"
            )


@build_check(
    "studies of assignments",
    "the item and the rater of an assignment are of the same study, and its pair is that of the item",
    Assignment,
)
def check_assignment_studies() -> Iterator[Violation]:
    different = _ALL.exclude(item__study=F("rater__study"))
    for code, item, rater in iter_rows(different.values_list("code", "item__study__slug", "rater__study__slug")):
        yield build_violation(Assignment, code, f"an item of {rater}", f"one of {item}")
    wrong_pairs = _ALL.filter(_PLANNED).exclude(pair=F("item__source__pair"))
    for code, pair, source in iter_rows(wrong_pairs.values_list("code", "pair", "item__source__pair")):
        yield build_violation(Assignment, code, f"pair {source}", f"pair {pair}")


@build_check(
    "assignments of withdrawn raters",
    "withdrawn raters have nothing left to rate, and every repeat has a first occasion",
    Assignment,
)
def check_remaining_assignments() -> Iterator[Violation]:
    of_withdrawn = _ALL.filter(rater__withdrawn_at__isnull=False, rating__isnull=True, released_at__isnull=True)
    for code, label in iter_rows(of_withdrawn.values_list("code", "rater__label")):
        yield build_violation(Assignment, code, f"released: {label} has withdrawn", "still to be rated")
    first_occasion = Assignment.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), occasion=FIRST)
    repeats = _ALL.filter(~Exists(first_occasion), occasion=SECOND)
    for code in iter_rows(repeats.values_list("code", flat=True)):
        yield build_violation(Assignment, code, "a first occasion of the same item and rater", "none")


def _find_duplicates(
    assignments: "QuerySet[Assignment]", name: str, expected: str, *within: str
) -> Iterator[Violation]:
    columns = ("rater__code", name, *within)
    duplicates = assignments.values(*columns).annotate(n=Count("pk")).filter(n__gt=1)
    for rater, value, *_, n in iter_rows(duplicates.values_list(*columns, "n")):
        yield build_violation(Assignment, f"rater {rater}", f"{expected}: {value}", f"{n} assignments")


CHECKS = (
    check_item_slots,
    check_rating_slots,
    check_repeated_items,
    check_crossover_sessions,
    check_assignment_studies,
    check_remaining_assignments,
)
