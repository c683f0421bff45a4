"""Sizes, fragments, multiplicities and ages: each finds its error, and the same record with the right number is correct."""

import pytest

from tests.simulation.checker.bases import build_material, build_transition
from tests.simulation.checker.test_relations import codes, measured

# (action, parameters, properties, description, right, wrong, code); the arithmetic is in the comment
RECORDS = [
    # 2 % of 100 µm is 2 µm, 60 % is 60 µm.
    ("CoulterCount", {"aperture": "100 µm"}, {}, "size distribution", "mode 14.2 µm", "mode 0.55 µm", "L17"),
    ("CountLiquidParticles", {"method": "light obscuration"}, {}, "mean diameter", "4.1 µm", "60 nm", "L17"),
    ("NucleicAcidQuantification", {"instrument": "microvolume spectrophotometer"}, {}, "reading", "31.2 ng/µL", "0.0031 ng/µL", "L17"),
    ("AgaroseGelElectrophoresis", {"agarose": "1 %"}, {}, "bands", "two separate bands, 150 bp and 120 bp", "two separate bands, 150 bp and 147 bp", "L17"),
    # 130 + 75 = 205
    ("AgaroseGelElectrophoresis", {}, {"insert": "205 bp amplicon, cut"}, "bands in bp", "205, 130, 75", "205, 130, 105", "L20"),
    # (1.625 - 1.250) / 1.250 = 30 %
    ("UsePlateReader", {}, {}, "FRET ratio", "R0 = 1.250; Rmax = 1.625; dR/R0 = 30.0 %", "R0 = 1.250; Rmax = 1.625; dR/R0 = 130.0 %", "L20"),
    ("ImageSample", {}, {}, "stained part of the face", "38 % of the face", "138 % of the face", "L23"),
    ("MeasureDensity", {}, {}, "density of the drink; caffeine", "1.042 g/mL", "0.318 mg/mL", "L15"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "parameters", "properties", "description", "right", "wrong", "code"), RECORDS)
def test_reading_lies_within_what_the_instrument_can_see(
    action, parameters, properties, description, right, wrong, code
):
    properties = {"volume": "1 mL", **properties}
    # The records leave out the gel itself, which L18 reports.
    right_codes, wrong_codes = (
        codes(measured(action, parameters, [(description, value, "quantitative")], properties)) - {"L18"}
        for value in (right, wrong)
    )
    assert (right_codes, wrong_codes) == (set(), {code})


@pytest.mark.parametrize(("copies", "expected"), [("9.0e4 copies", set()), ("5.0e6 copies", {"L20"})])
def test_pcr_makes_no_more_copies_than_one_doubling_in_each_cycle(copies, expected):
    # 100 * 2^10 = 1.02e5
    line = build_transition(
        "Thermocycler",
        {"cycles": 10, "denaturation_temperature": "95 °C", "annealing_temperature": "58 °C"},
        [build_material("PCR", {"volume": "25 µL", "template": "100 copies"})],
        [build_material("PCR", {"volume": "25 µL", "product": copies})],
    )
    assert codes(line) == expected


@pytest.mark.parametrize("spelling", ["minicells per cell: {}", "{} minicells per cell", "MC:cell {}:1", "MOI {}"])
@pytest.mark.parametrize(("number", "expected"), [("100", set()), ("250", {"L20"})])
def test_particles_per_cell_follow_from_the_moved_particles(spelling, number, expected):
    # 5.0e8 /mL * 0.040 mL = 2.0e7 on 2.0e5 cells
    line = build_transition(
        "Transfer",
        {"source": "MAT-S0000001", "amount": "40 µL"},
        [
            build_material("Minicells, 5.0e8 /mL", {"volume": "500 µL"}, barcode="MAT-S0000001"),
            build_material("HeLa, well D2", {"cells": "2.0e5", "volume": "460 µL"}, barcode="MAT-S0000002"),
        ],
        [
            build_material("Minicells, 5.0e8 /mL, rest", {"volume": "460 µL"}),
            build_material("HeLa, well D2", {"cells": "2.0e5", "volume": "500 µL", "dose": spelling.format(number)}),
        ],
    )
    assert codes(line) == expected


@pytest.mark.parametrize(("age", "expected"), [("DIV 12 on 15 Mar", set()), ("DIV 17 on 15 Mar", {"L13"})])
def test_age_is_the_time_since_the_date_of_plating(age, expected):
    # 15 March - 3 March = 12 days
    properties = {"plated": "03 Mar (= DIV 0)", "volume": "2 mL"}
    line = measured("UseMicroscope", {}, [("image", "sharp", "image")], properties, {**properties, "age": age})
    assert codes(line) == expected


@pytest.mark.parametrize(
    ("before", "right", "wrong"),
    [
        # 10 + 2 days, 72 + 48 h, and in 48 h no more than four doublings
        ({"culture age": "10 days"}, {"culture age": "12 days"}, {"culture age": "19 days"}),
        ({"time since plating": "72 h"}, {"time since plating": "120 h"}, {"time since plating": "300 h"}),
        ({"Zellzahl": "2.0e5"}, {"Zellzahl": "7.0e5"}, {"Zellzahl": "2.5e7"}),
        ({"cell density": "2.0e4 cells/cm2"}, {"cell density": "7.0e4 cells/cm2"}, {"cell density": "2.5e6 cells/cm2"}),
        ({"passage": "p12"}, {"passage": "p12"}, {"passage": "p13"}),
    ],
)
def test_age_and_growth_of_a_culture_fit_the_time_that_passed(before, right, wrong):
    held = {"temperature": "37 °C", "CO2": "5 %"}
    for after, expected in ((right, set()), (wrong, {"L13"})):
        line = build_transition(
            "CellCultureIncubate",
            {"duration": "48 h", "temperature": "37 °C", "carbon_dioxide": "5 %"},
            [build_material("HeLa, T25", {**held, **before}, "cell_culture_conditions")],
            [build_material("HeLa, T25", {**held, **after}, "cell_culture_conditions")],
        )
        assert codes(line) == expected
