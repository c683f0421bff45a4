"""Reassign planned work while a study runs. An item that was shown remains with its rater.

All of this runs in a transaction that has locked the study's row. Rows are locked before they are moved, so it waits
for a rater who is opening an item; items that have been opened are not moved.
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
from ratings.protocol.planning import PlannedItem, Workload
from ratings.studies import designs
from ratings.studies.assignments import readable_elsewhere

PARKED_POSITION = (
    1_000_000  # beyond every position in use: rows are parked here while they are reordered, new ones behind them
)
LIVE = Q(occasion=FIRST, slot__isnull=False, released_at__isnull=True)
UNSEEN = Q(opened_at__isnull=True, released_at__isnull=True, rating__isnull=True)


class Reassignment(NamedTuple):
    """How many ratings were assigned, and how many were not, because no rater may give them: they wait for another
    rater.
    """

    assigned: int
    unassigned: int


def list_eligible_raters(study: Study) -> list[Rater]:
    """Return the raters who can get more items: those who have not left or finished and were not imported from a
    file.

    Simulated raters are returned only if there are no others.
    """
    raters = study.raters.filter(withdrawn_at__isnull=True, finished_at__isnull=True, imported_as="")
    # Simulated raters only if there is nobody else: a study with people must not have its ratings completed by
    # rules.
    real_raters = [rater for rater in raters if not rater.simulated]
    return real_raters or list(raters)


def assign_free_slots(study: Study, raters: Sequence[Rater]) -> Reassignment:
    """Assign the planned ratings that have no rater to those of these raters who may give them."""
    slots_by_item = find_free_slots(study)
    if designs.is_crossover(study):
        # A case is rated in full, one version in each session, so free slots of a crossover wait for a new rater
        # who gets both.
        return Reassignment(0, sum(map(len, slots_by_item.values())))
    needs = [item._replace(needed=len(slots_by_item[item.key])) for item in _load_planned_items(study, slots_by_item)]
    n_wanted = sum(item.needed for item in needs)
    # Seeded by what is different at each reassignment, so that the result is reproducible from the stored study.
    rng = random.Random(f"deal/{study.random_seed}/{n_wanted}/{len(raters)}/{study.events.count()}")
    new_assignments = planning.distribute_more(needs, _build_workloads(study, raters), _find_raters_by_item(study), rng)
    _create_assignments(study, [(item, rater, slots_by_item[item.key].pop(0)) for item, rater in new_assignments], rng)
    return Reassignment(len(new_assignments), n_wanted - len(new_assignments))


def even_out_workload(study: Study, newcomers: Sequence[Rater]) -> int:
    """Move unseen items of other raters to newcomers until all have about the same number left. Return how many were
    moved.
    """
    other_raters = study.raters.filter(withdrawn_at__isnull=True, imported_as="")
    # Locked in the order of keys, as everywhere: two requests cannot wait for each other.
    rows = Assignment.objects.select_for_update(of=("self",)).filter(UNSEEN, occasion=FIRST, rater__in=other_raters)
    rows_by_key = {(row.rater_id, str(row.item_id)): row for row in rows.order_by("pk")}
    items = {item.key: item for item in _load_planned_items(study, {key for _, key in rows_by_key})}
    waiting: dict[int, list[PlannedItem]] = defaultdict(list)
    for rater_id, key in rows_by_key:
        waiting[rater_id].append(items[key])
    rng = random.Random(f"even/{study.random_seed}/{len(other_raters)}")
    hands = _build_workloads(study, list(other_raters))
    moves = planning.move_to_newcomers(
        [rater.pk for rater in newcomers], hands, waiting, _find_raters_by_item(study), rng
    )
    moved_rows = [rows_by_key[move.giver, move.item.key] for move in moves]
    Assignment.objects.filter(pk__in=[row.pk for row in moved_rows]).delete()
    _create_assignments(
        study, [(move.item, move.taker, row.slot) for move, row in zip(moves, moved_rows, strict=True)], rng
    )
    shuffle_remaining(study, {move.giver for move in moves})
    return len(moves)


def shuffle_remaining(study: Study, rater_ids: Iterable[int]) -> None:
    """Shuffle the items that these raters have not been shown, and put them after the shown ones. Plan their repeats
    again.

    Session 1 comes before session 2.
    """
    raters = list(study.raters.filter(pk__in=set(rater_ids)))
    # Needed for repeats only, and not cheap.
    readable = readable_elsewhere.find_readable(study, raters) if designs.load_study_protocol(study).repeats else {}
    for rater in raters:
        _shuffle_remaining_of(study, rater, {str(item) for item in readable.get(rater.pk, ())})


def _shuffle_remaining_of(study: Study, rater: Rater, readable: Collection[str] = ()) -> None:
    """Shuffle the unseen items of one rater. Items in `readable`, which the rater can read elsewhere, are not
    repeated.
    """
    protocol = designs.load_study_protocol(study)
    repeats = rater.assignments.select_for_update(of=("self",)).filter(UNSEEN, occasion=SECOND)
    rater.assignments.filter(pk__in=[row.pk for row in repeats]).delete()
    rows = {row.pk: row for row in rater.assignments.select_for_update(of=("self",)).filter(UNSEEN)}
    served = list(rater.assignments.exclude(pk__in=rows).order_by("position"))
    shown_first = [str(row.item_id) for row in served if row.occasion == FIRST and row.released_at is None]
    repeated = {str(row.item_id) for row in served if row.occasion == SECOND}
    excluded = {key for key in shown_first if key in readable} - repeated
    unseen = [PlannedItem(str(row.item_id), ("", ""), "", 1) for row in rows.values()]
    sources = {item.key: item for item in _load_planned_items(study, {item.key for item in unseen})}
    rng = random.Random(f"order/{study.random_seed}/{rater.number}/{len(served)}/{len(unseen)}")
    order = planning.order_items(
        shown_first,
        [sources[item.key] for item in unseen],
        repeated,
        protocol.repeats,
        protocol.repeat_distance,
        rng,
        excluded,
    )
    session = {str(row.item_id): row.session for row in rows.values()}
    order.sort(key=lambda place: session.get(place[0], 1))  # stable, and repeats have session 1: a crossover has none
    start = max((row.position for row in served), default=0) + 1
    _set_positions(
        rater, {key: start + index for index, (key, occasion) in enumerate(order) if occasion == FIRST}, rows.values()
    )
    _create_repeats(rater, {key: start + index for index, (key, occasion) in enumerate(order) if occasion == SECOND})


def _set_positions(rater: Rater, places: Mapping[str, int], rows: Collection[Assignment]) -> None:
    # Positions are unique for a rater at every moment, so all rows are parked before the first gets its new
    # position.
    old = rater.assignments.filter(pk__in=[row.pk for row in rows], position__lt=PARKED_POSITION)
    old.update(position=F("position") + PARKED_POSITION)
    for row in rows:
        row.position = places[str(row.item_id)]
    Assignment.objects.bulk_update(rows, ["position"], batch_size=200)


def _create_repeats(rater: Rater, places: Mapping[str, int]) -> None:
    """Create the repeats, each shown in the arm of its first occasion."""
    firsts = rater.assignments.filter(occasion=FIRST, item__in=[int(key) for key in places])
    Assignment.objects.bulk_create(
        Assignment(
            rater=rater, item_id=row.item_id, pair=row.pair, occasion=SECOND, position=places[str(row.item_id)],
            layout=row.layout, with_context=row.with_context, marks=row.marks,
        )
        for row in firsts
    )  # fmt: skip


def _create_assignments(
    study: Study, places: Sequence[tuple[PlannedItem, int, int | None]], rng: random.Random
) -> None:
    """Create assignments for their new raters, at random positions among the items that these raters have not seen."""
    arms = _choose_arms(study, places, rng)
    rows = [
        Assignment(
            item_id=int(item.key), rater_id=rater, slot=slot, pair=item.pair, position=2 * PARKED_POSITION + index,
            **arms[rater, item.key]._asdict(),
        )
        for index, (item, rater, slot) in enumerate(places)
    ]  # fmt: skip
    # So that primary keys reveal no order.
    rng.shuffle(rows)
    # Before the new rows exist: afterwards nobody would be idle.
    idle_raters = find_idle_raters(study).filter(pk__in={rater for _, rater, _ in places})
    idle_raters.update(new_items_at=timezone.now())
    Assignment.objects.bulk_create(rows, batch_size=500)
    shuffle_remaining(study, {rater for _, rater, _ in places})


def _choose_arms(
    study: Study, places: Sequence[tuple[PlannedItem, int, int | None]], rng: random.Random
) -> Mapping[tuple[int, str], Arm]:
    protocol = designs.load_study_protocol(study)
    all_arms = designs.list_arms_of(protocol)
    items_by_rater: dict[int, list[PlannedItem]] = defaultdict(list)
    for item, rater, _ in places:
        items_by_rater[rater].append(item)
    if protocol.display.by == "item":
        return planning.assign_arms_by_item(items_by_rater, all_arms, rng)
    numbers = dict(study.raters.values_list("pk", "number"))
    arm_by_rater = {
        rater: planning.arm_of_rater(all_arms, study.random_seed, numbers[rater]) for rater in items_by_rater
    }
    return {(rater, item.key): arm_by_rater[rater] for rater, items in items_by_rater.items() for item in items}


def _load_planned_items(study: Study, keys: Iterable[str]) -> list[PlannedItem]:
    """Return these items with their sources and pairs, which only a plan may use."""
    rows = ItemSource.objects.filter(item__study=study, item__in=[int(key) for key in keys])
    # In the order of their content, which is the same in every database; keys are not.
    rows = rows.order_by("item__payload_sha256")
    values = rows.values_list("item_id", "label", "perturbation", "pair")
    return [PlannedItem(str(item), (label, perturbation), str(pair), 1) for item, label, perturbation, pair in values]


def find_free_slots(study: Study) -> dict[str, list[int]]:
    used_slots: dict[int, set[int]] = {item: set() for item in study.items.values_list("pk", flat=True)}
    for item, slot in Assignment.objects.filter(LIVE, item__study=study).values_list("item_id", "slot"):
        used_slots[item] |= {slot} if slot else set()
    slot_numbers = range(1, study.ratings_per_item + 1)
    free_by_item = {
        str(item): [slot for slot in slot_numbers if slot not in slots] for item, slots in used_slots.items()
    }
    return {item: slots for item, slots in free_by_item.items() if slots}


def find_idle_raters(study: Study) -> QuerySet[Rater]:
    """Return the raters, without simulated ones, who have rated all their items and not finished. They get an e-mail
    about new items.
    """
    assignments = Assignment.objects.filter(rater=OuterRef("pk"))
    to_do = assignments.filter(rating__isnull=True, released_at__isnull=True)
    raters = study.raters.filter(
        user__isnull=False, finished_at__isnull=True, withdrawn_at__isnull=True, simulated=False
    )
    return raters.filter(Exists(assignments.filter(rating__isnull=False)), ~Exists(to_do))


def count_unassigned_ratings(study: Study, missing: int) -> int:
    """Return how many of the `missing` ratings are assigned to no active rater.

    Return 0 for a pool study, where raters reserve items, and for a study that has been closed.
    """
    if not missing or study.status not in ("open", "paused") or designs.is_pool_study(study):
        return 0
    unrated = Assignment.objects.filter(LIVE, item__study=study, rating__isnull=True)
    # An assignment of a rater who has finished or left will not be rated.
    n_expected = unrated.filter(rater__finished_at__isnull=True, rater__withdrawn_at__isnull=True).count()
    return max(0, missing - n_expected)


def _find_raters_by_item(study: Study) -> dict[str, set[int]]:
    raters_by_item: dict[str, set[int]] = defaultdict(set)
    for item, rater in Assignment.objects.filter(LIVE, item__study=study).values_list("item_id", "rater_id"):
        raters_by_item[str(item)].add(rater)
    return raters_by_item


def _build_workloads(study: Study, raters: Sequence[Rater]) -> dict[int, Workload]:
    max_items = designs.load_study_protocol(study).items_per_rater
    pairs: dict[int, set[str]] = defaultdict(set)
    rows = Assignment.objects.filter(rater__in=raters, occasion=FIRST)
    for rater_id, pair in rows.values_list("rater_id", "pair"):
        pairs[rater_id].add(str(pair))
    # A pair that the rater can read elsewhere counts like one they already have: they never get a version of it.
    for rater_id, readable_pairs in readable_elsewhere.find_readable_pairs(study, raters).items():
        pairs[rater_id] |= {str(pair) for pair in readable_pairs}
    # An assignment that was released unrated counts neither as waiting nor towards the maximum.
    waiting = _count_by_rater(rows.filter(rating__isnull=True, released_at__isnull=True))
    n_counted = _count_by_rater(rows.exclude(rating__isnull=True, released_at__isnull=False))
    return {
        rater.pk: Workload(
            waiting.get(rater.pk, 0),
            None if max_items is None else max(max_items - n_counted.get(rater.pk, 0), 0),
            pairs[rater.pk],
        )
        for rater in raters
    }


def _count_by_rater(rows: QuerySet[Assignment]) -> dict[int, int]:
    return dict(rows.values_list("rater_id").annotate(n=Count("pk")))
