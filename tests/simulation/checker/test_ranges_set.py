"""Readings are within the window, the limits and the list that the settings or the record state; growth and ages fit stated times."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import INCUBATOR, build_material, build_observation, build_transition


def codes(line):
    return {finding.code for finding in check_transition(line).error_findings}


def record(action, parameters, description, value):
    materials = [build_material("Sample 7", {"volume": "8 mL"})]
    return build_transition(action, parameters, materials, materials, [build_observation(description, value)])


WINDOW = {"aperture": "100 µm", "size_minimum": "3 µm", "size_maximum": "50 µm"}
ICP = {"ionization": "ICP", "elements": ["Mg", "K"]}
ELISA = {"analyte": "insulin (LLOQ 5 pg/mL)"}


@pytest.mark.parametrize(
    ("action", "parameters", "description", "right", "wrong", "code"),
    [
        ("CoulterCount", WINDOW, "yeast, 100 µm aperture", "peak at 5.1 µm", "peak at 1.9 µm", "L17"),
        ("CoulterCount", WINDOW, "size classes", "1200 /mL from 3 to 10 µm", "1200 /mL from 0.8 to 10 µm", "L17"),
        ("CountLiquidParticles", {"method": "flow imaging", **WINDOW}, "largest particle", "48 µm", "81 µm", "L17"),
        ("CapillaryELISA", ELISA, "insulin, mean of three", "7.4 pg/mL", "2.1 pg/mL", "L17"),
        ("CapillaryELISA", ELISA, "insulin, mean of three", "below 5 pg/mL", "2.1 pg/mL", "L17"),
        ("ELISA", {}, "standard curve from 10 to 400 ng/mL; sample 7", "380 ng/mL", "950 ng/mL", "L17"),
        ("ELISA", {}, "standard curve from 10 to 400 ng/mL; sample 7", "extrapolated 950 ng/mL", "950 ng/mL", "L17"),
        ("QuantifyColonies", {"countable_maximum": 250}, "plate of sample 7", "188 colonies", "431 colonies", "L17"),
        ("QuantifyColonies", {"countable_maximum": 250}, "plate of sample 7", "too many to count, about 431 colonies", "431 colonies", "L17"),
        ("MassSpectrometry", ICP, "ICP-MS", "Mg 3.1 mg/L; K 8.4 mg/L", "Mg 3.1 mg/L; Na 8.4 mg/L", "L15"),
        ("MassSpectrometry", ICP, "potassium, mean of 3", "8.4 mg/L", "8.4 mg/L; fluorine: 0.2 mg/L", "L15"),
        ("UsePhotospectrometer", {"wavelength": "280 nm"}, "UV280nm trace", "absorbance 0.41", "UV260nm: 0.41", "L16"),
        ("Thermocycler", {"cycles": 32}, "program log", "32 cycles, then 4 °C", "25 cycles, then 4 °C", "L16"),
    ],
)  # fmt: skip
def test_reading_outside_of_what_was_set_or_stated_is_an_error(action, parameters, description, right, wrong, code):
    assert code not in codes(record(action, parameters, description, right))
    assert code in codes(record(action, parameters, description, wrong))


def test_reading_above_the_curve_is_no_error_if_the_sample_was_diluted():
    line = record("ELISA", {"dilution_factor": 10}, "standard curve from 10 to 400 ng/mL; sample 7", "950 ng/mL")
    assert "L17" not in codes(line)


def grow(before, after, duration):
    parameters = {"temperature": "37 °C", "duration": duration, "carbon_dioxide": "5 %"}
    materials = [
        build_material("Flask of culture Q", {"volume": "5 mL", **properties}) for properties in (before, after)
    ]
    after_material = [{**materials[1], "environmental_condition": INCUBATOR}]
    return build_transition("Incubate", parameters, materials[:1], after_material)


@pytest.mark.parametrize(
    ("before", "right", "wrong", "duration"),
    [
        # Two doublings in 40 h at 20 h each: 3e5 x 4 = 1.2e6.
        ({"n_cells": "3e5", "doubling_time": "20 h"}, {"n_cells": "1.2e6", "doubling_time": "20 h"}, {"n_cells": "2.4e6", "doubling_time": "20 h"}, "40 h"),
        # Three doublings: 0.02 x 8 = 0.16; half of it is too little only while the culture grows exponentially.
        ({"OD600": "0.02", "Td_h": 1}, {"OD600": "0.16", "Td_h": 1, "phase of growth": "exponential"}, {"OD600": "0.08", "Td_h": 1, "phase of growth": "exponential"}, "3 h"),
        ({"OD600": "0.02", "Td_h": 1}, {"OD600": "0.08", "Td_h": 1, "phase of growth": "slowing down"}, {"OD600": "0.32", "Td_h": 1}, "3 h"),
        ({"hours_since_plating": 20}, {"hours_since_plating": 26}, {"hours_since_plating": 40}, "6 h"),
        # Four days are four days in vitro, on whatever day the counter begins.
        ({"age": "DIV 6"}, {"age": "DIV 10"}, {"age": "DIV 11"}, "96 h"),
        ({}, {"start": "05.06.2025 10:00", "end": "05.06.2025 13:05"}, {"start": "05.06.2025 10:00", "end": "05.06.2025 09:05"}, "3 h"),
        ({}, {"t_start": "2025-06-05T10:00:00Z", "t_end": "2025-06-05T13:00:00Z"}, {"t_start": "2025-06-05T10:00:00Z", "t_end": "2025-06-05T11:00:00Z"}, "3 h"),
    ],
)  # fmt: skip
def test_growth_ages_and_times_fit_what_the_material_states(before, right, wrong, duration):
    assert "L13" not in codes(grow(before, right, duration))
    assert "L13" in codes(grow(before, wrong, duration))


@pytest.mark.parametrize(
    ("action", "description", "right", "wrong", "code"),
    [
        ("FlowCytometry", "gates", "mCherry positive 30 %, mCherry negative 70 %", "mCherry positive 30 %, mCherry negative 90 %", "L23"),
        ("MeasurepH", "pH of the broth", {"readings": [6.1, 6.2], "mean": 6.15}, {"readings": [16.1, 16.2], "mean": 16.15}, "L23"),
        ("UsePlateReader", "protein assay", {"concentration": {"value": 3, "unit": "mg/mL"}}, {"concentration": {"value": 3, "unit": "mg"}}, "L12"),
        ("MeasureWeight", "Probe 4", "Einwaage 20 mg", "Schmelzpunkt 122 °C", "L15"),
        ("FlashFreeze", "temperature of the bath", "-196 °C", "-296 °C", "L23"),
    ],
)  # fmt: skip
def test_reading_that_no_such_measurement_can_give_is_an_error(action, description, right, wrong, code):
    assert code not in codes(record(action, {}, description, right))
    if action == "FlashFreeze":
        cold = [build_material("Sample 7", {"temperature of the bath": wrong})]
        assert code in codes(build_transition(action, {}, cold, cold))
    else:
        assert code in codes(record(action, {}, description, wrong))


def warnings(description, properties):
    material = {**build_material("Sample 7", properties), "barcode": "k48x"}
    line = build_transition("Mix", {"duration": "10 s"}, [material], [], [build_observation(description, "clear")])
    return {finding.code for finding in check_transition(line).findings}


def test_short_barcode_in_a_record_is_a_warning_unless_the_materials_have_it_in_their_texts():
    assert "L10" in warnings("tube k48x after mixing", {"volume": "8 mL"})
    assert "L10" not in warnings("tube 48 after mixing", {"volume": "8 mL"})
    assert "L10" not in warnings("tube k48x after mixing", {"volume": "8 mL", "strain": "k48x"})


@pytest.mark.parametrize(
    "text",
    ["hier ist absichtlich ein falscher Wert", "error introducido a propósito", "une erreur volontaire a été ajoutée"],
)
def test_planted_error_in_another_language_is_a_warning(text):
    assert "L24" in warnings(text, {})
    assert "L24" not in warnings("Fehler der Waage 0,1 mg", {})
