"""Assignments: how many rate an item, who they are, and what nobody may meet twice."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet

from ratings.models import Assignment, StudyEvent
from ratings.models.answers import FIRST, SECOND
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_PLANNED = Q(rater__imported_as="")  # what was rated elsewhere was planned by nobody here
_LIVE = Q(occasion=FIRST, released_at__isnull=True, slot__isnull=False)
_EVERY = Assignment.objects.order_by()


@check("slots of items", "an item has as many places as ratings are wanted of it, each held by one rater", Assignment)
def slots_of_items() -> Iterator[Wrong]:
    beyond = _EVERY.filter(Q(slot__lt=1) | Q(slot__gt=F("item__study__ratings_per_item")))
    for code, slot, most in rows(beyond.values_list("code", "slot", "item__study__ratings_per_item")):
        yield wrong(Assignment, code, f"a slot from 1 to {most}", slot)
    shared = _EVERY.filter(_LIVE).values("item__code", "slot").annotate(n=Count("pk")).filter(n__gt=1)
    for item, slot, n in rows(shared.values_list("item__code", "slot", "n")):
        yield wrong(Assignment, f"item {item}", f"slot {slot} held once", f"held {n} times")


@check(
    "slots of ratings",
    "a rating that counts holds a slot; one that came too late, or whose rater's are dropped, holds none",
    Assignment,
)
def slots_of_ratings() -> Iterator[Wrong]:
    rated = _EVERY.filter(_PLANNED, rating__isnull=False)
    none = Q(occasion=FIRST, slot__isnull=True, surplus=False, rater__dropped=False)
    for code in rows(rated.filter(none).values_list("code", flat=True)):
        yield wrong(Assignment, code, "a slot, or to be surplus", "neither")
    held = _EVERY.filter(Q(surplus=True) | Q(rater__dropped=True) | Q(occasion=SECOND), slot__isnull=False)
    for code, slot in rows(held.values_list("code", "slot")):
        yield wrong(Assignment, code, "no slot: it is surplus, dropped or a repeat", f"slot {slot}")
    taken = _EVERY.filter(Q(released_at__isnull=False) | Q(lease_until__isnull=False), rating__isnull=False)
    for code in rows(taken.values_list("code", flat=True)):
        yield wrong(Assignment, code, "rated: neither released nor leased", "it is")
    empty = _EVERY.filter(surplus=True, rating__isnull=True)
    for code in rows(empty.values_list("code", flat=True)):
        yield wrong(Assignment, code, "surplus: a rating", "none")


@check(
    "repeated items of raters",
    "a rater meets an item once on each occasion, one version of a thing alone, and one item at each place",
    Assignment,
)
def meetings() -> Iterator[Wrong]:
    yield from _more_than_once(_EVERY, "item__code", "one item", "occasion")
    yield from _more_than_once(_EVERY, "pair", "one version of a pair in a session", "occasion", "session")
    yield from _more_than_once(_EVERY, "position", "one item at a place")
    steps = _EVERY.filter(_PLANNED, item__source__transition__isnull=False)
    transition = "item__source__transition__code"
    yield from _more_than_once(steps, transition, "one version of a transition in a session", "occasion", "session")


@check(
    "sessions of crossovers",
    "only a crossover has a second session; its answers come after the washout, each pair once in each session, unless the "
    "version that was not shown yet was taken back",
    Assignment,
)
def sessions_of_crossovers() -> Iterator[Wrong]:
    crossover = Q(rater__study__protocol__design="crossover")
    for code in rows(_EVERY.filter(~crossover, session=2).values_list("code", flat=True)):
        yield wrong(Assignment, code, "session 1: its study is no crossover", "session 2")
    live = _EVERY.filter(crossover, released_at__isnull=True)
    may_miss = StudyEvent.objects.filter(kind="taken back").values("study")
    sessions = (
        live.values("rater__code", "rater__study", "pair")
        .annotate(n=Count("session", distinct=True), shown=Max("opened_at"))
        .filter(rater__withdrawn_at=None)
        .exclude(n=2)
        .exclude(n=1, shown__isnull=False, rater__study__in=may_miss)
    )
    for rater, pair, n in rows(sessions.values_list("rater__code", "pair", "n")):
        yield wrong(Assignment, f"rater {rater}", f"pair {pair} in both sessions", f"in {n}")
    people = live.filter(rater__simulated=False)
    first = Max("rating__submitted_at", filter=Q(session=1))
    times = people.values("rater__code", "rater__study__protocol__washout_days").annotate(
        ended=first, began=Min("opened_at", filter=Q(session=2))
    )
    columns = ("rater__code", "rater__study__protocol__washout_days", "ended", "began")
    for rater, days, ended, began in rows(times.exclude(began=None).values_list(*columns)):
        if ended is None or began < ended + timedelta(days=days):
            yield wrong(Assignment, f"rater {rater}", f"{days} days between the sessions", f"{ended} and {began}")


@check(
    "studies of assignments",
    "an assignment is of an item and a rater of one study, under the pair of its item",
    Assignment,
)
def studies_of_assignments() -> Iterator[Wrong]:
    apart = _EVERY.exclude(item__study=F("rater__study"))
    for code, item, rater in rows(apart.values_list("code", "item__study__slug", "rater__study__slug")):
        yield wrong(Assignment, code, f"an item of {rater}", f"one of {item}")
    pairs = _EVERY.filter(_PLANNED).exclude(pair=F("item__source__pair"))
    for code, pair, source in rows(pairs.values_list("code", "pair", "item__source__pair")):
        yield wrong(Assignment, code, f"pair {source}", f"pair {pair}")


@check(
    "assignments of withdrawn raters",
    "who has withdrawn has nothing left to rate, and a repeat follows a first occasion",
    Assignment,
)
def what_is_left() -> Iterator[Wrong]:
    gone = _EVERY.filter(rater__withdrawn_at__isnull=False, rating__isnull=True, released_at__isnull=True)
    for code, label in rows(gone.values_list("code", "rater__label")):
        yield wrong(Assignment, code, f"taken back: {label} has withdrawn", "still to be rated")
    first = Assignment.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), occasion=FIRST)
    alone = _EVERY.filter(~Exists(first), occasion=SECOND)
    for code in rows(alone.values_list("code", flat=True)):
        yield wrong(Assignment, code, "a first occasion of the same item and rater", "none")


def _more_than_once(places: "QuerySet[Assignment]", name: str, expected: str, *within: str) -> Iterator[Wrong]:
    what = ("rater__code", name, *within)
    twice = places.values(*what).annotate(n=Count("pk")).filter(n__gt=1)
    for rater, value, *_, n in rows(twice.values_list(*what, "n")):
        yield wrong(Assignment, f"rater {rater}", f"{expected}: {value}", f"{n} assignments")


CHECKS = (slots_of_items, slots_of_ratings, meetings, sessions_of_crossovers, studies_of_assignments, what_is_left)
