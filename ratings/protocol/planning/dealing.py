"""Who rates what: exactly as many raters as an item needs, never two versions of one thing for the same rater."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ratings.protocol.planning.nouns import Planned, Source

MOST_TRIES = 150_000
TRIES_PER_PLACE = 60


def raters_needed(items: Sequence[Planned]) -> int:
    """The fewest raters that can do it: nobody gets two versions, so a pair needs all its ratings from different people."""
    needed: Counter[str] = Counter()
    for item in items:
        needed[item.pair] += item.needed
    return max(needed.values(), default=0)


def deal(items: Sequence[Planned], raters: int, rng: random.Random) -> list[tuple[Planned, int]]:
    """All of it to raters 0, 1, ...: loads at most one apart, and any two raters with about as many items in common.

    Each pair goes to those who have least to do, so the loads never drift apart by more than one; then places are
    swapped as long as that evens out what raters share and which sources they see.
    """
    board = _Board(raters)
    for versions in _shuffled_pairs(items, rng):
        board.deal(versions, rng)
    board.even_out(rng)
    return board.places


@dataclass
class Hand:
    """What a rater has already when more is dealt: how much waits, how much more there is room for, the pairs met."""

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
    """As much of `needs` as the hands may have, to whoever has least waiting; `readers` are those an item has already.

    What fewest may have goes first. What nobody may have is left: it waits for another seat.
    """
    reading = Reading(readers)
    order = list(needs)
    rng.shuffle(order)
    order.sort(key=lambda item: sum(hand.may_have(item) for hand in hands.values()) - item.needed)
    dealt = []
    for item in order:
        for _ in range(item.needed):
            free = [rater for rater, hand in hands.items() if hand.may_have(item)]
            if not free:
                break
            rng.shuffle(free)
            best = min(free, key=lambda rater: (hands[rater].waiting, reading.met(item.key, rater)))
            reading.add(item.key, best)
            hands[best].take(item)
            dealt.append((item, best))
    return dealt


class Reading:
    """Who reads what, and how many items any two raters have in common."""

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
        """How many items this rater shares with the readers of this one."""
        return sum(self.shared[_two(rater, other)] for other in self.readers[key])


def _two(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _shuffled_pairs(items: Sequence[Planned], rng: random.Random) -> list[list[Planned]]:
    pairs: dict[str, list[Planned]] = defaultdict(list)
    for item in items:
        pairs[item.pair].append(item)
    found = list(pairs.values())
    rng.shuffle(found)
    for versions in found:
        rng.shuffle(versions)
    return found


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
        """One pair, to the raters with least to do."""
        order = list(range(len(self.loads)))
        rng.shuffle(order)
        free = sorted(order, key=self.loads.__getitem__)[: sum(item.needed for item in versions)]
        for item in versions:
            for _ in range(item.needed):
                best = min(free, key=lambda rater: self._cost(rater, item))
                free.remove(best)
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
        """Swap places at random wherever that brings the sum of squares down, until it is least or patience ends."""
        left = self._excess()
        for _ in range(min(MOST_TRIES, TRIES_PER_PLACE * len(self.places))):
            if left <= 0:
                return
            one, two = rng.randrange(len(self.places)), rng.randrange(len(self.places))
            if self._may_swap(one, two):
                gain = self._swap(one, two)
                if gain > 0:
                    self._swap(one, two)
                else:
                    left += gain

    def _excess(self) -> int:
        """How far the sum of squares is above the least there could be."""
        many = len(self.loads)
        shares = [self.shared[a][b] for a in range(many) for b in range(a)]
        sources = sorted({source for seen in self.seen for source in seen})
        return _above_even(shares) + sum(_above_even([seen[source] for seen in self.seen]) for source in sources)

    def _may_swap(self, one: int, two: int) -> bool:
        (x, a), (y, b) = self.places[one], self.places[two]
        if a == b or x.key == y.key:
            return False
        return x.pair == y.pair or (y.pair not in self.pairs[a] and x.pair not in self.pairs[b])

    def _swap(self, one: int, two: int) -> int:
        """a, who had x, now has y, and b, who had y, has x. Returns what that adds to the sum of squares."""
        (x, a), (y, b) = self.places[one], self.places[two]
        with_a = [o for o in self.readers[x.key] if o != a and o not in self.readers[y.key]]
        with_b = [o for o in self.readers[y.key] if o != b and o not in self.readers[x.key]]
        added = 0
        for other in with_a:
            added += self._share(a, other, -1) + self._share(b, other, 1)
        for other in with_b:
            added += self._share(b, other, -1) + self._share(a, other, 1)
        if x.source != y.source:
            added += self._see(a, x.source, -1) + self._see(b, x.source, 1)
            added += self._see(b, y.source, -1) + self._see(a, y.source, 1)
        for item, old, new in ((x, a, b), (y, b, a)):
            readers = self.readers[item.key]
            readers[readers.index(old)] = new
            self.pairs[old].discard(item.pair)
        self.pairs[a].add(y.pair)
        self.pairs[b].add(x.pair)
        self.places[one], self.places[two] = (x, b), (y, a)
        return added

    def _share(self, a: int, b: int, by: int) -> int:
        before = self.shared[a][b]
        self.shared[a][b] = self.shared[b][a] = before + by
        return 2 * by * before + 1

    def _see(self, rater: int, source: Source, by: int) -> int:
        before = self.seen[rater][source]
        self.seen[rater][source] = before + by
        return 2 * by * before + 1


def _above_even(numbers: Sequence[int]) -> int:
    """Their sum of squares above that of the most even numbers with the same sum."""
    if not numbers:
        return 0
    each, rest = divmod(sum(numbers), len(numbers))
    return sum(n * n for n in numbers) - each * each * (len(numbers) - rest) - (each + 1) ** 2 * rest
