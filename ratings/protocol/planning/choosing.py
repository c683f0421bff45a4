"""Which items a study takes from the pool. Pure: the same seed, the same choice."""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ratings.protocol.planning.nouns import Candidate, PlanError, Source


def distinct(pool: Iterable[Candidate]) -> list[Candidate]:
    """The pool in a fixed order, only the first of those that look alike."""
    first: dict[str, Candidate] = {}
    for candidate in sorted(pool, key=lambda c: c.key):
        first.setdefault(candidate.content, candidate)
    return list(first.values())


def choose(
    pool: Iterable[Candidate], wanted: Mapping[Source, int], seed: int, versions: int | None = None
) -> list[Candidate]:
    """The items of a study: so many of each source, no more than `versions` of one pair, spread evenly.

    Pairs that can serve several of the wanted sources come first, then experiments and actions served least so far,
    then the two together: no action is taken from one experiment only where others have it too.
    """
    choice = _Choice.over([c for c in distinct(pool) if c.source in wanted], seed, versions)
    if short := [source for source in wanted if choice.supply(source) < wanted[source]]:
        raise PlanError("; ".join(_shortage(choice, source, wanted[source]) for source in short))
    for source in sorted(wanted, key=lambda s: (choice.supply(s) - wanted[s], s)):
        if not choice.take(source, wanted[source]):
            raise PlanError(_crowding(choice, source, wanted[source], versions))
    return choice.chosen()


@dataclass
class _Choice:
    """A matching between wanted items and pairs, each pair holding at most `versions` of them."""

    by_pair: dict[str, dict[Source, list[Candidate]]]
    rank: dict[str, int]
    versions: int | None
    taken: dict[str, list[Candidate]] = field(default_factory=lambda: defaultdict(list))
    served: Counter[tuple[Source, str]] = field(default_factory=Counter)

    @classmethod
    def over(cls, pool: Sequence[Candidate], seed: int, versions: int | None) -> "_Choice":
        by_pair: dict[str, dict[Source, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
        for candidate in pool:
            by_pair[candidate.pair][candidate.source].append(candidate)
        order = sorted(by_pair)
        random.Random(f"choose/{seed}").shuffle(order)
        return cls(
            {pair: dict(found) for pair, found in by_pair.items()}, {p: i for i, p in enumerate(order)}, versions
        )

    def supply(self, source: Source) -> int:
        return sum(len(found.get(source, ())) for found in self.by_pair.values())

    def chosen(self) -> list[Candidate]:
        return [candidate for pair in sorted(self.taken) for candidate in self.taken[pair]]

    def take(self, source: Source, count: int) -> bool:
        """So many items of this source; False if there are not, however the others are moved about."""
        pairs = [pair for pair in self.by_pair if self._unused(pair, source)]
        heap = [(self._merit(pair, source), pair) for pair in pairs]
        heapify(heap)
        return all(self._take_best(heap, source) or self._take_moved(source) for _ in range(count))

    def _take_best(self, heap: list[tuple[tuple[int, ...], str]], source: Source) -> bool:
        """The item of least merit number. Merits only grow as items are taken, so an old one is a lower bound."""
        while heap:
            known, pair = heappop(heap)
            if not self._room(pair):
                continue
            if (now := self._merit(pair, source)) > known:
                heappush(heap, (now, pair))
                continue
            self._add(self._unused(pair, source)[0])
            if self._unused(pair, source):
                heappush(heap, (self._merit(pair, source), pair))
            return True
        return False

    def _take_moved(self, source: Source) -> bool:
        """One item more, once others have been taken from elsewhere instead (the shortest augmenting path)."""
        via: dict[Source, tuple[str, Candidate, Source]] = {}
        queue = deque([source])
        while queue:
            needing = queue.popleft()
            for pair in (pair for pair in self.rank if self._unused(pair, needing)):
                if self._room(pair):
                    self._shift(pair, needing, source, via)
                    return True
                for old in self.taken[pair]:
                    if old.source != source and old.source not in via:
                        via[old.source] = pair, old, needing
                        queue.append(old.source)
        return False

    def _shift(
        self, pair: str, needing: Source, source: Source, via: Mapping[Source, tuple[str, Candidate, Source]]
    ) -> None:
        """Put `needing` into the pair with room, and back along `via` each into the place that the one before left."""
        self._add(self._unused(pair, needing)[0])
        while needing != source:
            pair, old, needing = via[needing]
            self._remove(old)
            self._add(self._unused(pair, needing)[0])

    def _merit(self, pair: str, source: Source) -> tuple[int, ...]:
        """Smallest is best: a pair begun but without this source, then one serving most sources, then even spread."""
        taken, example = self.taken.get(pair, []), self._unused(pair, source)[0]
        own = sum(candidate.source == source for candidate in taken)
        spread = [self.served[source, stratum] for stratum in _strata(example)]
        return own, 0 if taken else 1, -len(self.by_pair[pair]), *spread, self.rank[pair]

    def _unused(self, pair: str, source: Source) -> list[Candidate]:
        return [c for c in self.by_pair[pair].get(source, ()) if c not in self.taken.get(pair, ())]

    def _room(self, pair: str) -> bool:
        return self.versions is None or len(self.taken.get(pair, ())) < self.versions

    def _add(self, candidate: Candidate) -> None:
        self.taken[candidate.pair].append(candidate)
        self._count(candidate, 1)

    def _remove(self, candidate: Candidate) -> None:
        self.taken[candidate.pair].remove(candidate)
        self._count(candidate, -1)

    def _count(self, candidate: Candidate, by: int) -> None:
        for stratum in _strata(candidate):
            self.served[candidate.source, stratum] += by


def _strata(candidate: Candidate) -> tuple[str, str, str]:
    where, what = candidate.experiment, candidate.action
    return f"in {where}", f"by {what}", f"{what} in {where}"


def _shortage(choice: _Choice, source: Source, count: int) -> str:
    advice = "play more episodes" if source[1] == "none" else "make more twins, or vet those that wait"
    return f"needs {count} {_named(source)}, the pool holds {choice.supply(source)}: {advice}"


def _crowding(choice: _Choice, source: Source, count: int, versions: int | None) -> str:
    return (
        f"needs {count} {_named(source)}; the pool holds {choice.supply(source)}, but so few raters can rate only "
        f"{versions} of the versions of one transition: ask for more raters or for fewer items"
    )


def _named(source: Source) -> str:
    cast, perturbation = source
    return f"items by {cast}" if perturbation == "none" else f"{perturbation} twins by {cast}"
