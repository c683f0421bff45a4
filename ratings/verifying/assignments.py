"""Assignments: how many rate an item, who they are, and what nobody may meet twice."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from ratings.models import Assignment
from ratings.models.answers import FIRST, SECOND
from simulation.verifying.form import Wrong, check, rows, wrong

_PLANNED = Q(rater__imported_as="")  # what was rated elsewhere was planned by nobody here
_LIVE = Q(occasion=FIRST, released_at__isnull=True, slot__isnull=False)
_EVERY = Assignment.objects.order_by()


@check("an item has as many places as ratings are wanted of it, each held by one rater", Assignment)
def slots_of_items() -> Iterator[Wrong]:
    beyond = _EVERY.filter(Q(slot__lt=1) | Q(slot__gt=F("item__study__ratings_per_item")))
    for code, slot, most in rows(beyond.values_list("code", "slot", "item__study__ratings_per_item")):
        yield wrong(Assignment, code, f"a slot from 1 to {most}", slot)
    shared = _EVERY.filter(_LIVE).values("item__code", "slot").annotate(n=Count("pk")).filter(n__gt=1)
    for item, slot, n in rows(shared.values_list("item__code", "slot", "n")):
        yield wrong(Assignment, f"item {item}", f"slot {slot} held once", f"held {n} times")


@check(
    "a rating that counts holds a slot; one that came too late, or whose rater's are dropped, holds none", Assignment
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
    "a rater meets an item once on each occasion, one version of a thing alone, and one item at each place", Assignment
)
def meetings() -> Iterator[Wrong]:
    yield from _more_than_once(_EVERY, "item__code", "one item", by_occasion=True)
    yield from _more_than_once(_EVERY, "pair", "one version of a pair", by_occasion=True)
    yield from _more_than_once(_EVERY, "position", "one item at a place", by_occasion=False)
    steps = _EVERY.filter(_PLANNED, item__source__transition__isnull=False)
    yield from _more_than_once(steps, "item__source__transition__code", "one version of a transition", by_occasion=True)


@check("an assignment is of an item and a rater of one study, under the pair of its item", Assignment)
def studies_of_assignments() -> Iterator[Wrong]:
    apart = _EVERY.exclude(item__study=F("rater__study"))
    for code, item, rater in rows(apart.values_list("code", "item__study__slug", "rater__study__slug")):
        yield wrong(Assignment, code, f"an item of {rater}", f"one of {item}")
    pairs = _EVERY.filter(_PLANNED).exclude(pair=F("item__source__pair"))
    for code, pair, source in rows(pairs.values_list("code", "pair", "item__source__pair")):
        yield wrong(Assignment, code, f"pair {source}", f"pair {pair}")


@check("who has withdrawn has nothing left to rate, and a repeat follows a first occasion", Assignment)
def what_is_left() -> Iterator[Wrong]:
    gone = _EVERY.filter(rater__withdrawn_at__isnull=False, rating__isnull=True, released_at__isnull=True)
    for code, label in rows(gone.values_list("code", "rater__label")):
        yield wrong(Assignment, code, f"taken back: {label} has withdrawn", "still to be rated")
    first = Assignment.objects.filter(item=OuterRef("item"), rater=OuterRef("rater"), occasion=FIRST)
    alone = _EVERY.filter(~Exists(first), occasion=SECOND)
    for code in rows(alone.values_list("code", flat=True)):
        yield wrong(Assignment, code, "a first occasion of the same item and rater", "none")


def _more_than_once(places: "QuerySet[Assignment]", name: str, expected: str, *, by_occasion: bool) -> Iterator[Wrong]:
    what = ("rater__code", name, *["occasion"] * by_occasion)
    twice = places.values(*what).annotate(n=Count("pk")).filter(n__gt=1)
    for rater, value, *_, n in rows(twice.values_list(*what, "n")):
        yield wrong(Assignment, f"rater {rater}", f"{expected}: {value}", f"{n} assignments")


CHECKS = (slots_of_items, slots_of_ratings, meetings, studies_of_assignments, what_is_left)
