"""Assign display arms at random and evenly."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ratings.protocol.planning.plan_types import Arm, PlannedItem, Source


def list_arms(layouts: Iterable[str], contexts: Iterable[bool], marks: Iterable[str]) -> tuple[Arm, ...]:
    """Return every display arm of a study: all combinations of its layouts, contexts and marks."""
    return tuple(Arm(*values) for values in itertools.product(layouts, contexts, marks))


def arm_of_rater(arms: Sequence[Arm], seed: int, number: int) -> Arm:
    """Return the display arm of the rater with this number (1, 2, ...).

    Each block of as many raters as arms contains every arm once. The arm of a rater who joins late does not change
    the arms of others.
    """
    # Blocks keep the arms balanced at every time, also when recruiting stops early.
    block, index = divmod(number - 1, len(arms))
    order = list(arms)
    # The seed contains the number of the block, so the arm of a rater never depends on who joined later.
    random.Random(f"arms/{seed}/{block}").shuffle(order)
    return order[index]


def assign_arms_by_item(
    items_by_rater: Mapping[int, Sequence[PlannedItem]], arms: Sequence[Arm], rng: random.Random
) -> dict[tuple[int, str], Arm]:
    """Return an arm for each item of each rater.

    Arms are balanced first within a rater's items of one source, then within the rater, then within the item.
    """
    by_item: dict[str, Counter[Arm]] = defaultdict(Counter)
    assigned: dict[tuple[int, str], Arm] = {}
    for rater, items_of_rater in items_by_rater.items():
        # The order of the keys is the order of importance: comparing within a rater and source needs balance most.
        total: Counter[Arm] = Counter()
        for items in _group_by_source(items_of_rater, rng):
            in_source: Counter[Arm] = Counter()
            for item in items:
                # A random order before the minimum breaks ties at random; otherwise the first arm would be preferred.
                order = rng.sample(arms, len(arms))
                arm = min(order, key=lambda a: (in_source[a], total[a], by_item[item.key][a]))
                in_source[arm] += 1
                total[arm] += 1
                by_item[item.key][arm] += 1
                assigned[rater, item.key] = arm
    return assigned


def _group_by_source(items: Sequence[PlannedItem], rng: random.Random) -> list[list[PlannedItem]]:
    groups: dict[Source, list[PlannedItem]] = defaultdict(list)
    for item in rng.sample(items, len(items)):
        groups[item.source].append(item)
    return list(groups.values())
