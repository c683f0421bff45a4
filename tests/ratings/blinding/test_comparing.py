"""Tests of comparing an item with its original, row by row."""

from typing import Any

import pytest

from ratings.blinding.item_diff import compare_rows, format_mark_key


def make_material(ref: str, name: str, continues: str = "", **properties: str) -> dict[str, Any]:
    rows = [[label, value] for label, value in sorted(properties.items())]
    return {
        "ref": ref, "name": name, "properties": rows, "condition": "on ice", "availability": "can be used further",
        "continues": continues,
    }  # fmt: skip


def make_payload(
    before: list[Any], after: list[Any], seen: tuple[str, ...] = (), rejected: str = "", **more: Any
) -> Any:
    observations = [{"type": "visual", "description": text, "value": ""} for text in seen]
    action = {"name": "Wash", "parameters": []}
    return {
        "kind": "transition", "lineage": True, "action": action, "before": before, "after": after,
        "observations": observations, "rejected": rejected, **more,
    }  # fmt: skip


FLASK = make_material("A", "Flask", Volume="500 mL")
WASHED = make_material("A", "Flask", "A", Volume="480 mL")


def list_open_rows(lines: list[Any]) -> dict[str, tuple[str, str | None, bool]]:
    """Return the open rows by key: the item's value, the original's value, and whether the error was planted there."""
    return {line.key: (line.shown, line.original, line.planted) for line in lines if line.is_notable}


def test_comparison_shows_the_changed_row_beside_the_original_and_flags_the_error() -> None:
    twin = make_payload([FLASK], [make_material("A", "Flask", "A", Volume="490 mL")])
    lines = compare_rows(twin, make_payload([FLASK], [WASHED]), ["A:Volume"])
    assert list_open_rows(lines) == {"A:Volume": ("490 mL", "480 mL", True)}
    assert [line.before for line in lines if line.key == "A:Volume"] == ["500 mL"]
    # Volume, name, place and availability: the last three are as in the original
    assert [line.differs for line in lines] == [True, False, False, False]


def test_comparison_shows_how_many_raters_marked_each_row_with_general_marks_last() -> None:
    lines = compare_rows(make_payload([FLASK], [WASHED]), ticks={"A/place": 2, "missing": 1, "A/row": 3})
    assert [(line.label, line.ticked) for line in lines if line.ticked] == [
        ("Kept at", 2), ("something is missing", 1), ("A: its row of the table", 3),
    ]  # fmt: skip
    assert {line.original for line in lines} == {None}


def test_comparison_pairs_new_materials_by_content_then_name_then_order() -> None:
    # New materials get letters in order of name and content, so one changed name changes all their letters.
    original = make_payload([], [make_material("A", "Tube", Volume="1 mL"), make_material("B", "Vial", Volume="2 mL")])
    twin = make_payload([], [make_material("A", "Ampoule", Volume="2 mL"), make_material("B", "Tube", Volume="1 mL")])
    assert list_open_rows(compare_rows(twin, original)) == {"A/name": ("Ampoule", "Vial", False)}


def test_comparison_shows_omitted_rows_and_flags_the_error_there() -> None:
    original = make_payload([FLASK], [WASHED, make_material("B", "Tube", Volume="1 mL")], seen=("clear", "foam"))
    found = list_open_rows(compare_rows(make_payload([FLASK], [WASHED], seen=("foam",)), original, ["missing"]))
    assert found["-B:Volume"] == ("", "1 mL", True)
    assert found["-seen/2"] == ("", "visual clear", True)
    assert found["missing"] == ("", None, True)
    gone = list_open_rows(compare_rows(make_payload([FLASK], []), make_payload([FLASK], [WASHED]), ["A/gone"]))
    assert gone["A/gone"] == ("not handed back", "handed back", True)
    assert gone["A:Volume"] == ("", "480 mL", False)


def test_comparison_shows_a_rejection_beside_the_accepted_outcome() -> None:
    found = list_open_rows(
        compare_rows(make_payload([FLASK], [], rejected="too hot"), make_payload([FLASK], [WASHED]), ["rejected"])
    )
    assert found == {"rejected": ("too hot", "accepted", True)}


def test_comparison_of_an_evidence_record_has_a_row_for_each_step() -> None:
    step = {"number": 1, "action": {"name": "Wash"}}
    lines = compare_rows({"kind": "evidence", "steps": [step, {**step, "number": 2}]}, ticks={"step/2": 1})
    assert [(line.label, line.ticked) for line in lines] == [("Step 1, Wash", 0), ("Step 2, Wash", 1)]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("A:Volume", "A: Volume"),
        ("A:a/b:c", "A: a/b:c"),
        ("AB/name", "AB: name"),
        ("A/row", "A: its row of the table"),
        ("A+:Volume", "A and those like it: Volume"),
        ("seen/2", "observation 2"),
        ("step/11", "step 11"),
        ("missing", "something is missing"),
        ("rejected", "the reason for the rejection"),
    ],
)
def test_mark_key_is_described_in_words(key: str, said: str) -> None:
    assert format_mark_key(key) == said
