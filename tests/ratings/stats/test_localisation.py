import pytest

from ratings.stats import Estimate
from ratings.stats.localisation import Marked, localisation


def one(rows: list[Estimate], **args: str) -> Estimate:
    return next(row for row in rows if dict(row.args) == args)


CALLED = [
    Marked("i1", "R1", "subtle", True),
    Marked("i2", "R1", "subtle", False),
    Marked("i3", "R1", "obvious", True),
    Marked("i1", "R2", "subtle", False),
    Marked("i4", "R2", "obvious", True),
    Marked("i5", "R2", "obvious", None),
]


def test_called_errors_with_the_right_place_marked_are_counted_over_all_and_for_each() -> None:
    found = localisation(CALLED)
    assert one(found).value == 3 / 5 and one(found).n == {"items": 4, "raters": 2, "ratings": 5, "k": 3, "untold": 1}
    assert one(found, source="subtle").value == pytest.approx(1 / 3) and one(found, source="obvious").value == 1
    assert one(found, rater="R1").value == pytest.approx(2 / 3)
    assert one(found, rater="R2", source="subtle").value == 0
    assert {row.stat for row in found} == {"localisation"}


def test_the_interval_of_all_raters_has_items_and_raters_as_clusters_and_that_of_one_has_items() -> None:
    found = localisation(CALLED)
    assert one(found).method == "wilson_cluster" and one(found).low < 3 / 5 < one(found).high
    assert one(found, rater="R1").method == "wilson_items"


def test_marks_that_all_hit_say_that_the_interval_takes_them_as_independent() -> None:
    found = one(localisation(CALLED), source="obvious")
    assert found.high == 1 and "as independent" in found.reason


def test_a_single_item_has_a_share_and_no_interval() -> None:
    found = one(localisation(CALLED[:1]))
    assert (found.value, found.low) == (1, None) and "single item" in found.reason


def test_errors_that_cannot_tell_leave_the_share_undefined_and_are_counted() -> None:
    found = one(localisation(CALLED[-1:]))
    assert found.value is None and found.n["untold"] == 1
    assert found.reason == "no called error has marks that can be compared"


def test_without_a_called_error_there_is_one_row_that_says_so() -> None:
    (found,) = localisation([])
    assert (found.value, found.reason) == (None, "no error was called implausible")


def test_the_order_of_the_rows_changes_nothing() -> None:
    assert localisation(CALLED) == localisation(CALLED[::-1])
