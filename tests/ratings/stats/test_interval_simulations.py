"""Coverage of the intervals of weighted kappa and of the U-statistic in simulated studies whose true values are known."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from ratings.stats import mrmc, u_statistic
from ratings.stats.coefficients import compute_agreement_weights
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from ratings.stats.weighted_kappa import estimate_weighted_kappas

pytestmark = [pytest.mark.thorough]

# A rater's confidence is 3 + the rater's shift + the item's level + noise, rounded and limited to 1 to 5.
ITEM_SD, NOISE_SD, SHIFT_SD = 1.2, 0.8, 0.4
WEIGHTS = {kind: compute_agreement_weights(5, kind) for kind in ("linear", "quadratic")}
ITEM_LEVELS = np.linspace(-4, 4, 161) * ITEM_SD
ITEM_SHARES = norm.pdf(ITEM_LEVELS / ITEM_SD) / norm.pdf(ITEM_LEVELS / ITEM_SD).sum()


def compute_true_kappa(first: float, second: float, kind: str) -> float:
    """Return the weighted kappa of two raters with these shifts for an unlimited number of items."""
    shares = []
    for shift in (first, second):
        limits = norm.cdf((np.array([1.5, 2.5, 3.5, 4.5]) - (3 + shift + ITEM_LEVELS)[:, None]) / NOISE_SD)
        edges = np.column_stack([np.zeros(len(ITEM_LEVELS)), limits, np.ones(len(ITEM_LEVELS))])
        shares.append(np.diff(edges, axis=1))
    joint, weights = (shares[0] * ITEM_SHARES[:, None]).T @ shares[1], WEIGHTS[kind]
    chance = float(joint.sum(axis=1) @ weights @ joint.sum(axis=0))
    return (float((weights * joint).sum()) - chance) / (1 - chance)


@pytest.mark.parametrize("items", [60, 120])
def test_intervals_of_weighted_kappa_contain_the_true_value_in_simulated_studies(items: int) -> None:
    rng = np.random.default_rng(3)
    population = rng.normal(0, SHIFT_SD, 40)
    of_new = {
        kind: np.mean([compute_true_kappa(a, b, kind) for a, b in combinations(population, 2)]) for kind in WEIGHTS
    }
    hits: dict[tuple[str, bool], list[bool]] = {}
    for _ in range(240):
        shifts, level = rng.normal(0, SHIFT_SD, 6), rng.normal(0, ITEM_SD, items)
        table = build_ratings_table(
            RatingRecord(f"{item:03}", f"R{rater}", 1, int(np.clip(np.rint(score), 1, 5)))
            for rater, shift in enumerate(shifts)
            for item, score in enumerate(3 + shift + level + rng.normal(0, NOISE_SD, items))
        )
        rows = estimate_weighted_kappas(table, resamples=200)
        for row in (row for row in rows if row.stat == "avg_pairwise_weighted_kappa"):
            kind, is_new = row.args["weights"], "target" in row.args
            of_these = np.mean([compute_true_kappa(a, b, kind) for a, b in combinations(shifts, 2)])
            true = of_new[kind] if is_new else of_these
            hits.setdefault((kind, is_new), []).append(row.low <= true <= row.high)
    # 240 studies: a Monte Carlo standard error of 1.4 points at 95%.
    assert len(hits) == 4 and all(np.mean(inside) > 0.92 for inside in hits.values())


def simulate_moments(rng: np.random.Generator, raters: int, sizes: tuple[int, int], separation: float, missing: float):
    """Return the moments and the mean-area analysis of one study: normal scores, raters and items as random effects."""
    grids = []
    for size, shift in zip(sizes, (separation + rng.normal(0, 0.3, (raters, 1)), 0.0), strict=True):
        grid = shift + rng.normal(0, 0.6, (1, size)) + rng.normal(0, 0.8, (raters, size))
        grid[rng.random(grid.shape) < missing] = np.nan
        grids.append(grid)
    columns = []
    for rater in range(raters):
        cases = [np.flatnonzero(np.isfinite(grid[rater])) for grid in grids]
        placed = mrmc.compute_placements(*(grid[rater][of_class] for grid, of_class in zip(grids, cases, strict=True)))
        moved = placed.positive - placed.area, placed.negative - placed.area
        columns.append(mrmc.RaterColumn(f"R{rater}", placed.area, cases[0], moved[0], cases[1], moved[1]))
    return u_statistic._Moments(*grids), mrmc.analyse_condition(columns)


@pytest.mark.parametrize(
    ("raters", "sizes", "separation"), [(6, (40, 40), 1.0), (6, (25, 25), 1.0), (12, (60, 20), 1.0), (6, (40, 25), 2.2)]
)
def test_interval_of_the_u_statistic_with_missing_readings_contains_the_true_area(raters, sizes, separation) -> None:
    # A rater's area is normal_cdf(shift / sqrt(2)), so the mean over raters is normal_cdf(separation / sqrt(2 + .3^2)).
    true = norm.cdf(separation / math.sqrt(2 + 0.09))
    rng, inside = np.random.default_rng(1), []
    for _ in range(250):
        moments, condition = simulate_moments(rng, raters, sizes, separation, 0.5)
        variance = moments.estimate_covariance(moments, unbiased=False)
        if variance > 0:
            own = condition._replace(mean=moments.area, se=math.sqrt(variance))
            low, high = mrmc.compute_new_raters_interval(own)
            inside.append(low <= true <= high)
    assert len(inside) > 150 and np.mean(inside) > 0.92
