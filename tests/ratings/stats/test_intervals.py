"""The two intervals of a coefficient, computed by hand from replicates and left-out values of known variance."""

from math import atanh, sqrt, tanh

import numpy as np
import pytest
from scipy.stats import t

from ratings.stats import Estimate
from ratings.stats.resampling import PointEstimate, Uncertainty, build_interval_rows

AT = PointEstimate("a_coefficient", {}, 0.5, {"items": 50})
REPLICATES = 0.5 + 0.03 * np.array([-1.0, 1.0] * 500)  # variance .0009 * 1000/999
LEFT_OUT = np.array([0.44, 0.56, 0.44, 0.56])  # jackknife: 3/4 * 4 * .0036 = .0108


def compute_both_intervals(**more: object) -> tuple[Estimate, Estimate]:
    these, new = build_interval_rows(AT, Uncertainty(REPLICATES, LEFT_OUT, **more))  # type: ignore[arg-type]
    return these, new


def test_new_rater_interval_adds_the_variances_of_items_and_raters() -> None:
    # 1.96 sqrt(.000900901 + .0108) = .21202
    _, new = compute_both_intervals()
    assert (new.method, new.half_width) == ("item_bootstrap_rater_jackknife", pytest.approx(0.21202, abs=1e-5))


def test_new_rater_interval_of_a_mean_has_satterthwaites_degrees_of_freedom() -> None:
    # 3 * (.0117009 / .0108)^2 = 3.5214 degrees of freedom
    _, new = compute_both_intervals(linear=True)
    assert new.method == "item_bootstrap_rater_jackknife_t"
    assert new.half_width == pytest.approx(t.ppf(0.975, 3.5214) * sqrt(0.0117009), abs=1e-5)


def test_new_rater_interval_with_a_student_quantile_has_one_degree_of_freedom_fewer_than_raters() -> None:
    _, new = compute_both_intervals(linear=True, use_student=True)
    assert new.half_width == pytest.approx(3.182446 * sqrt(0.0117009), abs=1e-5)


def test_fisher_interval_is_skewed_towards_0() -> None:
    # standard error of z: .0300150 / (1 - .25) = .0400200
    these, _ = compute_both_intervals(fisher=True)
    assert these.method == "item_bootstrap_fisher"
    ends = [tanh(atanh(0.5) + sign * 1.959964 * 0.04002) for sign in (-1, 1)]
    assert (these.low, these.high) == pytest.approx(ends, abs=1e-5)
    assert these.low is not None and these.high is not None
    assert these.low + these.high < 1


def test_value_below_minus_1_has_percentiles_and_no_limit_at_minus_1() -> None:
    # Fisher's z is not defined there. New raters: -1.04 - 1.959964 sqrt(.000900901 + .0108) = -1.25202
    point = AT._replace(value=-1.04)
    these, new = build_interval_rows(point, Uncertainty(REPLICATES - 1.54, LEFT_OUT - 1.54, fisher=True))
    assert (these.method, these.low, these.high) == ("item_bootstrap", pytest.approx(-1.07), pytest.approx(-1.01))
    assert (new.low, new.high) == pytest.approx((-1.25202, -0.82798), abs=1e-5)


def test_new_rater_interval_of_three_raters_uses_a_quantile_for_each_part() -> None:
    # jackknife of .45 .5 .55: 2/3 * .005 = .0033333; sqrt(1.96^2 * .000900901 + 4.302653^2 * .0033333) = .25529
    by = Uncertainty(REPLICATES, np.array([0.45, 0.5, 0.55]), linear=True)
    _, new = build_interval_rows(AT, by)
    assert new.half_width is not None
    assert new.half_width == pytest.approx(0.25529, abs=1e-5)


def test_new_rater_interval_is_widened_to_include_the_interval_for_these_raters() -> None:
    # 940 replicates of .55, 60 of -.1: percentiles -.1 and .55 of course; variance .94 * .06 * .65^2 * 1000/999 = .0238536, no
    # rater makes a difference: .5 -+ 1.959964 * .154446 is .19729 to .80271, and does not hold -.1.
    lopsided = np.array([0.55] * 940 + [-0.1] * 60)
    these, new = build_interval_rows(AT, Uncertainty(lopsided, np.full(4, 0.5)))
    assert (these.low, these.high) == pytest.approx((-0.1, 0.55))
    assert (new.low, new.high) == pytest.approx((-0.1, 0.80271), abs=1e-4)
    assert new.reason == "widened to include the interval for these raters"
    _, even = compute_both_intervals()
    assert even.reason == ""


def test_corrected_interval_subtracts_the_bias_of_the_replicates() -> None:
    # Replicates about .45 of a value of .5: the bias is -.05, so the middle is .5 + .05; half: 1.959964 * .0300150 = .0588284
    these, _ = build_interval_rows(AT, Uncertainty(REPLICATES - 0.05, LEFT_OUT, bias_corrected=True))
    assert (these.value, these.method) == (0.5, "item_bootstrap_corrected")
    assert (these.low, these.high) == pytest.approx((0.4911716, 0.6088284), abs=1e-6)
