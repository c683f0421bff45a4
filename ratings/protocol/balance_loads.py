"""Distribute items to raters. Each item gets as many raters as it needs; no rater gets two versions of one pair."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ratings.protocol.plan_types import PlannedItem, Source

# Random swaps that even out the plan: 60 for each assignment, but at most 150,000, so that a large plan takes seconds.
MAX_SWAP_TRIES = 150_000
TRIES_PER_ASSIGNMENT = 60


def count_raters_needed(items: Sequence[PlannedItem]) -> int:
    """Return the smallest sufficient number of raters: all ratings of one pair must come from different raters."""
    needed: Counter[str] = Counter()
    for item in items:
        needed[item.pair] += item.needed
    return max(needed.values(), default=0)


def distribute_items(items: Sequence[PlannedItem], raters: int, rng: random.Random) -> list[tuple[PlannedItem, int]]:
    """Return (item, rater) for every planned rating; raters are numbered 0, 1, ....

    Each pair goes to the raters with the fewest items so far, so the numbers of items differ by at most one. Then
    random swaps even out the items that any two raters share, and the items of each source per rater.
    """
    matrix = _AssignmentMatrix(raters)
    pairs: dict[str, list[PlannedItem]] = defaultdict(list)
    for item in items:
        pairs[item.pair].append(item)
    groups = list(pairs.values())
    rng.shuffle(groups)
    for versions in groups:
        rng.shuffle(versions)
    for versions in groups:
        matrix.assign_pair(versions, rng)
    matrix.even_out(rng)
    return matrix.places


@dataclass
class Workload:
    """A rater's state when further items are distributed: number of unrated items, and pairs the rater already has.

    `remaining_quota` is how many more items the rater may get; None without a limit.
    """

    unrated: int
    remaining_quota: int | None = None
    pairs: set[str] = field(default_factory=set)

    def can_take(self, item: PlannedItem) -> bool:
        return item.pair not in self.pairs and self.remaining_quota != 0

    def add_item(self, item: PlannedItem) -> None:
        self.unrated += 1
        self.pairs.add(item.pair)
        if self.remaining_quota is not None:
            self.remaining_quota -= 1


def distribute_more(
    needs: Sequence[PlannedItem],
    workloads: Mapping[int, Workload],
    raters_of_item: Mapping[str, Iterable[int]],
    rng: random.Random,
) -> list[tuple[PlannedItem, int]]:
    """Return (item, rater) for as many ratings of `needs` as possible, first to the rater with fewest unrated items.

    `raters_of_item` are the raters an item already has. Items with the smallest surplus of eligible raters come
    first. Items that nobody can take are left out and wait for another rater.
    """
    shared = SharedItems(raters_of_item)
    ordered = list(needs)
    rng.shuffle(ordered)
    # Smallest surplus of eligible raters first: an item that few can take would otherwise find them full.
    ordered.sort(key=lambda item: sum(hand.can_take(item) for hand in workloads.values()) - item.needed)
    assigned = []
    for item in ordered:
        for _ in range(item.needed):
            eligible = [rater for rater, hand in workloads.items() if hand.can_take(item)]
            if not eligible:
                break
            # Shuffled before the minimum, so that equal raters do not receive items in the order of their numbers.
            rng.shuffle(eligible)
            best = min(eligible, key=lambda rater: (workloads[rater].unrated, shared.count_shared(item.key, rater)))
            shared.add_rater(item.key, best)
            workloads[best].add_item(item)
            assigned.append((item, best))
    return assigned


class SharedItems:
    """The raters of each item, and how many items any two raters have in common."""

    def __init__(self, readers: Mapping[str, Iterable[int]]) -> None:
        self.readers: dict[str, set[int]] = defaultdict(set)
        self.shared: dict[tuple[int, int], int] = defaultdict(int)
        for key, those in readers.items():
            for rater in those:
                self.add_rater(key, rater)

    def add_rater(self, key: str, rater: int) -> None:
        for other in self.readers[key]:
            self.shared[_sorted_pair(rater, other)] += 1
        self.readers[key].add(rater)

    def remove_rater(self, key: str, rater: int) -> None:
        self.readers[key].discard(rater)
        for other in self.readers[key]:
            self.shared[_sorted_pair(rater, other)] -= 1

    def count_shared(self, key: str, rater: int) -> int:
        """Return the number of items that this rater shares with each rater of this item, summed over those raters."""
        return sum(self.shared[_sorted_pair(rater, other)] for other in self.readers[key])


def _sorted_pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


class _AssignmentMatrix:
    """The items of each rater so far; `shared[a][b]` is the number of items that raters a and b have in common."""

    def __init__(self, raters: int) -> None:
        self.loads = [0] * raters
        self.seen = [Counter[Source]() for _ in range(raters)]
        self.shared = [[0] * raters for _ in range(raters)]
        self.pairs: list[set[str]] = [set() for _ in range(raters)]
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.places: list[tuple[PlannedItem, int]] = []

    def assign_pair(self, versions: Sequence[PlannedItem], rng: random.Random) -> None:
        """Assign the versions of one pair to the raters with the fewest items so far."""
        raters = list(range(len(self.loads)))
        rng.shuffle(raters)
        # The raters with the smallest loads take exactly one item each, so loads differ by at most one.
        available = sorted(raters, key=self.loads.__getitem__)[: sum(item.needed for item in versions)]
        for item in versions:
            for _ in range(item.needed):
                readers = self.readers[item.key]
                ranks = {r: (sum(self.shared[r][o] for o in readers), self.seen[r][item.source]) for r in available}
                rater = min(available, key=ranks.__getitem__)
                available.remove(rater)
                for other in readers:
                    self._change_shared(rater, other, 1)
                readers.append(rater)
                self.pairs[rater].add(item.pair)
                self.seen[rater][item.source] += 1
                self.loads[rater] += 1
                self.places.append((item, rater))

    def even_out(self, rng: random.Random) -> None:
        """Swap at random, except if that raises the sum of squares, until it is minimal or tries run out."""
        # An excess of 0 cannot be improved, so the loop stops early.
        excess, n_places, randrange = self._compute_excess(), len(self.places), rng.randrange
        for _ in range(min(MAX_SWAP_TRIES, TRIES_PER_ASSIGNMENT * n_places)):
            if excess <= 0:
                return
            first, second = randrange(n_places), randrange(n_places)
            # Neutral swaps are made: they lead out of plateaus.
            if self._can_swap(first, second) and (change := self._compute_change(first, second)) <= 0:
                self._swap_assignments(first, second)
                excess += change

    def _compute_excess(self) -> int:
        """Return how far the sum of squares of shared items and of items per source is above its minimum."""
        n_raters = len(self.loads)
        shares = [self.shared[a][b] for a in range(n_raters) for b in range(a)]
        sources = sorted({source for seen in self.seen for source in seen})
        counts = ([seen[source] for seen in self.seen] for source in sources)
        return _excess_over_even(shares) + sum(map(_excess_over_even, counts))

    def _can_swap(self, one: int, two: int) -> bool:
        (x, a), (y, b) = self.places[one], self.places[two]
        if a == b or x.key == y.key:
            return False
        # Versions of one pair may be exchanged between two raters: each of them still has one version.
        return x.pair == y.pair or (y.pair not in self.pairs[a] and x.pair not in self.pairs[b])

    def _compute_change(self, one: int, two: int) -> int:
        """Return by how much the sum of squares would change if these assignments exchanged their items.

        Most swaps are not made, and computing the change takes a third of the time of making and undoing a swap.
        """
        (x, a), (y, b) = self.places[one], self.places[two]
        readers_x, readers_y = self.readers[x.key], self.readers[y.key]
        shared_a, shared_b = self.shared[a], self.shared[b]
        change = 0
        # (n + 1)^2 - n^2 and (m - 1)^2 - m^2 add up to 2 (n - m + 1) for the number n that grows and m that falls.
        # Raters who have both items share one with a and b before and after, so only the others change the sums.
        for other in readers_x:
            if other != a and other not in readers_y:
                change += shared_b[other] - shared_a[other] + 1
        for other in readers_y:
            if other != b and other not in readers_x:
                change += shared_a[other] - shared_b[other] + 1
        if x.source != y.source:
            seen_a, seen_b = self.seen[a], self.seen[b]
            change += seen_b[x.source] - seen_a[x.source] + 1 + seen_a[y.source] - seen_b[y.source] + 1
        return 2 * change

    def _swap_assignments(self, one: int, two: int) -> None:
        """Exchange the items of two assignments between their raters."""
        (x, a), (y, b) = self.places[one], self.places[two]
        for item, other_item, old, new in ((x, y, a, b), (y, x, b, a)):
            for other in self.readers[item.key]:
                if other != old and other not in self.readers[other_item.key]:
                    self._change_shared(old, other, -1)
                    self._change_shared(new, other, 1)
        for item, old, new in ((x, a, b), (y, b, a)):
            self.seen[old][item.source] -= 1
            self.seen[new][item.source] += 1
            readers = self.readers[item.key]
            readers[readers.index(old)] = new
            self.pairs[old].discard(item.pair)
        # Added after both were discarded: when the two items are versions of one pair, discarding last would remove it.
        self.pairs[a].add(y.pair)
        self.pairs[b].add(x.pair)
        self.places[one], self.places[two] = (x, b), (y, a)

    def _change_shared(self, a: int, b: int, by: int) -> None:
        self.shared[a][b] = self.shared[b][a] = self.shared[a][b] + by


def _excess_over_even(numbers: Sequence[int]) -> int:
    """Return the sum of squares minus its minimum over equally many integers with the same sum."""
    if not numbers:
        return 0
    quotient, rest = divmod(sum(numbers), len(numbers))
    return sum(n * n for n in numbers) - quotient * quotient * (len(numbers) - rest) - (quotient + 1) ** 2 * rest


MAX_COMPARED = 40  # the best of 40 is taken: comparing thousands for every move is slow and no fairer


class Move(NamedTuple):
    """One item that changes its rater."""

    item: PlannedItem
    giver: int
    taker: int


def move_to_newcomers(
    newcomers: Sequence[int],
    workloads: Mapping[int, Workload],
    unrated: Mapping[int, Sequence[PlannedItem]],
    raters_of_item: Mapping[str, Iterable[int]],
    rng: random.Random,
) -> list[Move]:
    """Return moves of unseen items, one at a time from the rater with most unrated items to the newcomer with fewest.

    Moving ends when no newcomer can take anything from a rater with at least two more unrated items. Among the items
    that can be moved, those are preferred whose raters share the fewest items with the newcomer.
    """
    # Shuffled, so that the moved items are not always those at the start of a rater's order.
    movable = {rater: rng.sample(items, len(items)) for rater, items in unrated.items() if rater not in newcomers}
    shared = SharedItems(raters_of_item)
    moves = []
    while move := _find_next_move(newcomers, workloads, movable, shared):
        item, giver, taker = move
        movable[giver].remove(item)
        workloads[giver].unrated -= 1
        workloads[taker].add_item(item)
        shared.remove_rater(item.key, giver)
        shared.add_rater(item.key, taker)
        moves.append(move)
    return moves


def _find_next_move(
    newcomers: Sequence[int],
    workloads: Mapping[int, Workload],
    movable: Mapping[int, list[PlannedItem]],
    shared: SharedItems,
) -> Move | None:
    for taker in sorted(newcomers, key=lambda rater: workloads[rater].unrated):
        for giver in sorted(movable, key=lambda rater: -workloads[rater].unrated):
            # Moving an item between raters who differ by one only reverses their difference, and would never end.
            if workloads[giver].unrated - workloads[taker].unrated < 2:
                break
            eligible = (item for item in movable[giver] if workloads[taker].can_take(item))
            if compared := list(itertools.islice(eligible, MAX_COMPARED)):
                return Move(min(compared, key=lambda item: shared.count_shared(item.key, taker)), giver, taker)
    return None
