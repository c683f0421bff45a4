import numpy as np
import pytest

from ratings.stats.estimates import build_generator
from ratings.stats.resampling import (
    compute_jackknife_variance,
    compute_percentile_interval,
    compute_replicate_variance,
    compute_symmetric_interval,
    iter_pattern_chunks,
    iter_weight_chunks,
    sample_item_weights,
    sample_rater_weights,
)


def test_item_weights_keep_the_size_of_every_stratum() -> None:
    strata = np.repeat([0, 7, 2], [5, 3, 10])
    weights = sample_item_weights(strata, 200, build_generator(1, "x"))
    assert weights.shape == (200, 18)
    for stratum, size in ((0, 5), (7, 3), (2, 10)):
        assert (weights[:, strata == stratum].sum(axis=1) == size).all()


def test_item_weights_have_mean_1_and_multinomial_variance() -> None:
    weights = sample_item_weights(np.zeros(8, dtype=np.int64), 20_000, build_generator(2, "x"))
    # Multinomial(8, 1/8): mean 1, variance 8 * 1/8 * 7/8 = 7/8 of every item; the mean of 20,000 has an error of .007
    assert weights.mean(axis=0) == pytest.approx(np.ones(8), abs=0.03)
    assert weights.var(axis=0) == pytest.approx(np.full(8, 7 / 8), abs=0.05)


def test_item_weight_is_0_for_an_item_without_a_stratum() -> None:
    weights = sample_item_weights(np.array([0, -1, 0]), 50, build_generator(3, "x"))
    assert (weights[:, 1] == 0).all()
    assert (weights.sum(axis=1) == 2).all()


def test_item_weights_are_empty_without_resamples_or_items() -> None:
    assert sample_item_weights(np.array([0, 0]), 0, build_generator(0, "x")).shape == (0, 2)
    assert sample_item_weights(np.empty(0, dtype=np.int64), 4, build_generator(0, "x")).shape == (4, 0)


def test_weight_chunks_equal_the_full_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratings.stats.resampling.MAX_CELLS", 70)
    strata = np.repeat([0, 1], [6, 4])
    chunks = list(iter_weight_chunks(strata, 20, build_generator(4, "x")))
    assert [len(chunk) for chunk in chunks] == [7, 7, 6]
    assert (np.concatenate(chunks) == sample_item_weights(strata, 20, build_generator(4, "x"))).all()


def test_generator_depends_on_seed_and_name() -> None:
    strata = np.zeros(30, dtype=np.int64)
    once, again = (sample_item_weights(strata, 5, build_generator(5, "x")) for _ in range(2))
    assert (once == again).all()
    assert (once != sample_item_weights(strata, 5, build_generator(5, "y"))).any()


def test_rater_weights_add_up_to_the_number_of_raters() -> None:
    assert (sample_rater_weights(4, 30, build_generator(6, "x")).sum(axis=1) == 4).all()


@pytest.mark.parametrize("counts", [[50, 30, 20], [1, 1, 2, 1]])
def test_resampled_patterns_are_drawn_in_proportion_to_their_number_of_items(counts: list[int]) -> None:
    # Few patterns of many items go through a multinomial, many patterns of few through counting; both have mean n_p
    drawn = np.concatenate(list(iter_pattern_chunks(np.array(counts), 20_000, build_generator(7, "x"))))
    assert (drawn.sum(axis=1) == sum(counts)).all()
    shares = np.array(counts) / sum(counts)
    assert drawn.mean(axis=0) == pytest.approx(counts, abs=0.2)
    assert drawn.var(axis=0) == pytest.approx(sum(counts) * shares * (1 - shares), rel=0.05)


def test_percentile_interval_uses_the_defined_replicates() -> None:
    # 0 to 100 and three undefined: 2.5 % and 97.5 % of 101 values are 2.5 and 97.5; 3 of 104 are under 5 %
    found = compute_percentile_interval(np.append(np.arange(101.0), [np.nan] * 3))
    assert found.interval == pytest.approx((2.5, 97.5))
    assert (found.undefined, found.reason) == (3, "")


def test_percentile_interval_is_missing_if_more_than_5_percent_are_undefined() -> None:
    found = compute_percentile_interval(np.append(np.arange(94.0), [np.nan] * 6))
    assert found.interval is None
    assert "undefined in 6 of 100 resamples" in found.reason
    assert compute_percentile_interval(np.append(np.arange(95.0), [np.nan] * 5)).interval is not None


def test_percentile_interval_is_missing_if_all_replicates_are_equal() -> None:
    found = compute_percentile_interval(np.ones(100))
    assert found.interval is None
    assert "same value" in found.reason


def test_percentile_interval_without_resamples_is_missing_with_a_reason() -> None:
    assert compute_percentile_interval(np.empty(0)) == (None, 0, "the interval needs resampling")


def test_jackknife_variance_of_a_mean_is_the_usual_one() -> None:
    # Mean of 1, 2, 6 is 3; left out: 4, 3.5, 1.5, mean 3. 2/3 * (1 + .25 + 2.25) = 7/3; s^2/n = (4+1+9)/2/3 = 7/3
    assert compute_jackknife_variance([4, 3.5, 1.5]) == pytest.approx(7 / 3)
    assert np.isnan(compute_jackknife_variance([1.0]))
    assert np.isnan(compute_jackknife_variance([1.0, np.nan, 2.0]))


def test_replicate_variance_excludes_undefined_values_up_to_the_limit() -> None:
    assert compute_replicate_variance(np.array([1.0, 3.0] * 20 + [np.nan])) == pytest.approx(40 / 39)
    assert np.isnan(compute_replicate_variance(np.array([1.0, 3.0, np.nan])))


def test_symmetric_interval_is_limited_to_the_range() -> None:
    # 1.959964 * .1 = .1959964; with two degrees of freedom t = 4.302653
    assert compute_symmetric_interval(0.5, 0.01) == pytest.approx((0.3040036, 0.6959964), abs=1e-7)
    assert compute_symmetric_interval(0.5, 0.01, df=2) == pytest.approx((0.0697347, 0.9302653), abs=1e-7)
    assert compute_symmetric_interval(0.9, 0.01) == (pytest.approx(0.7040036), 1)
