import itertools
import random
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from ratings.protocol import Arm, PlanError
from ratings.protocol.planning import (
    Candidate,
    Hand,
    Place,
    Planned,
    assign,
    choose,
    deal_more,
    distinct,
    even_out,
    every_arm,
    lay_out,
    matrix,
    raters_needed,
)
from ratings.protocol.planning.ordering import imbalance
from tests.support.effort import takes_under

NONE, OBVIOUS, SUBTLE = ("offline", "none"), ("offline", "obvious"), ("offline", "subtle")


def candidate(pair: int, source: tuple[str, str], content: str = "", number: int = 1) -> Candidate:
    key = f"{pair:04}/{source[1]}/{number}"
    return Candidate(key, source, f"pair{pair}", content or key, f"experiment{pair % 3}", f"action{pair % 4}")


def full_pool(pairs: int) -> list[Candidate]:
    return [candidate(pair, source) for pair in range(pairs) for source in (NONE, OBVIOUS, SUBTLE)]


ARMS = every_arm(("plain", "aligned"), (False, True), ("off",))


class Drawn(NamedTuple):
    """A random study: pairs of one to four versions, one to four ratings each, and enough raters."""

    items: list[Planned]
    raters: int
    by: str
    repeats: float
    distance: int


def random_study(seed: int) -> Drawn:
    rng = random.Random(seed)
    needed = rng.randint(1, 4)
    items = [
        Planned(f"{pair}-{version}", rng.choice((NONE, OBVIOUS, SUBTLE)), str(pair), needed)
        for pair in range(rng.randint(1, 25))
        for version in range(rng.randint(1, 4))
    ]
    raters = raters_needed(items) + rng.randint(0, 6)
    repeats = rng.choice((0, 0.1, 0.3)) if len(items) * needed > 3 * raters else 0
    return Drawn(items, raters, rng.choice(("rater", "item")), repeats, 2)


def plan(study: Drawn, seed: int) -> list[Place]:
    repeats = {"repeats": study.repeats, "distance": study.distance}
    return assign(study.items, study.raters, seed, arms=ARMS, by=study.by, **repeats)


@pytest.mark.parametrize("block", range(10))
def test_in_500_random_studies_every_rule_of_assignment_holds(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        study = random_study(seed)
        places = plan(study, seed)
        firsts = [place for place in places if place.occasion == 1]
        slots = defaultdict(list)
        for place in firsts:
            slots[place.key].append(place.slot)
        assert {key: sorted(own) for key, own in slots.items()} == {
            item.key: list(range(1, item.needed + 1)) for item in study.items
        }
        pair_of = {item.key: item.pair for item in study.items}
        met = [(place.rater, pair_of[place.key]) for place in firsts]
        assert len(met) == len(set(met)), "a rater met two versions of one pair"
        loads = Counter(place.rater for place in firsts)
        assert max(loads.values()) - min(loads[rater] for rater in range(study.raters)) <= 1
        for rater in range(study.raters):
            check_order([place for place in places if place.rater == rater], study)


def check_order(own: list[Place], study: Drawn) -> None:
    """Positions without gaps; repeats far enough back, of the rater's own items, shown as the first time."""
    assert sorted(place.position for place in own) == list(range(1, len(own) + 1))
    first = {place.key: place for place in own if place.occasion == 1}
    again = [place for place in own if place.occasion == 2]
    assert len({place.key for place in again}) == len(again) <= int(study.repeats * len(first) + 0.5)
    for place in again:
        assert place.slot is None
        assert place.position - first[place.key].position > study.distance
        assert place[5:] == first[place.key][5:]
    arms = Counter(Arm(*place[5:8]) for place in first.values())
    assert len(arms) <= 1 if study.by == "rater" else max(arms[a] for a in ARMS) - min(arms[a] for a in ARMS) <= 1


@pytest.mark.parametrize(("raters", "each", "items"), [(6, 2, 60), (6, 3, 100), (10, 5, 40), (30, 3, 200)])
def test_pairs_of_raters_share_items_evenly_and_each_sees_as_much_of_a_source(raters, each, items) -> None:
    planned = [Planned(str(n), (NONE, OBVIOUS, SUBTLE)[n % 3], str(n), each) for n in range(items)]
    found = matrix(planned, assign(planned, raters, seed=1), raters)
    # All pairs of raters together share items * each * (each - 1) / 2; for (6, 2, 60) each of the 15 pairs 60 / 15 = 4.
    average = items * each * (each - 1) / (raters * (raters - 1))
    assert int(average) <= found.shared[0] <= average <= found.shared[1] < int(average) + 2
    for source in found.sources:
        counts = [row.counts[source] for row in found.rows]
        assert max(counts) - min(counts) <= 1


def test_the_matrix_counts_what_each_rater_gets_of_each_source_and_how_often_twice() -> None:
    planned = [Planned(str(n), (NONE, OBVIOUS)[n % 2], str(n), 2) for n in range(12)]
    found = matrix(planned, assign(planned, 2, seed=1, design="crossed", repeats=0.25, distance=3), 2)
    assert found.sources == (NONE, OBVIOUS) and found.shared == (12, 12)
    # Two raters, both wanted for each of twelve items; a quarter of twelve is three.
    assert [(dict(row.counts), row.total, row.repeats) for row in found.rows] == [({NONE: 6, OBVIOUS: 6}, 12, 3)] * 2


def test_crossed_means_everybody_rates_everything_and_another_number_of_raters_is_refused() -> None:
    planned = [Planned(str(n), NONE, str(n), 3) for n in range(5)]
    assert Counter(place.rater for place in assign(planned, 3, 1, design="crossed")) == {0: 5, 1: 5, 2: 5}
    with pytest.raises(PlanError, match="so 4 raters make 4 ratings per item"):
        assign(planned, 4, 1, design="crossed")


def test_in_a_pool_nothing_is_dealt_out_before_raters_come() -> None:
    assert assign([Planned("1", NONE, "1", 3)], 3, 1, design="pool") == []


def test_more_than_a_rater_may_have_is_refused_with_the_number_that_works() -> None:
    planned = [Planned(str(n), NONE, str(n), 2) for n in range(30)]
    with pytest.raises(PlanError, match="60 ratings by 4 raters are more than 14 each; 5 raters would work"):
        assign(planned, 4, 1, most=14)
    assert max(Counter(place.rater for place in assign(planned, 5, 1, most=14)).values()) == 12


def test_repeats_for_which_nobody_has_items_enough_are_refused_with_what_would_work() -> None:
    planned = [Planned(str(n), NONE, str(n), 1) for n in range(10)]
    with pytest.raises(PlanError, match="no rater has more than 10: choose a gap of at most 9"):
        assign(planned, 1, 1, repeats=0.2, distance=10)
    order = sorted(assign(planned, 1, 1, repeats=0.2, distance=9), key=lambda place: place.position)
    # Only after all ten is there an item with nine others behind it: the first, once more.
    assert (order[10].key, order[10].occasion) == (order[0].key, 2)


def test_every_combination_of_layout_context_and_marks_is_an_arm_and_raters_get_them_in_turn() -> None:
    arms = every_arm(("plain", "aligned"), (False, True), ("off", "always"))
    assert len(set(arms)) == 8 and arms[0] == Arm("plain", False, "off")
    planned = [Planned(str(n), NONE, str(n), 16) for n in range(2)]
    rows = matrix(planned, assign(planned, 16, 1, arms=arms), 16).rows
    assert Counter(row.arms for row in rows[:8]) == Counter(row.arms for row in rows[8:]) == {(a,): 1 for a in arms}


def test_arms_by_item_are_even_within_each_source_of_a_rater() -> None:
    planned = [Planned(str(n), (NONE, OBVIOUS)[n % 2], str(n), 1) for n in range(24)]
    places = assign(planned, 1, 1, arms=ARMS, by="item")
    # Twelve items of a source, four arms: three times each.
    seen = Counter((int(place.key) % 2, Arm(*place[5:8])) for place in places)
    assert seen == {(source, arm): 3 for source in (0, 1) for arm in ARMS}


def test_sources_are_spread_over_the_way_better_than_by_shuffling_alone() -> None:
    own = [Planned(str(n), (NONE, NONE, OBVIOUS, SUBTLE)[n % 4], str(n), 1) for n in range(40)]
    by_key = {item.key: item for item in own}
    spread = shuffled = 0.0
    for seed in range(200):
        rng = random.Random(seed)
        spread += imbalance([by_key[key] for key, _ in lay_out((), own, (), 0, 0, rng)])
        shuffled += imbalance(rng.sample(own, len(own)))
    # The best of three draws of a sum of squares about chi-squared with 6 degrees: roughly 0.55 of its mean.
    assert spread < 0.65 * shuffled


def test_no_guess_from_the_last_item_does_much_better_than_chance() -> None:
    own = [Planned(str(n), (NONE, OBVIOUS)[n % 2], str(n), 1) for n in range(40)]
    orders = [[int(key) % 2 for key, _ in lay_out((), own, (), 0, 0, random.Random(seed))] for seed in range(400)]
    other = sum(a != b for order in orders for a, b in itertools.pairwise(order))
    # Of 40 shuffled, the next is of the other kind in 20 of 39 cases, 51.3 %. Strictly alternating it would be 100 %.
    assert other / (400 * 39) < 0.55


def test_two_thousand_items_with_repeats_are_laid_out_at_once() -> None:
    own = [Planned(str(number), NONE, str(number), 1) for number in range(2000)]
    assert len(lay_out((), own, (), 0.1, 10, random.Random(1))) == 2200
    # Looked through for every place of the order it took six seconds.
    assert takes_under(1, lambda: lay_out((), own, (), 0.1, 10, random.Random(1)))


def test_what_comes_late_goes_in_random_order_behind_what_was_served_and_repeats_stay_apart() -> None:
    served = [f"old{n}" for n in range(6)]
    own = [Planned(f"new{n}", NONE, str(n), 1) for n in range(10)]
    orders = [lay_out(served, own, {"old0"}, 0.25, 5, random.Random(seed)) for seed in range(50)]
    assert len({tuple(order) for order in orders}) == 50
    for order in orders:
        assert sorted(key for key, occasion in order if occasion == 1) == sorted(item.key for item in own)
        again = [key for key, occasion in order if occasion == 2]
        # A quarter of 16 is four; old0 came twice already, so three are still due.
        assert len(again) == 3 and "old0" not in again
        every = served + [key for key, _ in order]
        for key in again:
            assert [at for at, k in enumerate(every) if k == key][1] - every.index(key) > 5


def test_dealing_more_goes_to_who_has_least_waiting_and_never_gives_a_second_version() -> None:
    hands = {1: Hand(3, None, {"a"}), 2: Hand(0, None, {"b"}), 3: Hand(1, 1, set())}
    needs = [Planned("a1", NONE, "a", 1), Planned("b1", NONE, "b", 3), Planned("c1", NONE, "c", 1)]
    dealt = deal_more(needs, hands, {"b1": {9}}, random.Random(1))
    # b1 may go to 1 and 3 only (2 has met b) and its third place to nobody; 3 has room for one.
    assert sorted((item.key, rater) for item, rater in dealt) == [("a1", 2), ("b1", 1), ("b1", 3), ("c1", 2)]


def test_a_newcomer_takes_from_who_has_most_until_all_have_as_much_left() -> None:
    waiting = {1: [Planned(f"x{n}", NONE, f"x{n}", 1) for n in range(9)], 2: [Planned("y", NONE, "y", 1)] * 0}
    hands = {1: Hand(9), 2: Hand(4), 3: Hand(0)}
    moves = even_out([3], hands, waiting, {}, random.Random(1))
    # 9 and 0: four moves leave 5 and 4.
    assert len(moves) == 4 and {(move.giver, move.taker) for move in moves} == {(1, 3)}
    assert [hands[rater].waiting for rater in (1, 2, 3)] == [5, 4, 4]


def test_one_rater_less_than_needed_is_refused_with_the_number_that_works() -> None:
    for seed in range(30):
        items = random_study(seed).items
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


def test_pairs_whose_original_and_twins_can_all_be_used_come_first() -> None:
    pool = [candidate(pair, NONE) for pair in range(20)] + full_pool(24)[60:]
    chosen = choose(pool, {NONE: 4, OBVIOUS: 4, SUBTLE: 4}, seed=1)
    assert Counter(c.pair for c in chosen) == {f"pair{pair}": 3 for pair in range(20, 24)}


def test_items_are_spread_evenly_over_experiments_and_actions() -> None:
    chosen = choose(full_pool(60), {NONE: 12}, seed=1)
    assert Counter(c.experiment for c in chosen) == {f"experiment{n}": 4 for n in range(3)}
    assert Counter(c.action for c in chosen) == {f"action{n}": 3 for n in range(4)}


def test_no_action_comes_from_one_experiment_only() -> None:
    # Every action in every experiment: without the third stratum experiment 0 could give all of action 0.
    pool = [
        Candidate(f"{n:03}", NONE, f"pair{n}", f"{n}", f"experiment{n % 3}", f"action{n // 3 % 3}") for n in range(90)
    ]
    chosen = choose(pool, {NONE: 18}, seed=1)
    assert set(Counter((c.experiment, c.action) for c in chosen).values()) == {2}


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
        "needs 40 items by offline, the pool holds 12: run more episodes; "
        "needs 30 subtle twins by offline, the pool holds 12: create more twins, or vet those in the queue"
    )


def test_too_few_raters_for_the_versions_is_told_from_too_small_a_pool() -> None:
    with pytest.raises(PlanError, match="with so few raters only 1 of the versions"):
        choose(full_pool(10), {NONE: 8, OBVIOUS: 8}, seed=1, versions=1)


def test_a_study_of_hundreds_that_cannot_be_is_refused() -> None:
    with pytest.raises(PlanError, match="choose more raters or fewer items"):
        choose(full_pool(400), {NONE: 201, OBVIOUS: 200}, seed=1, versions=1)


def test_of_candidates_that_look_alike_one_is_kept() -> None:
    alike = [candidate(1, NONE, "same"), candidate(2, NONE, "same")]
    assert distinct(reversed(alike)) == alike[:1]
