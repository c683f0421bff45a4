import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from ratings.stats.proportions import (
    compute_clustered_interval,
    compute_wilson_interval,
    estimate_mean_confidences,
    estimate_rate,
    estimate_rates,
    estimate_weighted_rates,
)
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17:857-872, table I, method 3 (Wilson, no continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval_equals_the_published_one(k: int, n: int, low: float, high: float) -> None:
    found = estimate_rate([True] * k + [False] * (n - k))
    assert (found.k, found.n, found.value) == (k, n, k / n)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_wilson_interval_equals_the_one_computed_shown_to_admin() -> None:
    # p = 1/2, n = 4, z^2 = 3.841459: half width z*sqrt(p(1-p)/n + z^2/4n^2)/(1 + z^2/n)
    # = 1.959964*sqrt(0.0625 + 0.0600228)/1.9603647 = 0.686051/1.960365 = 0.349961; centre 1/2 by symmetry.
    found = estimate_rate([True, True, False, False])
    assert found.high == pytest.approx(0.849961, abs=1e-5)
    assert found.low == pytest.approx(0.150039, abs=1e-5)


def test_rate_without_ratings_is_undefined_with_a_reason() -> None:
    assert estimate_rate([]) == (None, None, None, 0, 0, "there are no ratings")


def build_ratings(*lines: str, sources: str = "") -> Ratings:
    """Build ratings from one line per rater with one character per item, a dot if there is no verdict; `sources` has a letter per item."""
    return build_ratings_table(
        RatingRecord(f"{at:02}", f"r{rater}", int(mark), source=sources[at] if sources else "all")
        for rater, marks in enumerate(lines)
        for at, mark in enumerate(marks)
        if mark != "."
    )


def test_clustered_interval_equals_the_one_computed_shown_to_admin() -> None:
    # Items 1 1, 1 1, 1 0 and 0 0 of two raters: p = 5/8; residuals 3/8 and -5/8. Sums by item 6/8, 6/8, -2/8, -10/8:
    # squares 176/64; V_item = 4/3 * 2.75/64 = .0572917. By rater 4/8, -4/8: V_rater = 2 * .5/64 = .015625.
    # By rating: (5*9 + 3*25)/64 = 1.875; V_rating = 8/7 * 1.875/64 = .0334821. Item + rater - rating = .0394345, so the
    # largest is V_item; n_eff = (15/64)/.0572917 = 4.090909; t with min(4, 2) - 1 = 1 degree is 12.7062.
    rows = estimate_rates(build_ratings("1110", "1100"), by=None)
    assert (rows[0].value, rows[0].method, rows[0].n["ratings"], rows[0].n["yes"]) == (5 / 8, "wilson_cluster", 8, 5)
    square = 12.7062**2 / 4.090909
    centre = (0.625 + square / 2) / (1 + square)
    half = 12.7062 * (0.625 * 0.375 / 4.090909 + square / 4 / 4.090909) ** 0.5 / (1 + square)
    assert (rows[0].low, rows[0].high) == (
        pytest.approx(centre - half, abs=1e-5),
        pytest.approx(centre + half, abs=1e-5),
    )
    assert rows[1].args == {"interval": "wilson"}
    naive = estimate_rate([True] * 5 + [False] * 3)
    assert (rows[1].low, rows[1].high) == (pytest.approx(naive.low), pytest.approx(naive.high))


def test_clustered_interval_of_constant_raters_has_the_variance_of_raters() -> None:
    # One says yes to four items, the other no: residuals 1/2 and -1/2. By item they cancel: V_item = 0. By rater 2 and -2:
    # V_rater = 2 * 8/64 = 1/4. V_rating = 8/7 * 2/64 = 1/28. Item + rater - rating is less than V_rater alone, so the design
    # effect is (1/4) * 8 / (1/4) = 8.
    found = compute_clustered_interval(np.array([1.0] * 4 + [0.0] * 4), np.tile(np.arange(4), 2), np.repeat([0, 1], 4))
    assert found.deff == pytest.approx(8)


def test_clustered_variance_equals_that_of_statsmodels() -> None:
    # Computed with statsmodels 0.15.0: OLS on a constant, cov_type "cluster" with items and raters as groups
    rng = np.random.default_rng(3)
    item, rater = np.repeat(np.arange(40), 3), np.concatenate([rng.choice(6, 3, replace=False) for _ in range(40)])
    answers = (rng.random(120) < 0.5 + 0.4 * (item % 2) - 0.04 * rater).astype(float)
    fit = OLS(answers, np.ones(120)).fit()
    groups = np.column_stack([item, rater])
    variance = float(fit.get_robustcov_results("cluster", groups=groups, use_correction=True).cov_params()[0, 0])
    # Statsmodels' small-sample factor has the (n-1)/(n-k) of a regression besides g/(g-1); with k = 1 it is 1.
    share = answers.mean()
    found = compute_clustered_interval(answers, item, rater)
    assert found.deff * share * (1 - share) / 120 == pytest.approx(variance, rel=1e-9)


def test_rates_by_source_have_two_intervals_and_all_their_counts() -> None:
    rows = estimate_rates(build_ratings("11101100", "1110.000", sources="aaaabbbb"))
    assert [(row.args, row.n) for row in rows[:2]] == [
        ({"source": "a"}, {"items": 4, "raters": 2, "ratings": 8, "yes": 6}),
        ({"source": "a", "interval": "wilson"}, {"items": 4, "raters": 2, "ratings": 8, "yes": 6}),
    ]
    assert (rows[2].value, rows[2].n["ratings"]) == (2 / 7, 7)


def test_rate_of_one_rater_is_for_new_items() -> None:
    rows = estimate_rates(build_ratings("1110", "1100"), by="rater")
    assert [row.method for row in rows] == ["wilson_items", "wilson", "wilson_items", "wilson"]
    # Three of four: V_item = 4/3 * (3 * .0625 + .5625)/16 = .0625, n_eff = .1875/.0625 = 3, t with 3 degrees 3.182446
    low, high = compute_wilson_interval(0.75, 3, 3.182446)
    assert (rows[0].low, rows[0].high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_rate_interval_of_a_constant_source_uses_the_design_effect_of_the_other_sources() -> None:
    found = estimate_rates(build_ratings("11110000" * 3, "11110000" * 3, "11100000" * 3, sources="aaaabbbb" * 3))
    a, b = found[0], found[2]
    # b has no yes: its interval is Wilson with 36 / deff of a and t with two degrees, 4.302653
    answers = np.array([1.0] * 9 + [1] * 9 + [1, 1, 1, 1, 1, 1, 1, 1, 1] + [1] * 6 + [0] * 3)
    assert a.value == answers.mean() == 33 / 36
    one = build_ratings("11110000" * 3, "11110000" * 3, "11100000" * 3, sources="aaaabbbb" * 3).select_source("a")
    deff = max(1.0, compute_clustered_interval(one.verdict.astype(float), one.item, one.rater).deff)
    assert deff > 1
    assert (b.value, b.low) == (0, 0)
    assert b.high == pytest.approx(compute_wilson_interval(0, 36 / deff, 4.302653)[1], abs=1e-6)
    assert f"{deff:.1f}" in b.reason


def test_design_effect_below_1_counts_as_1_for_a_constant_source() -> None:
    # a: 1010 and 0101, item and rater sums are 0, design effect 0, which counts as 1. b: 1111 and 0000, design effect 8 (above).
    # c, all yes, takes (8 * 1 + 8 * 8) / 16 = 4.5: n = 8/4.5, t with one degree 12.7062, t^2/n = 90.8142.
    # With a share of 1 Wilson's lower end is 1 / (1 + t^2/n) = .0108916.
    c = estimate_rates(build_ratings("101011111111", "010100001111", sources="aaaabbbbcccc"))[4]
    assert (c.args, c.value, c.high) == ({"source": "c"}, 1, 1)
    assert c.low == pytest.approx(0.0108916, abs=1e-6)
    assert c.reason == "all verdicts are alike; the interval uses the design effect of the other groups, 4.5"


def test_rate_of_constant_verdicts_or_of_one_item_states_what_limits_its_interval() -> None:
    everywhere = estimate_rates(build_ratings("1111", "1111"))[0]
    assert everywhere.high == 1
    assert everywhere.low is not None
    assert "as independent" in everywhere.reason
    single = estimate_rates(build_ratings("1", "0"))[0]
    assert (single.value, single.low, single.high) == (0.5, None, None)
    assert "single item" in single.reason


def test_rates_are_undefined_without_ratings_and_not_computed_for_more_than_two_categories() -> None:
    empty = estimate_rates(build_ratings_table([]))
    assert (empty[0].value, empty[0].reason) == (None, "there are no ratings")
    assert estimate_rates(build_ratings_table([RatingRecord("i", "r", "red")], categories=("red", "blue"))) == []


def test_weighted_rates_give_equal_weight_to_each_item_or_to_each_rater() -> None:
    rows = {row.stat: row.value for row in estimate_weighted_rates(build_ratings("1110", "0..."), by=None)}
    # Items 1/2, 1, 1, 0: mean 5/8. Raters 3/4 and 0: mean 3/8. By rating 3/5.
    assert rows == {"plausibility_rate_item_weighted": 5 / 8, "plausibility_rate_rater_weighted": 3 / 8}


def test_rates_can_be_split_by_a_factor() -> None:
    rows = [RatingRecord(f"{at}", "r", at % 2, factors={"action": "spin" if at < 4 else "heat"}) for at in range(6)]
    found = estimate_rates(build_ratings_table(rows), by="action")
    assert [(row.args["action"], row.value) for row in found[::2]] == [("heat", 1 / 2), ("spin", 1 / 2)]


def build_confidences(*lines: str) -> Ratings:
    """Build ratings from one line per rater with one digit per item: the confidence; a dot if there is none."""
    return build_ratings_table(
        RatingRecord(f"{at}", f"r{rater}", 1, confidence=None if mark == "." else int(mark))
        for rater, line in enumerate(lines)
        for at, mark in enumerate(line)
    )


def test_mean_confidence_and_its_interval_equal_those_computed_shown_to_admin() -> None:
    # Mean 3. Sums of residuals by item and by rater: 1, 0, -1: each 3/2 * 2/81; by rating 9/8 * 2/81.
    # V = 6/81 - 2.25/81 = 3.75/81; half-width 4.302653 * sqrt(0.0462963) = 0.925774.
    [found] = estimate_mean_confidences(build_confidences("433", "333", "332"), by=None)
    assert found.value == 3 and found.n == {"items": 3, "raters": 3, "ratings": 9}
    assert (found.low, found.high) == (pytest.approx(3 - 0.925774, abs=1e-5), pytest.approx(3 + 0.925774, abs=1e-5))
    assert found.method == "mean_cluster"


def test_mean_confidence_of_few_or_equal_answers_has_no_interval_and_a_reason() -> None:
    [found] = estimate_mean_confidences(build_confidences("43.", "3.."), by=None)
    assert found.value == pytest.approx(10 / 3) and found.n["ratings"] == 3
    [found] = estimate_mean_confidences(build_confidences("44", "44"), by=None)
    assert (found.value, found.low, found.reason[:28]) == (4, None, "all confidences are the same")
    [found] = estimate_mean_confidences(build_confidences("4", "3"), by=None)
    assert found.low is None and found.reason == "a single item says nothing about other items"
    [found] = estimate_mean_confidences(build_confidences("..", ".."), by=None)
    assert (found.value, found.reason) == (None, "no rating has a confidence")


def test_mean_confidence_of_one_rater_is_for_new_items() -> None:
    # 5 and 1 around 3: V = 2 * (4 + 4) / 16 = 1 by item; Student's t with one degree is wider than the scale.
    [found] = estimate_mean_confidences(build_confidences("51"), by=None)
    assert (found.value, found.low, found.high, found.method) == (3, 1, 5, "mean_items")
