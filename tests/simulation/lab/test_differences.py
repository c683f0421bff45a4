"""Where two outcomes differ, as far as anyone can see."""

from typing import Any

import pytest

from simulation.lab.differences import Difference, differences
from simulation.lab.materials import Draft
from simulation.lab.outcomes import Observation, Outcome


def done(*drafts: Draft, seen: tuple[Observation, ...] = (), **more: Any) -> Outcome:
    return Outcome(True, drafts, seen, **more)


def cells(volume: Any = "1 mL", **more: Any) -> Draft:
    return Draft("Cells", {"volume": volume, "medium": {"name": "DMEM", "pH": 7.4}}, **{"replaces": "MAT-A", **more})


def test_an_outcome_does_not_differ_from_itself():
    assert differences(done(cells()), done(cells())) == ()


def test_a_property_is_told_with_its_place_and_both_values():
    nested = Draft("Cells", {"volume": "1 mL", "medium": {"name": "DMEM", "pH": 9}}, replaces="MAT-A")
    assert differences(done(Draft("x", {}), cells()), done(Draft("x", {}), nested)) == (
        Difference("new_materials[1].properties.medium.pH", 7.4, 9),
    )


def test_what_nobody_sees_is_no_difference():
    hidden = cells(taken={"MAT-A": "1 mL"}, ledger={"true": 1}, derived_from=("MAT-B",))
    assert differences(done(cells()), done(hidden, reasoning="other", fidelity="bookkeeping only")) == ()


def test_spaces_letter_codes_and_ways_to_write_a_number_are_no_difference():
    assert differences(done(cells("5 \u00b5L")), done(cells(" 5  \u03bcL"))) == ()
    assert differences(done(cells(5)), done(cells(5.0))) == () == differences(done(cells(5)), done(cells("5")))
    assert differences(done(cells(True)), done(cells(1))) == (
        Difference("new_materials[0].properties.volume", True, 1),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [("10.0 mL", "10 mL"), ("50mL tube", "50 mL tube"), ("50-mL tube, 1.50 g", "50 ml tube, 1.5g"), ("2 uL", "2 µl"), (5, "5.00"),
     ("about 3.0. Then 4 °C", "about 3. Then 4°C"), ("1.0e6 cells", "1e6 cells")],
)  # fmt: skip
def test_how_a_number_and_its_unit_are_written_is_no_difference(one: Any, other: Any) -> None:
    seen = tuple(done(seen=(Observation(f"It reads {value}", "visual", str(value)),)) for value in (one, other))
    assert differences(done(cells(one)), done(cells(other))) == () == differences(*seen)


@pytest.mark.parametrize(
    ("one", "other"),
    [("10.0 mL", "100 mL"), ("1.05 mL", "1.5 mL"), ("10 mL", "10 µL"), ("1 mM", "1 mm"), ("100", "10"), ("v1.0.2", "v1.2"),
     ("1,250 mL", "1250 mL"), ("-4 °C", "4 °C"), ("1e6", "1e60"), ("clear", "cloudy")],
)  # fmt: skip
def test_another_number_or_unit_is_a_difference(one: str, other: str) -> None:
    assert len(differences(done(cells(one)), done(cells(other)))) == 1


def test_capitals_in_the_name_of_a_property_are_no_difference_and_its_value_is_still_compared():
    old, new = (
        done(Draft("A", {"Volume": "1 mL", "sample_ID": 7})),
        done(Draft("A", {"volume": "1 mL", "Sample ID": 7})),
    )
    assert differences(old, new) == ()
    assert differences(old, done(Draft("A", {"volume": "2 mL", "sample_ID": 7}))) == (
        Difference("new_materials[0].properties.volume", "1 mL", "2 mL"),
    )
    both = done(Draft("A", {"volume": "1 mL", "VOLUME": "9 mL", "sample_ID": 7}))  # nobody can say which is meant
    assert len(differences(old, both)) == 3


def test_materials_are_paired_by_what_they_replace_then_by_name_whatever_their_order():
    old = done(cells(), Draft("B", {"v": 1}), Draft("C", {"v": 1}))
    new = done(Draft("C", {"v": 2}), Draft("Cells, washed", cells().properties, replaces="MAT-A"), Draft("B", {"v": 1}))
    assert differences(old, new) == (
        Difference("new_materials[0].properties.v", 1, 2),
        Difference("new_materials[1].name", "Cells", "Cells, washed"),
    )


def test_the_rest_is_paired_in_order_and_what_is_left_came_or_went():
    assert differences(done(Draft("A", {})), done(Draft("B", {}))) == (Difference("new_materials[0].name", "A", "B"),)
    (gone,) = differences(done(cells(), Draft("A", {"v": 1})), done(cells()))
    assert (gone.path, gone.before["name"], gone.after) == ("new_materials[1]", "A", None)
    (came,) = differences(done(cells()), done(Draft("A", {"v": 1}), cells()))
    assert (came.path, came.before, came.after["properties"]) == ("new_materials[0]", None, {"v": 1})


def test_a_property_that_is_only_in_one_of_them():
    bare = Draft("Cells", {"volume": "1 mL"}, replaces="MAT-A")
    assert differences(done(cells()), done(bare)) == (
        Difference("new_materials[0].properties.medium", {"name": "DMEM", "pH": 7.4}, None),
    )


def test_lists_of_one_length_differ_where_their_entries_do_and_others_as_a_whole():
    old, same, longer = (done(Draft("P", {"wells": wells})) for wells in ([1, 2], [1, 3], [1, 2, 3]))
    assert differences(old, same) == (Difference("new_materials[0].properties.wells[1]", 2, 3),)
    assert differences(old, longer) == (Difference("new_materials[0].properties.wells", [1, 2], [1, 2, 3]),)


def test_observations_are_paired_by_what_they_describe():
    one, two = Observation("OD of A", "quantitative", "0.5"), Observation("OD of B", "quantitative", "0.8")
    swapped = (Observation("OD of B", "quantitative", "0.5"), Observation("OD of A", "quantitative", "0.8"))
    assert differences(done(seen=(one, two)), done(seen=(two, one))) == ()
    assert differences(done(seen=(one, two)), done(seen=swapped)) == (
        Difference("new_observations[0].value", "0.8", "0.5"),
        Difference("new_observations[1].value", "0.5", "0.8"),
    )


def test_a_rejection_differs_from_an_acceptance_in_success_and_reason():
    found = differences(done(cells()), Outcome.rejected("too cold"))
    assert [difference.path for difference in found] == ["success", "failure_reason", "new_materials[0]"]
    assert differences(Outcome.rejected("too cold"), Outcome.rejected("too  cold")) == ()
