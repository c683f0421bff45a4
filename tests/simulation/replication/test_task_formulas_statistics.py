"""Gold functions of statistical tasks agree with published values and with other implementations."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from statsmodels.stats import inter_rater

from tests.support.task_code import import_task_module

RNG = np.random.default_rng(21)


def test_segregation_expects_the_ratios_of_mendel_and_tests_them_like_scipy() -> None:
    segregation = import_task_module("genotype-segregation", "genotyping.segregation")
    assert segregation.expected_counts("Aa", "Aa", 40) == {"AA": 10, "Aa": 20, "aa": 10}
    assert segregation.expected_counts("aa", "Aa", 40) == {"AA": 0, "Aa": 20, "aa": 20}
    observed = {"AA": 14, "Aa": 15, "aa": 11}
    statistic, degrees = segregation.chi_square(observed, segregation.expected_counts("Aa", "Aa", 40))
    reference = stats.chisquare(list(observed.values()), [10, 20, 10])
    assert degrees == 2
    assert (statistic, segregation.chi_square_p(statistic, degrees)) == pytest.approx(tuple(reference))


@pytest.mark.parametrize("counts", [(12, 5, 3), (3, 30, 9), (0, 7, 0), (40, 1, 1)])
def test_hardy_weinberg_exact_test_agrees_with_an_enumeration_in_fractions(counts: tuple[int, int, int]) -> None:
    exact = import_task_module("genotype-segregation", "genotyping.segregation").hardy_weinberg_exact
    wild, heterozygous, mutant = counts
    n, n_a = sum(counts), 2 * mutant + heterozygous

    def compute_weight(h: int) -> Fraction:
        parts = math.factorial(h) * math.factorial((n_a - h) // 2) * math.factorial((2 * n - n_a - h) // 2)
        return Fraction(2**h, parts)

    weights = {h: compute_weight(h) for h in range(n_a % 2, min(n_a, 2 * n - n_a) + 1, 2)}
    p = sum(weight for weight in weights.values() if weight <= weights[heterozygous]) / sum(weights.values())
    assert exact(wild, heterozygous, mutant) == pytest.approx(float(p))


def test_genotype_ladder_is_a_quadratic_in_the_logarithm_of_size() -> None:
    ladder_code = import_task_module("genotype-segregation", "genotyping.ladder")
    sizes, distances = np.array([1000.0, 700, 500, 300, 200, 100]), np.array([40.0, 47, 54, 63, 71, 84])
    ladder = ladder_code.fit_ladder(sizes, distances)
    reference = np.polyfit(distances, np.log10(sizes), 2)
    assert (ladder.quadratic, ladder.linear, ladder.constant) == pytest.approx(reference)
    assert ladder_code.band_size(ladder, 60.0) == pytest.approx(10 ** np.polyval(reference, 60.0))
    assert math.isnan(ladder_code.band_size(ladder, 39.9)) and math.isfinite(ladder_code.band_size(ladder, 40.0))


def test_genotype_calls_ignore_unspecific_bands() -> None:
    calling = import_task_module("genotype-segregation", "genotyping.calling")
    bands = {(300.0,): "AA", (290.0, 215.0, 900.0): "Aa", (211.0, math.nan): "aa", (400.0,): "uncalled", (): "uncalled"}
    assert {sizes: calling.call_genotype(sizes, 300.0, 220.0) for sizes in bands} == bands
    assert calling.allele_frequency({"AA": 1, "Aa": 2, "aa": 3, "uncalled": 9}) == pytest.approx(8 / 12)


def test_reader_kappas_agree_with_statsmodels() -> None:
    kappa = import_task_module("reader-agreement", "readers.kappa")
    ratings = np.clip(RNG.integers(1, 6, (1, 80)) + RNG.integers(-1, 2, (4, 80)), 1, 5)
    table = kappa.contingency(ratings[0], ratings[1])
    assert table.sum() == 80 and table[ratings[0][0] - 1, ratings[1][0] - 1] >= 1
    assert kappa.cohen_kappa(table) == pytest.approx(inter_rater.cohens_kappa(table, return_results=False))
    counts = kappa.count_ratings(ratings)
    assert kappa.fleiss_kappa(counts) == pytest.approx(inter_rater.fleiss_kappa(counts, method="fleiss"))


def test_reader_areas_and_covariances_agree_with_comparisons_of_all_pairs() -> None:
    areas = import_task_module("reader-agreement", "readers.areas")
    positive, negative = RNG.integers(1, 6, (3, 14)).astype(float), RNG.integers(1, 5, (3, 11)).astype(float)
    values = np.concatenate([positive[0], negative[0]])
    assert areas.midranks(values) == pytest.approx(stats.rankdata(values))

    wins = np.sign(positive[:, :, None] - negative[:, None, :]) / 2 + 0.5  # (areas, m, n)
    assert [areas.reader_area(*pair) for pair in zip(positive, negative, strict=True)] == pytest.approx(
        wins.mean((1, 2))
    )
    expected = np.cov(wins.mean(2)) / 14 + np.cov(wins.mean(1)) / 11
    assert areas.delong_covariance(positive, negative) == pytest.approx(expected)


def test_reader_comparison_without_covariances_is_the_paired_t_test() -> None:
    comparison_code = import_task_module("reader-agreement", "readers.comparison")
    areas = np.array([[0.8, 0.9, 0.85, 0.7], [0.7, 0.7, 0.8, 0.72]])
    comparison = comparison_code.obuchowski_rockette(areas, np.zeros((8, 8)))
    reference = stats.ttest_rel(areas[0], areas[1])
    assert (comparison.f, comparison.degrees, comparison.p) == pytest.approx(
        (reference.statistic**2, 3, reference.pvalue)
    )
    assert comparison_code.difference_interval(comparison) == pytest.approx(tuple(reference.confidence_interval()))


def test_reader_comparison_adds_the_difference_of_covariances() -> None:
    obuchowski_rockette = import_task_module("reader-agreement", "readers.comparison").obuchowski_rockette
    areas = np.array([[0.8, 0.9], [0.7, 0.7]])
    # Cov1 = 5, Cov2 = 3, Cov3 = 1, in units of 0.001. MS(T) = 0.0225, MS(TR) = 0.0025, so D = 0.0025 + 2 * 0.002 = 0.0065.
    covariance = np.array([[9.0, 3, 5, 1], [3, 9, 1, 5], [5, 1, 9, 3], [1, 5, 3, 9]]) / 1000
    comparison = obuchowski_rockette(areas, covariance)
    assert comparison.f == pytest.approx(0.0225 / 0.0065)
    assert comparison.degrees == pytest.approx((0.0065 / 0.0025) ** 2)
    assert (comparison.difference, comparison.variance) == pytest.approx((0.15, 0.0065))


@pytest.fixture(scope="module")
def colonies() -> tuple[np.ndarray, np.ndarray]:
    features = RNG.normal(0, 1, (150, 3))
    return features, (features[:, 0] + RNG.logistic(size=150) > 0.8).astype(float)


def test_colony_classifier_agrees_with_scikit_learn(colonies: tuple[np.ndarray, np.ndarray]) -> None:
    model = import_task_module("colony-classifier", "colonies.model")
    features, labels = colonies
    weights = model.fit_logistic(features, labels, ridge=2.5)
    reference = LogisticRegression(C=1 / 2.5, tol=1e-10, max_iter=1000).fit(features, labels)
    assert weights == pytest.approx([*reference.intercept_, *reference.coef_[0]], abs=1e-6)
    assert model.predict_share(weights, features) == pytest.approx(reference.predict_proba(features)[:, 1], abs=1e-6)

    point = np.array([0.3, -0.2, 0.5, 0.1])
    compute_loss: Callable[[np.ndarray], float] = lambda w: model.loss_gradient(w, features, labels, 2.5)[0]  # noqa: E731
    gradient = optimize.approx_fprime(point, compute_loss, 1e-7)
    assert model.loss_gradient(point, features, labels, 2.5)[1] == pytest.approx(gradient, abs=1e-3)


def test_colony_checks_agree_with_scikit_learn_and_hand_counts(colonies: tuple[np.ndarray, np.ndarray]) -> None:
    checks = import_task_module("colony-classifier", "colonies.checks")
    features, labels = colonies
    rounded = np.round(features[:, 0], 1)
    assert checks.roc_area(labels, rounded) == pytest.approx(roc_auc_score(labels, rounded))
    # Sorted into two bins of two: means 0.15 and 0.8 against observed 0 and 0.5.
    error = checks.calibration_error(np.array([1.0, 0, 0, 0]), np.array([0.9, 0.1, 0.7, 0.2]), bins=2)
    assert error == pytest.approx((0.15 + 0.3) / 2)
    importance = checks.permutation_importance(lambda x: x[:, 0] + 2 * x[:, 2], features, labels, draws=5, seed=3)
    assert importance[1] == 0 and importance[0] != 0


def test_colony_folds_are_stratified_and_z_scores_come_from_training_colonies() -> None:
    code = import_task_module("colony-classifier", "colonies.features")
    labels = np.array([1.0] * 13 + [0.0] * 29)
    folds = code.stratified_folds(labels, 4, seed=8)
    assert sorted(np.concatenate(folds).tolist()) == list(range(42))
    assert {len(fold) for fold in folds} == {10, 11} and {int(labels[fold].sum()) for fold in folds} == {3, 4}
    train, other = code.standardise(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[5.0, 6.0]]))
    assert train.tolist() == [[-1, 0], [1, 0]] and other.tolist() == [[3, 1]]
