"""The order of a rater's items, and which of them are repeated."""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Sequence

from ratings.protocol.planning.plan_types import FIRST, SECOND, PlannedItem

TRIES = 3  # halves the imbalance; 8 would quarter it, but make "another source than the last" too good a guess


def shuffle_spread(items: Sequence[PlannedItem], rng: random.Random) -> list[PlannedItem]:
    """Return a random order: of a few shuffles, the one whose sources are spread most evenly over the four quarters.

    Every order is possible, and previous items reveal next to nothing about the next one.
    """
    orders = [rng.sample(items, len(items)) for _ in range(TRIES)]
    return min(orders, key=compute_imbalance)


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
    share of all the rater's items to be repeated. Fewer are repeated if there is no room for `distance` other items
    in between.
    """
    firsts = [*served, *(item.key for item in shuffle_spread(items, rng))]
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
