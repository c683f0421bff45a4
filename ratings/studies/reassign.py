"""Reassign planned work while a study runs. An item that was shown remains with its rater.

All of this runs in a transaction that has locked the study's row. Rows are locked before they are moved, so it waits
for a rater who is opening an item; items that have been opened are not moved.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from ratings.models import Assignment, ItemSource, Rater, Study, StudyEvent
from ratings.models.answers import FIRST, SECOND, WAITING
from ratings.models.study_events import ItemsTakenBack
from ratings.protocol import Arm, StudyProtocol, assign_items, balance_loads
from ratings.protocol.balance_loads import Workload
from ratings.protocol.plan_types import PlannedItem
from ratings.studies import designs, readable_elsewhere
from ratings.studies.item_counts import update_item_counts
from wetbench_site.database import build_batch, delete_rows, update_column

# Beyond every position in use: rows are parked here while they are reordered, new ones behind them.
PARKED_POSITION = 1_000_000
LIVE = Q(occasion=FIRST, slot__isnull=False, released_at__isnull=True)
UNSEEN = WAITING & Q(opened_at__isnull=True)


class Reassignment(NamedTuple):
    """How many ratings were assigned, and how many wait because no rater may give them."""

    assigned: int
    unassigned: int


def list_eligible_raters(study: Study) -> list[Rater]:
    """Return the raters who can get more items: those who have not left or finished and were not imported."""
    raters = study.raters.filter(withdrawn_at__isnull=True, finished_at__isnull=True, imported_as="")
    # Simulated raters only if there is nobody else: rules must not complete the ratings of people.
    real_raters = [rater for rater in raters if not rater.simulated]
    return real_raters or list(raters)


def assign_free_slots(study: Study, raters: Sequence[Rater]) -> Reassignment:
    """Assign the planned ratings that have no rater to those of these raters who may give them."""
    slots_by_item = find_free_slots(study)
    if designs.is_crossover(study):
        # A case is rated in full, one version in each session: its free slots wait for a new rater, who gets both.
        return Reassignment(0, sum(map(len, slots_by_item.values())))
    lacking = (item for item in _load_planned_items(study) if item.key in slots_by_item)
    needs = [item._replace(needed=len(slots_by_item[item.key])) for item in lacking]
    n_wanted = sum(item.needed for item in needs)
    # Seeded by what is different at each reassignment, so that the result is reproducible from the stored study.
    rng = random.Random(f"deal/{study.random_seed}/{n_wanted}/{len(raters)}/{study.events.count()}")
    hands, raters_by_item = _build_workloads(study, raters), _find_raters_by_item(study)
    new_assignments = balance_loads.distribute_more(needs, hands, raters_by_item, rng)
    _create_assignments(study, [(item, rater, slots_by_item[item.key].pop(0)) for item, rater in new_assignments], rng)
    return Reassignment(len(new_assignments), n_wanted - len(new_assignments))


def even_out_workload(study: Study, newcomers: Sequence[Rater]) -> int:
    """Move unseen items to newcomers until all have about the same number left. Return how many were moved."""
    other_raters = study.raters.filter(withdrawn_at__isnull=True, imported_as="")
    # Locked in the order of keys, as everywhere: two requests cannot wait for each other.
    rows = Assignment.objects.select_for_update(of=("self",)).filter(UNSEEN, occasion=FIRST, rater__in=other_raters)
    columns = rows.order_by("pk").values_list("rater_id", "item_id", "pk", "slot")
    rows_by_key = {(rater_id, str(item_id)): (pk, slot) for rater_id, item_id, pk, slot in columns}
    items = {item.key: item for item in _load_planned_items(study)}
    waiting: dict[int, list[PlannedItem]] = defaultdict(list)
    for rater_id, key in rows_by_key:
        waiting[rater_id].append(items[key])
    rng = random.Random(f"even/{study.random_seed}/{len(other_raters)}")
    hands = _build_workloads(study, list(other_raters))
    takers, raters_by_item = [rater.pk for rater in newcomers], _find_raters_by_item(study)
    moves = balance_loads.move_to_newcomers(takers, hands, waiting, raters_by_item, rng)
    moved = [(move, *rows_by_key[move.giver, move.item.key]) for move in moves]
    delete_rows(Assignment.objects.filter(pk__in=[pk for _, pk, _ in moved]))
    _create_assignments(study, [(move.item, move.taker, slot) for move, _, slot in moved], rng)
    shuffle_remaining(study, {move.giver for move in moves})
    return len(moves)


class _Place(NamedTuple):
    """The columns of an assignment that its rater's order depends on, and those that a repeat of its item copies."""

    pk: int
    rater_id: int
    item_id: int
    occasion: int
    session: int
    position: int
    opened_at: datetime | None
    released_at: datetime | None
    answered_at: datetime | None
    layout: str
    with_context: bool
    marks: str

    @property
    def is_unseen(self) -> bool:  # as UNSEEN
        return self.opened_at is None and self.released_at is None and self.answered_at is None


def shuffle_remaining(study: Study, rater_ids: Iterable[int]) -> None:
    """Shuffle the items that these raters have not been shown, session 1 first, and plan their repeats again."""
    raters = list(study.raters.filter(pk__in=set(rater_ids)))
    protocol = designs.load_study_protocol(study)
    # Needed for repeats only, and not cheap.
    readable = readable_elsewhere.find_readable(study, raters) if protocol.repeats else {}
    # Statements for all raters together: those for each of 95 raters took ten times as long.
    rows = Assignment.objects.select_for_update(of=("self",)).filter(rater__in=raters).order_by("pk")
    delete_rows(rows.filter(UNSEEN, occasion=SECOND))
    places: dict[int, list[_Place]] = {rater.pk: [] for rater in raters}
    for place in itertools.starmap(_Place, rows.values_list(*_Place._fields)):
        places[place.rater_id].append(place)
    items = {item.key: item for item in _load_planned_items(study)}
    positions: dict[int, int] = {}
    repeats = []
    for rater in raters:
        own_places = sorted(places[rater.pk], key=lambda place: place.position)
        own_readable = {str(item) for item in readable.get(rater.pk, ())}
        order = _order_remaining(study, protocol, rater, own_places, items, own_readable)
        positions |= {place.pk: order[place.item_id, FIRST] for place in own_places if place.is_unseen}
        # Repeats are shown in the arm of their first occasion.
        repeats += [
            (uuid4(), rater.pk, item, UUID(items[str(item)].pair), SECOND, order[item, SECOND], *place[-3:])
            for place in own_places
            if place.occasion == FIRST and ((item := place.item_id), SECOND) in order
        ]
    # Positions are unique for a rater at every moment, so all rows are parked before the first gets its new position.
    unseen = Assignment.objects.filter(UNSEEN, rater__in=raters, position__lt=PARKED_POSITION)
    unseen.update(position=F("position") + PARKED_POSITION)
    update_column(Assignment, "position", positions)
    columns = ("code", "rater_id", "item_id", "pair", "occasion", "position", "layout", "with_context", "marks")
    build_batch(Assignment, columns, repeats).insert()
    update_item_counts(Rater.objects.filter(pk__in=[rater.pk for rater in raters]))


def _order_remaining(
    study: Study,
    protocol: StudyProtocol,
    rater: Rater,
    places: Sequence[_Place],
    items: Mapping[str, PlannedItem],
    readable: Collection[str],
) -> dict[tuple[int, int], int]:
    """Return the new position of each item and occasion that follows those already served. `readable` are not repeated."""
    served = [place for place in places if not place.is_unseen]
    waiting = [place for place in places if place.is_unseen]
    shown_first = [str(place.item_id) for place in served if place.occasion == FIRST and place.released_at is None]
    repeated = {str(place.item_id) for place in served if place.occasion == SECOND}
    excluded = {key for key in shown_first if key in readable} - repeated
    to_order, distance = [items[str(place.item_id)] for place in waiting], protocol.repeat_distance
    rng = random.Random(f"order/{study.random_seed}/{rater.number}/{len(served)}/{len(waiting)}")
    order = assign_items.order_items(shown_first, to_order, repeated, protocol.repeats, distance, rng, excluded)
    session = {str(place.item_id): place.session for place in waiting}
    order.sort(key=lambda entry: session.get(entry[0], 1))  # stable, and repeats have session 1: a crossover has none
    start = max((place.position for place in served), default=0) + 1
    return {(int(key), occasion): start + index for index, (key, occasion) in enumerate(order)}


def _create_assignments(
    study: Study, places: Sequence[tuple[PlannedItem, int, int | None]], rng: random.Random
) -> None:
    """Create assignments for their new raters, at random positions among the items that these raters have not seen."""
    protocol = designs.load_study_protocol(study)
    items_by_rater: dict[int, list[PlannedItem]] = defaultdict(list)
    for item, rater, _ in places:
        items_by_rater[rater].append(item)
    numbers, all_arms = dict(study.raters.values_list("pk", "number")), designs.list_arms_of(protocol)
    arms = assign_items.assign_arms(items_by_rater, all_arms, protocol.display.by, study.random_seed, numbers, rng)
    rows = [
        (uuid4(), int(item.key), rater, slot, UUID(item.pair), 2 * PARKED_POSITION + index, *arms[rater, item.key])
        for index, (item, rater, slot) in enumerate(places)
    ]
    # So that primary keys reveal no order.
    rng.shuffle(rows)
    # Before the new rows exist: afterwards nobody would be idle.
    idle_raters = find_idle_raters(study).filter(pk__in={rater for _, rater, _ in places})
    idle_raters.update(new_items_at=timezone.now())
    columns = ("code", "item_id", "rater_id", "slot", "pair", "position", *Arm._fields)
    build_batch(Assignment, columns, rows).insert()
    shuffle_remaining(study, {rater for _, rater, _ in places})


def _load_planned_items(study: Study) -> list[PlannedItem]:
    """Return all items with their sources and pairs, which only a plan may use."""
    # In the order of their content, which is the same in every database; keys are not.
    rows = ItemSource.objects.filter(item__study=study).order_by("item__payload_sha256")
    values = rows.values_list("item_id", "label", "perturbation", "pair")
    return [PlannedItem(str(item), (label, perturbation), str(pair), 1) for item, label, perturbation, pair in values]


def find_free_slots(study: Study) -> dict[str, list[int]]:
    used_slots: dict[int, set[int]] = {item: set() for item in study.items.values_list("pk", flat=True)}
    for item, slot in Assignment.objects.filter(LIVE, item__study=study).values_list("item_id", "slot"):
        used_slots[item] |= {slot} if slot else set()
    slot_numbers = range(1, study.ratings_per_item + 1)
    free = {str(item): [slot for slot in slot_numbers if slot not in slots] for item, slots in used_slots.items()}
    return {item: slots for item, slots in free.items() if slots}


def find_idle_raters(study: Study) -> QuerySet[Rater]:
    """Return the real raters who have rated all their items and not finished; they get e-mail about new items."""
    assignments = Assignment.objects.filter(rater=OuterRef("pk"))
    to_do = assignments.filter(WAITING)
    active = study.raters.filter(finished_at__isnull=True, withdrawn_at__isnull=True)
    raters = active.filter(user__isnull=False, simulated=False)
    return raters.filter(Exists(assignments.filter(answered_at__isnull=False)), ~Exists(to_do))


def count_unassigned_ratings(study: Study, missing: int) -> int:
    """Return how many of the `missing` ratings are assigned to no active rater; 0 in pool studies and closed ones."""
    if not missing or study.status not in ("open", "paused") or designs.is_pool_study(study):
        return 0
    unrated = Assignment.objects.filter(LIVE, WAITING, item__study=study)
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
    waiting = _count_by_rater(rows.filter(WAITING))
    n_counted = _count_by_rater(rows.exclude(answered_at__isnull=True, released_at__isnull=False))
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


def lock_study(study: int) -> Study:
    """Lock the study's row, so that nobody else assigns or answers items at the same time, and return the row."""
    return Study.objects.select_for_update().get(pk=study)


def lock_study_shared(study: Study) -> None:
    """Lock the study's row for an answer in a planned design, and update the fields that may have changed."""
    # Shared: any number of answers hold it at once, and while they do nobody gets the exclusive lock. Django has no
    # FOR SHARE, hence the SQL. SQLite needs no clause: it has one writer at a time.
    clause = " FOR SHARE" if connection.features.has_select_for_update else ""
    table = connection.ops.quote_name(Study._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT status, guide_version FROM {table} WHERE id = %s{clause}", [study.pk])
        study.status, study.guide_version = cursor.fetchone()


def find_free_slot(item: int, ratings_per_item: int) -> int | None:
    """Return the lowest slot of the item that nobody has rated or is rating; None if all are taken."""
    used_slots = set(Assignment.objects.filter(LIVE, item=item).values_list("slot", flat=True))
    return next((slot for slot in range(1, ratings_per_item + 1) if slot not in used_slots), None)


class ReleasedItems(NamedTuple):
    """Released items, ratings nobody else may give, and crossover cases whose other version was shown before."""

    items: int
    left: int = 0
    incomplete: int = 0


NOTHING_RELEASED = ReleasedItems(0)


@transaction.atomic
def release_readable_items(study: Study, raters: Iterable[Rater] | None = None) -> ReleasedItems:
    """Release each item that its rater, one of `raters` or of all, can read elsewhere and was not shown, and log that.

    In planned designs the ratings are reassigned to other raters, who may hand over unseen items in exchange. Ratings
    that nobody may give wait for another rater. Does nothing in a study that does not accept ratings.
    """
    study = lock_study(study.pk)
    if study.status not in ("open", "paused"):
        return NOTHING_RELEASED
    active_raters = study.raters.filter(user__isnull=False, withdrawn_at__isnull=True, finished_at__isnull=True)
    if raters is not None:
        active_raters = active_raters.filter(pk__in=[rater.pk for rater in raters])
    checked_raters = list(active_raters)
    # For all raters at once: the number of queries does not depend on how many there are.
    readable = readable_elsewhere.find_readable(study, checked_raters)
    to_release = ((rater, readable[rater.pk]) for rater in checked_raters if rater.pk in readable)
    rows = [row for rater, items in to_release for row in _list_unshown(study, rater, items)]
    if not rows:
        return NOTHING_RELEASED
    items = {(row.rater_id, row.item_id) for row in rows}
    incomplete = _count_incomplete_cases(rows) if designs.is_crossover(study) else 0
    released = ReleasedItems(len(items), _reassign_released(study, checked_raters, rows), incomplete)
    # Without a rater's label and without the other study: either could connect the label with a name.
    StudyEvent.record_event(study, ItemsTakenBack(**released._asdict()))
    return released


def release_in_related_studies(unblinded: Study) -> None:
    """Release readable items in every running study that contains versions of the items of this unblinded study."""
    for study in readable_elsewhere.find_running_studies_sharing_items(unblinded):
        release_readable_items(study)


def release_items_of_account(user: User) -> None:
    """Release readable items in every running study in which this account is a rater."""
    raters = Rater.objects.filter(user=user, study__status__in=("open", "paused")).select_related("study")
    # In one order everywhere: each study is locked in turn, and two requests must not wait for each other.
    for rater in raters.order_by("study_id"):
        release_readable_items(rater.study, [rater])


def _list_unshown(study: Study, rater: Rater, items: Collection[int]) -> list[Assignment]:
    """Lock and return this rater's assignments of these items that were not shown."""
    rows = rater.assignments.filter(item__in=items)
    if designs.is_crossover(study):
        # Both versions of a case are released, whichever can be read: one beside the other reveals the source. If one
        # was shown, only the other is left to release.
        rows = rater.assignments.filter(pair__in=ItemSource.objects.filter(item__in=items).values("pair"))
    return list(rows.select_for_update(of=("self",)).filter(UNSEEN).order_by("pk"))


def _count_incomplete_cases(rows: Iterable[Assignment]) -> int:
    """Count the cases of which a rater was shown one version and has the other among these assignments."""
    pairs: dict[int, set[UUID]] = defaultdict(set)
    for row in rows:
        pairs[row.rater_id].add(row.pair)
    shown = Assignment.objects.filter(rater__in=pairs).exclude(UNSEEN)
    return sum(pair in pairs[rater] for rater, pair in shown.values_list("rater_id", "pair"))


def _reassign_released(study: Study, raters: Collection[Rater], rows: Collection[Assignment]) -> int:
    """Free these assignments and reassign them. Return how many ratings are left that nobody may give."""
    freed = Assignment.objects.filter(pk__in=[row.pk for row in rows])
    freed_raters = Rater.objects.filter(pk__in={row.rater_id for row in rows})
    if designs.is_pool_study(study):
        freed.update(slot=None, released_at=timezone.now())  # the row remains as a record of who had reserved it
        update_item_counts(freed_raters)
        return 0
    firsts = sum(row.occasion == FIRST for row in rows)
    # Never opened, so there is nothing to record; a deleted row also frees its slot for the assignments below.
    freed.delete()
    update_item_counts(freed_raters)
    if designs.is_crossover(study):
        return firsts  # every other rater already has a version of every pair
    former_raters = [rater for rater in raters if rater.pk in {row.rater_id for row in rows}]
    shuffle_remaining(study, [rater.pk for rater in former_raters])
    unassigned = assign_free_slots(study, list_eligible_raters(study)).unassigned
    if not designs.is_crossed(study):
        even_out_workload(study, former_raters)
    return unassigned
