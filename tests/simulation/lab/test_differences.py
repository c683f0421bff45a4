"""Visible differences between two outcomes."""

from typing import Any

import pytest

from simulation.lab.differences import Difference, find_differences
from simulation.lab.materials import NewMaterial
from simulation.lab.outcomes import Observation, Outcome


def accepted_outcome(*drafts: NewMaterial, seen: tuple[Observation, ...] = (), **more: Any) -> Outcome:
    return Outcome(True, drafts, seen, **more)


def cell_material(volume: Any = "1 mL", **more: Any) -> NewMaterial:
    return NewMaterial(
        "Cells", {"volume": volume, "medium": {"name": "DMEM", "pH": 7.4}}, **{"replaces": "MAT-A", **more}
    )


def test_outcome_does_not_differ_from_itself():
    assert find_differences(accepted_outcome(cell_material()), accepted_outcome(cell_material())) == ()


def test_property_difference_has_its_path_and_both_values():
    nested = NewMaterial("Cells", {"volume": "1 mL", "medium": {"name": "DMEM", "pH": 9}}, replaces="MAT-A")
    assert find_differences(
        accepted_outcome(NewMaterial("x", {}), cell_material()), accepted_outcome(NewMaterial("x", {}), nested)
    ) == (Difference("new_materials[1].properties.medium.pH", 7.4, 9),)


def test_hidden_fields_are_not_compared():
    hidden = cell_material(taken={"MAT-A": "1 mL"}, ledger={"true": 1}, derived_from=("MAT-B",))
    assert (
        find_differences(
            accepted_outcome(cell_material()), accepted_outcome(hidden, reasoning="other", fidelity="bookkeeping only")
        )
        == ()
    )


def test_spacing_unicode_variants_and_number_types_are_no_difference():
    assert (
        find_differences(accepted_outcome(cell_material("5 \u00b5L")), accepted_outcome(cell_material(" 5  \u03bcL")))
        == ()
    )
    assert (
        find_differences(accepted_outcome(cell_material(5)), accepted_outcome(cell_material(5.0)))
        == ()
        == find_differences(accepted_outcome(cell_material(5)), accepted_outcome(cell_material("5")))
    )
    assert find_differences(accepted_outcome(cell_material(True)), accepted_outcome(cell_material(1))) == (
        Difference("new_materials[0].properties.volume", True, 1),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [("10.0 mL", "10 mL"), ("50mL tube", "50 mL tube"), ("50-mL tube, 1.50 g", "50 ml tube, 1.5g"), ("2 uL", "2 µl"), (5, "5.00"),
     ("about 3.0. Then 4 °C", "about 3. Then 4°C"), ("1.0e6 cells", "1e6 cells")],
)  # fmt: skip
def test_different_notation_of_the_same_number_and_unit_is_no_difference(one: Any, other: Any) -> None:
    seen = tuple(
        accepted_outcome(seen=(Observation(f"It reads {value}", "visual", str(value)),)) for value in (one, other)
    )
    assert (
        find_differences(accepted_outcome(cell_material(one)), accepted_outcome(cell_material(other)))
        == ()
        == find_differences(*seen)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [("10.0 mL", "100 mL"), ("1.05 mL", "1.5 mL"), ("10 mL", "10 µL"), ("1 mM", "1 mm"), ("100", "10"), ("v1.0.2", "v1.2"),
     ("1,250 mL", "1250 mL"), ("-4 °C", "4 °C"), ("1e6", "1e60"), ("clear", "cloudy")],
)  # fmt: skip
def test_another_number_or_unit_is_a_difference(one: str, other: str) -> None:
    assert len(find_differences(accepted_outcome(cell_material(one)), accepted_outcome(cell_material(other)))) == 1


def test_property_names_are_matched_without_case_and_their_values_compared():
    old, new = (
        accepted_outcome(NewMaterial("A", {"Volume": "1 mL", "sample_ID": 7})),
        accepted_outcome(NewMaterial("A", {"volume": "1 mL", "Sample ID": 7})),
    )
    assert find_differences(old, new) == ()
    assert find_differences(old, accepted_outcome(NewMaterial("A", {"volume": "2 mL", "sample_ID": 7}))) == (
        Difference("new_materials[0].properties.volume", "1 mL", "2 mL"),
    )
    both = accepted_outcome(
        NewMaterial("A", {"volume": "1 mL", "VOLUME": "9 mL", "sample_ID": 7})
    )  # ambiguous: either could be meant
    assert len(find_differences(old, both)) == 3


def test_materials_are_paired_by_replaced_barcode_then_by_name_in_any_order():
    old = accepted_outcome(cell_material(), NewMaterial("B", {"v": 1}), NewMaterial("C", {"v": 1}))
    new = accepted_outcome(
        NewMaterial("C", {"v": 2}),
        NewMaterial("Cells, washed", cell_material().properties, replaces="MAT-A"),
        NewMaterial("B", {"v": 1}),
    )
    assert find_differences(old, new) == (
        Difference("new_materials[0].properties.v", 1, 2),
        Difference("new_materials[1].name", "Cells", "Cells, washed"),
    )


def test_unmatched_materials_are_paired_in_order_and_the_rest_are_added_or_removed():
    assert find_differences(accepted_outcome(NewMaterial("A", {})), accepted_outcome(NewMaterial("B", {}))) == (
        Difference("new_materials[0].name", "A", "B"),
    )
    (gone,) = find_differences(
        accepted_outcome(cell_material(), NewMaterial("A", {"v": 1})), accepted_outcome(cell_material())
    )
    assert (gone.path, gone.before["name"], gone.after) == ("new_materials[1]", "A", None)
    (came,) = find_differences(
        accepted_outcome(cell_material()), accepted_outcome(NewMaterial("A", {"v": 1}), cell_material())
    )
    assert (came.path, came.before, came.after["properties"]) == ("new_materials[0]", None, {"v": 1})


def test_property_of_only_one_outcome_is_a_difference():
    bare = NewMaterial("Cells", {"volume": "1 mL"}, replaces="MAT-A")
    assert find_differences(accepted_outcome(cell_material()), accepted_outcome(bare)) == (
        Difference("new_materials[0].properties.medium", {"name": "DMEM", "pH": 7.4}, None),
    )


def test_lists_of_equal_length_differ_by_entry_and_others_as_a_whole():
    old, same, longer = (accepted_outcome(NewMaterial("P", {"wells": wells})) for wells in ([1, 2], [1, 3], [1, 2, 3]))
    assert find_differences(old, same) == (Difference("new_materials[0].properties.wells[1]", 2, 3),)
    assert find_differences(old, longer) == (Difference("new_materials[0].properties.wells", [1, 2], [1, 2, 3]),)


def test_observations_are_paired_by_their_description():
    one, two = Observation("OD of A", "quantitative", "0.5"), Observation("OD of B", "quantitative", "0.8")
    swapped = (Observation("OD of B", "quantitative", "0.5"), Observation("OD of A", "quantitative", "0.8"))
    assert find_differences(accepted_outcome(seen=(one, two)), accepted_outcome(seen=(two, one))) == ()
    assert find_differences(accepted_outcome(seen=(one, two)), accepted_outcome(seen=swapped)) == (
        Difference("new_observations[0].value", "0.8", "0.5"),
        Difference("new_observations[1].value", "0.5", "0.8"),
    )


def test_rejection_differs_from_acceptance_in_success_and_reason():
    found = find_differences(accepted_outcome(cell_material()), Outcome.make_rejected("too cold"))
    assert [difference.path for difference in found] == ["success", "failure_reason", "new_materials[0]"]
    assert find_differences(Outcome.make_rejected("too cold"), Outcome.make_rejected("too  cold")) == ()
