"""In what order a rater gets what is theirs, and what comes a second time."""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Sequence

from ratings.protocol.planning.nouns import FIRST, SECOND, Planned

TRIES = 3  # halves the imbalance; with 8 it would be a quarter, and "another source than the last" too good a guess


def spread(own: Sequence[Planned], rng: random.Random) -> list[Planned]:
    """A random order: of a few shuffles the one whose sources are spread best over the quarters of the way.

    Any order may come out, and what came says next to nothing about what comes next.
    """
    orders = [rng.sample(own, len(own)) for _ in range(TRIES)]
    return min(orders, key=imbalance)


def imbalance(order: Sequence[Planned]) -> float:
    """How far the quarters of an order are from holding each source in equal shares."""
    every = Counter(item.source for item in order)
    bounds = [len(order) * quarter // 4 for quarter in range(5)]
    total = 0.0
    for begin, end in itertools.pairwise(bounds):
        here = Counter(item.source for item in order[begin:end])
        total += sum((here[source] - n * (end - begin) / len(order)) ** 2 for source, n in every.items())
    return total


def lay_out(
    served: Sequence[str],
    own: Sequence[Planned],
    again: Collection[str],
    share: float,
    distance: int,
    rng: random.Random,
    never: Collection[str] = (),
) -> list[tuple[str, int]]:
    """What comes after what was `served`: keys with their occasion.

    `again` are those served on both occasions, `never` those that must not come a second time. Of all a rater's items this share comes twice, as far as there is room
    for `distance` others in between.
    """
    firsts = [*served, *(item.key for item in spread(own, rng))]
    due = int(share * len(firsts) + 0.5) - len(again)
    points = range(max(len(served), distance + 1), len(firsts) + 1)
    chosen: dict[int, str] = {}
    twice = {*again, *never}
    for point in rng.sample(points, len(points)):
        if len(chosen) >= due:
            break
        if far := [key for key in firsts[: point - distance] if key not in twice]:
            chosen[point] = rng.choice(far)
            twice.add(chosen[point])
    order: list[tuple[str, int]] = []
    for at in range(len(served), len(firsts) + 1):
        order += [(chosen[at], SECOND)] if at in chosen else []
        order += [(firsts[at], FIRST)] if at < len(firsts) else []
    return order
