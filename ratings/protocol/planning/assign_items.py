"""The complete plan of a study: who rates what, in which order and display arm, and which items are repeated."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ratings.protocol.planning.arms import arm_of_rater, assign_arms_by_item
from ratings.protocol.planning.balance_loads import count_raters_needed, distribute_items
from ratings.protocol.planning.item_order import order_items
from ratings.protocol.planning.plan_types import (
    FIRST,
    Arm,
    AssignmentMatrix,
    MatrixRow,
    PlanError,
    PlannedAssignment,
    PlannedItem,
    Source,
)


def plan_assignments(
    items: Sequence[PlannedItem],
    raters: int,
    seed: int,
    *,
    design: str = "balanced",
    arms: Sequence[Arm] = (Arm(),),
    by: str = "rater",
    repeats: float = 0.0,
    distance: int = 10,
    max_items: int | None = None,
    first_number: int = 1,
) -> list[PlannedAssignment]:
    """Return the planned assignments. Each item gets exactly `needed` raters, and no rater gets two versions of a
    pair.

    The numbers of items per rater differ by at most one. In a crossed design every rater rates every item. In a pool
    design the plan is empty, because raters claim items later. `max_items` is the maximum per rater, `first_number`
    the number of the first rater. Raises PlanError, with a number that would work, if the plan is impossible.
    """
    _check_feasible(items, raters, design, max_items)
    if design == "pool":
        return []
    # A generator of its own, seeded with text: adding a draw elsewhere must not change this plan.
    rng = random.Random(f"assign/{seed}")
    items_by_rater: dict[int, list[PlannedItem]] = {rater: [] for rater in range(raters)}
    slots: dict[tuple[int, str], int] = {}
    next_slot: Counter[str] = Counter()
    for item, rater in distribute_items(items, raters, rng):
        items_by_rater[rater].append(item)
        next_slot[item.key] += 1
        # A slot is the number of an item's rating; the database allows one live assignment per slot.
        slots[rater, item.key] = next_slot[item.key]
    arms_by_item = _assign_arms(items_by_rater, arms, by, seed, first_number, rng)
    places = []
    for rater, items_of_rater in items_by_rater.items():
        for position, (key, occasion) in enumerate(
            order_items((), items_of_rater, (), repeats, distance, rng), start=1
        ):
            # A repeat never counts as one of the item's ratings.
            slot = slots[rater, key] if occasion == FIRST else None
            places.append(PlannedAssignment(rater, key, position, occasion, slot, *arms_by_item[rater, key]))
    _check_repeats(items_by_rater, repeats, distance)
    return places


def build_matrix(
    items: Iterable[PlannedItem], assignments: Iterable[PlannedAssignment], raters: int
) -> AssignmentMatrix:
    """Return how many items of each source each rater gets."""
    source_of_item = {item.key: item.source for item in items}
    sources = tuple(sorted(set(source_of_item.values())))
    firsts: dict[int, list[PlannedAssignment]] = defaultdict(list)
    repeats: Counter[int] = Counter()
    for assignment in assignments:
        if assignment.occasion == FIRST:
            firsts[assignment.rater].append(assignment)
        else:
            repeats[assignment.rater] += 1
    rows = tuple(
        _build_matrix_row(rater, firsts[rater], source_of_item, sources, repeats[rater]) for rater in range(raters)
    )
    return AssignmentMatrix(sources, rows, _shared_item_range(firsts, raters))


def _build_matrix_row(
    rater: int,
    assignments: Sequence[PlannedAssignment],
    source: Mapping[str, Source],
    sources: Sequence[Source],
    repeats: int,
) -> MatrixRow:
    counts = Counter(source[assignment.key] for assignment in assignments)
    arms = sorted({Arm(assignment.layout, assignment.with_context, assignment.marks) for assignment in assignments})
    return MatrixRow(rater, {name: counts[name] for name in sources}, len(assignments), repeats, tuple(arms))


def _shared_item_range(firsts: Mapping[int, Sequence[PlannedAssignment]], raters: int) -> tuple[int, int]:
    keys = [{assignment.key for assignment in firsts[rater]} for rater in range(raters)]
    shared = [len(keys[a] & keys[b]) for a in range(raters) for b in range(a)]
    return min(shared, default=0), max(shared, default=0)


def _check_feasible(items: Sequence[PlannedItem], raters: int, design: str, max_items: int | None) -> None:
    if raters < (min_raters := count_raters_needed(items)):
        raise PlanError(
            f"{_raters_are(raters)} too few: no rater may rate two versions of one item; {min_raters} would work"
        )
    needed = max((item.needed for item in items), default=0)
    if design == "crossed" and raters != needed:
        s, verb = ("", "makes") if raters == 1 else ("s", "make")
        raise PlanError(
            f"crossed: every rater rates every item, so {raters} rater{s} {verb} {raters} rating{s} per item"
        )
    total = sum(item.needed for item in items)
    if max_items is not None and total > max_items * raters:
        sufficient = -(-total // max_items)  # rounded up: the smallest number of raters that is enough
        raters_text = f"{raters} rater{'s' * (raters != 1)}"
        raise PlanError(
            f"{total} ratings by {raters_text} are more than {max_items} each; {sufficient} raters would work"
        )


def _raters_are(raters: int) -> str:
    return "1 rater is" if raters == 1 else f"{raters} raters are"


def _assign_arms(
    items_by_rater: Mapping[int, Sequence[PlannedItem]],
    arms: Sequence[Arm],
    by: str,
    seed: int,
    first_number: int,
    rng: random.Random,
) -> Mapping[tuple[int, str], Arm]:
    if by == "item":
        return assign_arms_by_item(items_by_rater, arms, rng)
    arm_of = {rater: arm_of_rater(arms, seed, first_number + rater) for rater in items_by_rater}
    return {(rater, item.key): arm_of[rater] for rater, items in items_by_rater.items() for item in items}


def _check_repeats(items_by_rater: Mapping[int, Sequence[PlannedItem]], repeats: float, distance: int) -> None:
    longest = max((len(own) for own in items_by_rater.values()), default=0)
    # The rater with the most items decides: without room even there, the protocol's repeats would silently be
    # missing.
    if repeats and longest and longest <= distance:
        raise PlanError(
            f"repeats {distance} items apart need raters with more than {distance} items, and no rater has more than "
            f"{longest}: choose a gap of at most {longest - 1}, fewer raters or more items"
        )
