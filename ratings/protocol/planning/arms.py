"""Which way of showing goes to whom, by chance and evenly."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ratings.protocol.planning.nouns import Arm, Planned, Source


def every_arm(layouts: Iterable[str], contexts: Iterable[bool], marks: Iterable[str]) -> tuple[Arm, ...]:
    """All combinations that a study's lists allow."""
    return tuple(Arm(*chosen) for chosen in itertools.product(layouts, contexts, marks))


def arm_of_seat(every: Sequence[Arm], seed: int, number: int) -> Arm:
    """The arm of the seat of that number (1, 2, ...): in each run of as many seats as arms, every arm once.

    A seat that comes late has one without anybody else's changing.
    """
    block, at = divmod(number - 1, len(every))
    order = list(every)
    random.Random(f"arms/{seed}/{block}").shuffle(order)
    return order[at]


def arms_by_item(
    given: Mapping[int, Sequence[Planned]], every: Sequence[Arm], rng: random.Random
) -> dict[tuple[int, str], Arm]:
    """An arm for each item of each rater: even within a rater, within their items of a source, then within an item."""
    here: dict[str, Counter[Arm]] = defaultdict(Counter)
    chosen: dict[tuple[int, str], Arm] = {}
    for rater, own in given.items():
        total: Counter[Arm] = Counter()
        for items in _by_source(own, rng):
            same: Counter[Arm] = Counter()
            for item in items:
                order = rng.sample(every, len(every))
                arm = min(order, key=lambda a: (same[a], total[a], here[item.key][a]))
                same[arm] += 1
                total[arm] += 1
                here[item.key][arm] += 1
                chosen[rater, item.key] = arm
    return chosen


def _by_source(own: Sequence[Planned], rng: random.Random) -> list[list[Planned]]:
    groups: dict[Source, list[Planned]] = defaultdict(list)
    for item in rng.sample(own, len(own)):
        groups[item.source].append(item)
    return list(groups.values())
