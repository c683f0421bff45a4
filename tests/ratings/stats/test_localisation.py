import pytest

from ratings.stats import Estimate
from ratings.stats.detection import CalledError, estimate_localisation


def find_row(rows: list[Estimate], **args: str) -> Estimate:
    return next(row for row in rows if dict(row.args) == args)


CALLED = [
    CalledError("i1", "R1", "subtle", True),
    CalledError("i2", "R1", "subtle", False),
    CalledError("i3", "R1", "obvious", True),
    CalledError("i1", "R2", "subtle", False),
    CalledError("i4", "R2", "obvious", True),
    CalledError("i5", "R2", "obvious", None),
]


def test_localisation_is_counted_over_all_and_for_each_source_and_rater() -> None:
    found = estimate_localisation(CALLED)
    assert find_row(found).value == 3 / 5 and find_row(found).n == {
        "items": 4,
        "raters": 2,
        "ratings": 5,
        "k": 3,
        "untold": 1,
    }
    assert (
        find_row(found, source="subtle").value == pytest.approx(1 / 3) and find_row(found, source="obvious").value == 1
    )
    assert find_row(found, rater="R1").value == pytest.approx(2 / 3)
    assert find_row(found, rater="R2", source="subtle").value == 0
    assert {row.stat for row in found} == {"localisation"}


def test_localisation_interval_of_one_rater_is_clustered_by_item_only() -> None:
    found = estimate_localisation(CALLED)
    assert find_row(found).method == "wilson_cluster" and find_row(found).low < 3 / 5 < find_row(found).high
    assert find_row(found, rater="R1").method == "wilson_items"


def test_localisation_of_100_percent_has_an_interval_that_treats_ratings_as_independent() -> None:
    found = find_row(estimate_localisation(CALLED), source="obvious")
    assert found.high == 1 and "as independent" in found.reason


def test_localisation_of_one_item_has_no_interval() -> None:
    found = find_row(estimate_localisation(CALLED[:1]))
    assert (found.value, found.low) == (1, None) and "single item" in found.reason


def test_localisation_is_undefined_without_marks_or_known_locations() -> None:
    found = find_row(estimate_localisation(CALLED[-1:]))
    assert found.value is None and found.n["untold"] == 1
    assert found.reason == "no called error has marks that can be compared"


def test_localisation_without_a_detected_error_is_undefined_with_a_reason() -> None:
    (found,) = estimate_localisation([])
    assert (found.value, found.reason) == (None, "no error was called implausible")


def test_localisation_is_independent_of_row_order() -> None:
    assert estimate_localisation(CALLED) == estimate_localisation(CALLED[::-1])
