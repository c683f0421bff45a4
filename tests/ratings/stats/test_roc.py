import numpy as np
import pytest

from ratings.stats import areas
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from tests.support.reader_studies import VAN_DYKE, build_reader_study


def test_roc_points_equal_those_computed_shown_to_admin() -> None:
    # Errors -5, -1, +2; right -1, +4. At -5 one of three errors is called, at -1 two and one of two right items,
    # at 2 all errors, at 4 all.
    marks = [(-5, 0), (-1, 0), (2, 0), (-1, 1), (4, 1)]
    table = build_ratings_table(
        RatingRecord(f"i{at}", "R", int(mark > 0), abs(mark), truth) for at, (mark, truth) in enumerate(marks)
    )
    (curve,) = areas.build_roc_curves(table)
    assert (curve.source, curve.n_error, curve.n_genuine, len(curve.points)) == ("all", 3, 2, 11)
    at = {point.threshold: point[1:] for point in curve.points}
    assert at[None] == (0, 0) and at[-5] == at[-2] == (0, pytest.approx(1 / 3))
    assert at[-1] == (0.5, pytest.approx(2 / 3)) and at[2] == (0.5, 1) and at[5] == (1, 1)


def test_roc_area_equals_the_signed_auc() -> None:
    table = build_reader_study(VAN_DYKE["1"], 69)
    (curve,) = areas.build_roc_curves(table)
    alarms, hits = (np.array([point[at] for point in curve.points]) for at in (1, 2))
    assert np.trapezoid(hits, alarms) == pytest.approx(areas.estimate_signed(table, "all").value)
    assert all(np.diff(alarms) >= 0) and all(np.diff(hits) >= 0)


def test_roc_curve_of_each_error_source_is_against_all_unperturbed_items() -> None:
    rows = [RatingRecord(f"{source}{at}", "R", 1, 1 + at, truth, source) for source, truth in
            (("genuine", 1), ("obvious", 0), ("subtle", 0)) for at in range(3)]  # fmt: skip
    found = areas.build_roc_curves(build_ratings_table(rows))
    assert [(curve.source, curve.n_error, curve.n_genuine) for curve in found] == [("obvious", 3, 3), ("subtle", 3, 3)]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([RatingRecord("a", "R", 0, 3, 0)], "no rating of an item without an error has a confidence"),
        (
            [RatingRecord("a", "R", 0, None, 0), RatingRecord("b", "R", 1, 3, 1)],
            "no rating of an item with an error has a confidence",
        ),
    ],
)
def test_roc_curve_without_both_classes_has_no_points_and_a_reason(rows: list[RatingRecord], reason: str) -> None:
    (curve,) = areas.build_roc_curves(build_ratings_table(rows))
    assert (curve.points, curve.reason) == ((), reason)


def test_roc_curves_are_empty_without_errors() -> None:
    assert areas.build_roc_curves(build_ratings_table([RatingRecord("a", "R", 1, 3, 1)])) == []
