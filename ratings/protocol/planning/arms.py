"""Assign display arms at random and evenly."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ratings.protocol.planning.nouns import Arm, Planned, Source


def every_arm(layouts: Iterable[str], contexts: Iterable[bool], marks: Iterable[str]) -> tuple[Arm, ...]:
    """Return all combinations of a study's lists."""
    return tuple(Arm(*values) for values in itertools.product(layouts, contexts, marks))


def arm_of_seat(every: Sequence[Arm], seed: int, number: int) -> Arm:
    """Return the display arm of the rater with this number (1, 2, ...).

    Each block of as many raters as arms contains every arm once. A rater who joins late gets an arm without changing anybody else's.
    """
    # Blocks keep the arms balanced at every time, also when recruiting stops early.
    block, index = divmod(number - 1, len(every))
    order = list(every)
    # The seed names the block, so the arm of a rater never depends on who joined later.
    random.Random(f"arms/{seed}/{block}").shuffle(order)
    return order[index]


def arms_by_item(
    given: Mapping[int, Sequence[Planned]], every: Sequence[Arm], rng: random.Random
) -> dict[tuple[int, str], Arm]:
    """Return an arm for each item of each rater: balanced within a rater, then within their items of a source, then within an item."""
    by_item: dict[str, Counter[Arm]] = defaultdict(Counter)
    assigned: dict[tuple[int, str], Arm] = {}
    for rater, items_of_rater in given.items():
        # The order of the keys is the order of importance: comparing within a rater and source needs balance most.
        total: Counter[Arm] = Counter()
        for items in _by_source(items_of_rater, rng):
            in_source: Counter[Arm] = Counter()
            for item in items:
                # A random order before the minimum breaks ties at random; otherwise the first arm would be preferred.
                order = rng.sample(every, len(every))
                arm = min(order, key=lambda a: (in_source[a], total[a], by_item[item.key][a]))
                in_source[arm] += 1
                total[arm] += 1
                by_item[item.key][arm] += 1
                assigned[rater, item.key] = arm
    return assigned


def _by_source(own: Sequence[Planned], rng: random.Random) -> list[list[Planned]]:
    groups: dict[Source, list[Planned]] = defaultdict(list)
    for item in rng.sample(own, len(own)):
        groups[item.source].append(item)
    return list(groups.values())
