"""Planned work dealt anew while a study runs: what was served stays where it is, for whom it was.

All of it happens inside a transaction that holds the study's row. A rater who is shown an item at this moment is waited
for: rows are locked before they are moved, and one that has been opened is left alone.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from ratings.models import Assignment, ItemSource, Rater, Study
from ratings.models.answers import FIRST, SECOND
from ratings.protocol import Arm, planning
from ratings.protocol.planning import Hand, Planned
from ratings.studies import designs
from ratings.studies.seats import readable_elsewhere

ASIDE = 1_000_000  # beyond every position there is: old rows wait here while they change places, new ones behind them
LIVE = Q(occasion=FIRST, slot__isnull=False, released_at__isnull=True)
UNSERVED = Q(opened_at__isnull=True, released_at__isnull=True, rating__isnull=True)


class Dealt(NamedTuple):
    """Places given to somebody, and places that nobody may have: they wait for another seat."""

    given: int
    left: int


def takers(study: Study) -> list[Rater]:
    """Who can be given more: not who has left, finished, or is known from a file; simulated raters if there is nobody else."""
    seats = study.raters.filter(withdrawn_at__isnull=True, finished_at__isnull=True, imported_as="")
    people = [seat for seat in seats if not seat.simulated]
    return people or list(seats)


def deal_free(study: Study, seats: Sequence[Rater]) -> Dealt:
    """Deal every wanted rating that nobody is to give to those of these seats who may give it.

    In a crossover all of them are left: they belong to cases that are read whole, one version in each session, so they wait
    for a seat that gets both.
    """
    free = free_slots(study)
    if designs.is_crossover(study):
        return Dealt(0, sum(map(len, free.values())))
    needs = [item._replace(needed=len(free[item.key])) for item in _items(study, free)]
    wanted = sum(item.needed for item in needs)
    rng = random.Random(f"deal/{study.draw}/{wanted}/{len(seats)}/{study.events.count()}")
    dealt = planning.deal_more(needs, _hands(study, seats), _readers(study), rng)
    _give(study, [(item, rater, free[item.key].pop(0)) for item, rater in dealt], rng)
    return Dealt(len(dealt), wanted - len(dealt))


def even_out(study: Study, newcomers: Sequence[Rater]) -> int:
    """Unserved work of the others moved to newcomers, until all have about as much left to do. How many items moved."""
    others = study.raters.filter(withdrawn_at__isnull=True, imported_as="")
    rows = Assignment.objects.select_for_update(of=("self",)).filter(UNSERVED, occasion=FIRST, rater__in=others)
    held = {(row.rater_id, str(row.item_id)): row for row in rows.order_by("pk")}
    items = {item.key: item for item in _items(study, {key for _, key in held})}
    waiting: dict[int, list[Planned]] = defaultdict(list)
    for rater, key in held:
        waiting[rater].append(items[key])
    rng = random.Random(f"even/{study.draw}/{len(others)}")
    hands = _hands(study, list(others))
    moves = planning.even_out([seat.pk for seat in newcomers], hands, waiting, _readers(study), rng)
    gone = [held[move.giver, move.item.key] for move in moves]
    Assignment.objects.filter(pk__in=[row.pk for row in gone]).delete()
    _give(study, [(move.item, move.taker, row.slot) for move, row in zip(moves, gone, strict=True)], rng)
    lay_out(study, {move.giver for move in moves})
    return len(moves)


def lay_out(study: Study, seats: Iterable[int]) -> None:
    """Put what these raters have not been served yet in a new random order behind what they have, session 1 before session 2;
    plan repeats anew."""
    chosen = list(study.raters.filter(pk__in=set(seats)))
    readable = readable_elsewhere.find_readable(study, chosen) if designs.protocol_of(study).repeats else {}
    for seat in chosen:
        _lay_out_one(study, seat, {str(item) for item in readable.get(seat.pk, ())})


def _lay_out_one(study: Study, seat: Rater, readable: Collection[str] = ()) -> None:
    """Items that the holder can read elsewhere are `readable`: none of them comes a second time."""
    protocol = designs.protocol_of(study)
    repeats = seat.assignments.select_for_update(of=("self",)).filter(UNSERVED, occasion=SECOND)
    seat.assignments.filter(pk__in=[row.pk for row in repeats]).delete()
    rows = {row.pk: row for row in seat.assignments.select_for_update(of=("self",)).filter(UNSERVED)}
    served = list(seat.assignments.exclude(pk__in=rows).order_by("position"))
    answered = [str(row.item_id) for row in served if row.occasion == FIRST and row.released_at is None]
    again = {str(row.item_id) for row in served if row.occasion == SECOND}
    never = {key for key in answered if key in readable} - again
    own = [Planned(str(row.item_id), ("", ""), "", 1) for row in rows.values()]
    sources = {item.key: item for item in _items(study, {item.key for item in own})}
    rng = random.Random(f"order/{study.draw}/{seat.number}/{len(served)}/{len(own)}")
    order = planning.lay_out(
        answered, [sources[item.key] for item in own], again, protocol.repeats, protocol.repeat_distance, rng, never
    )
    session = {str(row.item_id): row.session for row in rows.values()}
    order.sort(key=lambda place: session.get(place[0], 1))  # repeats are of session 1: a crossover has none
    start = max((row.position for row in served), default=0) + 1
    _place(seat, {key: start + at for at, (key, occasion) in enumerate(order) if occasion == FIRST}, rows.values())
    _repeat(seat, {key: start + at for at, (key, occasion) in enumerate(order) if occasion == SECOND})


def _place(seat: Rater, places: Mapping[str, int], rows: Collection[Assignment]) -> None:
    """Positions are unique at every moment: all step aside first."""
    old = seat.assignments.filter(pk__in=[row.pk for row in rows], position__lt=ASIDE)
    old.update(position=F("position") + ASIDE)
    for row in rows:
        row.position = places[str(row.item_id)]
    Assignment.objects.bulk_update(rows, ["position"], batch_size=200)


def _repeat(seat: Rater, places: Mapping[str, int]) -> None:
    """The second occasion is shown as the first was."""
    firsts = seat.assignments.filter(occasion=FIRST, item__in=[int(key) for key in places])
    Assignment.objects.bulk_create(
        Assignment(
            rater=seat, item_id=row.item_id, pair=row.pair, occasion=SECOND, position=places[str(row.item_id)],
            layout=row.layout, with_context=row.with_context, marks=row.marks,
        )
        for row in firsts
    )  # fmt: skip


def _give(study: Study, places: Sequence[tuple[Planned, int, int | None]], rng: random.Random) -> None:
    """New rows for raters who have the item from now on, in their places of a new order."""
    shown = _arms(study, places, rng)
    rows = [
        Assignment(
            item_id=int(item.key), rater_id=rater, slot=slot, pair=item.pair, position=2 * ASIDE + at,
            **shown[rater, item.key]._asdict(),
        )
        for at, (item, rater, slot) in enumerate(places)
    ]  # fmt: skip
    rng.shuffle(rows)
    idle = find_idle(study).filter(pk__in={rater for _, rater, _ in places})
    idle.update(new_items_at=timezone.now())
    Assignment.objects.bulk_create(rows, batch_size=500)
    lay_out(study, {rater for _, rater, _ in places})


def _arms(
    study: Study, places: Sequence[tuple[Planned, int, int | None]], rng: random.Random
) -> Mapping[tuple[int, str], Arm]:
    protocol = designs.protocol_of(study)
    every = designs.arms_of(protocol)
    given: dict[int, list[Planned]] = defaultdict(list)
    for item, rater, _ in places:
        given[rater].append(item)
    if protocol.display.by == "item":
        return planning.arms_by_item(given, every, rng)
    numbers = dict(study.raters.values_list("pk", "number"))
    own = {rater: planning.arm_of_seat(every, study.draw, numbers[rater]) for rater in given}
    return {(rater, item.key): own[rater] for rater, items in given.items() for item in items}


def _items(study: Study, keys: Iterable[str]) -> list[Planned]:
    """These items with what only a plan may know of them; in the order of their content, the same in every database."""
    rows = ItemSource.objects.filter(item__study=study, item__in=[int(key) for key in keys])
    rows = rows.order_by("item__payload_sha256")
    found = rows.values_list("item_id", "label", "perturbation", "pair")
    return [Planned(str(item), (label, wrong), str(pair), 1) for item, label, wrong, pair in found]


def free_slots(study: Study) -> dict[str, list[int]]:
    taken: dict[int, set[int]] = {item: set() for item in study.items.values_list("pk", flat=True)}
    for item, slot in Assignment.objects.filter(LIVE, item__study=study).values_list("item_id", "slot"):
        taken[item] |= {slot} if slot else set()
    wanted = range(1, study.ratings_per_item + 1)
    free = {str(item): [slot for slot in wanted if slot not in slots] for item, slots in taken.items()}
    return {item: slots for item, slots in free.items() if slots}


def find_idle(study: Study) -> QuerySet[Rater]:
    """Return the seats of people who have rated all they had, and have not finished: new items are news to them."""
    own = Assignment.objects.filter(rater=OuterRef("pk"))
    to_do = own.filter(rating__isnull=True, released_at__isnull=True)
    seats = study.raters.filter(
        user__isnull=False, finished_at__isnull=True, withdrawn_at__isnull=True, simulated=False
    )
    return seats.filter(Exists(own.filter(rating__isnull=False)), ~Exists(to_do))


def count_unplaced(study: Study, missing: int) -> int:
    """Return how many of the ratings that are `missing` no rater is to give; 0 in a pool, whose raters claim, and at the end.

    A place of a rater who has finished or left counts as nobody's.
    """
    if not missing or study.status not in ("open", "paused") or designs.is_pool(study):
        return 0
    waiting = Assignment.objects.filter(LIVE, item__study=study, rating__isnull=True)
    to_come = waiting.filter(rater__finished_at__isnull=True, rater__withdrawn_at__isnull=True).count()
    return max(0, missing - to_come)


def _readers(study: Study) -> dict[str, set[int]]:
    readers: dict[str, set[int]] = defaultdict(set)
    for item, rater in Assignment.objects.filter(LIVE, item__study=study).values_list("item_id", "rater_id"):
        readers[str(item)].add(rater)
    return readers


def _hands(study: Study, seats: Sequence[Rater]) -> dict[int, Hand]:
    most = designs.protocol_of(study).items_per_rater
    pairs: dict[int, set[str]] = defaultdict(set)
    rows = Assignment.objects.filter(rater__in=seats, occasion=FIRST)
    for rater, pair in rows.values_list("rater_id", "pair"):
        pairs[rater].add(str(pair))
    for rater, read in readable_elsewhere.find_readable_pairs(study, seats).items():
        pairs[rater] |= {str(pair) for pair in read}
    waiting = _counts(rows.filter(rating__isnull=True, released_at__isnull=True))
    own = _counts(rows.exclude(rating__isnull=True, released_at__isnull=False))
    return {
        seat.pk: Hand(
            waiting.get(seat.pk, 0), None if most is None else max(most - own.get(seat.pk, 0), 0), pairs[seat.pk]
        )
        for seat in seats
    }


def _counts(rows: QuerySet[Assignment]) -> dict[int, int]:
    return dict(rows.values_list("rater_id").annotate(n=Count("pk")))
