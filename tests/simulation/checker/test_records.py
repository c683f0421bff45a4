"""Relations within a record: each pair has a wrong number and the right one. The arithmetic is in the comment."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def codes(line):
    return {finding.code for finding in check_transition(line).error_findings}


def measured(action, records, properties=None, name="Sample K", parameters=None):
    material = build_material(name, properties or {"volume": "1 mL"})
    seen = [build_observation(description, value) for description, value in records]
    gel = [build_material("Gel", {"agarose": "3 %"})] if action == "AgaroseGelElectrophoresis" else []
    return build_transition(action, parameters or {}, [material], [material, *gel], seen)


# (action, name, properties, description, right, wrong, code)
RECORDS = [
    # 8.02 mg/L / 40.078 g/mol = 200 µmol/L
    ("MassSpectrometry", "Filtrate", {}, "ICP-MS", "| element | mg/L | mmol/L |\n|---|---|---|\n| Ca | 8.02 | 0.200 |",
     "| element | mg/L | mmol/L |\n|---|---|---|\n| Ca | 8.02 | 0.520 |", "L04"),
    # 12.15 mg/L / 24.305 g/mol = 500 µmol/L
    ("MassSpectrometry", "Filtrate", {}, "Magnesium", "12,15 mg/L, das sind 500 µmol/L", "12,15 mg/L, das sind 250 µmol/L", "L04"),
    # 0.540 mg/mL / 27.0 kDa = 20.0 µM
    ("TotalProteinQuantification", "GFP", {}, "BCA", "0.540 mg/mL at 27.0 kDa, equivalent to 20.0 µM", "0.540 mg/mL at 27.0 kDa, equivalent to 25.9 µM", "L04"),
    # 38.84 mg/L / 194.19 g/mol = 0.200 mM
    ("HPLC", "Caffeine in cola", {}, "result", "38.84 mg/L (0.200 mmol/L)", "38.84 mg/L (0.300 mmol/L)", "L04"),
    # 93.6 ng/µL x 48 µL = 4.49 µg
    ("NucleicAcidQuantification", "Miniprep", {}, "report", "prep | ng/µL | eluate µL | yield µg\nc9 | 93.6 | 48 | 4.49",
     "prep | ng/µL | eluate µL | yield µg\nc9 | 93.6 | 48 | 9.36", "L04"),
    # (2.104 + 1.987 + 2.231 + 2.062) / 4 = 2.096
    ("UsePlateReader", "Plate", {}, "A595", "2.104, 1.987, 2.231, 2.062 | mean 2.096", "2.104, 1.987, 2.231, 2.062 | mean 2.456", "L20"),
    # (31 + 29 + 33) / 3 = 31
    ("UsePlateReader", "Plate", {}, "fields", "31; 29; 33 -> Mittelwert 31", "31; 29; 33 -> Mittelwert 41", "L20"),
    # 0.842 - 0.092 = 0.750
    ("UsePlateReader", "Plate", {}, "well B2", "raw: 0.842; blank: 0.092; blank corrected: 0.750", "raw: 0.842; blank: 0.092; blank corrected: 0.934", "L20"),
    # 16.1 mg/L x 20 = 0.322 g/L
    ("HPLC", "Drink, D = 20", {"D": 20}, "caffeine", "in the vial 16.1 mg/L; undiluted 0.322 g/L", "in the vial 16.1 mg/L; undiluted 0.322 g/mL", "L03"),
    # 18.87 µg/mL x 10 = 0.189 mg/mL
    ("HPLC", "Tea vial", {}, "sheet", "drink | c in vial (µg/mL) | dilution | undiluted (mg/mL)\ntea | 18.87 | x10 | 0.189",
     "drink | c in vial (µg/mL) | dilution | undiluted (mg/mL)\ntea | 18.87 | x10 | 0.398", "L03"),
    # 4.2e7 per mL x 1000 = 4.2e10 per mL
    ("CountLiquidParticles", "Minicells", {"dilution": "1:1000"}, "count", "measured 4.2e7 /mL; original stock 4.2e10 /mL", "measured 4.2e7 /mL; original stock 4.2e9 /mL", "L03"),
    # 160 + 85 = 245 bp
    ("AgaroseGelElectrophoresis", "Digest of the 245 bp amplicon", {}, "lane 2", "bands at 160 bp and 85 bp", "bands at 160 bp and 118 bp", "L20"),
    ("MeasureVolume", "Buffer", {}, "volume", "24.6; 24.7; mean 24.6 mL", "24.6; 24.7; mean 24.6 mM", "L12"),
    ("MeasureDensity", "Leachate", {}, "Dichte bei 20 °C", "1.0021; 1.0022 g/mL", "1.0021; 1.0022 g/mol", "L12"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "name", "properties", "description", "right", "wrong", "code"), RECORDS)
def test_numbers_of_a_row_or_sentence_must_follow_from_each_other(
    action, name, properties, description, right, wrong, code
):
    assert codes(measured(action, [(description, right)], properties, name)) == set()
    assert codes(measured(action, [(description, wrong)], properties, name)) & {code} == {code}


@pytest.mark.parametrize(("total", "expected"), [("2.0", set()), ("2.6", {"L04"})])
def test_total_of_a_list_is_the_sum_of_its_parts(total, expected):
    # 1.0 + 0.6 + 0.4 = 2.0 µg
    shares = [{"plasmid": "pA", "ug": 1.0}, {"plasmid": "pB", "ug": 0.6}, {"plasmid": "pC", "ug": 0.4}]
    properties = {"provenance": shares, "DNA_total_ug": float(total)}
    assert codes(measured("Mix", [], properties, "DNA mix")) == expected


@pytest.mark.parametrize(("after", "expected"), [("50 mM", set()), ("60 mM", {"L03"})])
def test_compound_added_while_reading_adds_to_what_is_there(after, expected):
    # (100 µL x 5 mM + 20 µL x 275 mM) / 120 µL = 50 mM
    well = build_material("Well D5, neurons", {"volume": "100 µL", "KCl": "5 mM"}, barcode="MAT-WELL0001")
    stock = build_material("KCl stock", {"volume": "1 mL", "KCl": "275 mM"}, barcode="MAT-STOCK001")
    line = build_transition(
        "UsePlateReader",
        {"compound": "MAT-STOCK001", "compound_volume": "20 µL"},
        [well, stock],
        [
            build_material("Well D5, neurons", {"volume": "120 µL", "KCl": after}),
            build_material("KCl stock", {"volume": "980 µL", "KCl": "275 mM"}),
        ],
        [build_observation("trace", "ΔF/F0 of 2.84")],
    )
    assert codes(line) == expected


@pytest.mark.parametrize(("salt", "expected"), [("silver nitrate", set()), ("sodium nitrate", {"L01"})])
def test_precipitate_needs_a_source_of_its_cation(salt, expected):
    line = build_transition(
        "Combine",
        {},
        [
            build_material("Unknown, dissolved", {"V": "100 mL", "c(Cl-)": "33 mM"}),
            build_material(salt, {"V": "50 mL"}),
        ],
        [build_material("Mixture with precipitate", {"V": "150 mL", "precipitate": "AgCl, white"})],
    )
    assert codes(line) == expected


@pytest.mark.parametrize(("share", "expected"), [("0.5 % v/v", set()), ("0.65 % v/v", {"L03"})])
def test_share_by_volume_follows_from_the_volumes(share, expected):
    # 5 µL of DMSO in 1000 µL = 0.5 %
    line = build_transition(
        "Dilute",
        {"volume": "995 µL", "solvent": "MAT-TEST0002"},
        [
            build_material("Forskolin in DMSO", {"vol": "5 µL", "conc": "10 mM in DMSO"}, barcode="MAT-TEST0001"),
            build_material("Imaging buffer", {"vol": "50 mL"}, barcode="MAT-TEST0002"),
        ],
        [
            build_material("Forskolin working solution", {"vol": "1000 µL", "conc": "50 µM", "DMSO": share}),
            build_material("Imaging buffer", {"vol": "49.005 mL"}),
        ],
    )
    assert codes(line) == expected


@pytest.mark.parametrize(("eluted", "expected"), [("1.55 mg/mL", set()), ("1.92 mg/mL", {"L04"})])
def test_no_more_is_eluted_than_was_loaded(eluted, expected):
    # 10 mL x 0.32 mg/mL = 3.2 mg were loaded; 2.0 mL x 1.55 mg/mL = 3.1 mg
    line = build_transition(
        "SolidPhaseExtraction",
        {"sample_volume": "10 mL", "elution_volume": "2 mL"},
        [build_material("Tea, filtered", {"volume": "40 mL", "caffeine": "0.32 mg/mL"})],
        [
            build_material("Tea, filtered, rest", {"volume": "30 mL", "caffeine": "0.32 mg/mL"}),
            build_material("SPE extract of tea", {"volume": "2.0 mL", "caffeine": eluted}),
        ],
    )
    assert codes(line) == expected
