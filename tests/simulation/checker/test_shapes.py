"""Tables, pairs, and numbers with units are read by their shape, whatever their keys."""

from typing import Any

import pytest

from simulation.checker.reading.shapes import normalise_properties, normalise_shapes


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"n": 12.5, "u": "mL"}, "12.5 mL"),
        ({"uom": "mg/L", "reading": "7.1"}, "7.1 mg/L"),
        ({"value": 3, "unit": "g"}, "3 g"),
        ({"amount": 12.5, "scale": "mL", "estimated": True}, "12.5 mL"),
    ],
)
def test_shape_of_a_number_and_a_unit_is_one_amount_and_a_boolean_beside_them_is_left_out(
    written: dict[str, Any], expected: str
) -> None:
    assert normalise_shapes(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        {"passage": 5, "strain": "A"},  # A is no ampere
        {"pH": 7.4, "buffer": "M"},
        {"volume": "12 mL", "age": "h"},  # the number has a unit of its own
        {"volume": 5, "temperature": "37 °C"},
        {"low": 3, "high": 5, "unit": "mL"},
        {"value": 3, "unit": "mL", "note": "by eye"},
        {"measured": True, "unit": "mL"},
        {"value": 3, "unit": "mL", "checked": True, "final": False},
    ],
)
def test_shape_of_an_object_that_is_no_single_amount_is_unchanged(written: dict[str, Any]) -> None:
    assert normalise_shapes(written) == written


def test_shape_of_pairs_with_different_names_is_an_object() -> None:
    assert normalise_shapes([["gross", "31.4 g"], ["tare", "29.4 g"]]) == {"gross": "31.4 g", "tare": "29.4 g"}
    assert normalise_shapes([["well", "signal"], ["A1", 0.21], ["A2", 0.25]]) == {"A1": 0.21, "A2": 0.25}


@pytest.mark.parametrize(
    "written",
    [
        [["dish", "31.4 g"], ["dish", "29.4 g"]],  # two dishes with equal names
        [[1, 2], [3, 4]],
        [["a", 1], ["b", 2, 3]],
        [["a", 1], ["b", None]],
        [["only"], ["names"]],
        [["a", 1]],
    ],
)
def test_shape_of_lists_that_are_no_pairs_is_unchanged(written: list[Any]) -> None:
    assert normalise_shapes(written) == written


def test_shape_of_a_table_with_a_header_is_a_list_of_objects() -> None:
    rows = [["ion", "content (mg/L)", "RSD (%)"], ["Na", 12, 1.1], ["K", 3, 2.4]]
    assert normalise_shapes(rows) == [
        {"ion": "Na", "content (mg/L)": 12, "RSD (%)": 1.1},
        {"ion": "K", "content (mg/L)": 3, "RSD (%)": 2.4},
    ]


def test_shape_of_two_columns_keeps_the_unit_of_the_heading() -> None:
    rows = [["ion", "content (mg/L)"], ["Na", 12], ["K", 3]]
    assert normalise_shapes(rows) == [{"ion": "Na", "content (mg/L)": 12}, {"ion": "K", "content (mg/L)": 3}]


def test_shape_of_three_columns_without_a_header_or_with_equal_headings_is_unchanged() -> None:
    for rows in ([["Na", 12, 1], ["K", 3, 2]], [["ion", "c", "c"], ["Na", 12, 1]]):
        assert normalise_shapes(rows) == rows


@pytest.mark.parametrize(
    "text",
    ["part | mass\n--- | ---\nlid | 3 g\ndish | 4 g", "| lid | 3 g |\n| dish | 4 g |", "lid = 3 g | dish = 4 g"],
)
def test_shape_of_text_with_strokes_between_pairs_is_an_object(text: str) -> None:
    assert normalise_shapes(text) == {"lid": "3 g", "dish": "4 g"}


@pytest.mark.parametrize(
    "text",
    [
        "The cells were kept | they were not shaken.",
        "lid = 3 g | lid = 4 g",
        "lid = 3 g | and so on",
        "lid = 3 g",
        "lid | 3 g | new\ndish | 4 g | old",
    ],
)
def test_shape_of_other_text_with_strokes_is_unchanged(text: str) -> None:
    assert normalise_shapes(text) == text


def test_shape_is_read_inside_properties_and_not_of_the_whole() -> None:
    assert normalise_properties({"content": {"n": 5, "u": "mL"}}) == {"content": "5 mL"}
    assert normalise_properties({"n": 5, "u": "mL"}) == {"n": 5, "u": "mL"}
    assert normalise_properties({"parts": [["lid", {"n": 3, "u": "mg"}]]}) == {"parts": [["lid", "3 mg"]]}


def test_shape_of_deep_nesting_ends() -> None:
    nested: Any = {"n": 1, "u": "mL"}
    for _ in range(50):
        nested = [nested]
    assert normalise_shapes(nested) == nested


@pytest.mark.parametrize("separator", ["\t", ";", " | ", ","])
def test_text_of_a_heading_and_one_row_is_an_object_whatever_separates_its_cells(separator: str) -> None:
    text = "\n".join(separator.join(cells) for cells in (("vol_mL", "KCl_mM"), ("12.5", "40")))
    assert normalise_shapes(text) == {"vol_mL": "12.5", "KCl_mM": "40"}


def test_text_of_two_sentences_stays_a_text() -> None:
    text = "The pellet is white, firm and small.\nThe rest, about 2 mL, was clear, cold and kept."
    assert normalise_shapes(text) == text
