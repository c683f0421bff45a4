"""Choose which items a study takes from the pool. The same seed gives the same choice."""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ratings.protocol.planning.nouns import Candidate, PlanError, Source


def distinct(pool: Iterable[Candidate]) -> list[Candidate]:
    """Return the pool in a fixed order, with only the first of candidates that look identical."""
    by_content: dict[str, Candidate] = {}
    # A fixed order first: the choice must not depend on the order of rows in the database.
    for candidate in sorted(pool, key=lambda c: c.key):
        by_content.setdefault(candidate.content, candidate)
    return list(by_content.values())


def choose(
    pool: Iterable[Candidate], wanted: Mapping[Source, int], seed: int, versions: int | None = None
) -> list[Candidate]:
    """Return the items of a study: the requested number of each source, at most `versions` of one pair, spread evenly.

    Pairs that can serve several of the requested sources come first, then experiments and actions used least so far,
    then their combinations. Raises PlanError if the pool has too few.
    """
    matching = _Choice.over([c for c in distinct(pool) if c.source in wanted], seed, versions)
    if short_sources := [source for source in wanted if matching.supply(source) < wanted[source]]:
        raise PlanError("; ".join(_shortage(matching, source, wanted[source]) for source in short_sources))
    # The scarcest source first: the pairs it shares with others are then still free, and fewer exchanges are needed.
    for source in sorted(wanted, key=lambda s: (matching.supply(s) - wanted[s], s)):
        if not matching.take(source, wanted[source]):
            raise PlanError(_crowding(matching, source, wanted[source], versions))
    return matching.chosen()


@dataclass
class _Choice:
    """A matching of requested items with pairs; each pair holds at most `versions` of them."""

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
        # Sorted before shuffling, because the shuffle is reproducible only from a fixed order.
        pairs = sorted(by_pair)
        random.Random(f"choose/{seed}").shuffle(pairs)
        return cls(
            {pair: dict(found) for pair, found in by_pair.items()}, {p: i for i, p in enumerate(pairs)}, versions
        )

    def supply(self, source: Source) -> int:
        return sum(len(found.get(source, ())) for found in self.by_pair.values())

    def chosen(self) -> list[Candidate]:
        return [candidate for pair in sorted(self.taken) for candidate in self.taken[pair]]

    def take(self, source: Source, count: int) -> bool:
        """Choose this many items of the source. Return False if that is impossible however the others are rearranged."""
        pairs = [pair for pair in self.by_pair if self._unused(pair, source)]
        heap = [(self._merit(pair, source), pair) for pair in pairs]
        heapify(heap)
        # The cheap choice first; only if it fails is the matching rearranged, which searches all pairs.
        return all(self._take_best(heap, source) or self._take_moved(source) for _ in range(count))

    def _take_best(self, heap: list[tuple[tuple[int, ...], str]], source: Source) -> bool:
        """Choose the item with the lowest rank. Return False if none is left."""
        while heap:
            old_rank, pair = heappop(heap)
            if not self._room(pair):
                continue
            # Ranks only grow as items are taken, so an old one in the heap is a lower bound.
            if (new_rank := self._merit(pair, source)) > old_rank:
                heappush(heap, (new_rank, pair))
                continue
            self._add(self._unused(pair, source)[0])
            if self._unused(pair, source):
                heappush(heap, (self._merit(pair, source), pair))
            return True
        return False

    def _take_moved(self, source: Source) -> bool:
        """Choose one more item after exchanging others (the shortest augmenting path of the matching)."""
        path: dict[Source, tuple[str, Candidate, Source]] = {}
        queue = deque([source])
        while queue:
            needed_source = queue.popleft()
            for pair in (pair for pair in self.rank if self._unused(pair, needed_source)):
                if self._room(pair):
                    self._shift(pair, needed_source, source, path)
                    return True
                for old in self.taken[pair]:
                    # Items of the source itself are not exchanged: that would not change its number. A visited source
                    # is not visited twice.
                    if old.source != source and old.source not in path:
                        path[old.source] = pair, old, needed_source
                        queue.append(old.source)
        return False

    def _shift(
        self, pair: str, needing: Source, source: Source, via: Mapping[Source, tuple[str, Candidate, Source]]
    ) -> None:
        """Put an item of `needing` into the pair with room, then refill along the path each item that this frees."""
        self._add(self._unused(pair, needing)[0])
        while needing != source:
            # Walk back from the pair with room to the source that asked; each step frees an item and refills it.
            pair, old, needing = via[needing]
            self._remove(old)
            self._add(self._unused(pair, needing)[0])

    def _merit(self, pair: str, source: Source) -> tuple[int, ...]:
        """Return the sort key of a pair, smallest first: begun without this source, serving most sources, then even spread."""
        taken, example = self.taken.get(pair, []), self._unused(pair, source)[0]
        same_source = sum(candidate.source == source for candidate in taken)
        uses = [self.served[source, stratum] for stratum in _strata(example)]
        # Negative, because pairs that serve many of the requested sources are preferred. The random rank comes last and
        # breaks ties.
        return same_source, 0 if taken else 1, -len(self.by_pair[pair]), *uses, self.rank[pair]

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
    experiment, action = candidate.experiment, candidate.action
    return f"in {experiment}", f"by {action}", f"{action} in {experiment}"


def _shortage(choice: _Choice, source: Source, count: int) -> str:
    advice = "run more episodes" if source[1] == "none" else "create more twins, or vet those in the queue"
    return f"needs {count} {_named(source)}, the pool holds {choice.supply(source)}: {advice}"


def _crowding(choice: _Choice, source: Source, count: int, versions: int | None) -> str:
    return (
        f"needs {count} {_named(source)}; the pool holds {choice.supply(source)}, but with so few raters only "
        f"{versions} of the versions of one transition can be rated: choose more raters or fewer items"
    )


def _named(source: Source) -> str:
    cast, perturbation = source
    return f"items by {cast}" if perturbation == "none" else f"{perturbation} twins by {cast}"
