"""Tests of tables of similar materials, of transitions and of records."""

from collections.abc import Sequence
from typing import Any

import pytest

from ratings.blinding.material_rows import Payload, group_materials, iter_record_steps
from ratings.templatetags.ratings_tags import name_parts


def make_well(ref: str, volume: str, continues: str = "", **more: str) -> dict[str, Any]:
    properties = {"Phase": "liquid", "Volume": volume, **more}
    return {
        "ref": ref,
        "name": f"Well {ref}",
        "properties": [[label, value] for label, value in properties.items()],
        "condition": "on ice",
        "availability": "can be used further",
        "continues": continues,
    }


def build_washed(refs: str, left: dict[str, str], settings: Sequence[Sequence[str]] = ()) -> Payload:
    """Return a step on wells that contain 1 mL each before and `left` afterwards."""
    before = [make_well(ref, "1 mL") for ref in refs]
    after = [make_well(ref, left[ref], continues=ref) for ref in refs]
    return build_step(before, after, settings)


def build_step(
    before: list[dict[str, Any]], after: list[dict[str, Any]], settings: Sequence[Sequence[str]] = ()
) -> Payload:
    return {
        "kind": "transition", "action": {"name": "Wash", "parameters": settings}, "before": before, "after": after,
        "observations": [], "rejected": "",
    }  # fmt: skip


def test_table_of_replicates_has_a_column_for_each_property_and_those_that_changed_first() -> None:
    [table], alone = group_materials(build_washed("ABC", {"A": "0.9 mL", "B": "0.9 mL", "C": "0.8 mL"}))

    assert alone == []
    assert [(column.label, column.changes) for column in table.columns] == [
        ("Volume", True),
        ("Phase", False),
        ("Kept at", False),
        ("Availability", False),
    ]
    # 0.8 - 1 = -0.2
    assert [(lane.ref, cells[0].before, cells[0].after, cells[0].difference) for lane, cells in table.rows] == [
        ("A", "1 mL", "0.9 mL", "−0.1 mL"),
        ("B", "1 mL", "0.9 mL", "−0.1 mL"),
        ("C", "1 mL", "0.8 mL", "−0.2 mL"),
    ]


@pytest.mark.parametrize(
    ("column", "left"),
    [
        ("Volume", {"A": "0.9 mL", "B": "0.9 mL", "C": "0.8 mL", "D": "0.9 mL"}),  # another change
        ("Volume", {"A": "1 mL", "B": "0.9 mL", "C": "0.9 mL", "D": "0.9 mL"}),  # no change
    ],
)
def test_table_has_the_same_columns_whether_or_not_one_replicate_differs(column: str, left: dict[str, str]) -> None:
    [equal], _ = group_materials(build_washed("ABCD", dict.fromkeys("ABCD", "0.9 mL")))
    [odd], alone = group_materials(build_washed("ABCD", left))

    assert alone == []
    assert odd.columns == equal.columns
    assert [column.label for column in odd.columns if column.changes] == ["Volume"]


def test_table_shows_both_values_of_one_material_that_changed_while_the_others_did_not() -> None:
    payload = build_washed("ABC", dict.fromkeys("ABC", "0.9 mL"))
    payload["after"][1]["properties"][0][1] = "frozen"

    [table], _ = group_materials(payload)

    assert [cells[1].after for _, cells in table.rows] == ["liquid", "frozen (before: liquid)", "liquid"]


def test_table_keeps_a_replicate_that_lost_or_gained_a_property() -> None:
    payload = build_washed("ABC", dict.fromkeys("ABC", "0.9 mL"))
    del payload["after"][0]["properties"][0]
    payload["after"][2]["properties"].append(["Salt", "5 mM"])

    [table], alone = group_materials(payload)

    assert alone == []
    assert [column.label for column in table.columns] == ["Volume", "Phase", "Kept at", "Availability", "Salt"]
    assert [cells[1].after for _, cells in table.rows] == ["not stated (before: liquid)", "liquid", "liquid"]
    assert [cells[4].after for _, cells in table.rows] == ["", "", "5 mM (before: not stated)"]


def test_table_needs_more_than_two_materials() -> None:
    together, alone = group_materials(build_washed("AB", {"A": "0.9 mL", "B": "0.9 mL"}))

    assert together == []
    assert [lane.ref for lane in alone] == ["A", "B"]


def test_table_excludes_the_material_that_a_setting_names_and_those_that_are_used_up() -> None:
    payload = build_washed("ABCD", dict.fromkeys("ABCD", "0.9 mL"), settings=[["Wash medium", "Well D"]])
    payload["before"].append(make_well("E", "1 mL"))

    [table], alone = group_materials(payload)

    assert [lane.ref for lane in table.lanes] == ["A", "B", "C"]
    assert [(lane.ref, lane.gone) for lane in alone] == [("D", False), ("E", True)]


def test_new_materials_are_one_table_if_their_names_differ_in_a_number_only() -> None:
    new = [make_well("A", "1 mL"), make_well("B", "1 mL", Salt="5 mM"), make_well("C", "1 mL"), make_well("D", "3 mL")]
    for material, name in zip(new, ("Portion 1", "Portion 2", "Portion 10", "Waste"), strict=True):
        material["name"] = name

    [table], alone = group_materials(build_step([], new))

    assert [lane.ref for lane in table.lanes] == ["A", "B", "C"]
    assert [lane.ref for lane in alone] == ["D"]


def test_table_shows_every_value() -> None:
    payload = build_washed("ABCD", {"A": "0.9 mL", "B": "0.7 mL", "C": "0.8 mL", "D": "1 mL"})

    [table], _ = group_materials(payload)

    for lane, cells in table.rows:
        shown = {value for cell in cells for value in (cell.before, cell.after)}
        assert {value for row in lane.rows if row.label != "Name" for value in (row.before, row.after)} <= shown


def test_table_does_not_mix_up_a_property_with_the_standard_row_of_the_same_name() -> None:
    new = [make_well(ref, "1 mL", Availability=f"shelf {ref}") for ref in "ABC"]

    [table], _ = group_materials(build_step([], new))

    assert [column.label for column in table.columns].count("Availability") == 2
    assert [cells[2].after for _, cells in table.rows] == ["shelf A", "shelf B", "shelf C"]
    assert {cells[4].after for _, cells in table.rows} == {"can be used further"}


def test_evidence_record_puts_every_material_of_a_step_in_a_row_group() -> None:
    step = {
        "made": [make_well("A", "1 mL"), make_well("B", "1 mL", continues="B"), make_well("C", "2 mL", Salt="5 mM")]
    }

    [(shown, made)] = iter_record_steps([step])

    assert shown is step
    assert [[lane.ref for lane in one.batch.lanes] for one in made] == [["A", "B"], ["C"]]
    assert [row.label for row in made[1].batch.shared] == ["Phase", "Volume", "Salt", "Kept at", "Availability"]
    assert made[1].same.shared == ()


def test_evidence_record_separates_unchanged_values_from_new_ones() -> None:
    steps = [
        {"made": [make_well("A", "1 mL"), make_well("B", "1 mL")]},
        {"made": [make_well("C", "3 mL")]},
        {"made": [make_well("A", "0.9 mL", continues="A"), make_well("B", "0.8 mL", continues="B")]},
        {"made": [make_well("B", "0.8 mL", continues="B")]},
    ]

    *_, (_, [later]), (_, [last]) = iter_record_steps(steps)

    assert [[row.after for row in rows] for _, rows in later.batch.table] == [["0.9 mL"], ["0.8 mL"]]
    assert [row.label for row in later.same.shared] == ["Phase", "Kept at", "Availability"]
    assert (last.batch.shared, last.batch.columns) == ((), ())
    assert [row.after for row in last.same.shared] == ["liquid", "0.8 mL", "on ice", "can be used further"]


def test_evidence_record_shares_equal_values_after_a_step_whatever_they_were_before() -> None:
    steps = [
        {"made": [make_well("A", "1 mL"), make_well("B", "2 mL")]},
        {"made": [make_well("A", "5 mL", continues="A"), make_well("B", "5 mL", continues="B")]},
    ]

    *_, (_, [made]) = iter_record_steps(steps)

    assert [(row.label, row.after) for row in made.batch.shared] == [("Volume", "5 mL")]
    assert made.batch.columns == ()


def test_evidence_record_preserves_every_value() -> None:
    steps = [
        {"made": [make_well("A", "1 mL", Salt="5 mM"), make_well("B", "1 mL")]},
        {"made": [make_well("A", "1 mL", continues="A"), make_well("B", "1 mL", Salt="4 mM", continues="B")]},
    ]

    for step, made in iter_record_steps(steps):
        for material in step["made"]:
            shown = {
                (row.label, row.after)
                for one in made
                for batch in one
                for lane, rows in batch.table
                if lane.ref == material["ref"]
                for row in (*rows, *batch.shared)
            }
            assert {(label, value) for label, value in material["properties"]} <= shown


def test_long_material_name_can_break_between_its_words() -> None:
    assert name_parts("AgaroseGelElectrophoresis") == ["Agarose", "Gel", "Electrophoresis"]
    assert name_parts("DNASequencing") == ["DNASequencing"]
    assert name_parts("<script>") == ["<script>"]
