"""Relations between claims: each finds its error, and the same record with the right number is correct."""

import pytest

from simulation.checker import check_transition, chemistry
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def verdict(line):
    return check_transition(line).verdict


def codes(line):
    return {finding.code for finding in check_transition(line).error_findings}


def measured(action, parameters, observations, properties=None, after=None):
    """Return a transition with one material that an action measures."""
    before = build_material("Sample K", properties or {"volume": "1 mL"})
    output = build_material("Sample K", after or properties or {"volume": "1 mL"})
    return build_transition(action, parameters, [before], [output], [build_observation(*each) for each in observations])


# (action, parameters, description, correct value, wrong value, code); the arithmetic is in the comment
RECORDS = [
    # 224 / (224 + 16) = 93.3 %
    ("FlowCytometry", {}, "gates: live 224; dead 16; viability", "93.3 %", "83.3 %", "L20"),
    # 8400 / (8400 + 1600) = 84 %
    ("CapillaryWestern", {}, "fusion area 1600; free GFP area 8400. Share cleaved", "84 %", "64 %", "L20"),
    # (2700 - 1200) / 1200 = 1.25
    ("UseMicroscope", {}, "trace: F0 1200 a.u.; F peak 2700 a.u.; ΔF/F0", "1.25", "2.25", "L20"),
    # 0.428 - 0.362 V = 66 mV
    ("CyclicVoltammetry", {}, "Epa 0.428 V, Epc 0.362 V; peak separation", "66 mV", "86 mV", "L20"),
    # 2.96 / 1.58 = 1.87
    ("NucleicAcidQuantification", {}, "A260 2.96; A280 1.58; A260/A280", "1.87", "2.17", "L20"),
    # 18 / 24 = 75 %
    ("QuantifyColonies", {}, "colonies that glow", "18 of 24 colonies (75 %)", "18 of 24 colonies (57 %)", "L20"),
    # A photometer ends at an absorbance of about 4.
    ("UsePhotospectrometer", {}, "absorbance at 590 nm", "0.92", "9.2", "L17"),
    ("qPCR", {"cycles": 40}, "Cq of the sample", "31.2", "43.5", "L17"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "parameters", "description", "right", "wrong", "code"), RECORDS)
def test_numbers_of_a_record_must_follow_from_each_other(action, parameters, description, right, wrong, code):
    assert codes(measured(action, parameters, [(description, right, "quantitative")])) == set()
    assert codes(measured(action, parameters, [(description, wrong, "quantitative")])) == {code}


@pytest.mark.parametrize(("net", "expected"), [("0.5725 g", set()), ("0.6725 g", {"L04"})])
def test_net_mass_is_gross_minus_tare(net, expected):
    # 28.9862 - 28.4137 = 0.5725 g
    before = {"tare of the crucible": "28.4137 g"}
    line = measured(
        "MeasureWeight",
        {"tare": False},
        [("gross mass", "28.9862 g", "quantitative")],
        before,
        {**before, "gross": "28.9862 g", "net": net},
    )
    assert codes(line) == expected


@pytest.mark.parametrize(("share", "expected"), [("4.0 %", set()), ("6.0 %", {"L04"})])
def test_loss_on_drying_is_a_share_of_the_mass(share, expected):
    # (1.500 - 1.440) / 1.500 = 4.0 %
    line = build_transition(
        "DryingOven",
        {"temperature": "110 °C", "duration": "2 h"},
        [build_material("Salt", {"net mass": "1.500 g"})],
        [build_material("Salt", {"net mass": "1.440 g"})],
        [build_observation("Loss on drying", share)],
    )
    assert codes(line) == expected


@pytest.mark.parametrize(("stated", "expected"), [("40 mM", set()), ("50 mM", {"L04"})])
def test_molarity_follows_from_mass_molar_mass_and_volume(stated, expected):
    # 1.491 g / 74.55 g/mol = 20.0 mmol in 0.5 L = 40 mM
    line = build_transition(
        "FillToVolume",
        {"total_volume": "500 mL", "solvent": "MAT-TEST0002"},
        [
            build_material(
                "Potassium chloride, weighed", {"mass": "1.491 g", "state": "dry powder"}, barcode="MAT-TEST0001"
            ),
            build_material("Water, purified", {"volume": "2 L"}, barcode="MAT-TEST0002"),
        ],
        [
            build_material(
                "Potassium chloride solution", {"volume": "500 mL", "potassium chloride concentration": stated}
            ),
            build_material("Water, purified", {"volume": "1.5 L"}),
        ],
    )
    assert codes(line) == expected


def culture(after, **changes):
    properties = {"age": "DIV 7", "medium": "2 mL of Neurobasal", "temperature": "37 °C", "CO2": "5 %"}
    return build_transition(
        "CellCultureIncubate",
        {"duration": "4 day", "temperature": "37 °C", "carbon_dioxide": "5 %"},
        [build_material("Rat neurons", properties, "cell_culture_conditions")],
        [build_material("Rat neurons", {**properties, "age": after, **changes}, "cell_culture_conditions")],
    )


def test_age_of_a_culture_follows_the_clock():
    # DIV 7 + 4 d = DIV 11, whether days are counted from 0 or from 1.
    assert codes(culture("DIV 11")) == set()
    assert codes(culture("DIV 12")) == codes(culture("DIV 14")) == {"L13"}


def dish(cells):
    def build(number):
        return build_material(
            "HEK293T cells, dish", {"cells": number, "temperature": "37 °C", "CO2": "5 %"}, "cell_culture_conditions"
        )

    setting = {"duration": "24 h", "temperature": "37 °C"}
    return build_transition("CellCultureIncubate", setting, [build("2.0e6, attached")], [build(cells)])


def test_cells_do_not_divide_faster_than_their_kind():
    # At most two doublings of 12 h in 24 h and 30 % for counting: 2.0e6 x 4 x 1.3 = 1.04e7.
    assert codes(dish("4.1e6, attached")) == set()
    assert codes(dish("3.2e7, attached")) == {"L13"}


def spin(container, force):
    tube = build_material("Minicell culture", {"volume": "40 mL", "vessel": container}, "4C")
    return build_transition("Centrifuge", {"force": force, "duration": "20 min"}, [tube], [tube])


def test_tube_is_not_spun_above_its_rating():
    assert codes(spin("50 mL conical tube, rated up to 9400 x g", "9000 x g")) == set()
    assert codes(spin("50 mL conical tube, rated up to 9400 x g", "17000 x g")) == {"L05"}


def test_cells_are_not_packed_beyond_their_own_volume():
    # 2e8 cells of 2.1 pL have 420 µL.
    def pellet(volume):
        before = build_material("HeLa suspension", {"volume": "10 mL", "mean diameter": "16 µm (2.1 pL each)"})
        after = build_material("HeLa pellet", {"pellet": f"{volume}, all 2.0e8 cells"})
        return build_transition("Centrifuge", {"force": "300 x g", "duration": "5 min"}, [before], [after])

    assert "L23" not in codes(pellet("600 µL"))
    assert "L23" in codes(pellet("10 µL"))


def pool(**extra):
    salts = {"NaCl concentration": "150 mM", "KCl concentration": "25 mM"}
    first = build_material("Stock A", {"volume": "400 mL", **salts}, barcode="MAT-TEST0001")
    second = build_material("Stock B", {"volume": "100 mL", "HEPES concentration": "50 mM"}, barcode="MAT-TEST0002")
    mixed = {
        "volume": "500 mL",
        "NaCl concentration": "120 mM",
        "KCl concentration": "20 mM",
        "HEPES concentration": "10 mM",
    }
    return build_transition(
        "Combine", {"mixing": "invert"}, [first, second], [build_material("Stock pool", {**mixed, **extra})]
    )


def test_ion_needs_a_source():
    # 400 mL of 150 mM NaCl in 500 mL: 120 mM sodium. Nothing brings magnesium.
    assert codes(pool(**{"sodium concentration": "120 mM"})) == set()
    assert "L01" in codes(pool(**{"magnesium concentration": "0.8 mM"}))


@pytest.mark.parametrize(("left", "expected"), [("0.35 mL", set()), ("0.45 mL", {"L02"})])
def test_readings_use_up_a_portion_each(left, expected):
    # 0.50 mL - 3 x 50 µL = 0.35 mL
    record = [("Osmolality of the sample", "300 mOsm/kg", "quantitative")]
    setting = {"sample_volume": "50 µL", "replicates": 3}
    assert codes(measured("MeasureOsmolality", setting, record, {"volume": "0.50 mL"}, {"volume": left})) == expected


@pytest.mark.parametrize(
    ("formula", "molar_mass"),
    # CRC Handbook: NaCl 58.44, KCl 74.55, caffeine 194.19, ferrocene 186.04, AgCl 143.32, fluorapatite 504.30, HEPES 238.30
    [
        ("NaCl", 58.44),
        ("KCl", 74.55),
        ("C8H10N4O2", 194.19),
        ("FeC10H10", 186.04),
        ("AgCl", 143.32),
        ("Ca5(PO4)3F", 504.30),
        ("C8H18N2O4S", 238.30),
    ],
)
def test_molar_masses_follow_from_formulas(formula, molar_mass):
    assert float(chemistry.compute_molar_mass(formula)) == pytest.approx(molar_mass, abs=0.01)


def test_organic_sulfonates_bring_no_sulfate():
    assert chemistry.find_substance(frozenset({"hepes"})).ions == {}
    assert chemistry.find_substance(frozenset({"mgso4"})).ions == {"mg": 1, "so4": 1}
