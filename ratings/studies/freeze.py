"""What opening a study creates: items chosen from the pool and frozen blinded, raters, and their assignments.

`plan_opening` only reads and computes, `store_opening` stores the plan in short transactions that nobody sees, and
`is_current` checks, when it is published, that the plan is still right.
"""

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from django.utils import timezone

from ratings.blinding import pair_digest, payload_digest
from ratings.blinding.item_names import name_item
from ratings.models import Assignment, Item, ItemSource, Rater, Study
from ratings.models.items import NO_CONTEXT_SHA256
from ratings.protocol import CandidateItem, PlanError, StudyProtocol, assign_items, balance_loads, draw_items
from ratings.protocol.plan_types import AssignmentMatrix, IdenticalCases, PlannedAssignment, PlannedItem
from ratings.studies import designs, pool, preparations, rendered_items
from ratings.studies.item_counts import update_item_counts
from ratings.studies.quarantine import HeldItem
from wetbench_site.database import RowBatch, build_batch, read_snapshot
from wetbench_site.text import format_count

T = TypeVar("T")
# Rows of a transaction: about 50 ms on SQLite, where everybody else waits for it.
ITEMS_AT_ONCE, ASSIGNMENTS_AT_ONCE, RENDERED_AT_ONCE = 250, 2_000, 50


class StudySize(NamedTuple):
    """How many items and raters a study got; `left_out`, `shown` and `alike` as in `pool.PoolStock`."""

    items: int
    raters: int
    left_out: int
    shown: int
    alike: IdenticalCases


class OpeningPlan(NamedTuple):
    """What opening a study creates: chosen items and assignments, whose keys are those of the candidates.

    It was made from `premises` and from rows of the laboratory, which may change before it is published.
    """

    chosen: list[CandidateItem]
    held: list[HeldItem]
    assignments: list[PlannedAssignment]
    size: StudySize
    premises: pool.Premises


# Called with the number of rows stored, of all rows (0: not known yet), and a message for people.
OnProgress = Callable[[int, int, str], None]


class OpeningPreview(NamedTuple):
    """What opening would create: items, raters, ratings planned in all, and each rater's items by source.

    In a pool study the rows of the matrix are empty: nothing is assigned before raters come. `assignments` have
    raters 0, 1, ... for R01, R02, ..., with the keys of `planned`.
    """

    items: int
    raters: int
    ratings: int
    matrix: AssignmentMatrix
    planned: tuple[PlannedItem, ...]
    assignments: tuple[PlannedAssignment, ...]
    origins: Mapping[str, Mapping[str, Any]]  # by key: the columns that its ItemSource would have
    alike: IdenticalCases


def plan_opening(study: Study, protocol: StudyProtocol, raters: int | None, report: OnProgress) -> OpeningPlan:
    """Plan the items, raters (None: as few as needed) and assignments of a draft, without writing. Raises PlanError."""
    report(0, 0, "Choosing the items")
    # One state of the database, read without a lock: others write while the items are blinded.
    with read_snapshot():
        premises, inventory = pool.read_premises(study), pool.take_inventory(protocol, study)
    report(0, 0, "Planning who rates what")
    chosen, planned = _choose_and_plan_items(inventory, protocol, study, raters)
    n_raters = _count_raters(protocol, planned, raters)
    assignments = plan_assignments(protocol, study.random_seed, planned, n_raters)
    size = StudySize(
        items=len(chosen),
        raters=n_raters,
        left_out=pool.count_left_out(inventory.left_out, protocol),
        shown=len(pool.select_shown_elsewhere(chosen, protocol.kind)),
        alike=designs.count_identical_cases(inventory.usable, protocol),
    )
    return OpeningPlan(chosen, inventory.held, assignments, size, premises)


def store_opening(study: Study, plan: OpeningPlan, preparation: Study, report: OnProgress) -> None:
    """Store items, raters and assignments for a preparation of this draft, in short transactions.

    Raises PreparationGone if the preparation was deleted.
    """
    done, total = 0, len(plan.chosen) + len(plan.assignments)
    pairs, now = derive_pairs(study, plan.chosen), timezone.now()
    items: dict[str, int] = {}
    for candidates in _slice(_shuffle_items(study, plan.chosen), ITEMS_AT_ONCE):
        batch = build_items(preparation, candidates, now)
        items |= preparations.store_rows(preparation, partial(insert_items, batch, pairs))
        report(done := done + len(candidates), total, "Storing items and assignments")
    n_waiting = Counter(assignment.rater for assignment in plan.assignments)
    waiting = [n_waiting[rater] for rater in range(plan.size.raters)]
    raters = preparations.store_rows(preparation, lambda: create_raters(preparation, len(waiting), waiting))
    places = {one.candidate.key: (items[one.candidate.key], pairs[one.candidate.pair]) for one in plan.chosen}
    for assignments in _slice(_shuffle_assignments(study, plan.assignments), ASSIGNMENTS_AT_ONCE):
        rows = build_assignments(assignments, places, raters)
        preparations.store_rows(preparation, rows.insert)
        report(done := done + len(assignments), total, "Storing items and assignments")


def is_current(plan: OpeningPlan, study: Study, protocol: StudyProtocol) -> bool:
    """Return whether the draft would still get these items. Reads little, because it runs under the study's lock."""
    return plan.premises == pool.read_premises(study) and pool.are_usable(plan.chosen, protocol)


def preview_opening(protocol: StudyProtocol, study: Study | None = None, raters: int | None = None) -> OpeningPreview:
    """Return what opening would create now, without writing. Raises PlanError if it would fail.

    With a study, this is the plan that opening it makes from the same draft and pool. Without one, items are the same and
    assignments are an example, because they depend on the salt of a study.
    """
    inventory = pool.take_inventory(protocol, study)
    chosen, planned = _choose_and_plan_items(inventory, protocol, study, raters or protocol.raters)
    n_raters = _count_raters(protocol, planned, raters or protocol.raters)
    assignments = plan_assignments(protocol, study.random_seed if study else protocol.seed, planned, n_raters)
    return OpeningPreview(
        items=len(planned),
        raters=n_raters,
        ratings=sum(plan.needed for plan in planned),
        matrix=assign_items.build_matrix(planned, assignments, n_raters),
        planned=tuple(planned),
        assignments=tuple(assignments),
        origins={one.candidate.key: one.origin for one in chosen},
        alike=designs.count_identical_cases(inventory.usable, protocol),
    )


def _choose_and_plan_items(
    inventory: pool.PoolInventory, protocol: StudyProtocol, study: Study | None, raters: int | None
) -> tuple[list[CandidateItem], list[PlannedItem]]:
    chosen = _choose_usable(inventory, protocol, raters)
    planned = _plan_items(protocol, chosen)
    if protocol.is_crossover and study:
        # Raters who come late are planned from stored rows: both plans must name the pairs in the same way.
        pairs = derive_pairs(study, chosen)
        planned = [item._replace(pair=str(pairs[item.pair])) for item in planned]
    return chosen, planned


def _choose_usable(inventory: pool.PoolInventory, protocol: StudyProtocol, raters: int | None) -> list[CandidateItem]:
    """Return the items chosen from the usable candidates. PlanError also states how many are left out, and why."""
    left_out = pool.count_left_out(inventory.left_out, protocol)
    reason = f"{format_count(left_out, 'item')} left out, because they or versions of them are in an unblinded study"
    try:
        chosen = choose_items(inventory.usable, protocol, raters)
    except PlanError as error:
        raise PlanError(f"{error}; {reason}" if left_out else str(error)) from error
    if left_out and not chosen:
        raise PlanError(f"no item remains: {reason}")
    return chosen


def choose_items(
    candidate_items: Sequence[CandidateItem], protocol: StudyProtocol, raters: int | None
) -> list[CandidateItem]:
    """Return as many items of each source as the study requests, and every item that was imported into it."""
    if protocol.is_crossover:
        return designs.choose_crossover_items(candidate_items, protocol)
    imported = [one for one in candidate_items if one.origin.get("imported_id")]
    drawable = designs.index_drawable_items(candidate_items)
    requested = {(source.cast, source.perturbation): source.count for source in protocol.sources}
    candidates = [one.candidate for one in drawable.values()]
    chosen = draw_items.choose_items(candidates, requested, protocol.seed, _max_versions(protocol, raters))
    return [drawable[candidate.key] for candidate in chosen] + imported


def plan_assignments(
    protocol: StudyProtocol, seed: int, planned: Sequence[PlannedItem], raters: int, first_rater: int = 1
) -> list[PlannedAssignment]:
    """Return the assignments that the study's document implies for these items and raters."""
    if protocol.is_crossover:
        arms = designs.map_arms(protocol)
        return draw_items.plan_sessions(planned, raters, seed, arms=arms, first_number=first_rater)
    return assign_items.plan_assignments(
        planned, raters, seed, design=protocol.design, arms=designs.list_arms_of(protocol), by=protocol.display.by,
        repeats=protocol.repeats, distance=protocol.repeat_distance, max_items=protocol.items_per_rater,
        first_number=first_rater,
    )  # fmt: skip


def freeze_items(study: Study, chosen: Sequence[CandidateItem]) -> None:
    """Create these items and their sources in a running study, in the caller's transaction."""
    insert_items(build_items(study, _shuffle_items(study, chosen), timezone.now()), derive_pairs(study, chosen))


def _shuffle_items(study: Study, chosen: Sequence[CandidateItem]) -> list[CandidateItem]:
    # Together with the one time of all items: no id or time reveals what belongs together.
    shuffled = list(chosen)
    random.Random(f"freeze/{study.random_seed}/{len(shuffled)}").shuffle(shuffled)
    return shuffled


def derive_pairs(study: Study, chosen: Sequence[CandidateItem]) -> dict[str, uuid.UUID]:
    """Return the code of each pair of these candidates."""
    # Derived, so that versions added later get the same code; from the study's code, so that it means nothing elsewhere.
    pairs = {f.candidate.pair: uuid.uuid5(study.code, f.candidate.pair) for f in chosen}
    # Studies of earlier releases have random codes; versions that are added to them must get the same.
    pairs_by_step = dict(ItemSource.objects.filter(item__study=study).values_list("transition_id", "pair"))
    steps = ((f.candidate.pair, f.origin.get("transition_id")) for f in chosen)
    return pairs | {pair: pairs_by_step[step] for pair, step in steps if step and step in pairs_by_step}


class ItemBatch(NamedTuple):
    """Items as rows that are ready to be inserted, with the candidates and codes in the same order."""

    candidates: Sequence[CandidateItem]
    codes: list[uuid.UUID]
    rows: RowBatch


def build_items(study: Study, candidates: Sequence[CandidateItem], now: datetime) -> ItemBatch:
    """Return these candidates as rows of this study. All that takes long is done here, before any transaction."""
    codes = [uuid.uuid4() for _ in candidates]
    columns = (
        "code", "study_id", "payload", "name", "payload_sha256", "pair_sha256", "context", "context_sha256", "screen", "created_at"
    )  # fmt: skip
    rows = [
        (
            code, study.pk, f.payload, name_item(f.payload), f.candidate.content, _digest_pair(f), f.context,
            payload_digest(f.context) if f.context else NO_CONTEXT_SHA256, f.screen, now,
        )
        for code, f in zip(codes, candidates, strict=True)
    ]  # fmt: skip
    return ItemBatch(candidates, codes, build_batch(Item, columns, rows))


def _digest_pair(found: CandidateItem) -> str:
    # The pair of a candidate from the pool is this digest; a file names its pairs itself.
    return pair_digest(found.payload) if found.origin.get("imported_id") else found.candidate.pair


def insert_items(batch: ItemBatch, pairs: Mapping[str, uuid.UUID]) -> dict[str, int]:
    """Insert the items and their sources in the caller's transaction. Return the primary keys by candidate key."""
    batch.rows.insert()
    keys = dict(Item.objects.filter(code__in=batch.codes).values_list("code", "pk"))
    items = [keys[code] for code in batch.codes]
    origins = ("truth", "reference", "target", "verdicts", "transition_id", "twin_id", "review_id", "imported_id")
    empty = {name: ItemSource._meta.get_field(name.removesuffix("_id")).get_default() for name in origins}  # type: ignore[union-attr]
    rows = [
        (
            item, pairs[f.candidate.pair], *f.candidate.source, f.candidate.experiment, f.candidate.action,
            *({**empty, **f.origin}[name] for name in origins),
        )
        for item, f in zip(items, batch.candidates, strict=True)
    ]  # fmt: skip
    columns = ("item_id", "pair", "label", "perturbation", "experiment", "action", *origins)
    build_batch(ItemSource, columns, rows).insert()
    return {f.candidate.key: item for item, f in zip(items, batch.candidates, strict=True)}


def render_items(study: Study, report: OnProgress = lambda done, of, message: None) -> None:
    """Store the HTML of the study's items in every display arm, where it is missing.

    Outside any transaction, because an item takes some milliseconds in each arm. What is still missing when a rater opens
    the item is rendered then.
    """
    arms = designs.list_arms_of(designs.load_study_protocol(study))
    unrendered = rendered_items.list_unrendered(study, arms)
    for start, keys in enumerate(_slice(unrendered, RENDERED_AT_ONCE)):
        report(start * RENDERED_AT_ONCE, len(unrendered), "Rendering the items")
        rendered = list(rendered_items.render_items(Item.objects.filter(pk__in=keys), arms))
        rendered_items.store_rendered_items(rendered)


def create_raters(study: Study, n: int, waiting: Sequence[int] = ()) -> list[Rater]:
    """Create n open rater places, numbered after the study's last rater. `waiting` are the numbers of their items."""
    last = max(study.raters.values_list("number", flat=True), default=0)
    counts = [*waiting, *[0] * (n - len(waiting))]
    rows = (
        Rater(study=study, number=number, label=f"R{number:02}", waiting_items=count)
        for number, count in enumerate(counts, start=last + 1)
    )
    return Rater.objects.bulk_create(rows)


def create_assignments(study: Study, assignments: Sequence[PlannedAssignment], raters: Sequence[Rater]) -> None:
    """Store planned assignments, whose keys are the primary keys of items, in the caller's transaction."""
    sources = ItemSource.objects.filter(item__study=study).values_list("item_id", "pair")
    places = {str(item): (item, pair) for item, pair in sources}
    build_assignments(_shuffle_assignments(study, assignments), places, raters).insert()
    update_item_counts(Rater.objects.filter(pk__in=[rater.pk for rater in raters]))


def _shuffle_assignments(study: Study, assignments: Sequence[PlannedAssignment]) -> list[PlannedAssignment]:
    # So that no primary key reveals an order.
    shuffled = list(assignments)
    random.Random(f"assignments/{study.random_seed}").shuffle(shuffled)
    return shuffled


def build_assignments(
    assignments: Sequence[PlannedAssignment], places: Mapping[str, tuple[int, uuid.UUID]], raters: Sequence[Rater]
) -> RowBatch:
    """Return planned assignments as rows. `places` gives the primary key and the pair of the item of each key."""
    planned = ("position", "occasion", "session", "slot", "layout", "with_context", "marks")
    read_planned = attrgetter(*planned)
    rows = [(uuid.uuid4(), raters[one.rater].pk, *places[one.key], *read_planned(one)) for one in assignments]
    return build_batch(Assignment, ("code", "rater_id", "item_id", "pair", *planned), rows)


def _slice(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _plan_items(protocol: StudyProtocol, chosen: Sequence[CandidateItem]) -> list[PlannedItem]:
    condition = designs.map_conditions(protocol, chosen) if protocol.is_crossover else {}
    candidates, needed = (found.candidate for found in chosen), protocol.ratings_per_item
    return [PlannedItem(c.key, c.source, c.pair, needed, condition.get(c.key, 0)) for c in candidates]


def _max_versions(protocol: StudyProtocol, raters: int | None) -> int | None:
    """Return how many versions of one thing can be rated, all by different raters; None: no limit."""
    ratings_per_item = protocol.ratings_per_item
    # Every rater rates every item, and nobody may see two versions of one thing.
    if protocol.design == "crossed":
        return 1
    if raters and raters < ratings_per_item:
        are = "is" if raters == 1 else "are"
        raise PlanError(
            f"{format_count(raters, 'rater')} {are} too few for {ratings_per_item} ratings per item; {ratings_per_item} would work"
        )
    return raters // ratings_per_item if raters else None


def _count_raters(protocol: StudyProtocol, planned: Sequence[PlannedItem], raters: int | None) -> int:
    if raters:
        return raters
    ratings_per_item, max_items = protocol.ratings_per_item, protocol.items_per_rater
    if protocol.is_crossover:
        return ratings_per_item
    if max_items and protocol.design != "crossed":
        # Rounded up: with at most this many items each, fewer raters could not give all ratings.
        ratings_per_item = max(ratings_per_item, -(-ratings_per_item * len(planned) // max_items))
    return max(balance_loads.count_raters_needed(planned), ratings_per_item)
