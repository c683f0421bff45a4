"""Reference code of seven task folders against libraries and hand-made numbers: content that graders and experts rely on."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.stats
from sklearn.isotonic import IsotonicRegression
from statsmodels.formula.api import ols
from statsmodels.regression.linear_model import WLS
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests
from statsmodels.tools.eval_measures import aicc

TASKS = Path(__file__).resolve().parents[3] / "fixtures" / "replication"


@pytest.fixture
def load_code(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of a task's reference code. Its package is forgotten after the test."""
    loaded: list[str] = []

    def load(slug: str, name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(TASKS / slug / "code"))
        loaded.append(name.split(".")[0])
        return importlib.import_module(name)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a cache in a task folder would be part of the task
    yield load
    for name in [name for name in sys.modules if name.split(".")[0] in loaded]:
        del sys.modules[name]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(5)


def test_moi_gate_splits_the_channel_that_contains_the_threshold(load_code: Any) -> None:
    gates = load_code("moi-poisson", "moi.gates")
    counts = np.array([[1, 2, 1], [1, 4, 1]])  # 10 events: 2 below, 6 within channel 1, 2 above
    assert gates.gate_threshold(counts, 0.5) == pytest.approx(1.5)
    assert gates.positive_fraction(counts, 1.5).tolist() == pytest.approx([0.5, 0.5])
    assert gates.positive_fraction(counts, 1.25).tolist() == pytest.approx([2.5 / 4, 4 / 6])
    # 8 of 100 bright of which 2 of 100 are background: (0.08 - 0.02) / 0.98
    assert gates.background_correct(np.array([0.08, 0.01]), 0.02).tolist() == pytest.approx([0.0612245, 0.0], abs=1e-7)


def test_moi_and_multiple_integrations_follow_the_poisson_law(load_code: Any) -> None:
    poisson, titre = load_code("moi-poisson", "moi.poisson"), load_code("moi-poisson", "moi.titre")
    moi = np.array([0.05, 0.3, 1.0, 3.0])
    assert poisson.moi_from_fraction(scipy.stats.poisson.sf(0, moi)).tolist() == pytest.approx(moi.tolist())
    expected = scipy.stats.poisson.sf(1, moi) / scipy.stats.poisson.sf(0, moi)
    assert poisson.share_multiply_infected(moi).tolist() == pytest.approx(expected.tolist())
    # MOI 0.2 in 50,000 cells from 100 µL of a 1:20 dilution: 10,000 units in 0.005 mL
    assert titre.titre_from_dilution(np.array([0.2]), 50_000, 100.0, np.array([20.0]))[0] == pytest.approx(2e6)
    # Equal fractions, four times the events: a quarter of the variance, so four fifths of the weight.
    pooled, error = titre.pooled_titre(
        np.array([1e6, 2e6]), np.array([0.2, 0.4]), np.array([0.2, 0.2]), np.array([1000, 4000])
    )
    variance = 0.2 / (0.8 * 1000) * 5e6**2
    assert pooled == pytest.approx(1.8e6) and error == pytest.approx((variance / 5) ** 0.5)


def test_enzyme_fits_recover_exact_constants_and_agree_with_linear_regression(
    load_code: Any, random: np.random.Generator
) -> None:
    fits = load_code("enzyme-kinetics", "kinetics.fits")
    substrate = np.repeat([20.0, 60.0, 180.0, 500.0], 3)
    exact = 4.0 * substrate / (120.0 + substrate)
    for fit in (fits.fit_michaelis_menten, fits.lineweaver_burk, fits.eadie_hofstee):
        assert fit(substrate, exact) == pytest.approx((4.0, 120.0), rel=1e-8)
    inhibitor = np.tile([0.0, 15.0, 40.0], 4)
    inhibited = 4.0 * substrate / (120.0 * (1.0 + inhibitor / 20.0) + substrate)
    assert fits.fit_competitive(substrate, inhibitor, inhibited)[:3] == pytest.approx((4.0, 120.0, 20.0), rel=1e-7)
    noisy = exact * random.normal(1.0, 0.1, len(exact))
    reciprocal = scipy.stats.linregress(1.0 / substrate, 1.0 / noisy)
    assert fits.lineweaver_burk(substrate, noisy) == pytest.approx(
        (1.0 / reciprocal.intercept, reciprocal.slope / reciprocal.intercept)
    )
    ratio = scipy.stats.linregress(noisy / substrate, noisy)
    assert fits.eadie_hofstee(substrate, noisy) == pytest.approx((ratio.intercept, -ratio.slope))


def test_enzyme_rate_ends_where_the_trace_bends_and_weights_are_those_of_aicc(load_code: Any) -> None:
    assay, choice = load_code("enzyme-kinetics", "kinetics.assay"), load_code("enzyme-kinetics", "kinetics.choice")
    minutes = np.arange(20.0)
    bent = np.where(minutes < 8, 3.0 * minutes, 21.0)
    rate = assay.initial_rate(minutes, bent)
    lengths = [n for n in range(5, 21) if scipy.stats.pearsonr(minutes[:n], bent[:n])[0] ** 2 >= 0.995]
    assert rate == pytest.approx(scipy.stats.linregress(minutes[: max(lengths)], bent[: max(lengths)]).slope)
    # A = 0.622 above the blank, 6220 L/(mol cm), 0.5 cm: 2e-4 mol/L
    product = assay.absorbance_to_concentration(np.array([0.672]), np.array([0.04, 0.06]), 6220.0, 0.5)
    assert product[0] == pytest.approx(200.0)
    sums, values, parameters = np.array([2.0, 2.4, 1.9]), 24, np.array([3, 3, 4])
    likelihood = -values / 2 * (np.log(2 * np.pi * sums / values) + 1)
    criterion = np.array([aicc(a, values, k + 1) for a, k in zip(likelihood, parameters, strict=True)])
    expected = np.exp(-(criterion - criterion.min()) / 2)
    weights = choice.akaike_weights(sums, values, parameters)
    assert weights.tolist() == pytest.approx((expected / expected.sum()).tolist())


def test_kill_curve_agrees_with_isotonic_regression_trimming_and_nested_models(
    load_code: Any, random: np.random.Generator
) -> None:
    plates, logistic = load_code("kill-curve", "killcurve.plates"), load_code("kill-curve", "killcurve.logistic")
    selection = load_code("kill-curve", "killcurve.selection")
    values = random.normal(size=7)
    assert plates.trimmed_mean(values) == pytest.approx(scipy.stats.trim_mean(values, 1 / 7))
    assert plates.trimmed_mean(values[:4]) == pytest.approx(values[:4].mean())
    shares, weights = np.sort(random.random(12)) + random.normal(0, 0.2, 12), random.uniform(1, 9, 12)
    expected = IsotonicRegression().fit_transform(np.arange(12), shares, sample_weight=weights)
    assert selection.monotone(shares, weights).tolist() == pytest.approx(expected.tolist())
    # Halfway between shares 0.8 and 1.0, at the geometric mean of doses 1 and 4.
    assert selection.minimum_dose(np.array([1.0, 4.0]), np.array([0.8, 1.0])) == pytest.approx(2.0)
    curve = logistic.Curve(bottom=0.1, top=0.9, half=2.0, slope=3.0)
    assert logistic.logistic(np.array([logistic.dose_at_level(0.2, curve)]), curve)[0] == pytest.approx(0.2)
    dose = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 4)
    assert logistic.fit_logistic(dose, logistic.logistic(dose, curve)) == pytest.approx(curve, rel=1e-6)
    data = pandas.DataFrame({"dose": dose, "y": 3.0 - 0.1 * dose + random.normal(0, 0.3, len(dose))})
    line, levels = ols("y ~ dose", data).fit(), ols("y ~ C(dose)", data).fit()
    table = anova_lm(line, levels)
    test = logistic.lack_of_fit(dose, data["y"].to_numpy(), line.predict(data).to_numpy(), 2)
    assert (test.f, test.p) == pytest.approx((table["F"][1], table["Pr(>F)"][1]))
    assert test.pure_sd == pytest.approx(levels.mse_resid**0.5)


def test_glutamate_interval_is_the_delta_method_on_the_logarithm(load_code: Any, random: np.random.Generator) -> None:
    hill, traces = load_code("glutamate-hill", "sensor.hill"), load_code("glutamate-hill", "sensor.traces")
    dose = np.repeat([1.0, 3.0, 10.0, 30.0, 100.0, 300.0], 3)
    response = hill.hill_response(dose, 12.0, 1.4, 2.5) + random.normal(0, 0.05, len(dose))
    fit = hill.fit_hill(dose, response)
    values = np.array([fit.ec50, fit.n, fit.top])
    steps = np.diag(values * 1e-6)
    jacobian = np.column_stack(
        [
            (hill.hill_response(dose, *(values + step)) - hill.hill_response(dose, *(values - step))) / (2 * step.sum())
            for step in steps
        ]
    )
    residuals = response - hill.hill_response(dose, *values)
    assert np.abs(jacobian.T @ residuals).max() < 1e-5  # a stationary point of the sum of squares
    covariance = np.linalg.inv(jacobian.T @ jacobian) * (residuals @ residuals) / (len(dose) - 3)
    assert fit.covariance == pytest.approx(covariance, rel=1e-4)
    reach = scipy.stats.t.ppf(0.975, len(dose) - 3) * covariance[0, 0] ** 0.5 / fit.ec50
    assert hill.ec50_interval(fit) == pytest.approx((fit.ec50 * np.exp(-reach), fit.ec50 * np.exp(reach)), rel=1e-4)
    blanks = np.array([0.1, 0.2, 0.3])  # mean 0.2, sd 0.1: threshold 0.5
    limit = hill.detection_limit(fit, blanks)
    assert hill.hill_response(np.array([limit]), *values)[0] == pytest.approx(0.5)
    assert hill.dynamic_range(fit, limit) == pytest.approx(fit.top / 0.5)
    seconds = np.arange(0.0, 20.0, 0.25)
    bleached = 100.0 * np.exp(-0.01 * seconds) * np.where((seconds >= 5) & (seconds < 15), 3.0, 1.0)
    assert traces.correct_bleaching(seconds, bleached, 5.0)[[0, 40, 79]].tolist() == pytest.approx(
        [100.0, 300.0, 100.0]
    )


def test_growth_rate_lag_and_protons_are_those_of_a_known_culture(load_code: Any) -> None:
    curves, acidity = load_code("growth-acidity", "isolates.curves"), load_code("growth-acidity", "isolates.acidity")
    hours = np.arange(0.0, 12.0, 0.5)
    density = 0.02 * np.exp(0.6 * np.clip(hours - 3.0, 0.0, 5.0))  # 3 h lag, 0.6 per hour, then a plateau
    phase = curves.log_phase(hours, density)
    assert (curves.growth_rate(hours, density, phase), curves.lag_time(hours, density, phase)) == pytest.approx(
        (0.6, 3.0)
    )
    # 2 units at 5 mmol/L per unit, and free protons rise from 10^-5 to 10^-3 mol/L: 10 + 0.99
    assert acidity.protons_released(np.array([2.0]), np.array([3.0]), 5.0)[0] == pytest.approx(10.99)
    drop = acidity.ph_drop(np.array([[5.0, 4.0]]), np.array([[5.2, 5.0], [5.4, 5.2]]))
    assert drop.ravel().tolist() == pytest.approx([0.3, 1.1])


def test_permutation_and_holm_agree_with_exact_enumeration_and_statsmodels(
    load_code: Any, random: np.random.Generator
) -> None:
    ranking, pairs = load_code("growth-acidity", "isolates.ranking"), load_code("biofilm-anova", "biofilm.pairs")
    sample, control = np.array([3.1, 4.2, 2.0]), np.array([1.0, 2.4, 0.3, 1.9])
    exact = scipy.stats.permutation_test(
        (sample, control), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf, alternative="greater"
    )
    # 35 divisions; 4,000 draws have a standard error below 0.005
    assert ranking.permutation_p(sample, control, 4000, seed=3) == pytest.approx(exact.pvalue, abs=0.015)
    p_values = random.random(9) ** 3
    expected = multipletests(p_values, method="holm")[1].tolist()
    assert ranking.holm_adjust(p_values).tolist() == pytest.approx(expected)
    assert pairs.holm_adjust(p_values).tolist() == pytest.approx(expected)


def test_biofilm_tests_agree_with_scipy(load_code: Any, random: np.random.Generator) -> None:
    anova, pairs = load_code("biofilm-anova", "biofilm.anova"), load_code("biofilm-anova", "biofilm.pairs")
    groups = [np.round(random.normal(mean, 0.4, size), 1) for mean, size in ((1.0, 5), (1.2, 7), (1.9, 6))]
    assert anova.one_way_anova(groups) == pytest.approx(tuple(scipy.stats.f_oneway(*groups)))
    assert anova.kruskal_wallis(groups) == pytest.approx(tuple(scipy.stats.kruskal(*groups)))
    frame = pandas.DataFrame({"y": np.concatenate(groups), "group": np.repeat(["a", "b", "c"], [5, 7, 6])})
    assert anova.eta_squared(groups) == pytest.approx(ols("y ~ group", frame).fit().rsquared)
    deviation, freedom = pairs.pooled_sd(groups[:2])
    t, p = pairs.pairwise_t(groups[:2], deviation, freedom)
    assert (t[0], p[0]) == pytest.approx(tuple(scipy.stats.ttest_ind(*groups[:2])))


def test_hplc_line_agrees_with_weighted_regression(load_code: Any, random: np.random.Generator) -> None:
    calibration = load_code("hplc-caffeine", "hplc.calibration")
    x = np.repeat([2.0, 4.0, 8.0, 16.0, 32.0], 2)
    y = 0.4 + 1.3 * x * random.normal(1, 0.02, len(x))
    line = calibration.fit_weighted_line(x, y)
    model = WLS(y, np.column_stack([np.ones_like(x), x]), weights=1 / x**2).fit()
    assert (line.intercept, line.slope) == pytest.approx(tuple(model.params))
    assert calibration.detection_limits(line)[0] == pytest.approx(3.3 * model.bse[0] / model.params[1])
    concentration, error = calibration.inverse_predict(line, np.array([14.0, 14.6, 14.3]))
    assert concentration == pytest.approx((14.3 - model.params[0]) / model.params[1])
    gradient = np.array([1.0, concentration])  # of a + b x₀ by the coefficients
    variance = model.scale * concentration**2 / 3 + gradient @ model.cov_params() @ gradient
    assert error == pytest.approx(variance**0.5 / model.params[1])


def test_hplc_peak_and_recovery_are_those_of_figures_drawn_by_hand(load_code: Any) -> None:
    peaks, report = load_code("hplc-caffeine", "hplc.peaks"), load_code("hplc-caffeine", "hplc.report")
    minutes = np.arange(0.0, 6.0, 0.01)
    parabola = 7.0 - 3.0 * (minutes - 2.0034) ** 2
    assert peaks.locate_peak(minutes, parabola) == pytest.approx((2.0034, 7.0))
    # A triangle with a front of 1 min and a back of 2 min: its width at 5 % is 0.95 + 1.90 min, its area 1.5 times its height.
    triangle = np.interp(minutes, [1.0, 2.0, 4.0], [0.0, 10.0, 0.0])
    assert peaks.tailing_factor(minutes, triangle) == pytest.approx(1.5, abs=0.005)
    assert peaks.integrate_peak(minutes, triangle) == pytest.approx(15.0, rel=0.001)
    line = peaks.find_baseline(minutes, 2.0 + 0.5 * minutes + triangle, (0.0, 0.9), (4.1, 5.9))
    assert line.tolist() == pytest.approx((2.0 + 0.5 * minutes).tolist())
    # 10 mL at 20 mg/L and 1 mL at 100 mg/L hold 0.3 mg; 0.29 mg are found.
    assert report.recovery(0.29 / 11 * 1000, 20.0, 10.0, 1.0, 100.0) == pytest.approx(90.0)
