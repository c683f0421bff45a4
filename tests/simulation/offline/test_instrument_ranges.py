"""Readings are displayed as the instrument displays them, and never as a number outside its range."""

from dataclasses import replace
from decimal import Decimal

import pytest

from simulation.lab.experiments import build_experiment
from simulation.lab_report.reading_ranges import compute_occurring_concentrations, find_reading_problems
from simulation.offline.instrument_ranges import find_range
from tests.support.laboratory_factory import SmallLab, build_material


def declare(action, unit, slope, intercept, **fields):
    return {
        "action": action, "component": "dye", "signal": "reading", "unit": unit, "slope": slope, "intercept": intercept,
        "noise": "0", **fields,
    }  # fmt: skip


def build_spec(*materials, **truth):
    whole = {
        "slug": "x",
        "name": "x",
        "group": "x",
        "goal": "x",
        "max_steps": 9,
        "materials": materials,
        "truth": truth,
    }
    return build_experiment(whole)


@pytest.mark.parametrize(
    ("action", "unit", "reading", "shown"),
    [
        ("MeasurepH", "", "7.0349", "7.03"),
        ("MeasurepH", "", "7", "7.00"),
        ("MeasurepH", "", "14.2", "above range"),
        ("UsePhotospectrometer", "AU", "2.9996", "3.000"),
        ("UsePhotospectrometer", "AU", "3.2", "above range"),
        ("UsePhotospectrometer", "AU", "-0.0004", "0.000"),
        ("UsePlateReader", "AU", "3.2", "3.200"),
        ("UseMicroscope", "counts", "70000", "saturated"),
        ("UseMicroscope", "counts", "-3", "0"),
        ("UseMicroscope", "%", "100.3", "100.00"),  # a share of counted cells cannot exceed all of them
        ("MeasureRefractiveIndex", "", "96", "above range"),
        ("MeasureOsmolality", "mOsm/kg", "-1.7", "0"),
        ("MeasureRefractiveIndex", "", "1.33304", "1.3330"),
        ("qPCR", "Ct", "41", "no Ct"),
        ("CoulterCount", "1/mL", "12345678", "1.23e7"),  # three significant digits
        ("CyclicVoltammetry", "µA", "-12000", "overload"),
    ],
)
def test_reading_is_shown_with_the_digits_of_the_instrument_or_as_out_of_range(action, unit, reading, shown):
    assert find_range(action, unit).format_reading(Decimal(reading)) == shown


def test_too_concentrated_sample_gives_no_number_and_no_unit(lab):
    truth = {"responses": [declare("UsePhotospectrometer", "AU", "0.2 AU per µg/mL", "0.05 AU", repeats="replicates")]}
    cuvette = {"container": "cuvette", "volume": "1 mL"}
    small = SmallLab(
        lab.catalogue,
        build_material("weak", hidden={"dye": "10 µg/mL"}, **cuvette),
        build_material("strong", hidden={"dye": "100 µg/mL"}, **cuvette),
        truth=truth,
    )
    # 0.2 x 10 + 0.05 = 2.05; 0.2 x 100 + 0.05 = 20.05, above 3
    values = small.read_values("UsePhotospectrometer", "weak strong", wavelength="590 nm", replicates=2)
    assert values == ["2.050, 2.050 AU", "above range, above range"]


def test_report_finds_a_refractive_index_of_96(lab):
    # 0.95 per mg/mL instead of 0.00014: 1.333 + 0.95 x 100 = 96.333
    syrup = build_material("syrup", hidden={"dye": "100 mg/mL"})
    wrong = build_spec(syrup, responses=[declare("MeasureRefractiveIndex", "", "0.95 per mg/mL", "1.333")])
    assert find_reading_problems(wrong, lab.catalogue) == [
        "truth.responses[0] (reading): gives 1.333 to 96.333, MeasureRefractiveIndex reads 1.3 to 1.7; "
        "correct the curve, or declare an upper_limit"
    ]
    # 1.333 + 0.00014 x 100 = 1.347
    right = build_spec(syrup, responses=[declare("MeasureRefractiveIndex", "", "0.00014 per mg/mL", "1.333")])
    assert find_reading_problems(right, lab.catalogue) == []


def test_report_accepts_a_declared_upper_limit_within_the_range_and_no_higher_one(lab):
    ink = build_material("ink", hidden={"dye": "1 mg/mL"})
    response = declare("UsePhotospectrometer", "AU", "0.22 AU per µg/mL", "0.062 AU")
    # 0.22 x 13 + 0.062 = 2.922 and 0.22 x 15 + 0.062 = 3.362; the photometer reads to 3
    for limit, problems in (("13 µg/mL", 0), ("15 µg/mL", 1)):
        spec = build_spec(ink, responses=[{**response, "upper_limit": limit}])
        assert len(find_reading_problems(spec, lab.catalogue)) == problems


def test_highest_concentrations_follow_growth_reactions_and_mixing():
    spec = build_spec(
        build_material("flask", hidden={"yeast cells": "1e6 cells/mL", "sugar": "10 mM"}),
        build_material("stock", hidden={"sugar": "50 mM"}),
        build_material("salt", "powder", None, hidden={"salt": "2 mmol"}),
        growth=[{"action": "Incubate", "components": ["yeast cells"], "doubling_time": "2 h", "limit": "1e8 cells/mL"}],
        reactions=[
            {"action": "Incubate", "needs": ["sugar"], "makes": "acid", "from": "sugar", "ratio": "0.2"},
            {"action": "Incubate", "needs": ["acid"], "makes": "ester", "from": "acid", "ratio": "0.5"},
        ],
    )
    occurring = compute_occurring_concentrations(spec)
    assert occurring.highest["yeast cells"] == 10**8
    # 50 mM of sugar gives 10 mM of acid and 5 mM of ester, in µM
    assert (occurring.highest["acid"], occurring.highest["ester"]) == (10_000, 5_000)
    assert occurring.highest["salt"] is None  # a solid can be dissolved in any volume
    # The most concentrated material bounds every mixture: 50 mM, not 10 + 50 mM.
    assert occurring.compute_highest_sum({"sugar": Decimal(1), "acid": Decimal(1)}) == 50_000


def test_readings_of_all_experiments_stay_within_their_instruments(lab):
    found = {slug: find_reading_problems(spec, lab.catalogue) for slug, spec in lab.specs.items()}
    assert len(found) == 18
    assert {slug: problems for slug, problems in found.items() if problems} == {}
    # The check can fail: with ten times the curve, some readings leave the range.
    spec = lab.specs["acidifying-microbes"]
    steeper = [
        {**entry, "slope": "10 AU per 1e9 cells/mL"} if "slope" in entry else entry for entry in spec.truth["responses"]
    ]
    assert find_reading_problems(replace(spec, truth={**spec.truth, "responses": steeper}), lab.catalogue)
