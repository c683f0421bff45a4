"""Batches: what many materials share is said once."""

from typing import Any

from ratings.blinding.batches import batches, record
from ratings.blinding.lanes import Lane, lanes
from ratings.templatetags.payload_text import name_parts


def well(ref: str, volume: str, continues: str = "", **more: str) -> dict[str, Any]:
    properties = {"Phase": "liquid", "Volume": volume, **more}
    return {
        "ref": ref,
        "name": f"Well {ref}",
        "properties": [[label, value] for label, value in properties.items()],
        "condition": "on ice",
        "availability": "can be used further",
        "continues": continues,
    }


def washed(refs: str, left: dict[str, str]) -> list[Lane]:
    """Wells of 1 mL each that hold `left` afterwards."""
    before = [well(ref, "1 mL") for ref in refs]
    after = [well(ref, left[ref], continues=ref) for ref in refs]
    return lanes({"before": before, "after": after, "rejected": ""})


def test_what_reads_alike_in_all_is_shared_and_the_rest_is_a_column() -> None:
    [batch], alone = batches(washed("ABC", {"A": "0.9 mL", "B": "0.9 mL", "C": "0.8 mL"}))

    assert alone == []
    assert [row.label for row in batch.shared] == ["Phase", "Kept at", "Availability"]
    assert batch.columns == ("Volume",)
    # 0.8 - 1 = -0.2
    assert [(lane.ref, rows[0].difference) for lane, rows in batch.table] == [
        ("A", "−0.1 mL"),
        ("B", "−0.1 mL"),
        ("C", "−0.2 mL"),
    ]


def test_a_change_that_all_went_through_is_shared_as_a_change() -> None:
    [batch], _ = batches(washed("ABC", dict.fromkeys("ABC", "0.9 mL")))

    assert batch.columns == ()
    assert [(row.before, row.after) for row in batch.shared if row.changed] == [("1 mL", "0.9 mL")]


def test_two_of_a_kind_stay_lanes() -> None:
    together, alone = batches(washed("AB", {"A": "0.9 mL", "B": "0.9 mL"}))

    assert together == []
    assert [lane.ref for lane in alone] == ["A", "B"]


def test_materials_with_other_properties_or_another_fate_are_not_mixed_in() -> None:
    found = washed("ABC", dict.fromkeys("ABC", "0.9 mL"))
    salted = lanes({"before": [], "after": [well("D", "1 mL", Salt="5 mM")], "rejected": ""})
    used_up = lanes({"before": [well("E", "1 mL")], "after": [], "rejected": ""})

    [batch], alone = batches([*found, *salted, *used_up])

    assert [lane.ref for lane in batch.lanes] == ["A", "B", "C"]
    assert [lane.ref for lane in alone] == ["D", "E"]


def test_no_value_is_lost_in_a_batch() -> None:
    found = washed("ABCD", {"A": "0.9 mL", "B": "0.7 mL", "C": "0.8 mL", "D": "1 mL"})

    [batch], _ = batches(found)

    for lane, rows in batch.table:
        assert {*rows, *batch.shared} == {row for row in lane.rows if row.label != "Name"}


def test_a_property_that_is_called_like_another_row_is_kept_apart() -> None:
    new = [well(ref, "1 mL", Availability=f"shelf {ref}") for ref in "ABC"]

    [batch], _ = batches(lanes({"before": [], "after": new, "rejected": ""}))

    assert batch.columns == ("Availability",)
    assert [rows[0].after for _, rows in batch.table] == ["shelf A", "shelf B", "shelf C"]
    assert "can be used further" in [row.after for row in batch.shared]


def test_every_material_of_an_evidence_step_is_in_a_batch() -> None:
    step = {"made": [well("A", "1 mL"), well("B", "1 mL", continues="B"), well("C", "2 mL", Salt="5 mM")]}

    [(shown, made)] = record([step])

    assert shown is step
    assert [[lane.ref for lane in one.batch.lanes] for one in made] == [["A", "B"], ["C"]]
    assert [row.label for row in made[1].batch.shared] == ["Phase", "Volume", "Salt", "Kept at", "Availability"]
    assert made[1].same.shared == ()


def test_what_a_step_left_as_an_earlier_one_had_left_it_is_told_from_what_is_new() -> None:
    steps = [
        {"made": [well("A", "1 mL"), well("B", "1 mL")]},
        {"made": [well("C", "3 mL")]},
        {"made": [well("A", "0.9 mL", continues="A"), well("B", "0.8 mL", continues="B")]},
        {"made": [well("B", "0.8 mL", continues="B")]},
    ]

    *_, (_, [later]), (_, [last]) = record(steps)

    assert [[row.after for row in rows] for _, rows in later.batch.table] == [["0.9 mL"], ["0.8 mL"]]
    assert [row.label for row in later.same.shared] == ["Phase", "Kept at", "Availability"]
    assert (last.batch.shared, last.batch.columns) == ((), ())
    assert [row.after for row in last.same.shared] == ["liquid", "0.8 mL", "on ice", "can be used further"]


def test_what_reads_alike_after_a_step_is_said_once_whatever_stood_there_before() -> None:
    steps = [
        {"made": [well("A", "1 mL"), well("B", "2 mL")]},
        {"made": [well("A", "5 mL", continues="A"), well("B", "5 mL", continues="B")]},
    ]

    *_, (_, [made]) = record(steps)

    assert [(row.label, row.after) for row in made.batch.shared] == [("Volume", "5 mL")]
    assert made.batch.columns == ()


def test_no_value_of_a_record_is_lost() -> None:
    steps = [
        {"made": [well("A", "1 mL", Salt="5 mM"), well("B", "1 mL")]},
        {"made": [well("A", "1 mL", continues="A"), well("B", "1 mL", Salt="4 mM", continues="B")]},
    ]

    for step, made in record(steps):
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


def test_a_long_name_may_break_between_its_words() -> None:
    assert name_parts("AgaroseGelElectrophoresis") == ["Agarose", "Gel", "Electrophoresis"]
    assert name_parts("DNASequencing") == ["DNASequencing"]
    assert name_parts("<script>") == ["<script>"]
