import itertools
import random
import time
from collections import Counter, defaultdict

import pytest

from ratings.planning import Candidate, PlanError, Planned, assign, choose, distinct, raters_needed

NONE, OBVIOUS, SUBTLE = ("offline", "none"), ("offline", "obvious"), ("offline", "subtle")


def candidate(pair: int, source: tuple[str, str], content: str = "", number: int = 1) -> Candidate:
    key = f"{pair:04}/{source[1]}/{number}"
    return Candidate(key, source, f"pair{pair}", content or key, f"experiment{pair % 3}", f"action{pair % 4}")


def full_pool(pairs: int) -> list[Candidate]:
    return [candidate(pair, source) for pair in range(pairs) for source in (NONE, OBVIOUS, SUBTLE)]


def random_study(seed: int) -> tuple[list[Planned], int]:
    """Pairs of one to four versions, one to four ratings each, and a number of raters that can do it."""
    rng = random.Random(seed)
    needed = rng.randint(1, 4)
    items = [
        Planned(f"{pair}-{version}", rng.choice((NONE, OBVIOUS, SUBTLE)), str(pair), needed)
        for pair in range(rng.randint(1, 40))
        for version in range(rng.randint(1, 4))
    ]
    return items, raters_needed(items) + rng.randint(0, 6)


@pytest.mark.parametrize("block", range(10))
def test_in_300_random_studies_every_rule_of_assignment_holds(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        items, raters = random_study(seed)
        places = assign(items, raters, seed)
        pair_of = {item.key: item.pair for item in items}
        assert Counter(place.key for place in places) == {item.key: item.needed for item in items}
        met = [(place.rater, pair_of[place.key]) for place in places]
        assert len(met) == len(set(met)), "a rater met two versions of one pair"
        loads = Counter(place.rater for place in places)
        counts = [loads[rater] for rater in range(raters)]
        assert max(counts) - min(counts) <= 1
        for rater in range(raters):
            positions = sorted(place.position for place in places if place.rater == rater)
            assert positions == list(range(1, loads[rater] + 1))


def test_one_rater_less_than_needed_is_refused_with_the_number_that_works() -> None:
    for seed in range(30):
        items, _ = random_study(seed)
        fewest = raters_needed(items)
        with pytest.raises(PlanError, match=f"{fewest} would work"):
            assign(items, fewest - 1, seed)
        assert assign(items, fewest, seed)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    items = [Planned(str(n), NONE, str(n), 2) for n in range(30)]
    assert assign(items, 4, 1) == assign(items, 4, 1)
    assert assign(items, 4, 1) != assign(items, 4, 2)


def test_raters_have_orders_of_their_own() -> None:
    items = [Planned(str(n), NONE, str(n), 2) for n in range(30)]
    orders = defaultdict(list)
    for place in sorted(assign(items, 2, 1), key=lambda place: place.position):
        orders[place.rater].append(place.key)
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_what_source_an_item_has_tells_nothing_about_the_next_one() -> None:
    items = [Planned(f"{source[1]}{n}", source, f"{source[1]}{n}", 1) for source in (NONE, OBVIOUS) for n in range(10)]
    orders = [[p.key.rstrip("0123456789") for p in assign(items, 1, seed)] for seed in range(400)]
    alike = sum(a == b for order in orders for a, b in itertools.pairwise(order))
    # Of 20 items shuffled, the next is of the same kind in 9 of 19 cases: 400 * 9 = 3600 of 400 * 19 pairs.
    # Their standard deviation is about 20 * sqrt(19 / 4) = 44; in an order of equal stretches it would be 400 * 5.
    assert abs(alike - 3600) < 180
    assert {order.index("obvious") for order in orders} > set(range(5))


def test_pairs_whose_original_and_twins_can_all_be_used_come_first() -> None:
    pool = [candidate(pair, NONE) for pair in range(20)] + full_pool(24)[60:]
    chosen = choose(pool, {NONE: 4, OBVIOUS: 4, SUBTLE: 4}, seed=1)
    assert Counter(c.pair for c in chosen) == {f"pair{pair}": 3 for pair in range(20, 24)}


def test_items_are_spread_evenly_over_experiments_and_actions() -> None:
    chosen = choose(full_pool(60), {NONE: 12}, seed=1)
    assert Counter(c.experiment for c in chosen) == {f"experiment{n}": 4 for n in range(3)}
    assert Counter(c.action for c in chosen) == {f"action{n}": 3 for n in range(4)}


def test_no_pair_gives_more_versions_than_allowed() -> None:
    chosen = choose(full_pool(30), {NONE: 10, OBVIOUS: 10, SUBTLE: 10}, seed=1, versions=1)
    assert set(Counter(c.pair for c in chosen).values()) == {1}
    assert Counter(c.source for c in chosen) == {NONE: 10, OBVIOUS: 10, SUBTLE: 10}


def test_items_are_moved_between_pairs_where_only_that_fits() -> None:
    # One version of each pair; pair 0 alone has an obvious twin and pair 1 alone a subtle one: the original is from pair 2.
    pool = [candidate(n, NONE) for n in range(3)] + [candidate(0, OBVIOUS), candidate(1, SUBTLE)]
    for seed in range(20):
        chosen = choose(pool, {NONE: 1, OBVIOUS: 1, SUBTLE: 1}, seed, versions=1)
        assert {(c.pair, c.source) for c in chosen} == {("pair0", OBVIOUS), ("pair1", SUBTLE), ("pair2", NONE)}


def test_a_choice_is_found_whenever_there_is_one() -> None:
    rng = random.Random(5)
    for seed in range(60):
        # A hidden solution: each pair's first source is the one it must serve; the others only tempt.
        must = [rng.choice((NONE, OBVIOUS, SUBTLE)) for _ in range(12)]
        tempting = [
            (n, s) for n, first in enumerate(must) for s in (NONE, OBVIOUS, SUBTLE) if s == first or rng.random() < 0.4
        ]
        pool = [candidate(n, source) for n, source in tempting]
        chosen = choose(pool, Counter(must), seed, versions=1)
        assert Counter(c.source for c in chosen) == Counter(must)


def test_every_source_that_is_short_is_named_with_what_makes_more() -> None:
    with pytest.raises(PlanError) as caught:
        choose(full_pool(12), {NONE: 40, OBVIOUS: 10, SUBTLE: 30}, seed=1)
    assert str(caught.value) == (
        "needs 40 items by offline, the pool holds 12: play more with run_episodes; "
        "needs 30 subtle twins by offline, the pool holds 12: make more with make_twins"
    )


def test_too_few_raters_for_the_versions_is_told_from_too_small_a_pool() -> None:
    with pytest.raises(PlanError, match="so few raters can rate only 1 of the versions"):
        choose(full_pool(10), {NONE: 8, OBVIOUS: 8}, seed=1, versions=1)


def test_a_study_of_thousands_that_cannot_be_is_refused_within_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(PlanError, match="ask for more raters or for fewer items"):
        choose(full_pool(2000), {NONE: 1001, OBVIOUS: 1000}, seed=1, versions=1)
    assert time.monotonic() - began < 10


def test_of_candidates_that_look_alike_one_is_kept() -> None:
    alike = [candidate(1, NONE, "same"), candidate(2, NONE, "same")]
    assert distinct(reversed(alike)) == alike[:1]
