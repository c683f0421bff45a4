"""Deviations of planted numbers: how they are measured, which range they are drawn from, and their strata."""

import pytest

from simulation.lab.deviations import (
    ABOVE_LIMIT,
    BELOW_LIMIT,
    DEFAULT_SIZES,
    UNSIZED,
    SizeRange,
    find_deviation,
    find_stratum,
    measure_deviation,
    parse_sizes,
)
from simulation.lab.differences import Difference
from simulation.lab.errors import LabError


@pytest.mark.parametrize(
    ("before", "after", "deviation"),
    [
        ("10 mL", "12 mL", 0.2),
        ("900 µL", "1.2 mL", 0.3333),  # 1200 / 900 - 1
        ("50.0 µL", "40.0 µL", -0.2),
        ("1.002 mL, 998 µL", "1.002 mL, 1.2 mL", 0.2024),  # 1200 / 998 - 1
        ("101, 102 AU", "121, 122 AU", 0.198),  # 20 / 101
        ("2.0 × 10^12 per mL", "2.5 × 10^12 per mL", 0.25),
        ("25.1 % (251 of 1000 events)", "30.1 % (301 of 1000 events)", 0.1992),  # 5.0 / 25.1 and 50 / 251
        ("-1.2 V", "-1.5 V", -0.25),
        ("1000 x g", "1200 x g", 0.2),
        ("5 min", "6 h", 71.0),  # 360 / 5 - 1
    ],
)
def test_deviation_is_the_difference_over_the_true_number(before, after, deviation):
    assert measure_deviation(before, after) == deviation


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pH 7.4", "pH 8.4"),
        ("37 °C", "42 °C"),
        ("488 nm", "561 nm"),
        ("10x", "20x"),
        ("frozen", "liquid"),
        ("3 bands", "3 lanes"),
        ("0 mL", "1 mL"),
        ("12 mg/L", "12 furlongs"),
    ],
)
def test_deviation_of_what_has_no_size_is_none(before, after):
    assert measure_deviation(before, after) is None


def test_deviation_of_a_twin_is_that_of_the_named_location():
    note = Difference("new_observations[0].value", "10.0 mL", "12.0 mL")
    volume = Difference("new_materials[0].properties.volume", "20 mL", "22 mL")
    assert find_deviation([note, volume], "new_materials[0].properties.volume") == 0.1
    # A location where nothing differs, as a language model may name one: the first number counts.
    assert find_deviation([note, volume], "new_materials[7].name") == 0.2
    phase = Difference("new_materials[0].properties.phase", "liquid", "gel")
    assert find_deviation([phase], "new_materials[0].properties.phase") is None
    ph = Difference("new_materials[0].properties.pH", "7.4", "8.4")
    assert find_deviation([ph], "new_materials[0].properties.pH") is None


def test_stratum_depends_on_the_size_and_not_on_the_sign():
    strata = [find_stratum(deviation) for deviation in (None, 0.0999, -0.05, 0.1, -0.4, 9.0)]
    assert strata == [UNSIZED, ABOVE_LIMIT, BELOW_LIMIT, ABOVE_LIMIT, ABOVE_LIMIT, ABOVE_LIMIT]


def test_default_sizes_are_those_a_careful_reader_detects():
    assert DEFAULT_SIZES == (0.1, 0.4)
    assert DEFAULT_SIZES.contains(-0.1) and DEFAULT_SIZES.contains(0.4)
    assert not DEFAULT_SIZES.contains(0.09) and not DEFAULT_SIZES.contains(-0.41)


def test_sizes_are_parsed_from_percentages():
    assert parse_sizes("2-8") == SizeRange(0.02, 0.08) == parse_sizes(" 2 – 8 % ")


@pytest.mark.parametrize("text", ["40-10", "0-20", "10-90", "10", "ten-forty", "10-10", "10-40; DROP"])
def test_other_sizes_are_refused(text):
    with pytest.raises(LabError, match=r"size"):
        parse_sizes(text)
