"""The complete plan of a study: who rates what, in which order and display arm, and which items are repeated."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from ratings.protocol.balance_loads import count_raters_needed, distribute_items
from ratings.protocol.plan_types import (
    FIRST,
    SECOND,
    Arm,
    AssignmentMatrix,
    MatrixRow,
    PlanError,
    PlannedAssignment,
    PlannedItem,
    Source,
)
from wetbench_site.text import format_count

TRIES = 3  # halves the imbalance; 8 would quarter it, but make "another source than the last" too good a guess


def list_arms(layouts: Iterable[str], contexts: Iterable[bool], marks: Iterable[str]) -> tuple[Arm, ...]:
    """Return every display arm of a study: all combinations of its layouts, contexts and marks."""
    return tuple(Arm(*values) for values in itertools.product(layouts, contexts, marks))


def arm_of_rater(arms: Sequence[Arm], seed: int, number: int) -> Arm:
    """Return the display arm of the rater with this number (1, 2, ...).

    Each block of as many raters as arms contains every arm once. Late raters change no other arms.
    """
    # Blocks keep the arms balanced at every time, also when recruiting stops early.
    block, index = divmod(number - 1, len(arms))
    order = list(arms)
    # The seed contains the number of the block, so the arm of a rater never depends on who joined later.
    random.Random(f"arms/{seed}/{block}").shuffle(order)
    return order[index]


def assign_arms(
    items_by_rater: Mapping[int, Sequence[PlannedItem]],
    arms: Sequence[Arm],
    by: str,
    seed: int,
    numbers: Mapping[int, int],
    rng: random.Random,
) -> Mapping[tuple[int, str], Arm]:
    """Return an arm for each item of each rater, drawn by item or by rater. `numbers` are the raters' numbers."""
    if by == "item":
        return _assign_arms_by_item(items_by_rater, arms, rng)
    arm_of = {rater: arm_of_rater(arms, seed, numbers[rater]) for rater in items_by_rater}
    return {(rater, item.key): arm_of[rater] for rater, items in items_by_rater.items() for item in items}


def _assign_arms_by_item(
    items_by_rater: Mapping[int, Sequence[PlannedItem]], arms: Sequence[Arm], rng: random.Random
) -> dict[tuple[int, str], Arm]:
    """Balance arms first within a rater's items of one source, then within the rater, then within the item."""
    by_item: dict[str, Counter[Arm]] = defaultdict(Counter)
    assigned: dict[tuple[int, str], Arm] = {}
    for rater, items_of_rater in items_by_rater.items():
        # The order of the keys is the order of importance: comparing within a rater and source needs balance most.
        total: Counter[Arm] = Counter()
        groups: dict[Source, list[PlannedItem]] = defaultdict(list)
        for item in rng.sample(items_of_rater, len(items_of_rater)):
            groups[item.source].append(item)
        for items in groups.values():
            in_source: Counter[Arm] = Counter()
            for item in items:
                # A random order before the minimum breaks ties at random; otherwise the first arm would be preferred.
                order = rng.sample(arms, len(arms))
                uses = (in_source, total, by_item[item.key])
                assigned[rater, item.key] = arm = min(order, key=lambda a: [counter[a] for counter in uses])
                for counter in uses:
                    counter[arm] += 1
    return assigned


def compute_imbalance(order: Sequence[PlannedItem]) -> float:
    """Return the sum of squared deviations of the number of items per quarter and source from an even spread."""
    # The totals come from the order itself, so the measure is 0 for a perfect spread whatever the shares are.
    totals = Counter(item.source for item in order)
    bounds = [len(order) * quarter // 4 for quarter in range(5)]
    total = 0.0
    for begin, end in itertools.pairwise(bounds):
        counts = Counter(item.source for item in order[begin:end])
        total += sum((counts[source] - n * (end - begin) / len(order)) ** 2 for source, n in totals.items())
    return total


def order_items(
    served: Sequence[str],
    items: Sequence[PlannedItem],
    served_twice: Collection[str],
    share: float,
    distance: int,
    rng: random.Random,
    never: Collection[str] = (),
) -> list[tuple[str, int]]:
    """Return the keys that follow those already `served`, each with its occasion.

    `served_twice` are the keys served on both occasions, `never` those that must not be repeated. `share` is the
    share of all the rater's items to be repeated. Fewer if there is no room for `distance` others between.
    """
    # Of a few shuffles, the one whose sources are spread most evenly over the four quarters. Every order is possible,
    # and previous items reveal next to nothing about the next one.
    shuffled = min((rng.sample(items, len(items)) for _ in range(TRIES)), key=compute_imbalance)
    firsts = [*served, *(item.key for item in shuffled)]
    # + 0.5 rounds half up; Python's round would round half to even.
    repeats_due = int(share * len(firsts) + 0.5) - len(served_twice)
    # The first position with enough items before it, and never among those already shown.
    positions = range(max(len(served), distance + 1), len(firsts) + 1)
    repeats: dict[int, str] = {}
    excluded = {*served_twice, *never}
    # Positions are drawn before items, so repeats are spread over the whole session and cannot be predicted.
    for position in rng.sample(positions, len(positions)):
        if len(repeats) >= repeats_due:
            break
        if eligible := [key for key in firsts[: position - distance] if key not in excluded]:
            repeats[position] = rng.choice(eligible)
            excluded.add(repeats[position])
    order: list[tuple[str, int]] = []
    for index in range(len(served), len(firsts) + 1):
        order += [(repeats[index], SECOND)] if index in repeats else []
        order += [(firsts[index], FIRST)] if index < len(firsts) else []
    return order


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
    """Return the planned assignments. Each item gets exactly `needed` raters, none of whom gets two versions of a pair.

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
    numbers = {rater: first_number + rater for rater in range(raters)}
    arms_by_item = assign_arms(items_by_rater, arms, by, seed, numbers, rng)
    places = []
    for rater, items_of_rater in items_by_rater.items():
        order = order_items((), items_of_rater, (), repeats, distance, rng)
        for position, (key, occasion) in enumerate(order, start=1):
            # A repeat never counts as one of the item's ratings.
            slot = slots[rater, key] if occasion == FIRST else None
            places.append(PlannedAssignment(rater, key, position, occasion, slot, *arms_by_item[rater, key]))
    longest = max(map(len, items_by_rater.values()), default=0)
    # The rater with the most items decides: without room even there, the protocol's repeats would silently be missing.
    if repeats and longest and longest <= distance:
        raise PlanError(
            f"repeats {distance} items apart need raters with more than {distance} items, and no rater has more than "
            f"{longest}: choose a gap of at most {longest - 1}, fewer raters or more items"
        )
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
    rows = []
    for rater in range(raters):
        counts = Counter(source_of_item[one.key] for one in firsts[rater])
        arms = sorted({Arm(one.layout, one.with_context, one.marks) for one in firsts[rater]})
        counts_by_source = {source: counts[source] for source in sources}
        rows.append(MatrixRow(rater, counts_by_source, len(firsts[rater]), repeats[rater], tuple(arms)))
    keys = [{one.key for one in firsts[rater]} for rater in range(raters)]
    shared = [len(keys[a] & keys[b]) for a in range(raters) for b in range(a)]
    return AssignmentMatrix(sources, tuple(rows), (min(shared, default=0), max(shared, default=0)))


def _check_feasible(items: Sequence[PlannedItem], raters: int, design: str, max_items: int | None) -> None:
    raters_text, is_one = format_count(raters, "rater"), raters == 1
    if raters < (min_raters := count_raters_needed(items)):
        are = "is" if is_one else "are"
        reason = f"no rater may rate two versions of one item; {min_raters} would work"
        raise PlanError(f"{raters_text} {are} too few: {reason}")
    needed = max((item.needed for item in items), default=0)
    if design == "crossed" and raters != needed:
        ratings_text = f"{'makes' if is_one else 'make'} {format_count(raters, 'rating')} per item"
        raise PlanError(f"crossed: every rater rates every item, so {raters_text} {ratings_text}")
    total = sum(item.needed for item in items)
    if max_items is not None and total > max_items * raters:
        sufficient = -(-total // max_items)  # rounded up: the smallest number of raters that is enough
        too_many = f"{total} ratings by {raters_text} are more than {max_items} each"
        raise PlanError(f"{too_many}; {sufficient} raters would work")
