"""Tests of choosing items for a study, assigning them to raters and ordering them."""

import itertools
import random
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from ratings.protocol import Arm, PlanError, balance_loads
from ratings.protocol.assign_items import build_matrix, compute_imbalance, list_arms, order_items, plan_assignments
from ratings.protocol.balance_loads import Workload, count_raters_needed, distribute_more
from ratings.protocol.draw_items import choose_items, drop_duplicates
from ratings.protocol.plan_types import Candidate, PlannedAssignment, PlannedItem
from tests.support.effort import takes_under

NONE, OBVIOUS, SUBTLE = ("offline", "none"), ("offline", "obvious"), ("offline", "subtle")


def make_candidate(pair: int, source: tuple[str, str], content: str = "", number: int = 1) -> Candidate:
    key = f"{pair:04}/{source[1]}/{number}"
    return Candidate(key, source, f"pair{pair}", content or key, f"experiment{pair % 3}", f"action{pair % 4}")


def make_full_pool(pairs: int) -> list[Candidate]:
    return [make_candidate(pair, source) for pair in range(pairs) for source in (NONE, OBVIOUS, SUBTLE)]


ARMS = list_arms(("plain", "aligned"), (False, True), ("off",))


class Drawn(NamedTuple):
    """A random study with enough raters: each pair has one to four versions, each item one to four ratings."""

    items: list[PlannedItem]
    raters: int
    by: str
    repeats: float
    distance: int


def make_random_study(seed: int) -> Drawn:
    rng = random.Random(seed)
    needed = rng.randint(1, 4)
    items = [
        PlannedItem(f"{pair}-{version}", rng.choice((NONE, OBVIOUS, SUBTLE)), str(pair), needed)
        for pair in range(rng.randint(1, 25))
        for version in range(rng.randint(1, 4))
    ]
    raters = count_raters_needed(items) + rng.randint(0, 6)
    repeats = rng.choice((0, 0.1, 0.3)) if len(items) * needed > 3 * raters else 0
    return Drawn(items, raters, rng.choice(("rater", "item")), repeats, 2)


def assign_study(study: Drawn, seed: int) -> list[PlannedAssignment]:
    repeats = {"repeats": study.repeats, "distance": study.distance}
    return plan_assignments(study.items, study.raters, seed, arms=ARMS, by=study.by, **repeats)


@pytest.mark.parametrize("block", range(10))
def test_assignment_follows_every_rule_in_500_random_studies(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        study = make_random_study(seed)
        assignments = assign_study(study, seed)
        firsts = [assignment for assignment in assignments if assignment.occasion == 1]
        slots = defaultdict(list)
        for assignment in firsts:
            slots[assignment.key].append(assignment.slot)
        assert {key: sorted(own) for key, own in slots.items()} == {
            item.key: list(range(1, item.needed + 1)) for item in study.items
        }
        pair_of = {item.key: item.pair for item in study.items}
        met = [(assignment.rater, pair_of[assignment.key]) for assignment in firsts]
        assert len(met) == len(set(met)), "a rater has two versions of one pair"
        loads = Counter(assignment.rater for assignment in firsts)
        assert max(loads.values()) - min(loads[rater] for rater in range(study.raters)) <= 1
        for rater in range(study.raters):
            check_order([assignment for assignment in assignments if assignment.rater == rater], study)


def check_order(own: list[PlannedAssignment], study: Drawn) -> None:
    """Check that positions have no gaps and that repeats come late enough and look as they did the first time."""
    assert sorted(assignment.position for assignment in own) == list(range(1, len(own) + 1))
    first = {assignment.key: assignment for assignment in own if assignment.occasion == 1}
    again = [assignment for assignment in own if assignment.occasion == 2]
    assert len({assignment.key for assignment in again}) == len(again) <= int(study.repeats * len(first) + 0.5)
    for assignment in again:
        assert assignment.slot is None
        assert assignment.position - first[assignment.key].position > study.distance
        assert assignment[5:] == first[assignment.key][5:]
    arms = Counter(Arm(*assignment[5:8]) for assignment in first.values())
    assert len(arms) <= 1 if study.by == "rater" else max(arms[a] for a in ARMS) - min(arms[a] for a in ARMS) <= 1


@pytest.mark.parametrize(("raters", "each", "items"), [(6, 2, 60), (6, 3, 100), (10, 5, 40), (30, 3, 200)])
def test_assignment_matrix_balances_shared_items_and_sources_between_raters(raters, each, items) -> None:
    planned = [PlannedItem(str(n), (NONE, OBVIOUS, SUBTLE)[n % 3], str(n), each) for n in range(items)]
    found = build_matrix(planned, plan_assignments(planned, raters, seed=1), raters)
    # All pairs of raters together share items * each * (each - 1) / 2; for (6, 2, 60) each of the 15 pairs 60 / 15 = 4.
    average = items * each * (each - 1) / (raters * (raters - 1))
    assert int(average) <= found.shared[0] <= average <= found.shared[1] < int(average) + 2
    for source in found.sources:
        counts = [row.counts[source] for row in found.rows]
        assert max(counts) - min(counts) <= 1


def test_assignment_matrix_counts_items_by_source_and_repeats_for_each_rater() -> None:
    planned = [PlannedItem(str(n), (NONE, OBVIOUS)[n % 2], str(n), 2) for n in range(12)]
    found = build_matrix(planned, plan_assignments(planned, 2, seed=1, design="crossed", repeats=0.25, distance=3), 2)
    assert found.sources == (NONE, OBVIOUS) and found.shared == (12, 12)
    # Two raters both rate each of twelve items; a quarter of twelve is three.
    assert [(dict(row.counts), row.total, row.repeats) for row in found.rows] == [({NONE: 6, OBVIOUS: 6}, 12, 3)] * 2


def test_crossed_design_assigns_every_item_to_every_rater_and_rejects_other_rater_counts() -> None:
    planned = [PlannedItem(str(n), NONE, str(n), 3) for n in range(5)]
    assert Counter(assignment.rater for assignment in plan_assignments(planned, 3, 1, design="crossed")) == {
        0: 5,
        1: 5,
        2: 5,
    }
    with pytest.raises(PlanError, match="so 4 raters make 4 ratings per item"):
        plan_assignments(planned, 4, 1, design="crossed")


def test_pool_design_assigns_nothing_in_advance() -> None:
    assert plan_assignments([PlannedItem("1", NONE, "1", 3)], 3, 1, design="pool") == []


def test_assignment_above_the_item_limit_is_rejected_with_the_number_of_raters_needed() -> None:
    planned = [PlannedItem(str(n), NONE, str(n), 2) for n in range(30)]
    with pytest.raises(PlanError, match="60 ratings by 4 raters are more than 14 each; 5 raters would work"):
        plan_assignments(planned, 4, 1, max_items=14)
    assert max(Counter(assignment.rater for assignment in plan_assignments(planned, 5, 1, max_items=14)).values()) == 12


def test_repeat_distance_longer_than_the_item_list_is_rejected_with_the_largest_allowed() -> None:
    planned = [PlannedItem(str(n), NONE, str(n), 1) for n in range(10)]
    with pytest.raises(PlanError, match="no rater has more than 10: choose a gap of at most 9"):
        plan_assignments(planned, 1, 1, repeats=0.2, distance=10)
    order = sorted(plan_assignments(planned, 1, 1, repeats=0.2, distance=9), key=lambda assignment: assignment.position)
    # With a gap of nine, the first item can be repeated only after all ten.
    assert (order[10].key, order[10].occasion) == (order[0].key, 2)


def test_display_arms_are_all_combinations_and_are_assigned_to_raters_in_turn() -> None:
    arms = list_arms(("plain", "aligned"), (False, True), ("off", "always"))
    assert len(set(arms)) == 8 and arms[0] == Arm("plain", False, "off")
    planned = [PlannedItem(str(n), NONE, str(n), 16) for n in range(2)]
    rows = build_matrix(planned, plan_assignments(planned, 16, 1, arms=arms), 16).rows
    assert Counter(row.arms for row in rows[:8]) == Counter(row.arms for row in rows[8:]) == {(a,): 1 for a in arms}


def test_display_arms_by_item_are_balanced_within_each_source_of_a_rater() -> None:
    planned = [PlannedItem(str(n), (NONE, OBVIOUS)[n % 2], str(n), 1) for n in range(24)]
    assignments = plan_assignments(planned, 1, 1, arms=ARMS, by="item")
    # Twelve items of a source, four arms: three times each.
    seen = Counter((int(assignment.key) % 2, Arm(*assignment[5:8])) for assignment in assignments)
    assert seen == {(source, arm): 3 for source in (0, 1) for arm in ARMS}


def test_item_order_spreads_sources_better_than_plain_shuffling() -> None:
    own = [PlannedItem(str(n), (NONE, NONE, OBVIOUS, SUBTLE)[n % 4], str(n), 1) for n in range(40)]
    by_key = {item.key: item for item in own}
    spread = shuffled = 0.0
    for seed in range(200):
        rng = random.Random(seed)
        spread += compute_imbalance([by_key[key] for key, _ in order_items((), own, (), 0, 0, rng)])
        shuffled += compute_imbalance(rng.sample(own, len(own)))
    # The best of three draws of a sum of squares about chi-squared with 6 degrees: roughly 0.55 of its mean.
    assert spread < 0.65 * shuffled


def test_item_order_makes_the_next_source_unpredictable_from_the_last() -> None:
    own = [PlannedItem(str(n), (NONE, OBVIOUS)[n % 2], str(n), 1) for n in range(40)]
    orders = [[int(key) % 2 for key, _ in order_items((), own, (), 0, 0, random.Random(seed))] for seed in range(400)]
    other = sum(a != b for order in orders for a, b in itertools.pairwise(order))
    # In a random order of 40 items, the next is of the other kind in 20 of 39 cases (51.3 %); in strict alternation, 100 %.
    assert other / (400 * 39) < 0.55


def test_item_order_of_two_thousand_items_with_repeats_takes_under_a_second() -> None:
    own = [PlannedItem(str(number), NONE, str(number), 1) for number in range(2000)]
    assert len(order_items((), own, (), 0.1, 10, random.Random(1))) == 2200
    # Searching the list again for every position took six seconds.
    assert takes_under(1, lambda: order_items((), own, (), 0.1, 10, random.Random(1)))


def test_added_items_follow_the_shown_ones_in_random_order_and_repeats_keep_their_distance() -> None:
    served = [f"old{n}" for n in range(6)]
    own = [PlannedItem(f"new{n}", NONE, str(n), 1) for n in range(10)]
    orders = [order_items(served, own, {"old0"}, 0.25, 5, random.Random(seed)) for seed in range(50)]
    assert len({tuple(order) for order in orders}) == 50
    for order in orders:
        assert sorted(key for key, occasion in order if occasion == 1) == sorted(item.key for item in own)
        again = [key for key, occasion in order if occasion == 2]
        # A quarter of 16 is four; old0 was repeated already, so three repeats remain.
        assert len(again) == 3 and "old0" not in again
        every = served + [key for key, _ in order]
        for key in again:
            assert [at for at, k in enumerate(every) if k == key][1] - every.index(key) > 5


def test_added_items_go_to_raters_with_the_least_work_and_never_repeat_a_pair() -> None:
    hands = {1: Workload(3, None, {"a"}), 2: Workload(0, None, {"b"}), 3: Workload(1, 1, set())}
    needs = [PlannedItem("a1", NONE, "a", 1), PlannedItem("b1", NONE, "b", 3), PlannedItem("c1", NONE, "c", 1)]
    dealt = distribute_more(needs, hands, {"b1": {9}}, random.Random(1))
    # b1 may go to 1 and 3 only (2 has seen pair b), its third assignment to no rater; 3 has room for one.
    assert sorted((item.key, rater) for item, rater in dealt) == [("a1", 2), ("b1", 1), ("b1", 3), ("c1", 2)]


def test_new_rater_takes_items_from_the_busiest_rater_until_workloads_are_even() -> None:
    waiting = {1: [PlannedItem(f"x{n}", NONE, f"x{n}", 1) for n in range(9)], 2: [PlannedItem("y", NONE, "y", 1)] * 0}
    hands = {1: Workload(9), 2: Workload(4), 3: Workload(0)}
    moves = balance_loads.move_to_newcomers([3], hands, waiting, {}, random.Random(1))
    # 9 and 0: four moves leave 5 and 4.
    assert len(moves) == 4 and {(move.giver, move.taker) for move in moves} == {(1, 3)}
    assert [hands[rater].unrated for rater in (1, 2, 3)] == [5, 4, 4]


def test_assignment_with_one_rater_too_few_is_rejected_with_the_number_needed() -> None:
    for seed in range(30):
        items = make_random_study(seed).items
        fewest = count_raters_needed(items)
        with pytest.raises(PlanError, match=f"{fewest} would work"):
            plan_assignments(items, fewest - 1, seed)
        assert plan_assignments(items, fewest, seed)


def test_assignment_is_the_same_for_the_same_seed_and_differs_for_another() -> None:
    items = [PlannedItem(str(n), NONE, str(n), 2) for n in range(30)]
    assert plan_assignments(items, 4, 1) == plan_assignments(items, 4, 1)
    assert plan_assignments(items, 4, 1) != plan_assignments(items, 4, 2)


def test_item_order_differs_between_raters() -> None:
    items = [PlannedItem(str(n), NONE, str(n), 2) for n in range(30)]
    orders = defaultdict(list)
    for assignment in sorted(plan_assignments(items, 2, 1), key=lambda assignment: assignment.position):
        orders[assignment.rater].append(assignment.key)
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_item_choice_prefers_pairs_with_usable_original_and_twins() -> None:
    pool = [make_candidate(pair, NONE) for pair in range(20)] + make_full_pool(24)[60:]
    chosen = choose_items(pool, {NONE: 4, OBVIOUS: 4, SUBTLE: 4}, seed=1)
    assert Counter(c.pair for c in chosen) == {f"pair{pair}": 3 for pair in range(20, 24)}


def test_item_choice_is_balanced_over_experiments_and_actions() -> None:
    chosen = choose_items(make_full_pool(60), {NONE: 12}, seed=1)
    assert Counter(c.experiment for c in chosen) == {f"experiment{n}": 4 for n in range(3)}
    assert Counter(c.action for c in chosen) == {f"action{n}": 3 for n in range(4)}


def test_item_choice_balances_actions_within_experiments() -> None:
    # Every action is in every experiment: without the third stratum all items of action 0 could be from experiment 0.
    pool = [
        Candidate(f"{n:03}", NONE, f"pair{n}", f"{n}", f"experiment{n % 3}", f"action{n // 3 % 3}") for n in range(90)
    ]
    chosen = choose_items(pool, {NONE: 18}, seed=1)
    assert set(Counter((c.experiment, c.action) for c in chosen).values()) == {2}


def test_item_choice_takes_no_more_versions_of_a_pair_than_allowed() -> None:
    chosen = choose_items(make_full_pool(30), {NONE: 10, OBVIOUS: 10, SUBTLE: 10}, seed=1, versions=1)
    assert set(Counter(c.pair for c in chosen).values()) == {1}
    assert Counter(c.source for c in chosen) == {NONE: 10, OBVIOUS: 10, SUBTLE: 10}


def test_item_choice_exchanges_items_between_pairs_if_that_is_the_only_solution() -> None:
    # One version of each pair; pair 0 alone has an obvious twin and pair 1 alone a subtle one: the original is from pair 2.
    pool = [make_candidate(n, NONE) for n in range(3)] + [make_candidate(0, OBVIOUS), make_candidate(1, SUBTLE)]
    for seed in range(20):
        chosen = choose_items(pool, {NONE: 1, OBVIOUS: 1, SUBTLE: 1}, seed, versions=1)
        assert {(c.pair, c.source) for c in chosen} == {("pair0", OBVIOUS), ("pair1", SUBTLE), ("pair2", NONE)}


def test_item_choice_finds_a_solution_whenever_one_exists() -> None:
    rng = random.Random(5)
    for seed in range(60):
        # Build in a solution: each pair must be used for its first source; its other sources are distractors.
        must = [rng.choice((NONE, OBVIOUS, SUBTLE)) for _ in range(12)]
        with_distractors = [
            (n, s) for n, first in enumerate(must) for s in (NONE, OBVIOUS, SUBTLE) if s == first or rng.random() < 0.4
        ]
        pool = [make_candidate(n, source) for n, source in with_distractors]
        chosen = choose_items(pool, Counter(must), seed, versions=1)
        assert Counter(c.source for c in chosen) == Counter(must)


def test_item_choice_error_names_every_source_with_too_few_items_and_how_to_get_more() -> None:
    with pytest.raises(PlanError) as caught:
        choose_items(make_full_pool(12), {NONE: 40, OBVIOUS: 10, SUBTLE: 30}, seed=1)
    assert str(caught.value) == (
        "needs 40 items by offline, the pool holds 12: run more episodes; "
        "needs 30 subtle twins by offline, the pool holds 12: create more twins, or vet those in the queue"
    )


def test_item_choice_error_distinguishes_too_few_raters_from_too_small_a_pool() -> None:
    with pytest.raises(PlanError, match="with so few raters only 1 of the versions"):
        choose_items(make_full_pool(10), {NONE: 8, OBVIOUS: 8}, seed=1, versions=1)


def test_item_choice_rejects_a_large_study_without_a_solution() -> None:
    with pytest.raises(PlanError, match="choose more raters or fewer items"):
        choose_items(make_full_pool(400), {NONE: 201, OBVIOUS: 200}, seed=1, versions=1)


def test_item_choice_keeps_one_of_several_identical_candidates() -> None:
    alike = [make_candidate(1, NONE, "same"), make_candidate(2, NONE, "same")]
    assert drop_duplicates(reversed(alike)) == alike[:1]
