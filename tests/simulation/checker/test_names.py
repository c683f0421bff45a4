"""Quantities that only a name states, and amounts in other idioms: each step with the right and with a wrong number."""

import pytest

from simulation.checker import check_transition
from simulation.checker.reading.names import read_name
from tests.simulation.checker.bases import build_material, build_observation, build_transition


@pytest.mark.parametrize(
    ("name", "volume", "container", "concentrations"),
    [
        ("IgG stock, 1 mg/mL, 500 µL in 1.5 mL tube", 500, "1.5 mL tube", {"igg": 1000}),
        ("HEK293T, 2 mL at 1.5e6 cells/mL, T75 flask", 2000, "", {"cell": 1_500_000}),
        ("20 mM HEPES, 5 mM KCl buffer (500 mL)", 500_000, "", {"hepe": 20_000, "kcl": 5000}),
        ("KCl 0.100 M in water, 100 mL volumetric flask", None, "100 mL volumetric flask", {"kcl": 100_000}),
        ("ACSF, Mg-free, 10 µM glycine", None, "", {"glycine": 10}),
        ("forskolin, 10 mM in DMSO", None, "", {"forskolin": 10_000}),
        ("0.1 M TBAPF6 / MeCN, dry", None, "", {"tbapf6": 100_000}),
        ("PBS 10x", None, "", {"pbs": 10}),
        ("5x Laemmli buffer, 1 mL", 1000, "", {"laemmli": 5}),
        ("DNA 93.6 ng/µL (48 µL)", 48, "", {"dna": 93.6}),
        ("50 mL Falcon with 20 mL LB", 20_000, "50 mL Falcon", {}),
        ("2 mL cryovial", None, "2 mL cryovial", {}),
        ("wells, 200 µL each, 40x objective", None, "", {}),
    ],
)
def test_name_states_volume_vessel_and_concentrations(name, volume, container, concentrations):
    stated = read_name(name)
    found = {" ".join(sorted(component)): float(amount.value) for component, amount in stated.concentrations.items()}
    assert (stated.volume and stated.volume.value, stated.container, found) == (volume, container, concentrations)


def test_name_of_the_input_is_no_evidence_for_the_volume_of_the_output():
    # The bottle keeps its name although 10 mL were taken.
    line = build_transition(
        "Aliquot",
        {"volume": "5 mL", "count": 2},
        [build_material("Medium, 500 mL", {})],
        [build_material("Medium, 500 mL", {}), *(build_material(f"Medium aliquot {n}, 5 mL", {}) for n in (1, 2))],
    )
    assert check_transition(line).error_findings == ()


# (name, action, parameters, inputs, outputs, observations, right, wrong); {X} is replaced. Barcodes are MAT-OWN and the index of the input.
STEPS = [
    (
        "name vol",
        "Aliquot",
        {"volume": "50 µL", "count": 4},
        [("IgG stock, 1 mg/mL, 500 µL in 1.5 mL tube", {}), ("1.5 mL tubes", {})],
        [("IgG stock, 1 mg/mL, {X} left", {})] + [(f"IgG aliquot {n}, 50 µL", {}) for n in range(1, 5)],
        [],
        "300 µL",
        "450 µL",
    ),
    (
        "name conc dil",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "9 mL"},
        [("caffeine 100 mg/L, 1 mL", {}), ("water, 100 mL", {})],
        [("caffeine {X}, 10 mL", {}), ("water, 91 mL", {})],
        [],
        "10 mg/L",
        "20 mg/L",
    ),
    (
        "name weigh",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "100 mL"},
        [("KCl, 745.5 mg, weighed", {}), ("water", {"volume": "1 L"})],
        [("KCl {X} in water, 100 mL volumetric flask", {"volume": "100 mL"}), ("water", {"volume": "900 mL"})],
        [],
        "0.100 M",
        "0.150 M",
    ),
    (
        "name mix",
        "Combine",
        {},
        [("NaCl 200 mM, 10 mL", {}), ("NaCl 100 mM, 10 mL", {})],
        [("pooled NaCl {X}, 20 mL", {})],
        [],
        "150 mM",
        "180 mM",
    ),
    (
        "10x stock",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "90 mL"},
        [("PBS 10x", {"volume": "10 mL"}), ("Water", {"volume": "500 mL"})],
        [("PBS {X}", {"volume": "100 mL"}), ("Water", {"volume": "410 mL"})],
        [],
        "1x",
        "2x",
    ),
    (
        "10x stock props",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "49 mL"},
        [("TAE stock", {"strength": "50×", "volume": "1 mL"}), ("Water", {"volume": "500 mL"})],
        [("TAE working", {"strength": "{X}", "volume": "50 mL"}), ("Water", {"volume": "451 mL"})],
        [],
        "1×",
        "5×",
    ),
    (
        "wv",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "50 mL"},
        [("sucrose powder", {"mass": "5.0 g"}), ("water", {"volume": "1 L"})],
        [("sucrose solution", {"volume": "50 mL", "content": "{X} (w/v) sucrose"}), ("water", {"volume": "953 mL"})],
        [],
        "10 %",
        "15 %",
    ),
    (
        "wv name",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "100 mL"},
        [("agarose", {"mass": "2.0 g", "form": "powder"}), ("TAE 1x", {"volume": "1 L"})],
        [("agarose {X} w/v in TAE", {"volume": "100 mL"}), ("TAE 1x", {"volume": "900 mL"})],
        [],
        "2 %",
        "3 %",
    ),
    (
        "vv",
        "Combine",
        {},
        [("ethanol, pure, 70 mL", {}), ("water, 30 mL", {})],
        [("ethanol {X} v/v", {"volume": "100 mL"})],
        [],
        "70 %",
        "80 %",
    ),
    (
        "half",
        "Combine",
        {},
        [("Buffer A 40 mM Tris", {"volume": "5 mL", "Tris": "40 mM"}), ("water", {"volume": "5 mL"})],
        [("Buffer A, half strength", {"volume": "10 mL", "Tris": "{X}"})],
        [],
        "20 mM",
        "25 mM",
    ),
    (
        "fold word",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "4 mL"},
        [("lysate", {"volume": "1 mL"}), ("PBS", {"volume": "50 mL"})],
        [("lysate, diluted {X}", {"volume": "5 mL"}), ("PBS", {"volume": "46 mL"})],
        [],
        "fivefold",
        "fourfold",
    ),
    (
        "std curve",
        "SerialDilute",
        {"diluent": "MAT-OWN00001", "dilutions": 4, "factor": 2, "transfer_volume": "500 µL"},
        [("BSA standard 2 mg/mL", {"volume": "1 mL"}), ("PBS", {"volume": "10 mL"})],
        [
            ("BSA std 1 (1000 µg/mL)", {"volume": "500 µL"}),
            ("BSA std 2 (500 µg/mL)", {"volume": "500 µL"}),
            ("BSA std 3 ({X})", {"volume": "500 µL"}),
            ("BSA std 4 (125 µg/mL)", {"volume": "1 mL"}),
            ("BSA standard 2 mg/mL", {"volume": "0.5 mL"}),
            ("PBS", {"volume": "8 mL"}),
        ],
        [],
        "250 µg/mL",
        "333 µg/mL",
    ),
    (
        "log series",
        "SerialDilute",
        {"diluent": "MAT-OWN00001", "dilutions": 3, "transfer_volume": "100 µL", "diluent_volume": "900 µL"},
        [("phage lysate", {"volume": "1 mL", "titer": "2e10 PFU/mL"}), ("SM buffer", {"volume": "50 mL"})],
        [
            ("lysate 10^-1", {"volume": "900 µL", "titer": "2e9 PFU/mL"}),
            ("lysate 10^-2", {"volume": "900 µL", "titer": "{X}"}),
            ("lysate 10^-3", {"volume": "1 mL", "titer": "2e7 PFU/mL"}),
            ("phage lysate", {"volume": "0.9 mL", "titer": "2e10 PFU/mL"}),
            ("SM buffer", {"volume": "47.3 mL"}),
        ],
        [],
        "2e8 PFU/mL",
        "5e8 PFU/mL",
    ),
    (
        "molar obs sentence",
        "HPLC",
        {"injection_volume": "10 µL"},
        [("caffeine vial", {"volume": "1 mL"})],
        [("caffeine vial", {"volume": "0.99 mL"})],
        [("caffeine", "peak corresponds to 19.4 mg/L, i.e. {X}", "quantitative")],
        "0.1 mM",
        "0.15 mM",
    ),
    (
        "molar bracket",
        "MeasurepH",
        {},
        [("glucose solution", {"volume": "1 L", "glucose": "18 g/L ({X})"})],
        [("glucose solution", {"volume": "1 L", "glucose": "18 g/L ({X})"})],
        [("pH", "7.0", "quantitative")],
        "100 mM",
        "140 mM",
    ),
    (
        "total note",
        "Resuspend",
        {"solvent": "MAT-OWN00001", "volume": "100 µL"},
        [("oligo dry", {"amount": "20 nmol", "form": "lyophilized"}), ("TE", {"volume": "10 mL"})],
        [("oligo in TE", {"volume": "100 µL", "concentration": "{X}"}), ("TE", {"volume": "9.9 mL"})],
        [],
        "200 µM",
        "260 µM",
    ),
    (
        "oligo mass",
        "Resuspend",
        {"solvent": "MAT-OWN00001", "volume": "500 µL"},
        [("peptide, lyophilised powder 5 mg", {}), ("DMSO", {"volume": "10 mL"})],
        [("peptide {X} in DMSO", {"volume": "500 µL"}), ("DMSO", {"volume": "9.5 mL"})],
        [],
        "10 mg/mL",
        "15 mg/mL",
    ),
    (
        "parallel wells",
        "Transfer",
        {"source": "MAT-OWN00000", "volume": "200 µL"},
        [
            ("crystal violet 0.1 %", {"volume": "10 mL"}),
            ("96-well plate, 12 wells used", {"wells": "12", "volume per well": "0"}),
        ],
        [
            ("crystal violet 0.1 %, rest", {"volume": "{X}"}),
            ("96-well plate with dye", {"wells": "12", "volume per well": "200 µL"}),
        ],
        [],
        "7.6 mL",
        "9.8 mL",
    ),
    (
        "parallel obs",
        "Wash",
        {"wash_medium": "MAT-OWN00001", "wash_volume": "1 mL", "washes": 3},
        [("6-well plate, HEK cells", {"volume": "2 mL", "wells": 6}), ("PBS", {"volume": "50 mL"})],
        [("6-well plate, HEK cells", {"volume": "2 mL", "wells": 6}), ("PBS", {"volume": "32 mL"})],
        [("wash", "6 wells x 3 washes x 1 mL = {X} PBS used", "quantitative")],
        "18 mL",
        "12 mL",
    ),
    (
        "es volume",
        "Filter",
        {"pore_size": "0.45 µm"},
        [("café, desgasificado", {"volumen": "25 mL"})],
        [("café filtrado", {"volumen": "{X}"})],
        [],
        "24 mL",
        "28 mL",
    ),
    (
        "fr dilution",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "18 mL"},
        [("solution mère de NaCl", {"volume": "2,0 mL", "concentration": "1,0 mol/L"}), ("eau", {"volume": "500 mL"})],
        [("solution fille de NaCl", {"volume": "20 mL", "concentration": "{X}"}), ("eau", {"volume": "482 mL"})],
        [],
        "0,10 mol/L",
        "0,15 mol/L",
    ),
    (
        "de molar",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "250 mL"},
        [("Natriumchlorid, Einwaage", {"Masse": "3,653 g"}), ("Wasser", {"Volumen": "1 L"})],
        [("Natriumchlorid-Lösung", {"Volumen": "250 mL", "c(NaCl)": "{X}"}), ("Wasser", {"Volumen": "0,75 L"})],
        [],
        "0,25 mol/L",
        "0,35 mol/L",
    ),
    (
        "ion acid",
        "AdjustpH",
        {"titrant": "MAT-OWN00001", "titrant_volume": "1 mL"},
        [("NaCl 100 mM", {"volume": "100 mL", "Na+": "100 mM", "Cl-": "100 mM"}), ("HCl 1 M", {"volume": "20 mL"})],
        [("NaCl, pH adjusted", {"volume": "101 mL", "Na+": "99 mM", "Cl-": "{X}"}), ("HCl 1 M", {"volume": "19 mL"})],
        [],
        "109 mM",
        "140 mM",
    ),
    (
        "ion base K",
        "AdjustpH",
        {"titrant": "MAT-OWN00001", "titrant_volume": "2 mL"},
        [("HEPES 20 mM", {"volume": "100 mL", "HEPES": "20 mM"}), ("{X} 1 M", {"volume": "20 mL"})],
        [
            ("HEPES, pH 7.4", {"volume": "102 mL", "HEPES": "19.6 mM", "K+": "19.6 mM"}),
            ("{X} 1 M", {"volume": "18 mL"}),
        ],
        [],
        "KOH",
        "NaOH",
    ),
    (
        "precip sulfate",
        "Combine",
        {},
        [("Na2SO4 0.1 M", {"volume": "10 mL"}), ("{X} 0.1 M", {"volume": "10 mL"})],
        [("mixture", {"volume": "20 mL", "precipitate": "BaSO4"})],
        [],
        "BaCl2",
        "NaCl",
    ),
    (
        "unit prefix name",
        "MeasureWeight",
        {},
        [("ferrocene vial", {"mass": "9.30 mg"})],
        [("ferrocene vial", {"mass": "{X}"})],
        [("mass", "9.30 mg", "quantitative")],
        "9.30 mg",
        "9.30 g",
    ),
    (
        "unit wrong dim",
        "Aliquot",
        {"volume": "1 mL", "count": 2},
        [("serum", {"volume": "5 mL"}), ("2 mL tubes", {})],
        [
            ("serum", {"volume": "3 mL"}),
            ("serum aliquot 1", {"volume": "1 mL"}),
            ("serum aliquot 2", {"volume": "{X}"}),
        ],
        [],
        "1 mL",
        "1 mM",
    ),
    (
        "sum list text",
        "Combine",
        {},
        [("A", {"volume": "2 mL"}), ("B", {"volume": "3 mL"})],
        [("A+B", {"volume": "5 mL", "made of": "2 mL A + 3 mL B = {X}"})],
        [],
        "5 mL",
        "6 mL",
    ),
    (
        "master mix",
        "Combine",
        {"label": "PCR mix"},
        [("2x mix", {"volume": "250 µL"}), ("primers", {"volume": "50 µL"}), ("water", {"volume": "200 µL"})],
        [("PCR mix", {"volume": "500 µL", "note": "2x mix 250 µL, primers 50 µL, water 200 µL; total {X}"})],
        [],
        "500 µL",
        "600 µL",
    ),
    (
        "per well total",
        "Transfer",
        {"source": "MAT-OWN00000", "volume": "100 µL"},
        [
            ("cells 2e5/mL", {"volume": "5 mL", "density": "2e5 cells/mL"}),
            ("well A1, 96-well plate", {"state": "empty"}),
        ],
        [
            ("cells 2e5/mL", {"volume": "4.9 mL", "density": "2e5 cells/mL"}),
            ("well A1, 96-well plate", {"volume": "100 µL", "cells": "{X}"}),
        ],
        [],
        "2e4 cells",
        "4e4 cells",
    ),
    (
        "moles in tube",
        "Transfer",
        {"source": "MAT-OWN00000", "volume": "10 µL"},
        [("plasmid 250 ng/µL", {"volume": "50 µL"}), ("PCR tube", {"state": "empty"})],
        [("plasmid 250 ng/µL", {"volume": "40 µL"}), ("plasmid, PCR tube", {"volume": "10 µL", "DNA": "{X} in total"})],
        [],
        "2.5 µg",
        "3.5 µg",
    ),
    (
        "obs remain",
        "Transfer",
        {"source": "MAT-OWN00000", "volume": "3 mL"},
        [("agar 1.5 %, molten", {"volume": "30 mL"}), ("plate 1", {"state": "empty"}), ("plate 2", {"state": "empty"})],
        [("agar 1.5 %, molten", {"volume": "{X}"}), ("plate 1", {"volume": "3 mL"}), ("plate 2", {"volume": "3 mL"})],
        [],
        "24 mL",
        "27 mL",
    ),
    (
        "gain spin",
        "Centrifuge",
        {"force": "300 x g", "duration": "5 min"},
        [("cells, 12 mL in 50 mL tube", {})],
        [("cells, {X} in 50 mL tube, pelleted", {})],
        [],
        "12 mL",
        "15 mL",
    ),
    ("conc name gone", "Mix", {}, [("DTT 1 M, 200 µL", {})], [("DTT {X}, 200 µL", {})], [], "1 M", "100 mM"),
]


def insert(data, value):
    if isinstance(data, dict):
        return {insert(key, value): insert(inner, value) for key, inner in data.items()}
    if isinstance(data, list | tuple):
        return [insert(inner, value) for inner in data]
    return data.replace("{X}", value) if isinstance(data, str) else data


def build_line(action, parameters, inputs, outputs, records, value):
    parameters, inputs, outputs, records = insert([parameters, inputs, outputs, records], value)
    before = [build_material(*material, barcode=f"MAT-OWN{index:05}") for index, material in enumerate(inputs)]
    after = [build_material(*material) for material in outputs]
    return build_transition(action, parameters, before, after, [build_observation(*record) for record in records])


@pytest.mark.parametrize("step", STEPS, ids=[step[0] for step in STEPS])
def test_step_with_the_right_number_is_correct_and_with_a_wrong_one_an_error(step):
    _, *parts, right, wrong = step
    assert check_transition(build_line(*parts, right)).error_findings == ()
    assert check_transition(build_line(*parts, wrong)).error_findings != ()
