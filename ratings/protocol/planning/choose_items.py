"""Choose which items a study takes from the pool. The same seed gives the same choice."""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ratings.protocol.planning.plan_types import Candidate, PlanError, Source


def drop_duplicates(pool: Iterable[Candidate]) -> list[Candidate]:
    """Return the pool in a fixed order, with only the first of the candidates that look identical to raters."""
    by_content: dict[str, Candidate] = {}
    # A fixed order first: the choice must not depend on the order of rows in the database.
    for candidate in sorted(pool, key=lambda c: c.key):
        by_content.setdefault(candidate.content, candidate)
    return list(by_content.values())


def choose_items(
    pool: Iterable[Candidate], requested: Mapping[Source, int], seed: int, versions: int | None = None
) -> list[Candidate]:
    """Return the items of a study: the requested number of each source, at most `versions` of one pair, spread evenly.

    Pairs that can serve several of the requested sources come first, then experiments and actions used least so far,
    then their combinations. Raises PlanError if the pool has too few.
    """
    matching = _Matching.from_pool([c for c in drop_duplicates(pool) if c.source in requested], seed, versions)
    if short_sources := [source for source in requested if matching.count_available(source) < requested[source]]:
        raise PlanError("; ".join(_describe_shortage(matching, source, requested[source]) for source in short_sources))
    # The scarcest source first: the pairs it shares with others are then still free, and fewer exchanges are needed.
    for source in sorted(requested, key=lambda s: (matching.count_available(s) - requested[s], s)):
        if not matching.take_items(source, requested[source]):
            raise PlanError(_describe_crowding(matching, source, requested[source], versions))
    return matching.chosen_items()


@dataclass
class _Matching:
    """A matching of requested items with pairs; each pair provides at most `versions` items (None: no limit)."""

    by_pair: dict[str, dict[Source, list[Candidate]]]
    rank: dict[str, int]
    versions: int | None
    taken: dict[str, list[Candidate]] = field(default_factory=lambda: defaultdict(list))
    used_strata: Counter[tuple[Source, str]] = field(default_factory=Counter)

    @classmethod
    def from_pool(cls, pool: Sequence[Candidate], seed: int, versions: int | None) -> "_Matching":
        by_pair: dict[str, dict[Source, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
        for candidate in pool:
            by_pair[candidate.pair][candidate.source].append(candidate)
        # Sorted before shuffling, because the shuffle is reproducible only from a fixed order.
        pairs = sorted(by_pair)
        random.Random(f"choose/{seed}").shuffle(pairs)
        return cls(
            {pair: dict(found) for pair, found in by_pair.items()}, {p: i for i, p in enumerate(pairs)}, versions
        )

    def count_available(self, source: Source) -> int:
        return sum(len(found.get(source, ())) for found in self.by_pair.values())

    def chosen_items(self) -> list[Candidate]:
        return [candidate for pair in sorted(self.taken) for candidate in self.taken[pair]]

    def take_items(self, source: Source, count: int) -> bool:
        """Choose this many items of the source. Return False if that is impossible even after exchanging items of
        other sources.
        """
        pairs = [pair for pair in self.by_pair if self._unused_candidates(pair, source)]
        heap = [(self._rank_pair(pair, source), pair) for pair in pairs]
        heapify(heap)
        # The cheap choice first; only if it fails is the matching rearranged, which searches all pairs.
        return all(self._take_best_item(heap, source) or self._rearrange_and_take(source) for _ in range(count))

    def _take_best_item(self, heap: list[tuple[tuple[int, ...], str]], source: Source) -> bool:
        """Choose the item with the lowest rank. Return False if none is left."""
        while heap:
            old_rank, pair = heappop(heap)
            if not self._has_room(pair):
                continue
            # Ranks only grow as items are taken, so an old one in the heap is a lower bound.
            if (new_rank := self._rank_pair(pair, source)) > old_rank:
                heappush(heap, (new_rank, pair))
                continue
            self._add_item(self._unused_candidates(pair, source)[0])
            if self._unused_candidates(pair, source):
                heappush(heap, (self._rank_pair(pair, source), pair))
            return True
        return False

    def _rearrange_and_take(self, source: Source) -> bool:
        """Choose one more item after exchanging others (the shortest augmenting path of the matching). Return False
        if impossible.
        """
        path: dict[Source, tuple[str, Candidate, Source]] = {}
        queue = deque([source])
        while queue:
            needed_source = queue.popleft()
            for pair in (pair for pair in self.rank if self._unused_candidates(pair, needed_source)):
                if self._has_room(pair):
                    self._apply_path(pair, needed_source, source, path)
                    return True
                for old in self.taken[pair]:
                    # Items of the source itself are not exchanged: that would not change its number. A visited source
                    # is not visited twice.
                    if old.source != source and old.source not in path:
                        path[old.source] = pair, old, needed_source
                        queue.append(old.source)
        return False

    def _apply_path(
        self, pair: str, needed_source: Source, source: Source, path: Mapping[Source, tuple[str, Candidate, Source]]
    ) -> None:
        """Take an item of `needed_source` from the pair with room, then exchange items along the path back to
        `source`.
        """
        self._add_item(self._unused_candidates(pair, needed_source)[0])
        while needed_source != source:
            # Walk back to `source`: each step removes an item, which was just replaced, and takes another one from
            # its pair.
            pair, old, needed_source = path[needed_source]
            self._remove_item(old)
            self._add_item(self._unused_candidates(pair, needed_source)[0])

    def _rank_pair(self, pair: str, source: Source) -> tuple[int, ...]:
        """Return the sort key of a pair for this source; the smallest is taken first.

        The order is: fewest chosen items of this source; other items chosen already; most sources; then an even
        spread over experiments and actions.
        """
        taken, example = self.taken.get(pair, []), self._unused_candidates(pair, source)[0]
        same_source = sum(candidate.source == source for candidate in taken)
        uses = [self.used_strata[source, stratum] for stratum in _list_strata(example)]
        # Negative, because pairs that serve many of the requested sources are preferred. The random rank comes last and
        # breaks ties.
        return same_source, 0 if taken else 1, -len(self.by_pair[pair]), *uses, self.rank[pair]

    def _unused_candidates(self, pair: str, source: Source) -> list[Candidate]:
        return [c for c in self.by_pair[pair].get(source, ()) if c not in self.taken.get(pair, ())]

    def _has_room(self, pair: str) -> bool:
        return self.versions is None or len(self.taken.get(pair, ())) < self.versions

    def _add_item(self, candidate: Candidate) -> None:
        self.taken[candidate.pair].append(candidate)
        self._count_strata(candidate, 1)

    def _remove_item(self, candidate: Candidate) -> None:
        self.taken[candidate.pair].remove(candidate)
        self._count_strata(candidate, -1)

    def _count_strata(self, candidate: Candidate, by: int) -> None:
        for stratum in _list_strata(candidate):
            self.used_strata[candidate.source, stratum] += by


def _list_strata(candidate: Candidate) -> tuple[str, str, str]:
    experiment, action = candidate.experiment, candidate.action
    return f"in {experiment}", f"by {action}", f"{action} in {experiment}"


def _describe_shortage(choice: _Matching, source: Source, count: int) -> str:
    advice = "run more episodes" if source[1] == "none" else "create more twins, or vet those in the queue"
    return f"needs {count} {_describe_source(source)}, the pool holds {choice.count_available(source)}: {advice}"


def _describe_crowding(choice: _Matching, source: Source, count: int, versions: int | None) -> str:
    return (
        f"needs {count} {_describe_source(source)}; the pool holds {choice.count_available(source)}, but with so few raters only "
        f"{versions} of the versions of one transition can be rated: choose more raters or fewer items"
    )


def _describe_source(source: Source) -> str:
    cast, perturbation = source
    return f"items by {cast}" if perturbation == "none" else f"{perturbation} twins by {cast}"
