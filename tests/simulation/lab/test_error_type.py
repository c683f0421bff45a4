"""The independent rule that decides from the visible difference whether an error is obvious or subtle."""

import pytest

from simulation.lab.outcomes import Perturbation
from simulation.lab.planted_errors.error_type import Change, decide_error_type

OBVIOUS, SUBTLE = Perturbation.OBVIOUS, Perturbation.SUBTLE


@pytest.mark.parametrize(
    ("place", "before", "correct", "planted", "expected"),
    [
        ("volume", "", "1 mL", "1.4 mL", SUBTLE),
        ("volume", "", "1 mL", "600 µL", SUBTLE),  # 1 / 0.6 is 1.67
        ("volume", "", "1 mL", "500 µL", OBVIOUS),  # a factor of 2
        ("volume", "", "1 mL", "12 mL", OBVIOUS),
        ("Cell count of Well 1", "", "100 cells", "-100 cells", OBVIOUS),
        ("temperature", "", "37.0 °C", "32.0 °C", SUBTLE),
        ("temperature", "", "37.0 °C", "94.0 °C", OBVIOUS),
        ("temperature", "", "4.0 °C", "8.0 °C", SUBTLE),  # twice the number means nothing on this scale
        ("MeasurepH of Buffer: pH", "", "7.01, 7.02", "7.61, 7.62", SUBTLE),
        ("MeasurepH of Buffer: pH", "", "4.01, 4.02", "9.99, 9.98", OBVIOUS),
        ("phase", "liquid", "liquid", "suspension", SUBTLE),
        ("phase", "liquid", "liquid", "powder", OBVIOUS),
        ("phase", "liquid", "liquid", "frozen", OBVIOUS),
        ("phase", "frozen", "liquid", "frozen", SUBTLE),  # what the step should have thawed
        ("environmental_condition", "4C", "4C", "room_temp", SUBTLE),
        ("environmental_condition", "4C", "4C", "-80C", OBVIOUS),
        ("available_for_use", "x", "not_available_for_further_use", "available_for_further_use", OBVIOUS),
        ("cell type", "HeLa", "HeLa", "HEK293T", None),
        ("DNASequencing: read", "", "T only (TAG)", "C only (CAG)", None),
    ],
)
def test_visible_difference_decides_the_type_of_an_error(place, before, correct, planted, expected):
    assert decide_error_type([Change(place, before, correct, planted)]) == expected


def test_one_obvious_change_makes_an_error_obvious():
    small, large = Change("volume", "", "1 mL", "1.2 mL"), Change("mass", "", "1 mg", "9 mg")
    words = Change("cell type", "", "HeLa", "HEK293T")
    assert decide_error_type([small, words]) == SUBTLE
    assert decide_error_type([words, small, large]) == OBVIOUS
    assert decide_error_type([]) is None
