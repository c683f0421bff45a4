"""An item row by row beside its original."""

from typing import Any

import pytest

from ratings.blinding.comparing import compare, mark_name


def material(ref: str, name: str, continues: str = "", **properties: str) -> dict[str, Any]:
    rows = [[label, value] for label, value in sorted(properties.items())]
    return {
        "ref": ref, "name": name, "properties": rows, "condition": "on ice", "availability": "can be used further",
        "continues": continues,
    }  # fmt: skip


def payload(before: list[Any], after: list[Any], seen: tuple[str, ...] = (), rejected: str = "", **more: Any) -> Any:
    observations = [{"type": "visual", "description": text, "value": ""} for text in seen]
    action = {"name": "Wash", "parameters": []}
    return {
        "kind": "transition", "lineage": True, "action": action, "before": before, "after": after,
        "observations": observations, "rejected": rejected, **more,
    }  # fmt: skip


FLASK = material("A", "Flask", Volume="500 mL")
WASHED = material("A", "Flask", "A", Volume="480 mL")


def told(lines: list[Any]) -> dict[str, tuple[str, str | None, bool]]:
    """By key: what the item says, what its original says, whether the error was planted there. Rows that stay are left out."""
    return {line.key: (line.shown, line.original, line.planted) for line in lines if line.open}


def test_the_row_that_differs_stands_beside_its_original_with_the_error_marked() -> None:
    twin = payload([FLASK], [material("A", "Flask", "A", Volume="490 mL")])
    lines = compare(twin, payload([FLASK], [WASHED]), ["A:Volume"])
    assert told(lines) == {"A:Volume": ("490 mL", "480 mL", True)}
    assert [line.before for line in lines if line.key == "A:Volume"] == ["500 mL"]
    # Volume, name, place and availability: the three others read as in the original
    assert [line.differs for line in lines] == [True, False, False, False]


def test_ticks_open_a_row_and_those_of_no_single_row_come_last() -> None:
    lines = compare(payload([FLASK], [WASHED]), ticks={"A/place": 2, "missing": 1, "A/row": 3})
    assert [(line.label, line.ticked) for line in lines if line.ticked] == [
        ("Kept at", 2), ("something is missing", 1), ("A: its row of the table", 3),
    ]  # fmt: skip
    assert {line.original for line in lines} == {None}


def test_new_materials_are_paired_by_content_then_by_name_then_by_order() -> None:
    # What is new is lettered by name and content, so that a changed name gives all of them other letters.
    original = payload([], [material("A", "Tube", Volume="1 mL"), material("B", "Vial", Volume="2 mL")])
    twin = payload([], [material("A", "Ampoule", Volume="2 mL"), material("B", "Tube", Volume="1 mL")])
    assert told(compare(twin, original)) == {"A/name": ("Ampoule", "Vial", False)}


def test_what_the_twin_leaves_out_is_shown_and_holds_the_error_where_something_is_missing() -> None:
    original = payload([FLASK], [WASHED, material("B", "Tube", Volume="1 mL")], seen=("clear", "foam"))
    found = told(compare(payload([FLASK], [WASHED], seen=("foam",)), original, ["missing"]))
    assert found["-B:Volume"] == ("", "1 mL", True)
    assert found["-seen/2"] == ("", "visual clear", True)
    assert found["missing"] == ("", None, True)
    gone = told(compare(payload([FLASK], []), payload([FLASK], [WASHED]), ["A/gone"]))
    assert gone["A/gone"] == ("not handed back", "handed back", True)
    assert gone["A:Volume"] == ("", "480 mL", False)


def test_a_rejection_stands_beside_what_was_accepted() -> None:
    found = told(compare(payload([FLASK], [], rejected="too hot"), payload([FLASK], [WASHED]), ["rejected"]))
    assert found == {"rejected": ("too hot", "accepted", True)}


def test_a_record_of_steps_has_a_row_for_each() -> None:
    step = {"number": 1, "action": {"name": "Wash"}}
    lines = compare({"kind": "evidence", "steps": [step, {**step, "number": 2}]}, ticks={"step/2": 1})
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
def test_a_ticked_row_is_named_in_words(key: str, said: str) -> None:
    assert mark_name(key) == said
