"""What opening a study creates: items chosen from the pool and frozen blinded, raters, and their assignments."""

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.utils import timezone

from ratings.blinding import pair_digest, payload_digest
from ratings.models import Assignment, Item, ItemSource, Rater, Study
from ratings.protocol import CandidateItem, PlanError, StudyProtocol, assign_items, balance_loads, draw_items
from ratings.protocol.plan_types import AssignmentMatrix, IdenticalCases, PlannedAssignment, PlannedItem
from ratings.studies import designs, pool, rendered_items
from ratings.studies.item_counts import update_item_counts
from wetbench_site.text import format_count


class StudySize(NamedTuple):
    """How many items and raters a study got; `left_out`, `shown` and `alike` as in `pool.PoolStock`."""

    items: int
    raters: int
    left_out: int
    shown: int
    alike: IdenticalCases


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


def freeze_study(study: Study, protocol: StudyProtocol, raters: int | None) -> StudySize:
    """Create the items, raters (None: as few as needed) and assignments of a study, in the caller's transaction."""
    inventory = pool.take_inventory(protocol, study)
    chosen = _choose_usable(inventory, protocol, raters)
    pool.record_pool_decisions(study, chosen, inventory.held)
    items = freeze_items(study, chosen)
    render_frozen_items(study, items.values())
    # From here on the plan's keys are those of items: they exist now, and assignments refer to them.
    planned = [plan._replace(key=str(items[plan.key].pk)) for plan in _plan_items(protocol, chosen)]
    n_raters = _count_raters(protocol, planned, raters)
    planned = designs.replace_pairs(planned) if protocol.is_crossover else planned
    assignments = plan_assignments(protocol, study.random_seed, planned, n_raters)
    create_assignments(study, assignments, create_raters(study, n_raters))
    left_out = pool.count_left_out(inventory.left_out, protocol)
    n_shown = len(pool.select_shown_elsewhere(chosen, protocol.kind))
    alike = designs.count_identical_cases(inventory.usable, protocol)
    return StudySize(len(items), n_raters, left_out, n_shown, alike)


def preview_opening(protocol: StudyProtocol, study: Study | None = None, raters: int | None = None) -> OpeningPreview:
    """Return what `freeze_study` would do now, without writing. Raises PlanError if it would fail."""
    inventory = pool.take_inventory(protocol, study)
    chosen = _choose_usable(inventory, protocol, raters or protocol.raters)
    planned = _plan_items(protocol, chosen)
    n_raters = _count_raters(protocol, planned, raters or protocol.raters)
    assignments = plan_assignments(protocol, protocol.seed, planned, n_raters)
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


def freeze_items(study: Study, chosen: Sequence[CandidateItem]) -> Mapping[str, Item]:
    """Create the items and their sources, and return the items by key."""
    shuffled = list(chosen)
    # One shuffled batch with one time, so that no id or time reveals what belongs together.
    random.Random(f"freeze/{study.random_seed}/{len(shuffled)}").shuffle(shuffled)
    now = timezone.now()
    rows = [
        Item(
            study=study, payload=f.payload, payload_sha256=payload_digest(f.payload), pair_sha256=pair_digest(f.payload),
            context=f.context, context_sha256=payload_digest(f.context), screen=f.screen, created_at=now,
        )
        for f in shuffled
    ]  # fmt: skip
    created = Item.objects.bulk_create(rows, batch_size=500)
    items = dict(zip([f.candidate.key for f in shuffled], created, strict=True))
    # Derived, so that versions added later get the same code; from the study's code, so that it means nothing elsewhere.
    pairs = {f.candidate.pair: uuid.uuid5(study.code, f.candidate.pair) for f in shuffled}
    # Studies of earlier releases have random codes; versions that are added to them must get the same.
    pairs_by_step = dict(ItemSource.objects.filter(item__study=study).values_list("transition_id", "pair"))
    steps = ((f.candidate.pair, f.origin.get("transition_id")) for f in shuffled)
    pairs |= {pair: pairs_by_step[step] for pair, step in steps if step and step in pairs_by_step}
    sources = []
    for f in shuffled:
        label, perturbation = f.candidate.source
        sources.append(
            ItemSource(
                item=items[f.candidate.key], pair=pairs[f.candidate.pair], label=label, perturbation=perturbation,
                experiment=f.candidate.experiment, action=f.candidate.action, **f.origin,
            )
        )  # fmt: skip
    ItemSource.objects.bulk_create(sources, batch_size=500)
    return items


def render_frozen_items(study: Study, items: Iterable[Item]) -> None:
    """Store the HTML of new items in every display arm of the study."""
    arms = designs.list_arms_of(designs.load_study_protocol(study))
    rendered_items.store_rendered_items(rendered_items.render_items(items, arms))


def create_raters(study: Study, n: int) -> list[Rater]:
    """Create n open rater places, numbered after the study's last rater."""
    last = max(study.raters.values_list("number", flat=True), default=0)
    rows = [Rater(study=study, number=number, label=f"R{number:02}") for number in range(last + 1, last + n + 1)]
    return Rater.objects.bulk_create(rows)


def create_assignments(study: Study, assignments: Sequence[PlannedAssignment], raters: Sequence[Rater]) -> None:
    """Store planned assignments, whose keys are the primary keys of items."""
    pairs = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "pair"))
    rows = [build_assignment(one, raters[one.rater], pairs[int(one.key)]) for one in assignments]
    # So that no primary key reveals an order.
    random.Random(f"assignments/{study.random_seed}").shuffle(rows)
    Assignment.objects.bulk_create(rows, batch_size=500)
    update_item_counts(Rater.objects.filter(pk__in=[rater.pk for rater in raters]))


def build_assignment(assignment: PlannedAssignment, rater: Rater, pair: uuid.UUID) -> Assignment:
    columns = ("position", "occasion", "session", "slot", "layout", "with_context", "marks")
    values = {column: getattr(assignment, column) for column in columns}
    return Assignment(item_id=int(assignment.key), rater=rater, pair=pair, **values)


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
