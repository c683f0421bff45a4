"""Gold functions of chemical tasks agree with published values and with other implementations."""

import math

import numpy as np
import pytest
from scipy import ndimage, optimize, signal, stats

from tests.support.task_code import import_generator, import_task_module

RNG = np.random.default_rng(20)


# Two-sided critical values at 5 % from the table of Grubbs and Beck (1972), Technometrics 14:847.
@pytest.mark.parametrize(("n", "critical"), [(5, 1.715), (8, 2.126), (10, 2.290), (20, 2.709)])
def test_grubbs_outlier_follows_the_published_critical_values(n: int, critical: float) -> None:
    grubbs_outlier = import_task_module("standard-addition", "spiking.spikes").grubbs_outlier

    def build_values(suspect: float) -> np.ndarray:
        return np.array([*np.linspace(-1, 1, n - 1), suspect])

    def compute_g(suspect: float) -> float:
        values = build_values(suspect)
        return float((values[-1] - values.mean()) / values.std(ddof=1))

    below, above = (
        optimize.brentq(lambda x, g=g: compute_g(x) - g, 0.5, 60) for g in (critical - 2e-3, critical + 2e-3)
    )
    assert grubbs_outlier(build_values(below)) is None
    assert grubbs_outlier(build_values(above)) == n - 1


def test_standard_addition_line_and_extrapolation_agree_with_least_squares_and_the_delta_method() -> None:
    spikes = import_task_module("standard-addition", "spiking.spikes")
    addition = import_task_module("standard-addition", "spiking.addition")
    x = np.linspace(0, 4, 9)
    y = 3.0 + 2.0 * x + RNG.normal(0, 0.2, 9)
    line, reference = spikes.fit_addition(x, y), stats.linregress(x, y)
    assert (line.slope, line.intercept) == pytest.approx((reference.slope, reference.intercept))
    assert line.residual_sd / math.sqrt(line.sum_squares_x) == pytest.approx(reference.stderr)

    covariance = (
        np.linalg.inv(np.column_stack([np.ones(9), x]).T @ np.column_stack([np.ones(9), x])) * line.residual_sd**2
    )
    gradient = np.array([1 / line.slope, -line.intercept / line.slope**2])
    assert addition.x_intercept(line) == pytest.approx(line.intercept / line.slope)
    assert addition.se_x_intercept(line) == pytest.approx(math.sqrt(gradient @ covariance @ gradient))
    assert addition.back_to_sample(2.0, [(5, 50), (2, 10)], 194.19) == pytest.approx(2 * 10 * 5 * 194.19)


def test_standard_addition_compares_concentrations_like_scipy_without_equal_variances() -> None:
    compare_t = import_task_module("standard-addition", "spiking.matrix").compare_t
    first, second = RNG.normal(1, 0.1, 4), RNG.normal(1.2, 0.4, 7)
    reference = stats.ttest_ind(first, second, equal_var=False)
    assert compare_t(first, second) == pytest.approx((reference.statistic, reference.df, reference.pvalue))


def test_chloride_weighing_agrees_with_textbook_values() -> None:
    weighing = import_task_module("chloride-gravimetry", "silver.weighing")
    chemistry = import_task_module("chloride-gravimetry", "silver.chemistry")
    # A litre of water of 0.9982 g/mL reads 1.05 g less than its mass in air of 1.2 kg/m3.
    assert weighing.buoyancy_correct(1000.0, 0.9982, 0.0012, 8.0) == pytest.approx(1001.05, abs=0.01)
    assert weighing.constant_mass(np.array([20.0, 15.0, 14.9, 14.8, 17.0])) == pytest.approx(14.95)
    masses = {"Ag": 107.8682, "Cl": 35.45, "Pb": 207.2}
    assert chemistry.gravimetric_factor("Cl", "AgCl", masses) == pytest.approx(0.24735, abs=1e-5)
    assert chemistry.gravimetric_factor("Cl", "PbCl2", masses) == pytest.approx(70.9 / 278.1)


def test_chloride_dixon_q_agrees_with_a_worked_example() -> None:
    dixon_q = import_task_module("chloride-gravimetry", "silver.chemistry").dixon_q
    # Gap 0.177 - 0.167 over range 0.189 - 0.167; the limit for ten values is 0.466.
    values = np.array([0.189, 0.167, 0.187, 0.183, 0.186, 0.182, 0.181, 0.184, 0.181, 0.177])
    assert dixon_q(values) == (pytest.approx(10 / 22), None)
    assert dixon_q(np.array([5.0, 1.0, 1.1, 1.05])) == (pytest.approx(3.9 / 4), 0)


def test_chloride_uncertainty_is_the_root_of_squared_sensitivities() -> None:
    uncertainty = import_task_module("chloride-gravimetry", "silver.uncertainty")
    values, errors = {"a": 3.0, "b": 4.0, "c": 1.0}, {"a": 0.1, "b": 0.2, "c": 0.0}
    u, sensitivities = uncertainty.combine_uncertainty(lambda x: x["a"] * x["b"], values, errors)
    assert u == pytest.approx(math.hypot(4 * 0.1, 3 * 0.2)) and sensitivities == pytest.approx({"a": 4.0, "b": 3.0})
    sample = RNG.normal(5, 1, 6)
    reference = stats.t.interval(0.95, 5, loc=sample.mean(), scale=stats.sem(sample))
    assert uncertainty.student_interval(sample) == pytest.approx(reference)


def test_voltammetry_recovers_the_constants_of_a_reversible_wave() -> None:
    generator = import_generator("ferrocene-voltammetry")
    peaks = import_task_module("ferrocene-voltammetry", "voltammetry.peaks")
    sweep = import_task_module("ferrocene-voltammetry", "voltammetry.sweep")
    thermal, step = 96485.332 / (8.314463 * 298.15), 0.002
    forward = np.arange(0, 0.9, step)
    potential = np.concatenate([forward, forward[-2::-1]])
    current = generator.solve_current(np.exp(thermal * (potential - 0.45)), step / 0.1, decay=0.0)
    current = current / math.sqrt(thermal * 0.1)  # over n F A c (n F v D / R T)^0.5

    (start, turn), (back, end) = sweep.split_sweeps(potential)
    zero = np.zeros(len(potential))
    anodic = peaks.anodic_peak(potential[start:turn], current[start:turn], zero[start:turn])
    cathodic = peaks.cathodic_peak(potential[back:end], current[back:end], zero[back:end])
    # Nicholson and Shain (1964): height 0.4463, peak 28.5 mV beyond the half-wave potential at 25 degrees Celsius.
    assert anodic.current == pytest.approx(0.4463, rel=0.01)
    assert anodic.potential - 0.45 == pytest.approx(0.0285, abs=0.002)
    assert (anodic.potential + cathodic.potential) / 2 == pytest.approx(0.45, abs=0.002)
    # Nicholson's relation is empirical: a stable product gives 1.02 here.
    assert peaks.peak_ratio(anodic.current, cathodic.current, current[turn - 1]) == pytest.approx(1, abs=0.03)


def test_voltammetry_diffusion_coefficient_inverts_the_equation_of_randles_and_sevcik() -> None:
    diffusion = import_task_module("ferrocene-voltammetry", "voltammetry.diffusion")
    rates = np.array([0.05, 0.1, 0.5])
    # At 25 degrees Celsius ip = 2.69e5 A c (D v)^0.5, here for D = 2.4e-5 cm2/s, 1 mM and a disc of 3 mm: 29.5 µA at 0.1 V/s.
    currents = 1e6 * 2.69e5 * math.pi * 0.15**2 * 1e-6 * np.sqrt(2.4e-5 * rates)
    assert currents[1] == pytest.approx(29.5, abs=0.1)
    slope = diffusion.randles_sevcik_slope(rates, currents)
    assert diffusion.diffusion_coefficient(slope, 1.0, 3.0, 25.0) == pytest.approx(2.4e-5, rel=5e-3)


def test_gel_bands_and_baseline_agree_with_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    bands = import_task_module("gel-densitometry", "densitometry.bands")
    lanes = import_task_module("gel-densitometry", "densitometry.lanes")
    monkeypatch.setattr(bands, "NOISE_FACTOR", 1.5)  # so that smoothed noise has many bands
    for _ in range(20):
        net = np.convolve(RNG.normal(0, 1, 130), np.ones(7), mode="valid")
        rows = bands.find_bands(net)
        assert len(rows) > 3
        assert rows == signal.find_peaks(net, prominence=1.5 * bands.estimate_noise(net))[0].tolist()
        minima = ndimage.minimum_filter1d(net, 9, mode="nearest")
        weights = ndimage.uniform_filter1d(np.ones(len(net)), 9, mode="constant")
        smoothed = ndimage.uniform_filter1d(minima, 9, mode="constant") / weights
        assert lanes.rolling_baseline(net, 9) == pytest.approx(smoothed)
        areas = [bands.integrate_band(net, rows, index) for index in range(len(rows))]
        assert sum(areas) == pytest.approx(net.sum())


def test_gel_cleavage_counts_molecules_inside_the_linear_range() -> None:
    bands = import_task_module("gel-densitometry", "densitometry.bands")
    cleavage = import_task_module("gel-densitometry", "densitometry.cleavage")
    loads, areas = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([10.0, 20.0, 40.0, 80.0, 90.0])
    assert bands.in_linear_range(loads, areas, np.array([79.0, 81.0])).tolist() == [True, False]
    # 10 molecules of 500 residues and 30 of 250.
    percent = cleavage.cleavage_percent(np.array([5000.0]), np.array([7500.0]), 500.0, 250.0)
    assert percent == pytest.approx([75.0])
    assert cleavage.normalise_loading(np.array([10.0, 10.0]), np.array([1.0, 3.0])) == pytest.approx([20.0, 20 / 3])
    sample = RNG.normal(80, 3, 4)
    reference = stats.t.interval(0.95, 3, loc=sample.mean(), scale=stats.sem(sample))
    assert cleavage.mean_interval(sample) == pytest.approx((sample.mean(), *reference))


def test_silver_electrodes_follow_textbook_values_at_25_degrees() -> None:
    activities = import_task_module("nernst-solutions", "nernst.activities")
    assert activities.nernst_slope(25.0) == pytest.approx(59.16, abs=0.005)
    # The constant for concentrations in mol/L is 0.5115 in the tables of Robinson and Stokes (1959); Davies' equation
    # gives 10^(-0.5115 (0.3162 / 1.3162 - 0.03)) = 0.781 at 0.1 mol/L.
    assert activities.debye_huckel_constant(25.0) == pytest.approx(0.5115, abs=0.0001)
    assert activities.activity_coefficient(0.1, 25.0) == pytest.approx(0.781, abs=0.001)
    # Calcium nitrate: (0.1 * 2^2 + 0.2 * 1^2) / 2.
    assert activities.ionic_strength(np.array([0.1, 0.2]), np.array([2, -1])) == pytest.approx(0.3)


def test_silver_electrode_readings_are_taken_from_the_first_window_without_drift() -> None:
    electrodes = import_task_module("nernst-solutions", "nernst.electrodes")
    minutes = np.arange(8) * 0.5
    falling = np.array([9.0, 7.0, 5.0, 5.0, 5.0, 5.0, 5.0, 8.0])
    assert electrodes.settled_potential(minutes, falling) == 5.0
    assert electrodes.settled_potential(minutes, 2.0 * minutes) == pytest.approx(5.0)  # the last five: 3, 4, 5, 6, 7
    activities, scatter = 10.0 ** -np.arange(1, 7), RNG.normal(0, 1, 6)
    reference = stats.linregress(np.log10(activities), scatter)
    calibration = electrodes.fit_electrode(activities, scatter)
    assert calibration[:2] == pytest.approx((reference.intercept, reference.slope))
    assert calibration.residual_sd == pytest.approx(
        math.sqrt(np.var(scatter) * 6 * (1 - reference.rvalue**2) / (6 - 2))
    )


def test_silver_junction_potentials_agree_with_published_ones_and_vanish_between_like_ions() -> None:
    junctions = import_task_module("nernst-solutions", "nernst.junctions")
    charges, conductivities = np.array([1, 1, -1]), np.array([349.8, 73.5, 76.35])  # H+, K+ and Cl-
    acid, salt = np.array([0.1, 0.0, 0.1]), np.array([0.0, 0.1, 0.1])
    # Lewis and Sargent (1909): RT/F ln(426.15 / 149.85) = 26.9 mV, the salt positive because protons are faster.
    assert junctions.junction_potential(acid, salt, charges, conductivities, 25.0) == pytest.approx(26.85, abs=0.02)
    # One salt in two dilutions: (t+ - t-) RT/F ln(c1 / c2), t+ = 349.8 / 426.15, here for a tenfold dilution.
    share = (349.8 - 76.35) / 426.15
    diluted = junctions.junction_potential(acid, acid / 10, charges, conductivities, 25.0)
    assert diluted == pytest.approx(share * 59.16, abs=0.01)
    # J = (1 - 2 t) x, with t = 0.4.
    ideal = np.array([20.0, 40.0, 90.0])
    assert junctions.fit_transference(ideal, 0.2 * ideal) == pytest.approx((0.4, 0.0))
    # Residuals of +1 and -1 at x = 3 and 3: v = 2, the sum of squares 18, so that the error of b is 1/3.
    assert junctions.fit_transference(np.array([3.0, 3.0]), np.array([1.0, -1.0])) == pytest.approx((0.5, 1 / 6))


def test_silver_halide_solubility_product_counts_the_silver_that_did_not_precipitate() -> None:
    halides = import_task_module("nernst-solutions", "nernst.halides")
    # Free silver 0.0008 / 0.8 = 0.001; free halide 0.01 - 0.002 + 0.001 = 0.009; K = 0.0008 * 0.8 * 0.009.
    assert halides.solubility_product(0.0008, 0.01, 0.002, 0.8) == pytest.approx(5.76e-6)
