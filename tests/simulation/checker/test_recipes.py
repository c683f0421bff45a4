"""Weighed salts, hydrates, series, tables and mixtures in further idioms: the right number and a wrong one."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.test_names import build_line

# (name, action, parameters, inputs, outputs, observations, right, wrong); {X} is replaced. Barcodes are MAT-OWN and the index of the input.
STEPS = [
    (
        "acid base ion",
        "AdjustpH",
        {"titrant": "MAT-OWN00001"},
        [("MOPS buffer", {"volume": "500 mL", "solutes": "MOPS 20 mM, NaCl 150 mM"}), ("{X} 2 M", {"volume": "50 mL"})],
        [
            ("MOPS buffer, pH 7.2", {"volume": "505 mL", "solutes": "MOPS 19.8 mM, NaCl 148.5 mM, K 19.8 mM"}),
            ("{X} 2 M", {"volume": "45 mL"}),
        ],
        [],
        "KOH",
        "NaOH",
    ),
    (
        "phosphate src",
        "Combine",
        {},
        [("NaCl solution", {"volume": "50 mL", "NaCl": "0.2 M"}), ("{X} solution", {"volume": "50 mL"})],
        [("mixture", {"volume": "100 mL", "ions": {"Na+": "100 mM", "phosphate": "10 mM"}})],
        [],
        "K2HPO4",
        "KCl",
    ),
    (
        "formula MM",
        "MeasureWeight",
        {},
        [("CaCO3 (M = {X} g/mol)", {"mass": "1.00 g"})],
        [("CaCO3 (M = {X} g/mol)", {"mass": "1.00 g"})],
        [("mass", "1.00 g", "quantitative")],
        "100.09",
        "84.01",
    ),
    (
        "n from m",
        "MeasureWeight",
        {},
        [("NaOH pellets", {"m": "4.00 g", "n": "{X}", "M": "40.00 g/mol"})],
        [("NaOH pellets", {"m": "4.00 g", "n": "{X}", "M": "40.00 g/mol"})],
        [("mass", "4.00 g", "quantitative")],
        "100 mmol",
        "140 mmol",
    ),
    (
        "nested solute",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "500 mL"},
        [("flask", {"solids": [{"name": "KCl", "g": 3.7275}]}), ("water", {"mL": 2000})],
        [("solution", {"mL": 500, "solutes": [{"name": "KCl", "mM": "{X}"}]}), ("water", {"mL": 1500})],
        [],
        "100",
        "130",
    ),
    (
        "Mg salt",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "1 L"},
        [("MgSO4 heptahydrate, 2.4647 g", {}), ("water", {"volume": "2 L"})],
        [("MgSO4 {X}, 1 L", {}), ("water", {"volume": "1 L"})],
        [],
        "10 mM",
        "20.5 mM",
    ),
    (
        "pipette wells",
        "Transfer",
        {"source": "MAT-OWN00000", "amount": "150 µL"},
        [("medium", {"volume": "20 mL"}), ("plate, 24 wells in use", {"state": "empty"})],
        [("medium", {"volume": "{X}"}), ("plate, 24 wells in use", {"per well": "150 µL"})],
        [],
        "16.4 mL",
        "19.85 mL",
    ),
    (
        "csv",
        "UsePlateReader",
        {"mode": "absorbance"},
        [("plate", {"container": "96-well plate"})],
        [("plate", {"container": "96-well plate"})],
        [
            (
                "A595",
                "well,raw,blank,net\nB1,0.812,0.052,0.760\nB2,0.640,0.052,0.588\nB3,0.500,0.052,{X}",
                "quantitative",
            )
        ],
        "0.448",
        "0.552",
    ),
    (
        "csv conc",
        "NucleicAcidQuantification",
        {},
        [("prep 1", {"volume": "30 µL"})],
        [("prep 1", {"volume": "29 µL"})],
        [("report", "sample;ng/µL;µL;µg\np1;200;30;{X}", "quantitative")],
        "6.0",
        "9.0",
    ),
    (
        "kv obs",
        "HPLC",
        {"injection_volume": "10 µL"},
        [("cola vial", {"volume": "1 mL", "dilution": "1/5"})],
        [("cola vial", {"volume": "0.99 mL", "dilution": "1/5"})],
        [("caffeine", {"vial_mg_L": 20.0, "undiluted_mg_L": "{X}"}, "quantitative")],
        "100",
        "130",
    ),
    (
        "spike",
        "Combine",
        {},
        [("sample 9 mL, 10 mg/L caffeine", {}), ("spike 1 mL, 100 mg/L caffeine", {})],
        [("spiked sample 10 mL, {X} caffeine", {})],
        [],
        "19 mg/L",
        "25 mg/L",
    ),
    (
        "dil of dil",
        "HPLC",
        {"injection_volume": "10 µL"},
        [("tea, 1:10 then 1:5", {"volume": "1 mL"})],
        [("tea, 1:10 then 1:5", {"volume": "0.99 mL"})],
        [("caffeine", "vial: 6.0 mg/L; original tea: {X}", "quantitative")],
        "300 mg/L",
        "450 mg/L",
    ),
    (
        "ratio parts",
        "Combine",
        {},
        [("acetonitrile", {"volume": "30 mL"}), ("water", {"volume": "70 mL"})],
        [("mobile phase, acetonitrile/water {X} v/v", {"volume": "100 mL"})],
        [],
        "30:70",
        "40:60",
    ),
    (
        "mg per tablet",
        "Resuspend",
        {"solvent": "MAT-OWN00001", "volume": "50 mL"},
        [("tablet, 200 mg caffeine", {"phase": "solid"}), ("water", {"volume": "1 L"})],
        [("tablet solution", {"volume": "50 mL", "caffeine": "{X}"}), ("water", {"volume": "950 mL"})],
        [],
        "4 mg/mL",
        "6 mg/mL",
    ),
    (
        "unit swap",
        "Aliquot",
        {"volume": "250 µL", "count": 2},
        [("primer mix", {"volume": "1 mL"}), ("tubes", {})],
        [
            ("primer mix", {"volume": "500 µL"}),
            ("primer mix 1", {"volume": "{X}"}),
            ("primer mix 2", {"volume": "250 µL"}),
        ],
        [],
        "0.25 mL",
        "0.25 µL",
    ),
    (
        "temp unit",
        "Combine",
        {},
        [("NaBr 0.1 M", {"volume": "5 mL"}), ("AgNO3 0.1 M", {"volume": "5 mL"})],
        [("mixture", {"volume": "{X}", "precipitate": "AgBr"})],
        [],
        "10 mL",
        "12 mL",
    ),
]


@pytest.mark.parametrize("step", STEPS, ids=[step[0] for step in STEPS])
def test_wrong_number_of_a_recipe_is_an_error(step):
    _, *parts, right, wrong = step
    assert check_transition(build_line(*parts, right)).error_findings == ()
    assert check_transition(build_line(*parts, wrong)).error_findings != ()
