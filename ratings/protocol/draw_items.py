"""Choose which items a study takes from the pool, and plan the two sessions of a crossover."""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ratings.protocol.assign_items import arm_of_rater, order_items
from ratings.protocol.plan_types import (
    Arm,
    Candidate,
    IdenticalCases,
    PlanError,
    PlannedAssignment,
    PlannedItem,
    Source,
)


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
    counts = {source: matching.count_available(source) for source in requested}
    if short_sources := [source for source in requested if counts[source] < requested[source]]:
        advice = {True: "run more episodes", False: "create more twins, or vet those in the queue"}
        shortages = (
            f"needs {requested[source]} {_describe_source(source)}, the pool holds {counts[source]}: {advice[source[1] == 'none']}"
            for source in short_sources
        )
        raise PlanError("; ".join(shortages))
    # The scarcest source first: the pairs it shares with others are then still free, and fewer exchanges are needed.
    for source in sorted(requested, key=lambda s: (counts[s] - requested[s], s)):
        if not matching.take_items(source, requested[source]):
            raise PlanError(
                f"needs {requested[source]} {_describe_source(source)}; the pool holds {counts[source]}, but with so few raters only "
                f"{versions} of the versions of one transition can be rated: choose more raters or fewer items"
            )
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
        rank = {pair: index for index, pair in enumerate(pairs)}
        return cls({pair: dict(found) for pair, found in by_pair.items()}, rank, versions)

    def count_available(self, source: Source) -> int:
        return sum(len(found.get(source, ())) for found in self.by_pair.values())

    def chosen_items(self) -> list[Candidate]:
        return [candidate for pair in sorted(self.taken) for candidate in self.taken[pair]]

    def take_items(self, source: Source, count: int) -> bool:
        """Choose this many items of the source. Return False if no exchange of other items makes that possible."""
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
        """Choose one more item after exchanging others along the shortest augmenting path. False if impossible."""
        path: dict[Source, tuple[str, Candidate, Source]] = {}
        queue = deque([source])
        while queue:
            needed_source = queue.popleft()
            for pair in (pair for pair in self.rank if self._unused_candidates(pair, needed_source)):
                if self._has_room(pair):
                    self._add_item(self._unused_candidates(pair, needed_source)[0])
                    while needed_source != source:
                        # Walk back to `source`: each step exchanges an item that was just replaced.
                        pair, old, needed_source = path[needed_source]
                        self.taken[pair].remove(old)
                        self._count_strata(old, -1)
                        self._add_item(self._unused_candidates(pair, needed_source)[0])
                    return True
                for old in self.taken[pair]:
                    # Items of the source itself are not exchanged: that would not change its number.
                    if old.source != source and old.source not in path:
                        path[old.source] = pair, old, needed_source
                        queue.append(old.source)
        return False

    def _rank_pair(self, pair: str, source: Source) -> tuple[int, ...]:
        """Return the sort key of a pair for this source; the pair with the smallest is taken first."""
        taken, example = self.taken.get(pair, []), self._unused_candidates(pair, source)[0]
        same_source = sum(candidate.source == source for candidate in taken)
        uses = [self.used_strata[source, stratum] for stratum in _list_strata(example)]
        # Negative, because pairs that serve many of the requested sources are preferred. The random rank breaks ties.
        return same_source, 0 if taken else 1, -len(self.by_pair[pair]), *uses, self.rank[pair]

    def _unused_candidates(self, pair: str, source: Source) -> list[Candidate]:
        return [c for c in self.by_pair[pair].get(source, ()) if c not in self.taken.get(pair, ())]

    def _has_room(self, pair: str) -> bool:
        return self.versions is None or len(self.taken.get(pair, ())) < self.versions

    def _add_item(self, candidate: Candidate) -> None:
        self.taken[candidate.pair].append(candidate)
        self._count_strata(candidate, 1)

    def _count_strata(self, candidate: Candidate, by: int) -> None:
        for stratum in _list_strata(candidate):
            self.used_strata[candidate.source, stratum] += by


def _list_strata(candidate: Candidate) -> tuple[str, str, str]:
    experiment, action = candidate.experiment, candidate.action
    return f"in {experiment}", f"by {action}", f"{action} in {experiment}"


def _describe_source(source: Source) -> str:
    cast, perturbation = source
    return f"items by {cast}" if perturbation == "none" else f"{perturbation} twins by {cast}"


SESSIONS = (1, 2)
_ORDERS = (Arm("first"), Arm("second"))  # which half of the square a rater has; drawn like an arm
_Versions = tuple[Sequence[Candidate], Sequence[Candidate]]  # in condition 1, in condition 2


def choose_cases(
    pool: Iterable[Candidate], first_sources: Mapping[Source, Source], requested: Mapping[Source, int], seed: int
) -> list[tuple[Candidate, Candidate]]:
    """Return the requested number of cases for each source in condition 2. No pair is used in two cases.

    `first_sources` maps each source in condition 2 to its counterpart in condition 1. Raises PlanError if too few.
    """
    by_case = _group_cases(pool, first_sources)
    cases = {two.key: (one, two) for versions in by_case.values() for one, two in _pair_different_versions(*versions)}
    for source, count in requested.items():
        available = len({two.pair for _, two in cases.values() if two.source == source})
        if available < count:
            alike = _count_identical({case: versions for case, versions in by_case.items() if case[1] == source})
            both = (first_sources[source], source)
            first, second = (cast if kind == "none" else f"{cast} with {kind} errors" for cast, kind in both)
            identical = (
                f", and {alike.cases} more with identical outcomes, which cannot be compared" if alike.cases else ""
            )
            # A source with too few cases gets its own message, since the matching could only report a total.
            raise PlanError(
                f"needs {count} pairs with one by {first} and one by {second}; the pool holds {available}{identical}: create more twins of the same "
                "steps, simulate the same steps with both, or request fewer"
            )
    try:
        chosen = choose_items([two for _, two in cases.values()], requested, seed, versions=1)
    except PlanError as error:
        raise PlanError(
            f"needs {sum(requested.values())} pairs, each for one kind of case only, and the pool has too few with different outcomes: "
            # One version per case: the partner in condition 1 is determined by it.
            "request fewer, or simulate more steps"
        ) from error
    return [cases[two.key] for two in chosen]


def count_identical_cases(pool: Iterable[Candidate], first_sources: Mapping[Source, Source]) -> IdenticalCases:
    """Return how many cases are excluded because of identical outcomes, and how many cases there are."""
    return _count_identical(_group_cases(pool, first_sources))


def _count_identical(by_case: Mapping[tuple[str, Source], _Versions]) -> IdenticalCases:
    return IdenticalCases(sum(not _pair_different_versions(*versions) for versions in by_case.values()), len(by_case))


def _group_cases(
    pool: Iterable[Candidate], first_sources: Mapping[Source, Source]
) -> dict[tuple[str, Source], _Versions]:
    """Return, for each pair and source in condition 2, the versions in condition 1 and in condition 2, if both exist."""
    by_pair: dict[tuple[str, Source], list[Candidate]] = defaultdict(list)
    for candidate in sorted(pool, key=lambda c: c.key):
        by_pair[candidate.pair, candidate.source].append(candidate)
    return {
        (pair, source): (first_versions, versions)
        for (pair, source), versions in sorted(by_pair.items())
        if source in first_sources and (first_versions := by_pair.get((pair, first_sources[source])))
    }


# Identical outcomes cannot show a difference between the conditions, whatever the raters answer.
def _pair_different_versions(ones: Sequence[Candidate], twos: Sequence[Candidate]) -> list[tuple[Candidate, Candidate]]:
    """Return each version in condition 2 with the first version in condition 1 that differs from it, if any."""
    matches = ((next((one for one in ones if one.content != two.content), None), two) for two in twos)
    return [(one, two) for one, two in matches if one is not None]


def plan_sessions(
    items: Sequence[PlannedItem], raters: int, seed: int, *, arms: Mapping[int, Arm], first_number: int = 1
) -> list[PlannedAssignment]:
    """Return the assignments of both sessions of every rater, each with one version of every pair in random order.

    `arms` gives the display arm of each condition. Raises PlanError unless each pair has one item in each condition.
    """
    cases = _list_cases(items)
    reversed_pairs = _reverse_half_of_cases(cases, seed)
    rng = random.Random(f"sessions/{seed}/{first_number}")
    places = []
    for rater in range(raters):
        # Drawn in blocks like an arm, so that the two halves differ by at most one rater at every time.
        is_second_half = arm_of_rater(_ORDERS, seed, first_number + rater) == _ORDERS[1]
        position = 0
        for session in SESSIONS:
            # XOR of session, half of the raters and half of the cases: the Latin square of the module's description.
            own = [case[(session == 2) ^ is_second_half ^ reversed_pairs[case[0].pair]] for case in cases]
            condition_of = {item.key: item.condition for item in own}
            for key, _ in order_items((), own, (), 0.0, 0, rng):
                position += 1
                # Slot rater + 1 is free for each item, because every rater rates every item.
                arm = arms[condition_of[key]]._asdict()
                places.append(PlannedAssignment(rater, key, position, slot=rater + 1, **arm, session=session))
    return places


def _list_cases(items: Sequence[PlannedItem]) -> list[tuple[PlannedItem, PlannedItem]]:
    by_pair: dict[str, list[PlannedItem]] = defaultdict(list)
    for item in sorted(items, key=lambda item: (item.pair, item.condition, item.key)):
        by_pair[item.pair].append(item)
    incomplete = [own for own in by_pair.values() if [item.condition for item in own] != [1, 2]]
    if incomplete:
        raise PlanError(
            f"{len(incomplete)} of {len(by_pair)} pairs do not have exactly one version in each condition; a crossover needs "
            "one of each: exclude those items, or choose the crossed or balanced design"
        )
    return [(own[0], own[1]) for own in by_pair.values()]


def _reverse_half_of_cases(cases: Sequence[tuple[PlannedItem, PlannedItem]], seed: int) -> dict[str, bool]:
    """Return for each pair whether its conditions are in reverse order: True for half of the cases of each kind."""
    kinds: dict[tuple[Source, Source], list[str]] = defaultdict(list)
    # Half of the cases of each kind are reversed, and not only half of all cases.
    for one, two in cases:
        kinds[one.source, two.source].append(one.pair)
    rng = random.Random(f"cases/{seed}")
    pairs = [pair for kind in sorted(kinds) for pair in rng.sample(kinds[kind], len(kinds[kind]))]
    return {pair: index % 2 == 1 for index, pair in enumerate(pairs)}
