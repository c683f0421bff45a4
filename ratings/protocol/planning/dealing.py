"""Distribute items to raters: exactly as many raters as an item needs, never two versions of one pair for the same rater."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ratings.protocol.planning.nouns import Planned, Source

# Random swaps that even out the plan: 60 for each assignment, but at most 150,000, so that a large plan takes seconds.
MOST_TRIES = 150_000
TRIES_PER_PLACE = 60


def raters_needed(items: Sequence[Planned]) -> int:
    """Return the smallest sufficient number of raters: no rater gets two versions, so a pair needs all its ratings from different people."""
    needed: Counter[str] = Counter()
    for item in items:
        needed[item.pair] += item.needed
    return max(needed.values(), default=0)


def deal(items: Sequence[Planned], raters: int, rng: random.Random) -> list[tuple[Planned, int]]:
    """Return all items with raters 0, 1, ...: loads at most one apart, and any two raters with about as many items in common.

    Each pair goes to the raters with the smallest loads, so loads never differ by more than one. Then random swaps are kept if they even out
    what raters share and which sources they see.
    """
    matrix = _Board(raters)
    for versions in _shuffled_pairs(items, rng):
        matrix.deal(versions, rng)
    matrix.even_out(rng)
    return matrix.places


@dataclass
class Hand:
    """What a rater has when more is distributed: unrated items, how many more are allowed, and the pairs they already have."""

    waiting: int
    room: int | None = None
    pairs: set[str] = field(default_factory=set)

    def may_have(self, item: Planned) -> bool:
        return item.pair not in self.pairs and self.room != 0

    def take(self, item: Planned) -> None:
        self.waiting += 1
        self.pairs.add(item.pair)
        if self.room is not None:
            self.room -= 1


def deal_more(
    needs: Sequence[Planned], hands: Mapping[int, Hand], readers: Mapping[str, Iterable[int]], rng: random.Random
) -> list[tuple[Planned, int]]:
    """Return as much of `needs` as the workloads allow, each item to the rater with fewest unrated; `readers` are the raters an item already has.

    Items that the fewest raters can take come first. Items that nobody can take are left out: they wait for another rater.
    """
    shared = Reading(readers)
    ordered = list(needs)
    rng.shuffle(ordered)
    # Smallest surplus of eligible raters first: an item that few can take would otherwise find them full.
    ordered.sort(key=lambda item: sum(hand.may_have(item) for hand in hands.values()) - item.needed)
    assigned = []
    for item in ordered:
        for _ in range(item.needed):
            eligible = [rater for rater, hand in hands.items() if hand.may_have(item)]
            if not eligible:
                break
            # Shuffled before the minimum, so that equal raters do not receive items in the order of their numbers.
            rng.shuffle(eligible)
            best = min(eligible, key=lambda rater: (hands[rater].waiting, shared.met(item.key, rater)))
            shared.add(item.key, best)
            hands[best].take(item)
            assigned.append((item, best))
    return assigned


class Reading:
    """Who rates what, and how many items any two raters have in common."""

    def __init__(self, readers: Mapping[str, Iterable[int]]) -> None:
        self.readers: dict[str, set[int]] = defaultdict(set)
        self.shared: Counter[tuple[int, int]] = Counter()
        for key, those in readers.items():
            for rater in those:
                self.add(key, rater)

    def add(self, key: str, rater: int) -> None:
        self.shared.update(_two(rater, other) for other in self.readers[key])
        self.readers[key].add(rater)

    def remove(self, key: str, rater: int) -> None:
        self.readers[key].discard(rater)
        self.shared.subtract(_two(rater, other) for other in self.readers[key])

    def met(self, key: str, rater: int) -> int:
        """Return how many items this rater shares with the raters of this item."""
        return sum(self.shared[_two(rater, other)] for other in self.readers[key])


def _two(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _shuffled_pairs(items: Sequence[Planned], rng: random.Random) -> list[list[Planned]]:
    pairs: dict[str, list[Planned]] = defaultdict(list)
    for item in items:
        pairs[item.pair].append(item)
    groups = list(pairs.values())
    rng.shuffle(groups)
    for versions in groups:
        rng.shuffle(versions)
    return groups


class _Board:
    """Who has what so far; `shared[a][b]` is the number of items that a and b have in common."""

    def __init__(self, raters: int) -> None:
        self.loads = [0] * raters
        self.seen = [Counter[Source]() for _ in range(raters)]
        self.shared = [[0] * raters for _ in range(raters)]
        self.pairs: list[set[str]] = [set() for _ in range(raters)]
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.places: list[tuple[Planned, int]] = []

    def deal(self, versions: Sequence[Planned], rng: random.Random) -> None:
        """Assign one pair to the raters with the smallest loads."""
        raters = list(range(len(self.loads)))
        rng.shuffle(raters)
        # The raters with the smallest loads take exactly one item each, so loads never differ by more than one and no
        # rater gets two versions.
        available = sorted(raters, key=self.loads.__getitem__)[: sum(item.needed for item in versions)]
        for item in versions:
            for _ in range(item.needed):
                best = min(available, key=lambda rater: self._cost(rater, item))
                available.remove(best)
                self._place(item, best)

    def _cost(self, rater: int, item: Planned) -> tuple[int, int]:
        return sum(self.shared[rater][other] for other in self.readers[item.key]), self.seen[rater][item.source]

    def _place(self, item: Planned, rater: int) -> None:
        for other in self.readers[item.key]:
            self.shared[rater][other] += 1
            self.shared[other][rater] += 1
        self.readers[item.key].append(rater)
        self.pairs[rater].add(item.pair)
        self.seen[rater][item.source] += 1
        self.loads[rater] += 1
        self.places.append((item, rater))

    def even_out(self, rng: random.Random) -> None:
        """Swap assignments at random, and keep swaps that lower the sum of squares, until it is minimal or the tries are used up."""
        # An excess of 0 cannot be improved, so the loop stops early.
        excess = self._excess()
        for _ in range(min(MOST_TRIES, TRIES_PER_PLACE * len(self.places))):
            if excess <= 0:
                return
            first, second = rng.randrange(len(self.places)), rng.randrange(len(self.places))
            if self._may_swap(first, second):
                change = self._swap(first, second)
                if change > 0:  # neutral swaps are kept: they lead out of plateaus
                    self._swap(first, second)
                else:
                    excess += change

    def _excess(self) -> int:
        """Return how far the sum of squares is above the smallest possible."""
        n_raters = len(self.loads)
        shares = [self.shared[a][b] for a in range(n_raters) for b in range(a)]
        sources = sorted({source for seen in self.seen for source in seen})
        return _above_even(shares) + sum(_above_even([seen[source] for seen in self.seen]) for source in sources)

    def _may_swap(self, one: int, two: int) -> bool:
        (x, a), (y, b) = self.places[one], self.places[two]
        if a == b or x.key == y.key:
            return False
        # Versions of one pair may be exchanged between two raters: each of them still has one version.
        return x.pair == y.pair or (y.pair not in self.pairs[a] and x.pair not in self.pairs[b])

    def _swap(self, one: int, two: int) -> int:
        """Give x, which a has, to b, and y, which b has, to a. Return the change of the sum of squares."""
        (x, a), (y, b) = self.places[one], self.places[two]
        # Raters who have both items share one with a and b before and after, so only the others change the sums.
        with_a = [o for o in self.readers[x.key] if o != a and o not in self.readers[y.key]]
        with_b = [o for o in self.readers[y.key] if o != b and o not in self.readers[x.key]]
        change = 0
        for other in with_a:
            change += self._share(a, other, -1) + self._share(b, other, 1)
        for other in with_b:
            change += self._share(b, other, -1) + self._share(a, other, 1)
        if x.source != y.source:
            change += self._see(a, x.source, -1) + self._see(b, x.source, 1)
            change += self._see(b, y.source, -1) + self._see(a, y.source, 1)
        for item, old, new in ((x, a, b), (y, b, a)):
            readers = self.readers[item.key]
            readers[readers.index(old)] = new
            self.pairs[old].discard(item.pair)
        # Added after both were discarded: when the two items are versions of one pair, discarding last would remove it.
        self.pairs[a].add(y.pair)
        self.pairs[b].add(x.pair)
        self.places[one], self.places[two] = (x, b), (y, a)
        return change

    def _share(self, a: int, b: int, by: int) -> int:
        before = self.shared[a][b]
        self.shared[a][b] = self.shared[b][a] = before + by
        # (n + by)^2 - n^2 with by = 1 or -1.
        return 2 * by * before + 1

    def _see(self, rater: int, source: Source, by: int) -> int:
        before = self.seen[rater][source]
        self.seen[rater][source] = before + by
        return 2 * by * before + 1  # as above, for the number of items of one source


def _above_even(numbers: Sequence[int]) -> int:
    """Return the sum of squares minus that of the most even integers with the same sum."""
    if not numbers:
        return 0
    quotient, rest = divmod(sum(numbers), len(numbers))
    return sum(n * n for n in numbers) - quotient * quotient * (len(numbers) - rest) - (quotient + 1) ** 2 * rest
