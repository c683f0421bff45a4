"""Weighted kappa against published tables, its standard error against the delta method, and its mean over pairs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from ratings.stats import weighted_kappa
from ratings.stats.coefficients import compute_agreement_weights
from ratings.stats.rater_pairs import RaterPairs, tabulate_pairs
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table
from ratings.stats.weighted_kappa import estimate_weighted_kappas
from tests.support.rating_tables import build_table, draw_table, find_estimate


def build_pair(cells: Sequence[Sequence[int]], weights: Sequence[Sequence[float]] | str | None) -> RaterPairs:
    """Return the pair of raters with this table (first rater in rows); weights are a matrix, or their kind."""
    both = [(a, b) for a, row in enumerate(cells) for b, n in enumerate(row) for _ in range(n)]
    rows = [
        RatingRecord(f"{i:04}", rater, value)
        for i, two in enumerate(both)
        for rater, value in zip("ab", two, strict=True)
    ]
    table = build_ratings_table(rows, categories=range(len(cells)))
    matrix = compute_agreement_weights(len(cells), weights) if isinstance(weights, str) else weights
    return replace(tabulate_pairs(table), weights=None if matrix is None else np.array(matrix, dtype=np.float64))


def test_weighted_kappa_of_cohens_table_equals_the_published_one() -> None:
    # Cohen 1968, Psychological Bulletin 70:213, table 1 (200 cases): kappa .492, weighted .348 with the disagreement
    # weights 1 (first and second diagnosis), 3 (first and third) and 6 (second and third).
    # Disagreement .12 + 3 * .10 + 6 * .08 = .90; by chance .33 + 3 * .17 + 6 * .09 = 1.38; 1 - .90/1.38 = .348
    cells = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
    disagreement = np.array([[0, 1, 3], [1, 0, 6], [3, 6, 0]])
    assert build_pair(cells, None).cohen_kappa[0] == pytest.approx(0.492, abs=5e-4)
    assert build_pair(cells, 1 - disagreement / 6).cohen_kappa[0] == pytest.approx(1 - 0.90 / 1.38)


@pytest.mark.parametrize(("weights", "published"), [(None, 0.55), ("linear", 0.61), ("quadratic", 0.67)])
def test_weighted_kappa_of_two_clinicians_pain_ratings_equals_the_published_one(weights, published) -> None:
    # Sim and Wright 2005, Physical Therapy 85:257, table 3: two clinicians, four categories of pain.
    cells = [[15, 3, 1, 1], [4, 18, 3, 2], [4, 5, 16, 4], [1, 2, 4, 17]]
    assert build_pair(cells, weights).cohen_kappa[0] == pytest.approx(published, abs=5e-3)


# Hout, Duncan and Sobel 1987: answers of 91 couples, as Agresti (1990, Categorical Data Analysis, table 2.10) prints them.
COUPLES = [[7, 7, 2, 3], [2, 8, 3, 7], [1, 5, 4, 9], [2, 8, 9, 14]]


def test_weighted_kappa_and_standard_error_of_the_couples_equal_those_of_another_program() -> None:
    # Kappa(SexualFun) of the R package vcd prints 0.1293 (ASE 0.0686) and, with linear weights, 0.2374 (ASE 0.0783).
    for weights, kappa, error in ((None, 0.1293, 0.0686), ("linear", 0.2374, 0.0783)):
        pair = build_pair(COUPLES, weights)
        assert pair.cohen_kappa[0] == pytest.approx(kappa, abs=5e-5)
        assert np.sqrt(pair.kappa_variance[0]) == pytest.approx(error, abs=5e-5)


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_variance_of_weighted_kappa_equals_the_delta_method(kind: str) -> None:
    # Var = (sum p d^2 - (sum p d)^2) / n with d the derivative of kappa by each cell's share, here by differences.
    weights, shares = compute_agreement_weights(4, kind), np.array(COUPLES) / 91

    def compute_kappa(cells: np.ndarray) -> float:
        total = cells / cells.sum()
        chance = float(total.sum(axis=1) @ weights @ total.sum(axis=0))
        return (float((weights * total).sum()) - chance) / (1 - chance)

    slopes = np.zeros((4, 4))
    for cell in np.ndindex(4, 4):
        step = np.zeros((4, 4))
        step[cell] = 1e-6
        slopes[cell] = (compute_kappa(shares + step) - compute_kappa(shares - step)) / 2e-6
    expected = ((shares * slopes**2).sum() - (shares * slopes).sum() ** 2) / 91
    assert build_pair(COUPLES, kind).kappa_variance[0] == pytest.approx(expected, rel=1e-5)


def test_weighted_kappa_of_two_categories_is_cohens() -> None:
    pair = build_pair([[20, 5], [10, 15]], "quadratic")
    assert pair.cohen_kappa[0] == pytest.approx(0.4)  # (35/50 - 1/2) / (1/2)
    assert pair.kappa_variance[0] == pytest.approx(build_pair([[20, 5], [10, 15]], None).kappa_variance[0])


def test_weighted_kappa_with_one_answer_throughout_is_undefined() -> None:
    confidences = ("4" * 20, "4" * 20)
    rows = estimate_weighted_kappas(build_table("10" * 10, "10" * 10, confidences=confidences), resamples=50)
    assert {(row.value, row.reason[:3]) for row in rows} == {(None, "0/0")}


def simulate_confidences(seed: int, raters: int = 4, items: int = 60) -> Ratings:
    """Ratings whose confidences follow a level of the item, plus or minus one level."""
    rng = np.random.default_rng(seed)
    level = rng.integers(1, 6, items)
    return build_ratings_table(
        RatingRecord(
            f"{item:03}",
            f"R{rater}",
            int(item % 2),
            int(np.clip(level[item] + rng.integers(-1, 2), 1, 5)),
            source=f"s{item % 3}",
        )
        for item in range(items)
        for rater in range(raters)
        if rng.random() < 0.9
    )


def test_mean_weighted_kappa_is_the_mean_of_the_pairs_computed_cell_by_cell() -> None:
    table = simulate_confidences(1)
    grid = table.build_grid(table.confidence)
    kappas = []
    for a, b in combinations(range(4), 2):
        both = grid[np.isfinite(grid[:, a]) & np.isfinite(grid[:, b])][:, [a, b]]
        # One minus the mean squared difference over its mean over all combinations of the two raters' answers.
        observed = np.mean((both[:, 0] - both[:, 1]) ** 2)
        kappas.append(1 - observed / np.mean(np.subtract.outer(both[:, 0], both[:, 1]) ** 2))
    rows = estimate_weighted_kappas(table, resamples=200)
    args = {"of": "confidence", "weights": "quadratic"}
    for index, (a, b) in enumerate(combinations(range(4), 2)):
        raters = [f"R{a}", f"R{b}"]
        assert find_estimate(rows, "weighted_kappa", **args, raters=raters).value == pytest.approx(kappas[index])
    mean = find_estimate(rows, "avg_pairwise_weighted_kappa", **args, min_overlap=20)
    new = find_estimate(rows, "avg_pairwise_weighted_kappa", **args, min_overlap=20, target="new raters")
    assert mean.value == pytest.approx(np.mean(kappas))
    assert (mean.method, mean.n["pairs_used"]) == ("item_bootstrap_corrected", 6)
    assert new.low < mean.low < mean.value < mean.high < new.high


def test_bootstrap_and_large_sample_interval_of_weighted_kappa_agree_for_two_raters() -> None:
    rows = estimate_weighted_kappas(simulate_confidences(2, 2, 300), resamples=2000)
    for kind in ("linear", "quadratic"):
        args = {"of": "confidence", "weights": kind}
        mean = find_estimate(rows, "avg_pairwise_weighted_kappa", **args, min_overlap=20)
        pair = find_estimate(rows, "weighted_kappa", **args, raters=["R0", "R1"])
        assert mean.half_width == pytest.approx(pair.half_width, rel=0.1)


def test_weighted_kappa_is_given_by_source_and_withheld_below_the_overlap() -> None:
    rows = estimate_weighted_kappas(simulate_confidences(3), 30, resamples=50)
    args = {"of": "confidence", "weights": "linear", "min_overlap": 30, "source": "s0"}
    withheld = find_estimate(rows, "avg_pairwise_weighted_kappa", **args)
    assert withheld.value is not None and withheld.low is None and withheld.withheld
    assert withheld.reason.startswith("few items: no pair shares 30 items")
    again = estimate_weighted_kappas(simulate_confidences(3), 30, resamples=50, show_unstable=True)
    shown = find_estimate(again, "avg_pairwise_weighted_kappa", **args)
    assert shown.low is not None and shown.is_unstable and shown.reason == withheld.reason


def test_unstable_weighted_kappas_change_no_other_result() -> None:
    plain, shown = (
        estimate_weighted_kappas(simulate_confidences(3), resamples=50, show_unstable=show) for show in (False, True)
    )
    for one, other in zip(plain, shown, strict=True):
        assert one == other or other.withheld


def test_weighted_kappa_of_verdicts_needs_three_whole_numbers() -> None:
    scale = build_table("0123" * 6, "0122" * 6, categories=(0, 1, 2, 3))
    assert {row.args["of"] for row in estimate_weighted_kappas(scale, resamples=20)} == {"verdict"}
    assert estimate_weighted_kappas(build_table("01" * 12, "01" * 12), resamples=20) == []


def test_weighted_kappa_of_many_raters_is_not_resampled_and_its_pairs_are_counted(monkeypatch) -> None:
    monkeypatch.setattr(weighted_kappa, "MAX_PAIRS_LISTED", 5)
    monkeypatch.setattr(weighted_kappa, "MAX_RESAMPLED_CELLS", 100)
    rows = estimate_weighted_kappas(draw_table(90, 4, 4, (0.5,), 1, confidences=True), resamples=50)
    args = {"of": "confidence", "weights": "linear"}
    mean = find_estimate(rows, "avg_pairwise_weighted_kappa", **args, min_overlap=20)
    assert (mean.low, mean.reason) == (None, weighted_kappa.TOO_MANY_PAIRS) and mean.value is not None
    pairs = find_estimate(rows, "weighted_kappa", **args, pairs="of all raters")
    assert (pairs.value, pairs.n) == (None, {"pairs": 6})
