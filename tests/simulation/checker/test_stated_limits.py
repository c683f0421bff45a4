"""Limits that the catalogue or a record states in words: each step within the limit, and beyond it."""

from pathlib import Path

import pytest

from simulation.checker import check_transition
from simulation.lab.catalogue import load_catalogue
from tests.simulation.checker.test_names import build_line

CATALOGUE = load_catalogue(Path("fixtures/actions"))[0]
# (name, action, parameters, inputs, outputs, observations, right, wrong, codes); {X} is replaced.
STEPS = [
    (
        # The catalogue: 5 mL for the standard probe, 500 µL for the micro probe.
        "volume that covers the probe",
        "MeasureConductivity",
        {"probe": "{X}"},
        [("river water", {"volume": "2 mL"})],
        [],
        [("conductivity", "412 µS/cm", "quantitative")],
        "micro",
        "standard",
        {"L05"},
    ),
    (
        # The catalogue: micro to 6 g, analytical to 220 g.
        "range of the balance",
        "MeasureWeight",
        {"balance": "{X}", "tare": False},
        [("evaporating dish", {"state": "dry"})],
        [],
        [("mass of the dish", "31.5012 g", "quantitative")],
        "analytical",
        "micro",
        {"L05"},
    ),
    (
        # Two portions of 1 µL leave 14 µL of 16 µL.
        "volume that must stay in a source",
        "AcousticLiquidHandling",
        {"sources": ["MAT-OWN00000"], "amount": "1 µL", "source_plate": "384 wells, {X} µL stay"},
        [("drug in DMSO", {"uL": 16}), *((f"well {w}", {"uL": 50}) for w in ("B1", "B2"))],
        [("drug in DMSO", {"uL": 14}), *((f"well {w}", {"uL": 51}) for w in ("B1", "B2"))],
        [],
        "2.5",
        "15",
        {"L07"},
    ),
    (
        # 20 g at 2.65 g/mL are 7.5 mL of quartz without pores.
        "grains in a bed",
        "Transfer",
        {"source": "MAT-OWN00000", "mass": "20 g"},
        [("quartz sand, 200 g jar, rho(grain) = 2.65 g/cm3", {}), ("column empty, 50 ml grad.", {})],
        [
            ("quartz sand, 180 g jar, rho(grain) = 2.65 g/cm3", {}),
            ("column + 20 g quartz sand, 50 ml grad.", {"bed": "{X} ml read at the mark"}),
        ],
        [],
        "12.6",
        "7.0",
        {"L23"},
    ),
    (
        "temperature of a bath",
        "Mix",
        {"method": "vortex"},
        [("fin clip", {"mass": "2 mg"})],
        [("fin clip", {"mass": "2 mg", "bath (probe)": "{X} °C"})],
        [],
        "-195.8",
        "-295.8",
        {"L23"},
    ),
    (
        "volume of a well in the name of the plate",
        "SeparateWells",
        {"grouping": "each well"},
        [("12wp HeLa, 1.5 ml/well", {})],
        [("well A1, HeLa, 1.5 ml", {}), ("well A2, HeLa, {X} ml", {})],
        [],
        "1.5",
        "1.2",
        {"L21"},
    ),
    (
        "volume of a well beside its label",
        "SeparateWells",
        {"grouping": "each well"},
        [("plate 7", {"map": "B1 200 µL, B2 120 µL"})],
        [("plate 7 / B1", {"volume": "200 µL"}), ("plate 7 / B2", {"volume": "{X} µL"})],
        [],
        "120",
        "90",
        {"L21"},
    ),
]


@pytest.mark.parametrize("step", STEPS, ids=[step[0] for step in STEPS])
def test_step_beyond_a_stated_limit_is_an_error(step):
    _, *parts, right, wrong, codes = step
    assert check_transition(build_line(*parts, right), CATALOGUE).error_findings == ()
    assert codes <= {finding.code for finding in check_transition(build_line(*parts, wrong), CATALOGUE).error_findings}
