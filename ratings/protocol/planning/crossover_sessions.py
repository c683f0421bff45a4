"""Crossover: every rater rates both conditions of every case, one in each of two sessions.

A case is two versions of one pair, one in each condition. Half of the raters rate version 1 of a case in session 1, the
other half in session 2; each rater rates version 1 of half of the cases in session 1. That is a balanced 2 x 2 Latin
square over raters and cases, so neither the order of conditions nor practice is confounded with a condition.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ratings.protocol.planning.arms import arm_of_rater
from ratings.protocol.planning.choose_items import choose_items
from ratings.protocol.planning.item_order import order_items
from ratings.protocol.planning.plan_types import (
    FIRST,
    Arm,
    Candidate,
    IdenticalCases,
    PlanError,
    PlannedAssignment,
    PlannedItem,
    Source,
)

SESSIONS = (1, 2)
_ORDERS = (Arm("first"), Arm("second"))  # which half of the square a rater has; drawn like an arm
_Versions = tuple[Sequence[Candidate], Sequence[Candidate]]  # in condition 1, in condition 2


def choose_cases(
    pool: Iterable[Candidate], first_sources: Mapping[Source, Source], requested: Mapping[Source, int], seed: int
) -> list[tuple[Candidate, Candidate]]:
    """Return the requested number of cases for each source in condition 2. No pair is used in two cases.

    `first_sources` maps each source in condition 2 to its counterpart in condition 1. Raises PlanError if there are
    too few cases.
    """
    by_case = _group_cases(pool, first_sources)
    cases = {two.key: (one, two) for versions in by_case.values() for one, two in _pair_different_versions(*versions)}
    for source, count in requested.items():
        available = len({two.pair for _, two in cases.values() if two.source == source})
        if available < count:
            alike = _count_identical({case: versions for case, versions in by_case.items() if case[1] == source})
            # A source with too few cases gets its own message, since the matching below could only report a shortage in
            # total.
            raise PlanError(_describe_missing_cases(first_sources[source], source, count, available, alike))
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
    """Return how many cases are excluded because both sources gave the identical outcome, and how many cases there
    are.
    """
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
    """Return the assignments of both sessions of every rater. Each session has one version of every pair, in random
    order.

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
                places.append(
                    PlannedAssignment(rater, key, position, FIRST, rater + 1, *arms[condition_of[key]], session=session)
                )
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


def _describe_missing_cases(one: Source, two: Source, requested: int, available: int, alike: IdenticalCases) -> str:
    versions = f"one by {_describe_source(one)} and one by {_describe_source(two)}"
    identical_text = (
        f", and {alike.cases} more with identical outcomes, which cannot be compared" if alike.cases else ""
    )
    return (
        f"needs {requested} pairs with {versions}; the pool holds {available}{identical_text}: create more twins of the same steps, simulate the "
        "same steps with both, or request fewer"
    )


def _describe_source(source: Source) -> str:
    cast, perturbation = source
    return cast if perturbation == "none" else f"{cast} with {perturbation} errors"
