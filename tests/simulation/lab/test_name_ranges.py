"""Tests of folding names that differ in one number."""

import pytest

from simulation.lab.name_ranges import fold_names, format_count, format_numbers


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["HeLa well 13", "HeLa well 14", "HeLa well 15"], ["HeLa wells 13 to 15"]),
        (["HeLa well 2", "HeLa well 1"], ["HeLa wells 1 and 2"]),
        (["Tail fin clip, fish 1", "Tail fin clip, fish 2"], ["Tail fin clip, fish 1 and 2"]),
        (["Filter crucible 1, fine", "Filter crucible 2, fine"], ["Filter crucibles 1 and 2, fine"]),
        (["PCR mitfa 1", "PCR mitfa 2", "PCR mitfa 3"], ["PCR mitfa 1 to 3"]),
        (["Petri dish 4", "Petri dish 5"], ["Petri dishes 4 and 5"]),
        # The group is where its first name was; other names keep their places.
        (["PBS", "Well 1", "DMEM", "Well 2"], ["PBS", "Wells 1 and 2", "DMEM"]),
    ],
)
def test_names_that_differ_in_one_number_become_one_name(names: list[str], folded: list[str]) -> None:
    assert fold_names(names) == folded


@pytest.mark.parametrize(
    "names",
    [
        ["Buffer 10 mM", "Buffer 20 mM"],  # amounts
        ["Glycerol 0.5", "Glycerol 1.5"],
        ["Dilution 1:5", "Dilution 1:25"],
        ["Tube 1", "Tube 1", "Tube 2"],  # two materials with one name: folded, one would be lost
        ["Sample 01", "Sample 02"],  # the zero would be lost
        ["Well 1", "Wall 2"],
        ["Well A1", "Well A2"],
        ["Well 1"],
        [],
    ],
)
def test_names_stay_as_they_are_when_a_number_may_be_an_amount_or_would_be_lost(names: list[str]) -> None:
    assert fold_names(names) == names


def test_numbers_are_written_in_order_with_ranges_from_three_on() -> None:
    assert format_numbers([8, 7, 6, 5, 3, 1]) == "1, 3 and 5 to 8"
    assert format_numbers([13, 14]) == "13 and 14"
    assert format_numbers([4]) == "4"
    assert format_numbers([]) == ""


def test_count_has_the_singular_for_one():
    assert [format_count(number, "portion") for number in (0, 1, 3)] == ["0 portions", "1 portion", "3 portions"]
    assert [format_count(number, "batch") for number in (1, 2)] == ["1 batch", "2 batches"]
