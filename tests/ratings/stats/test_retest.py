import pytest

from ratings.stats.estimates import METHODS
from ratings.stats.ratings_table import RepeatedRating
from ratings.stats.retest import estimate_retest
from tests.support.rating_tables import find_estimate


def build_repeats(**given: str) -> list[RepeatedRating]:
    """Build repeated ratings: for each rater the first and second verdict on each item, such as "11 10 00"."""
    return [
        RepeatedRating(f"{rater}-{at:02}", rater, int(two[0]), int(two[1]))
        for rater, text in given.items()
        for at, two in enumerate(text.split())
    ]


def test_retest_agreement_of_all_raters_and_of_each_equals_the_one_computed_shown_to_admin() -> None:
    rows = estimate_retest(build_repeats(a="11 11 10 00", b="11 11 01 00 00"), resamples=0)
    # All nine: 7 the same, 7/9. First yes 5, second yes 5: 4 yes/yes, 1 yes/no, 1 no/yes, 3 no/no.
    # pe = (25 + 16)/81 = 41/81; kappa = (63 - 41)/(81 - 41) = 22/40
    assert find_estimate(rows, "retest_agreement").value == pytest.approx(7 / 9)
    assert find_estimate(rows, "retest_kappa").value == pytest.approx(22 / 40)
    # a: 3 of 4; yes 3 and 2: pe = (6 + 2)/16; kappa = (12 - 8)/(16 - 8) = 1/2.
    # b: 4 of 5; yes 2 and 3: pe = (6 + 6)/25; kappa = (20 - 12)/(25 - 12) = 8/13.
    assert find_estimate(rows, "retest_kappa", rater="a").value == pytest.approx(1 / 2)
    assert find_estimate(rows, "retest_kappa", rater="b").value == pytest.approx(8 / 13)
    mean = find_estimate(rows, "retest_kappa", mean_over="raters")
    assert mean.value == pytest.approx((1 / 2 + 8 / 13) / 2)
    assert mean.n["raters_used"] == 2


def test_retest_kappa_without_repeats_or_with_only_one_verdict_is_undefined_with_a_reason() -> None:
    assert {row.reason for row in estimate_retest([])} == {"no item was judged twice"}
    rows = estimate_retest(build_repeats(a="11 11", b="11 10"), resamples=0)
    assert find_estimate(rows, "retest_agreement", rater="a").value == 1
    assert find_estimate(rows, "retest_kappa", rater="a").value is None
    assert "0/0" in find_estimate(rows, "retest_kappa", rater="a").reason
    assert find_estimate(rows, "retest_kappa", mean_over="raters").n["raters_undefined"] == 1


def test_retest_kappa_interval_needs_repeats_of_the_rarer_verdict() -> None:
    few = find_estimate(estimate_retest(build_repeats(a="11 10 " * 10, b="11 " * 5)), "retest_kappa")
    assert few.low is None
    assert "rarer verdict" in few.reason
    enough = find_estimate(
        estimate_retest(build_repeats(a="11 10 00 00 " * 6, b="11 00 " * 6), resamples=500), "retest_kappa"
    )
    assert enough.value is not None
    assert enough.low is not None
    assert enough.high is not None
    assert enough.low < enough.value < enough.high
    assert "resampled across sources" in METHODS[enough.method]


def test_retest_interval_of_identical_repeats_treats_them_as_independent() -> None:
    agreement = find_estimate(estimate_retest(build_repeats(a="11 00 11", b="11 00"), resamples=0), "retest_agreement")
    assert agreement.value == 1 and agreement.low is not None
    assert agreement.reason == "all repeats are alike; the interval treats them as independent"
    assert not find_estimate(
        estimate_retest(build_repeats(a="11 01 11", b="11 00"), resamples=0), "retest_agreement"
    ).reason


def test_retest_accepts_any_categories() -> None:
    rows = estimate_retest(
        [RepeatedRating("x", "a", "red", "red"), RepeatedRating("y", "a", "blue", "green")], resamples=0
    )
    assert find_estimate(rows, "retest_agreement").value == 1 / 2


def test_retest_is_independent_of_the_order_of_repeats() -> None:
    given = build_repeats(a="11 10 00 00 " * 6, b="11 00 01 " * 6)
    assert estimate_retest(given, resamples=100) == estimate_retest(given[::-1], resamples=100)
