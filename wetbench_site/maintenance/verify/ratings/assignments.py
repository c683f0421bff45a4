"""Checks of assignments: how many raters an item has, who they are, and what a rater must not see twice."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet

from ratings.models import Assignment, StudyEvent
from ratings.models.answers import FIRST, SECOND
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_PLANNED = Q(rater__imported_as="")  # imported ratings follow no plan of this site
_LIVE = Q(occasion=FIRST, released_at__isnull=True, slot__isnull=False)
_EVERY = Assignment.objects.order_by()


@check(
    "slots of items",
    "an item has at most as many slots as the study plans ratings per item, each used by one rater",
    Assignment,
)
def slots_of_items() -> Iterator[Wrong]:
    out_of_range = _EVERY.filter(Q(slot__lt=1) | Q(slot__gt=F("item__study__ratings_per_item")))
    for code, slot, limit in rows(out_of_range.values_list("code", "slot", "item__study__ratings_per_item")):
        yield wrong(Assignment, code, f"a slot from 1 to {limit}", slot)
    shared = _EVERY.filter(_LIVE).values("item__code", "slot").annotate(n=Count("pk")).filter(n__gt=1)
    for item, slot, n in rows(shared.values_list("item__code", "slot", "n")):
        yield wrong(Assignment, f"item {item}", f"slot {slot} used once", f"used {n} times")


@check(
    "slots of ratings",
    "a rating that counts has a slot; a surplus one, a repeat and one of a dropped rater have none",
    Assignment,
)
def slots_of_ratings() -> Iterator[Wrong]:
    rated = _EVERY.filter(_PLANNED, rating__isnull=False)
    lacks_slot = Q(occasion=FIRST, slot__isnull=True, surplus=False, rater__dropped=False)
    for code in rows(rated.filter(lacks_slot).values_list("code", flat=True)):
        yield wrong(Assignment, code, "a slot, or to be surplus", "neither")
    with_slot = _EVERY.filter(Q(surplus=True) | Q(rater__dropped=True) | Q(occasion=SECOND), slot__isnull=False)
    for code, slot in rows(with_slot.values_list("code", "slot")):
        yield wrong(Assignment, code, "no slot: it is surplus, dropped or a repeat", f"slot {slot}")
    not_settled = _EVERY.filter(Q(released_at__isnull=False) | Q(lease_until__isnull=False), rating__isnull=False)
    for code in rows(not_settled.values_list("code", flat=True)):
        yield wrong(Assignment, code, "rated: neither released nor reserved", "it is released or reserved")
    unrated = _EVERY.filter(surplus=True, rating__isnull=True)
    for code in rows(unrated.values_list("code", flat=True)):
        yield wrong(Assignment, code, "surplus: a rating", "none")


@check(
    "repeated items of raters",
    "a rater sees an item once per occasion, one version of a transition per session, and one item per position",
    Assignment,
)
def meetings() -> Iterator[Wrong]:
    yield from _more_than_once(_EVERY, "item__code", "one item", "occasion")
    yield from _more_than_once(_EVERY, "pair", "one version of a pair in a session", "occasion", "session")
    yield from _more_than_once(_EVERY, "position", "one item at a position")
    steps = _EVERY.filter(_PLANNED, item__source__transition__isnull=False)
    transition = "item__source__transition__code"
    yield from _more_than_once(steps, transition, "one version of a transition in a session", "occasion", "session")


@check(
    "sessions of crossovers",
    "only crossover studies have a second session; it starts after the washout, with each pair once per session, unless the "
    "version that was not shown yet was reassigned",
    Assignment,
)
def sessions_of_crossovers() -> Iterator[Wrong]:
    crossover = Q(rater__study__protocol__design="crossover")
    for code in rows(_EVERY.filter(~crossover, session=2).values_list("code", flat=True)):
        yield wrong(Assignment, code, "session 1: its study is no crossover", "session 2")
    live = _EVERY.filter(crossover, released_at__isnull=True)
    # Items that raters can read elsewhere are taken from them; then one version of the pair is missing.
    reassigned = StudyEvent.objects.filter(kind="taken back").values("study")
    sessions = (
        live.values("rater__code", "rater__study", "pair")
        .annotate(n=Count("session", distinct=True), shown=Max("opened_at"))
        .filter(rater__withdrawn_at=None)
        .exclude(n=2)
        .exclude(n=1, shown__isnull=False, rater__study__in=reassigned)
    )
    for rater, pair, n in rows(sessions.values_list("rater__code", "pair", "n")):
        yield wrong(Assignment, f"rater {rater}", f"pair {pair} in both sessions", f"in {n}")
    # Simulated raters answer both sessions at once.
    of_people = live.filter(rater__simulated=False)
    last_answer = Max("rating__submitted_at", filter=Q(session=1))
    times = of_people.values("rater__code", "rater__study__protocol__washout_days").annotate(
        ended=last_answer, began=Min("opened_at", filter=Q(session=2))
    )
    columns = ("rater__code", "rater__study__protocol__washout_days", "ended", "began")
    for rater, days, ended, began in rows(times.exclude(began=None).values_list(*columns)):
        if ended is None or began < ended + timedelta(days=days):
            yield wrong(Assignment, f"rater {rater}", f"{days} days between the sessions", f"{ended} and {began}")


@check(
    "studies of assignments",
    "the item and the rater of an assignment are of the same study, and its pair is that of the item",
    Assignment,
)
def studies_of_assignments() -> Iterator[Wrong]:
    different = _EVERY.exclude(item__study=F("rater__study"))
    for code, item, rater in rows(different.values_list("code", "item__study__slug", "rater__study__slug")):
        yield wrong(Assignment, code, f"an item of {rater}", f"one of {item}")
    wrong_pairs = _EVERY.filter(_PLANNED).exclude(pair=F("item__source__pair"))
    for code, pair, source in rows(wrong_pairs.values_list("code", "pair", "item__source__pair")):
        yield wrong(Assignment, code, f"pair {source}", f"pair {pair}")


@check(
    "assignments of withdrawn raters",
    "withdrawn raters have nothing left to rate, and every repeat has a first occasion",
    Assignment,
)
def what_is_left() -> Iterator[Wrong]:
    of_withdrawn = _EVERY.filter(rater__withdrawn_at__isnull=False, rating__isnull=True, released_at__isnull=True)
    for code, label in rows(of_withdrawn.values_list("code", "rater__label")):
        yield wrong(Assignment, code, f"released: {label} has withdrawn", "still to be rated")
    first_occasion = Assignment.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), occasion=FIRST)
    repeats = _EVERY.filter(~Exists(first_occasion), occasion=SECOND)
    for code in rows(repeats.values_list("code", flat=True)):
        yield wrong(Assignment, code, "a first occasion of the same item and rater", "none")


def _more_than_once(places: "QuerySet[Assignment]", name: str, expected: str, *within: str) -> Iterator[Wrong]:
    columns = ("rater__code", name, *within)
    duplicates = places.values(*columns).annotate(n=Count("pk")).filter(n__gt=1)
    for rater, value, *_, n in rows(duplicates.values_list(*columns, "n")):
        yield wrong(Assignment, f"rater {rater}", f"{expected}: {value}", f"{n} assignments")


CHECKS = (slots_of_items, slots_of_ratings, meetings, sessions_of_crossovers, studies_of_assignments, what_is_left)
