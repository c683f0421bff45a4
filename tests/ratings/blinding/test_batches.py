"""Tests of row groups: values that several materials share are shown once."""

from typing import Any

from ratings.blinding.material_rows import MaterialRow, align_materials, group_materials, iter_record_steps
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


def make_washed_rows(refs: str, left: dict[str, str]) -> list[MaterialRow]:
    """Return the rows of wells that contain 1 mL each before and `left` afterwards."""
    before = [make_well(ref, "1 mL") for ref in refs]
    after = [make_well(ref, left[ref], continues=ref) for ref in refs]
    return align_materials({"before": before, "after": after, "rejected": ""})


def test_row_group_shares_equal_values_and_lists_different_ones_in_columns() -> None:
    [batch], alone = group_materials(make_washed_rows("ABC", {"A": "0.9 mL", "B": "0.9 mL", "C": "0.8 mL"}))

    assert alone == []
    assert [row.label for row in batch.shared] == ["Phase", "Kept at", "Availability"]
    assert batch.columns == ("Volume",)
    # 0.8 - 1 = -0.2
    assert [(lane.ref, rows[0].difference) for lane, rows in batch.table] == [
        ("A", "−0.1 mL"),
        ("B", "−0.1 mL"),
        ("C", "−0.2 mL"),
    ]


def test_row_group_shares_a_change_that_is_the_same_for_all_materials() -> None:
    [batch], _ = group_materials(make_washed_rows("ABC", dict.fromkeys("ABC", "0.9 mL")))

    assert batch.columns == ()
    assert [(row.before, row.after) for row in batch.shared if row.changed] == [("1 mL", "0.9 mL")]


def test_row_group_needs_more_than_two_materials() -> None:
    together, alone = group_materials(make_washed_rows("AB", {"A": "0.9 mL", "B": "0.9 mL"}))

    assert together == []
    assert [lane.ref for lane in alone] == ["A", "B"]


def test_row_group_excludes_a_material_that_has_other_properties_or_is_used_up() -> None:
    found = make_washed_rows("ABC", dict.fromkeys("ABC", "0.9 mL"))
    salted = align_materials({"before": [], "after": [make_well("D", "1 mL", Salt="5 mM")], "rejected": ""})
    used_up = align_materials({"before": [make_well("E", "1 mL")], "after": [], "rejected": ""})

    [batch], alone = group_materials([*found, *salted, *used_up])

    assert [lane.ref for lane in batch.lanes] == ["A", "B", "C"]
    assert [lane.ref for lane in alone] == ["D", "E"]


def test_row_group_preserves_every_value() -> None:
    found = make_washed_rows("ABCD", {"A": "0.9 mL", "B": "0.7 mL", "C": "0.8 mL", "D": "1 mL"})

    [batch], _ = group_materials(found)

    for lane, rows in batch.table:
        assert {*rows, *batch.shared} == {row for row in lane.rows if row.label != "Name"}


def test_row_group_does_not_mix_up_a_property_with_the_standard_row_of_the_same_name() -> None:
    new = [make_well(ref, "1 mL", Availability=f"shelf {ref}") for ref in "ABC"]

    [batch], _ = group_materials(align_materials({"before": [], "after": new, "rejected": ""}))

    assert batch.columns == ("Availability",)
    assert [rows[0].after for _, rows in batch.table] == ["shelf A", "shelf B", "shelf C"]
    assert "can be used further" in [row.after for row in batch.shared]


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
