"""Detection by size of error: the ranges, and the shares of people and models in each."""

import uuid

import pytest

from ratings.results.analyses import error_sizes, rating_columns, sections_machines, sections_sizes
from ratings.results.analyses.tables import list_records
from tests.support.rating_rows import build_rating_row

SLIP = {"perturbation": "subtle", "reference": "planted", "error_kind": "slip"}


@pytest.mark.parametrize(
    ("deviation", "name"),
    [
        (0.05, "below 10%"), (-0.0994, "below 10%"), (0.0999996, "10 to 20%"), (0.1, "10 to 20%"), (-0.15, "10 to 20%"), (0.2, "20 to 30%"),
        (0.4, "40 to 100%"), (-0.9, "40 to 100%"), (1.0, "100 to 300%"), (3.0, "300% or more"), (-250.0, "300% or more"),
    ],
)  # fmt: skip
def test_deviation_of_either_sign_has_one_range(deviation, name) -> None:
    assert error_sizes.find_range(deviation).name == name


def test_items_without_an_error_and_errors_without_a_number_have_ranges_of_their_own() -> None:
    named = error_sizes.name_error_size
    assert named(build_rating_row(1, "R1", True)) == "no error"
    assert named(build_rating_row(1, "R1", True, **SLIP)) == "no size"
    assert named(build_rating_row(1, "R1", True, **SLIP, deviation=0.25)) == "20 to 30%"
    # Of an imported item nothing but the reference is known.
    assert named(build_rating_row(1, "R1", True, perturbation="subtle", reference="planted")) == ""


def test_share_detected_is_counted_by_size_for_raters_and_models() -> None:
    # Two raters. Items 1 and 2: 15 % off, one of four ratings reports it; items 3 and 4: 25 % off, three of four; item 5: 5 %
    # off, none of two; items 6 and 7 have no error, and one of four ratings is a false alarm.
    verdicts = {
        1: (True, True),
        2: (False, True),
        3: (False, False),
        4: (True, False),
        5: (True, True),
        6: (True, True),
        7: (True, False),
    }
    deviations = {1: 0.15, 2: -0.15, 3: 0.25, 4: 0.25, 5: 0.05}
    rows = [
        build_rating_row(
            item, rater, verdict, **({**SLIP, "deviation": deviations[item]} if item in deviations else {})
        )
        for item, pair in verdicts.items()
        for rater, verdict in zip(("R1", "R2"), pair, strict=True)
    ]
    data = rating_columns.build_analysis_data(rows)
    # The model reports items 3 and 5 and judges no others with an error.
    machine = sections_machines.Machine(
        "M1, gpt", "machine", {str(uuid.UUID(int=item)): int(item == 6) for item in (3, 5, 6)}, 0
    )
    made = list_records(sections_sizes.build_size_table(data, [machine])["detection_by_size"])
    counts = {(line["who"], line["error_size"]): (line["caught"], line["n"], line["recall"]) for line in made}
    assert counts["all raters", "below 10%"] == (0, 2, 0)
    assert counts["all raters", "10 to 20%"] == (1, 4, 0.25)
    assert counts["all raters", "20 to 30%"] == (3, 4, 0.75)
    assert counts["all raters", "no error"] == (1, 4, 0.25)
    assert counts["R1", "20 to 30%"] == (1, 2, 0.5)
    assert counts["M1, gpt", "20 to 30%"] == counts["M1, gpt", "below 10%"] == (1, 1, 1)
    assert [line["error_size"] for line in made if line["who"] == "all raters"] == [
        "below 10%",
        "10 to 20%",
        "20 to 30%",
        "no error",
    ]
    assert [(line["smallest"], line["largest"]) for line in made[:2]] == [(0, 0.1), (0.1, 0.2)]
    assert all(line["low"] <= line["recall"] <= line["high"] for line in made if line["low"] is not None)


def test_table_of_sizes_is_empty_if_no_error_has_a_size() -> None:
    data = rating_columns.build_analysis_data(
        [build_rating_row(1, "R1", False, **SLIP), build_rating_row(2, "R1", True)]
    )
    assert sections_sizes.build_size_table(data, [])["detection_by_size"]["rows"] == []
