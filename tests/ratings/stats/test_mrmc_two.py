"""Two-condition MRMC against published output, against every pair of kernels, and in simulated reader studies."""

import math
from collections import defaultdict

import numpy as np
import pytest

from ratings.stats import mrmc, mrmc_comparison, u_statistic
from ratings.stats.mrmc_comparison import compare_conditions, compute_f_test
from ratings.stats.u_statistic import ScoreGrid, compare_pooled_areas
from tests.support.reader_studies import VAN_DYKE, build_reader_study


@pytest.fixture(scope="module")
def van_dyke():
    return [build_reader_study(VAN_DYKE[condition], 69) for condition in ("1", "2")]


def build_columns(table):
    return mrmc.build_rater_columns(table, table.signed_ratings)[0]


def compute_jackknife_covariances(tables):
    """Covariances of the ten areas with each case left out in turn, as the published analysis has them."""
    scores = [table.build_grid(table.signed_ratings) for table in tables]
    truth = tables[0].item_reference
    left_out = []
    for case in range(len(truth)):
        keep = np.arange(len(truth)) != case
        areas = []
        for grid in scores:
            for reader in range(grid.shape[1]):
                good, bad = (grid[keep & (truth == reference), reader] for reference in (1, 0))
                areas.append(float(np.mean((good[:, None] > bad) + 0.5 * (good[:, None] == bad))))
        left_out.append(areas)
    found = np.array(left_out)
    moved = found - found.mean(axis=0)
    return (len(truth) - 1) / len(truth) * moved.T @ moved


def test_comparison_of_van_dykes_conditions_equals_the_published_output_of_or_dbm_mrmc(van_dyke, monkeypatch) -> None:
    # OR-DBM MRMC 2.51 (University of Iowa), VanDyke.txt: jackknife covariances.
    matrix = compute_jackknife_covariances(van_dyke)
    compute = mrmc.compute_covariances
    # Only those of both conditions together: each condition is also analysed by itself.
    monkeypatch.setattr(
        mrmc, "compute_covariances", lambda found: matrix if len(found) == len(matrix) else compute(found)
    )
    found = compare_conditions(*map(build_columns, van_dyke))
    assert (found.first, found.second) == (pytest.approx(0.89703704, abs=5e-9), pytest.approx(0.94083736, abs=5e-9))
    assert found.parts.cov1 == pytest.approx(0.00034661, abs=5e-9)
    assert found.parts.cov2 == pytest.approx(0.00034407, abs=5e-9)
    assert found.parts.cov3 == pytest.approx(0.00023903, abs=5e-9)
    assert found.parts.var_error == pytest.approx(0.00080229, abs=5e-9)
    assert found.test.se == pytest.approx(0.02075, abs=5e-6)
    assert found.test.f == pytest.approx(4.46, abs=5e-3)
    assert found.test.df == pytest.approx(15.26, abs=5e-3)
    assert found.test.p == pytest.approx(0.0517, abs=5e-5)
    assert (found.test.low, found.test.high) == (pytest.approx(-0.08796, abs=5e-6), pytest.approx(0.00036, abs=5e-6))
    assert (found.raters, found.dropped, found.reason) == (5, 0, "")


def test_comparison_with_delongs_covariances_changes_little(van_dyke) -> None:
    found = compare_conditions(*map(build_columns, van_dyke))
    assert found.test.se == pytest.approx(0.02075, rel=0.01)
    assert found.test.p == pytest.approx(0.0517, abs=1e-3)


def test_f_statistic_of_the_comparison_is_the_square_of_the_t_statistic() -> None:
    test = compute_f_test(
        -0.0438, 5, mrmc_comparison.TwoConditionComponents(0.000551, 0.0, 0.0, 0.00034407, 0.00023903)
    )
    assert test.f == pytest.approx((-0.0438 / test.se) ** 2)


def test_comparison_drops_and_counts_raters_who_rated_only_one_condition(van_dyke) -> None:
    first, second = map(build_columns, van_dyke)
    found = compare_conditions(first, second[:4])
    assert (found.raters, found.dropped) == (4, 1)
    two = compare_conditions(first[:2], second[:2])
    assert (two.test.p, two.test.low) == (None, None) and "two raters" in two.reason
    one = compare_conditions(first[:1], second[:1])
    assert one.test.low < one.first - one.second < one.test.high and "this rater" in one.reason
    assert "in the second" in compare_conditions(first, [])


def test_comparison_without_common_raters_uses_independent_groups(van_dyke) -> None:
    first, second = map(build_columns, van_dyke)
    others = [column._replace(rater=f"other {column.rater}") for column in second]
    found = compare_conditions(first, others)
    alone = [mrmc.analyse_condition(one) for one in (first, others)]
    assert found.test.se == pytest.approx(math.hypot(alone[0].se, alone[1].se))
    assert found.reason == mrmc_comparison.UNPAIRED and found.parts is None


def test_comparison_with_fewer_than_three_common_raters_uses_independent_groups(van_dyke) -> None:
    first, second = map(build_columns, van_dyke)
    others = [second[0], second[1], *(column._replace(rater=f"other {column.rater}") for column in second[2:])]
    found = compare_conditions(first, others)
    apart = compare_conditions(first, [column._replace(rater=f"other {column.rater}") for column in second])
    assert (found.first, found.second, found.test) == (apart.first, apart.second, apart.test)
    assert (found.raters, found.dropped, found.reason) == (8, 0, mrmc_comparison.FEW_COMMON)


def simulate_columns(rng, readers, cases, shift):
    """Columns of readers whose scores of both classes differ by `shift` standard deviations."""
    found = []
    for reader in range(readers):
        scores = rng.normal(shift, 1, cases).round(1), rng.normal(0, 1, cases).round(1)
        placed = mrmc.compute_placements(*scores)
        moved = placed.positive - placed.area, placed.negative - placed.area
        at = np.arange(cases)
        found.append(mrmc.RaterColumn(f"R{reader}", placed.area, at, moved[0], at + 1000, moved[1]))
    return found


def test_comparison_interval_near_area_1_stays_within_bounds_and_agrees_with_the_p_value() -> None:
    rng, seen = np.random.default_rng(2), set()
    for _ in range(60):
        found = compare_conditions(
            simulate_columns(rng, 4, 15, 3.5), simulate_columns(rng, 4, 15, rng.uniform(0.5, 3.5))
        )
        if found.test.low is None:
            continue
        half = mrmc_comparison.infer_difference(found.first - found.second, found.test.se, found.test.df)
        assert -1 <= found.test.low <= found.first - found.second <= found.test.high <= 1
        assert found.test.high - found.test.low > 0.9 * (half[2] - half[1])
        excludes = found.test.low > 0 or found.test.high < 0
        assert (found.test.p < 0.05) == excludes
        seen.add(excludes)
    assert seen == {True, False}


def test_comparison_with_one_or_two_items_of_a_class_has_no_interval() -> None:
    rng = np.random.default_rng(3)
    found = compare_conditions(simulate_columns(rng, 4, 2, 1.0), simulate_columns(rng, 4, 2, 1.0))
    assert (found.test.low, found.test.p, found.reason) == (None, None, mrmc_comparison.FEW_OF_A_CLASS)


def simulate_small_grid(rng):
    """3 readers, 4 positives and 3 negatives, a fifth of the readings missing."""
    grids = rng.integers(0, 4, (3, 4)).astype(float), rng.integers(0, 3, (3, 3)).astype(float)
    for grid in grids:
        grid[rng.random(grid.shape) < 0.2] = np.nan
    return ScoreGrid(*grids)


def compute_covariance_by_every_pair(first: ScoreGrid, second: ScoreGrid) -> float:
    kernels = []
    for one in (first, second):
        kernels.append({
            (r, i, j): float((good > bad) + 0.5 * (good == bad))
            for r in range(3)
            for i, good in enumerate(one.positive[r])
            for j, bad in enumerate(one.negative[r])
            if np.isfinite(good) and np.isfinite(bad)
        })  # fmt: skip
    sums, counts = defaultdict(float), defaultdict(int)
    for place, kernel in kernels[0].items():
        for other, against in kernels[1].items():
            shared = tuple(a == b for a, b in zip(place, other, strict=True))
            sums[shared] += kernel * against
            counts[shared] += 1
    every = len(kernels[0]) * len(kernels[1])
    nothing = (False, False, False)
    return sum(sums[shared] / every for shared in sums) - sums[nothing] / counts[nothing]


def test_u_statistic_variance_equals_the_one_computed_from_all_pairs_of_kernels() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        first, second = simulate_small_grid(rng), simulate_small_grid(rng)
        ours = [u_statistic._Moments(*one) for one in (first, second)]
        assert ours[0].estimate_covariance(ours[1]) == pytest.approx(
            compute_covariance_by_every_pair(first, second), abs=1e-12
        )
        assert ours[0].estimate_covariance(ours[0]) == pytest.approx(
            compute_covariance_by_every_pair(first, first), abs=1e-12
        )


def test_u_statistic_variance_is_unbiased_for_differences() -> None:
    rng = np.random.default_rng(8)
    differences, variances = [], []
    for _ in range(600):
        reader, good, bad = (
            rng.normal(0, 0.3, (2, 5, 1)),
            rng.normal(0, 0.5, (1, 1, 20)),
            rng.normal(0, 0.5, (1, 1, 25)),
        )
        positive = rng.normal(0.8, 1, (2, 5, 20)) + reader + good
        negative = rng.normal(0, 1, (2, 5, 25)) + bad
        first, second = (u_statistic._Moments(positive[at], negative[at]) for at in (0, 1))
        differences.append(first.area - second.area)
        variances.append(
            first.estimate_covariance(first)
            + second.estimate_covariance(second)
            - 2 * first.estimate_covariance(second)
        )
    assert np.mean(variances) == pytest.approx(np.var(differences), rel=0.15)


def test_u_statistic_and_mean_areas_agree_on_a_complete_study(van_dyke) -> None:
    tables = van_dyke
    raters, cases = tables[0].raters, len(tables[0].items)
    grids = [u_statistic.build_score_grid(one, one.signed_ratings, one.item, raters, cases) for one in tables]
    u, average = compare_pooled_areas(*grids), compare_conditions(*map(build_columns, tables))
    # Each reader has read all pairs of cases, so weighting readers by pairs changes nothing.
    assert (u.first, u.second) == (pytest.approx(average.first), pytest.approx(average.second))
    assert u.se == pytest.approx(average.test.se, rel=0.02)


def test_u_statistic_that_is_too_large_or_without_pairs_gives_a_reason(monkeypatch) -> None:
    empty = ScoreGrid(np.full((2, 2), np.nan), np.full((2, 2), np.nan))
    assert "no rater has" in compare_pooled_areas(empty, empty)
    monkeypatch.setattr(u_statistic, "MAX_CELLS", 3)
    full = ScoreGrid(np.ones((2, 2)), np.zeros((2, 2)))
    assert compare_pooled_areas(full, full) == u_statistic.TOO_LARGE


def add_empty_raters(own: ScoreGrid, before: int, after: int) -> ScoreGrid:
    """Return the readings with rows for other readers, who have read nothing."""
    return ScoreGrid(*(np.pad(grid, ((before, after), (0, 0)), constant_values=np.nan) for grid in own))


def test_u_statistic_of_different_raters_adds_the_variances() -> None:
    rng = np.random.default_rng(5)
    cases = rng.normal(1, 1, (1, 12)), rng.normal(0, 1, (1, 15))
    first, second = (
        ScoreGrid(*(case + rng.normal(0, 1, (readers, case.shape[1])) for case in cases)) for readers in (4, 3)
    )
    found = compare_pooled_areas(add_empty_raters(first, 0, 3), add_empty_raters(second, 4, 0), paired=False)
    # Each condition is complete, so both variances are the unbiased ones, and they add up.
    alone = [u_statistic._Moments(*one) for one in (first, second)]
    assert found.se == pytest.approx(math.sqrt(sum(one.estimate_covariance(one) for one in alone)))
    assert found.reason == mrmc_comparison.UNPAIRED


@pytest.mark.parametrize(("items", "has_error"), [(19, False), (20, True)])
def test_u_statistic_has_no_standard_error_with_missing_readings_of_few_items(items: int, has_error: bool) -> None:
    rng = np.random.default_rng(6)
    first, second = (ScoreGrid(rng.normal(1, 1, (4, items)), rng.normal(0, 1, (4, 30))) for _ in range(2))
    first.positive[0, 0] = np.nan
    found = compare_pooled_areas(first, second)
    assert (found.se > 0) is has_error
    assert has_error or f"a class has only {items} items" in found.reason
