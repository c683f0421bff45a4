"""pass@k: the unbiased estimator, its denominators, and two agents on the same experiments."""

from collections.abc import Iterator
from itertools import combinations, product
from statistics import NormalDist

import numpy as np
import pytest

from ratings.stats.proportions import TaskReplicates, compare_agents, compute_pass_at_k, estimate_mean_pass_at_k


@pytest.mark.parametrize(("n", "successes", "k"), [(5, 2, 1), (5, 2, 2), (5, 2, 3), (5, 1, 4), (7, 3, 5), (4, 0, 2)])
def test_pass_at_k_is_the_share_of_k_subsets_with_a_success(n: int, successes: int, k: int) -> None:
    subsets = list(combinations([True] * successes + [False] * (n - successes), k))
    assert compute_pass_at_k(n, successes, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_2_of_two_successes_in_five_equals_the_one_computed_shown_to_admin() -> None:
    # 1 - C(3,2)/C(5,2) = 1 - 3/10; the biased 1 - (1 - 2/5)^2 would say .64
    assert compute_pass_at_k(5, 2, 2) == pytest.approx(0.7)


def test_pass_at_k_is_1_if_fewer_than_k_failed_and_undefined_below_k_replicates() -> None:
    assert compute_pass_at_k(5, 4, 2) == 1.0
    assert compute_pass_at_k(4, 4, 5) is None


@pytest.mark.parametrize(("n", "successes", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_pass_at_k_rejects_impossible_counts(n: int, successes: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@"):
        compute_pass_at_k(n, successes, k)


def test_mean_pass_at_k_has_counts_and_an_interval() -> None:
    # 8 of 18 tasks at one attempt each: 8/18 = .444, as the paper prints 44.4 %
    tasks = [TaskReplicates(f"t{at}", 1, int(at < 8)) for at in range(18)]
    found = estimate_mean_pass_at_k("a", tasks, 1)
    assert found.value == pytest.approx(8 / 18)
    assert found.n == {"tasks": 18, "tasks_short": 0, "attempts": 18, "successes": 8}
    # One attempt each: the variance of the mean is p(1-p)/17, so the effective n is 17, and t of 17 degrees is 2.1098:
    # t^2/n = .26184, centre (.44444 + .13092)/1.26184 = .45597,
    # half-width 2.1098 sqrt(.24691/17 + .26184/68)/1.26184 = 2.1098 * .13556/1.26184 = .22665
    assert (found.low, found.high) == pytest.approx((0.2293, 0.6826), abs=2e-4)
    assert found.method == "wilson_tasks"


def test_mean_pass_at_k_interval_depends_on_tasks_and_not_on_replicates() -> None:
    # pass@3 of three attempts with a success is 1, of three without 0: ten tasks of which six got there.
    tasks = [TaskReplicates(f"t{at}", 3, int(at < 6)) for at in range(10)]
    found = estimate_mean_pass_at_k("a", tasks, 3)
    once = estimate_mean_pass_at_k("a", [TaskReplicates(f"t{at}", 1, int(at < 6)) for at in range(10)], 1)
    assert found.value == once.value == 0.6
    assert (found.low, found.high) == (once.low, once.high)


def test_mean_pass_at_k_interval_for_values_between_0_and_1_equals_the_one_computed_shown_to_admin() -> None:
    # Five tasks of two attempts, 1 1 1 1 2 successes: values .5 .5 .5 .5 1, mean .6, variance .05, of the mean .01:
    # effective n .24/.01 = 24, t of 4 degrees 2.7764: t^2/n = .32119, centre (.6 + .16059)/1.32119 = .57569,
    # half-width 2.7764 sqrt(.01 + .32119/96)/1.32119 = 2.7764 * .11553/1.32119 = .24277
    found = estimate_mean_pass_at_k("a", [TaskReplicates(f"t{at}", 2, 1 + (at == 4)) for at in range(5)], 1)
    assert (found.low, found.high) == pytest.approx((0.3329, 0.8185), abs=2e-4)


def test_mean_pass_at_k_of_equal_values_has_no_interval() -> None:
    found = estimate_mean_pass_at_k("a", [TaskReplicates(f"t{at}", 2, 1) for at in range(8)], 1)
    assert (found.value, found.low) == (0.5, None)
    assert found.reason == "all experiments have the same value, which does not show how others would differ"


def test_mean_pass_at_k_is_undefined_if_a_task_has_too_few_replicates() -> None:
    tasks = [TaskReplicates("x", 5, 2), TaskReplicates("y", 2, 1)]
    found = estimate_mean_pass_at_k("a", tasks, 3)
    assert found.value is None
    assert found.reason == "1 of 2 experiments have fewer than 3 replicates; the smallest number is 2"
    assert found.n["tasks_short"] == 1


def test_mean_pass_at_k_of_no_success_has_an_exact_interval() -> None:
    # Clopper-Pearson for 0 of 6: 1 - (.025)^(1/6) = .4593
    found = estimate_mean_pass_at_k("a", [TaskReplicates(f"t{at}", 3, 0) for at in range(6)], 2)
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 6))
    assert found.method == "clopper_pearson"


def test_pass_at_k_without_replicates_is_undefined_with_a_reason() -> None:
    assert estimate_mean_pass_at_k("a", [], 1).reason == "there are no replicates"
    found = estimate_mean_pass_at_k("a", [TaskReplicates("x", 2, 1), TaskReplicates("y", 0, 0)], 1)
    assert (found.value, found.reason) == (None, "1 of 2 experiments have no replicate")
    difference, _ = compare_agents(
        "a", "b", {"a": [TaskReplicates("x", 0, 0)], "b": [TaskReplicates("x", 1, 1)]}, 1, seed=0
    )
    assert (difference.value, difference.reason) == (None, "no experiment has a replicate by both agents")


def build_replicates(first: str, second: str) -> dict[str, list[TaskReplicates]]:
    """Build one attempt per experiment; each character is + (goal reached) or - (not reached)."""
    return {
        name: [TaskReplicates(f"t{at}", 1, int(sign == "+")) for at, sign in enumerate(signs)]
        for name, signs in (("a", first), ("b", second))
    }


def test_paired_bootstrap_p_value_is_close_to_the_one_from_all_possible_resamples() -> None:
    # d = +1 +1 +1 0 0 0 -1, mean 2/7. Of all 7^7 resamples the share whose mean is 0 or less, as a normal deviate and so many
    # times nearer to the middle as the interval is wider for seven tasks: sqrt(7/6) t of 6 degrees / 1.96 = 1.08012 * 2.44691/1.95996
    d = [1, 1, 1, 0, 0, 0, -1]
    counts = {value: d.count(value) for value in (-1, 0, 1)}
    total = below = 0
    for drawn in product((-1, 0, 1), repeat=7):
        ways = 1
        for value in drawn:
            ways *= counts[value]
        total += ways
        below += ways * (sum(drawn) <= 0)
    assert total == 7**7
    normal = NormalDist()
    expected = 2 * normal.cdf(normal.inv_cdf(below / total) / (1.08012 * 2.44691 / 1.95996))
    difference, p, mcnemar = compare_agents(
        "a", "b", build_replicates("+++++--", "---++-+"), 1, seed=1, resamples=20_000
    )
    assert difference.value == pytest.approx(2 / 7)
    assert p.value == pytest.approx(expected, abs=0.01)
    assert difference.n == {"tasks": 7, "tasks_not_common": 0}
    # McNemar: 3 against 1 of 4, two-sided: 2 * (C(4,3) + C(4,4)) / 16 = .625
    assert mcnemar.value == pytest.approx(0.625)


def simulate_agents(tasks: int, attempts: int, tables: int, shift: float) -> Iterator[dict[str, list[TaskReplicates]]]:
    """Simulate two agents, the second worse by the same amount at every task; tasks range from impossible to certain."""
    rng = np.random.default_rng(1)
    for _ in range(tables):
        chance = rng.random(tasks)
        yield {
            name: [
                TaskReplicates(f"t{at}", attempts, int(rng.binomial(attempts, max(0.0, one - less))))
                for at, one in enumerate(chance)
            ]
            for name, less in (("a", 0.0), ("b", shift))
        }


def test_agent_comparison_has_5_percent_false_positives_on_six_tasks() -> None:
    # 5 % of 300 is 15; of draws that are not widened 10 % and more.
    values = [
        compare_agents("a", "b", own, 1, seed=0, resamples=1000)[1].value for own in simulate_agents(6, 3, 300, 0.0)
    ]
    told = [value for value in values if value is not None]
    assert len(told) > 280 and sum(value < 0.05 for value in told) <= 0.075 * len(told)


@pytest.mark.parametrize("tasks", [5, 6, 8, 18])
def test_agent_comparison_p_is_below_5_percent_exactly_where_the_interval_excludes_0(tasks: int) -> None:
    sides = set()
    for shift in (0.0, 0.3):
        for own in simulate_agents(tasks, 3, 60, shift):
            difference, p, *_ = compare_agents("a", "b", own, 1, seed=0, resamples=2000)
            if difference.low is not None and difference.high is not None and p.value is not None:
                leaves_out = not difference.low <= 0 <= difference.high
                assert (p.value < 0.05) == leaves_out
                sides.add(leaves_out)
    assert sides == {True, False}


def test_agent_comparison_uses_the_tasks_of_both() -> None:
    tasks = {
        "a": [TaskReplicates("x", 3, 1), TaskReplicates("y", 1, 1)],
        "b": [TaskReplicates("x", 3, 0), TaskReplicates("z", 3, 3)],
    }
    difference, p = compare_agents("a", "b", tasks, 2, seed=0)
    # x alone has two attempts of both: 1 - C(2,2)/C(3,2) = 2/3 against 0
    assert difference.value == pytest.approx(2 / 3)
    assert difference.n == {"tasks": 1, "tasks_not_common": 1}
    assert p.value is None and "5 experiments" in p.reason


def test_agent_comparison_of_equal_agents_has_p_1() -> None:
    difference, p, mcnemar = compare_agents("a", "b", build_replicates("++--+-", "++--+-"), 1, seed=0)
    assert (difference.value, difference.low, p.value, mcnemar.value) == (0, None, 1, 1)


def test_agent_comparison_of_constant_differences_has_mcnemars_test_and_no_interval() -> None:
    difference, p, mcnemar = compare_agents("a", "b", build_replicates("++++++", "------"), 1, seed=0)
    assert (difference.value, difference.low, p.value) == (1, None, None)
    assert "resampling shows no uncertainty" in difference.reason
    # McNemar: 6 of 6 one way, two-sided 2 / 2^6
    assert mcnemar.value == pytest.approx(2 / 64)
