"""Materials written by robots, in notebooks and in forms: each step with the right number, and with a wrong one."""

import pytest

from simulation.checker import check_transition
from simulation.checker.reading.names import read_name
from tests.simulation.checker.test_names import build_line

# (name, action, parameters, inputs, outputs, observations, right, wrong); {X} is replaced. Barcodes are MAT-OWN and the index of the input.
STEPS = [
    (
        # 40 µL of 2 mg/mL in 400 µL: 0.2 mg/mL. The vessel has another name afterwards.
        "renamed target",
        "Transfer",
        {"source": "MAT-OWN00000", "amount": "40 µL"},
        [("DOXY_2", {"c_mg_per_mL": 2, "vol_uL": 200}), ("RPMI_T360", {"vol_uL": 360})],
        [("DOXY_2", {"c_mg_per_mL": 2, "vol_uL": 160}), ("RPMI_DOXY", {"c_doxy_ug_per_mL": "{X}", "vol_uL": 400})],
        [],
        "200",
        "320",
    ),
    (
        # 3-fold steps from 900: 300, 100, 33.3.
        "series with a box of vials",
        "SerialDilute",
        {"diluent": "MAT-OWN00001", "factor": 3, "dilutions": 3, "transfer_volume": "100 µL"},
        [("STK", {"c_nM": 900, "vol_uL": 500}), ("PBS_B", {"vol_uL": 9000}), ("VIALS_BOX", {"cap_uL": 2000})],
        [
            ("STK", {"c_nM": 900, "vol_uL": 400}),
            ("PBS_B", {"vol_uL": 8400}),
            ("S1", {"c_nM": 300, "vol_uL": 200}),
            ("S2", {"c_nM": "{X}", "vol_uL": 200}),
            ("S3", {"c_nM": 33.3, "vol_uL": 300}),
        ],
        [],
        "100",
        "150",
    ),
    (
        # 20 mL are filled up to 100 mL, so 80 mL of the 400 mL are gone.
        "volume under the key fill",
        "FillToVolume",
        {"solvent": "MAT-OWN00001", "total_volume": "100 mL"},
        [("KNO3_C", {"KNO3_mM": 50, "fill": "20.0mL"}), ("H2O_B", {"fill": "400.0mL"})],
        [("KNO3_W", {"KNO3_mM": 10, "fill": "100.0mL"}), ("H2O_B", {"fill": "{X}mL"})],
        [],
        "320.0",
        "300.0",
    ),
    (
        # 1.2 mL and 0.9 mL are 2.1 mL.
        "capacity under a short key",
        "Transfer",
        {"source": "MAT-OWN00000", "amount": "900 µL"},
        [("TE", {"vol_uL": 3000}), ("LYS7", {"vol_uL": 1200, "tube_cap_uL": "{X}"})],
        [("TE", {"vol_uL": 2100}), ("LYS7", {"vol_uL": 2100, "tube_cap_uL": "{X}"})],
        [],
        "2200",
        "1500",
    ),
    (
        # 25 µL of 8 mg/mL in 200 µL: 1 mg/mL.
        "concentration without a component in a name",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "175 µL"},
        [("Blasti stock, 25 µl, 8 mg/ml in H2O (p. 7)", {}), ("PBS sterile, 50 ml Falcon, V = 20.0 ml", {})],
        [("Blasti working soln, 200 µl, {X} mg/ml (p. 7)", {}), ("PBS sterile, 50 ml Falcon, V = 19.825 ml", {})],
        [],
        "1.00",
        "1.14",
    ),
    (
        # 6 mL at 0.5 mg/mL are 3 mg, in 2 mL 1.5 mg/mL.
        "two amounts with a stroke between them",
        "Evaporate",
        {"method": "rotary evaporator", "target_volume": "2 mL"},
        [("tea extract, round flask: 6.0 ml / caffeine 0.50 mg/ml in MeOH", {})],
        [("tea extract, round flask: 2.0 ml / caffeine {X} mg/ml in MeOH", {})],
        [],
        "1.50",
        "0.75",
    ),
    (
        # Four portions of 2 mL without recovery.
        "portions that are not recovered",
        "MeasureDensity",
        {"sample_volume": "2 mL", "recover_sample": False, "replicates": 4},
        [("cola, 40.0 ml", {})],
        [("cola, {X} ml", {})],
        [("density", "1.03 g/mL", "quantitative")],
        "32.0",
        "38.0",
    ),
    (
        # 5 washes of 2 wells with 1 mL.
        "a large bottle of wash buffer",
        "Wash",
        {"wash_medium": "MAT-OWN00002", "wash_volume": "1 mL", "washes": 5},
        [("WELL A", {"vol": "1 mL"}), ("WELL B", {"vol": "1 mL"}), ("PBS BTL", {"vol": "500 mL"})],
        [("WELL A", {"vol": "1 mL"}), ("WELL B", {"vol": "1 mL"}), ("PBS BTL", {"vol": "{X} mL"})],
        [],
        "490",
        "495",
    ),
    (
        "a filtrate of every sample",
        "Filter",
        {"pore_size": "0.22 µm", "volume": "3 mL"},
        [("Lake water 1", {"vol": "5 mL"}), ("Lake water 2", {"vol": "5 mL"}), ("Lake water 3", {"vol": "5 mL"})],
        [
            *((f"Lake water {n}", {"vol": "2 mL"}) for n in (1, 2, 3)),
            ("Filtrate, lake 1", {"vol": "3 mL"}),
            ("Filtrate, lake 2", {"vol": "3 mL"}),
            ("{X}", {"vol": "3 mL"}),
        ][:6],
        [],
        "Filtrate, lake 3",
        "Filtrate, lake 2, second half",
    ),
]


@pytest.mark.parametrize("step", STEPS[:-1], ids=[step[0] for step in STEPS[:-1]])
def test_wrong_number_of_a_material_is_an_error_in_any_style(step):
    _, *parts, right, wrong = step
    assert check_transition(build_line(*parts, right)).error_findings == ()
    assert check_transition(build_line(*parts, wrong)).error_findings != ()


def test_sample_without_a_filtrate_is_an_error():
    _, *parts, right, _ = STEPS[-1]
    line = build_line(*parts, right)
    assert check_transition(line).error_findings == ()
    del line["outcome"]["new_materials"][-1]
    assert {finding.code for finding in check_transition(line).error_findings} == {"L18"}


@pytest.mark.parametrize(
    ("name", "volume", "container"),
    [
        ("glass column, 25 mL grad., with sand", None, "25 mL grad."),
        ("RPMI, rest of bottle 30 ml", 30_000, ""),
        ("flask: 12 mL / NaCl 5 mM", 12_000, ""),
    ],
)
def test_name_tells_the_size_of_the_vessel_from_what_is_left_in_it(name, volume, container):
    stated = read_name(name)
    assert (stated.volume and stated.volume.value, stated.container) == (volume, container)


def test_dilution_factor_may_be_counted_from_the_first_sample():
    # 100 µL with 300 µL are 4-fold; the sample had been diluted 10-fold before.
    inputs = [("TEA_DF10", {"DF": 10, "volume": "100 µL"}), ("WATER", {"volume": "10 mL"})]
    outputs = [("TEA_DF40", {"DF": "{X}", "volume": "400 µL"}), ("WATER", {"volume": "9.7 mL"})]
    parts = ("Dilute", {"solvent": "MAT-OWN00001", "volume": "300 µL"}, inputs, outputs, [])
    verdicts = {factor: check_transition(build_line(*parts, factor)).error_findings for factor in ("4", "40", "14")}
    assert (verdicts["4"], verdicts["40"], verdicts["14"] != ()) == ((), (), True)


@pytest.mark.parametrize("rest", ["RIPA supply, 480 mL left", "RIPA supply (less 20 mL)", "rest of the RIPA supply"])
def test_rest_of_an_unlimited_supply_is_not_handed_back(rest):
    inputs = [("Lysate", {"volume": "10 mL"}), ("RIPA supply", {})]
    line = build_line(
        "Dilute", {"solvent": "MAT-OWN00001", "volume": "20 mL"}, inputs, [("Lysate", {"volume": "30 mL"})], [], ""
    )
    line["input_materials"][1]["available_for_use"] = "unlimited"
    assert check_transition(line).error_findings == ()
    line["outcome"]["new_materials"].append({**line["outcome"]["new_materials"][0], "name": rest, "properties": {}})
    assert "L09" in {finding.code for finding in check_transition(line).error_findings}


FORMS = [
    (
        # 3 injections of 50 µL from 1500 µL; the point groups thousands because decimals have commas.
        "grouped thousands",
        "HPLC",
        {"injection_volume": "50 µL", "replicate_injections": 3},
        [("Tee 1:10", {"Füllung": "1.500 µL", "Filter": "PTFE 0,45 µm"})],
        [("Tee 1:10", {"Füllung": "{X} µL", "Filter": "PTFE 0,45 µm"})],
        [("Fläche", "10,5 mAU·s", "quantitative")],
        "1.350",
        "1.450",
    ),
    (
        # 25 mL + 5 mL of 100 mM: 16.7 mM.
        "unit behind a stroke, and what was added",
        "Transfer",
        {"source": "MAT-OWN00001", "amount": "5 mL"},
        [("HEPES buffer", {"Volume/mL": "25.0"}), ("KCl in HEPES buffer", {"Volume/mL": "40.0", "KCl/mM": 100})],
        [("HEPES buffer", {"Volume/mL": "30.0", "KCl added": "{X}"}), ("KCl in HEPES buffer", {"Volume/mL": "35.0", "KCl/mM": 100})],
        [],
        "16.7 mmol/L",
        "16.7 mol/L",
    ),
    (
        # Three wells take 3 mL of 90 mL.
        "what is left of a supply",
        "Transfer",
        {"source": "MAT-OWN00000", "amount": "1 mL"},
        [("RPMI", {"supply": {"left": {"value": 90, "unit": "mL"}}}), *((f"Culture well A{n}", {"well": f"A{n}", "medium": {"value": 0.5, "unit": "mL"}}) for n in (1, 2, 3))],
        [("RPMI", {"supply": {"left": {"value": "{X}", "unit": "mL"}}}), *((f"Culture well A{n}", {"well": f"A{n}", "medium": {"value": 1.5, "unit": "mL"}}) for n in (1, 2, 3))],
        [],
        "87",
        "89",
    ),
    (
        # 0.9 mL and 1.2 mL in a well.
        "capacity in a text",
        "Transfer",
        {"source": "MAT-OWN00000", "amount": "1.2 mL"},
        [("DMEM", {"volume": "50 mL"}), ("A3 cells", {"volume": "0.9 mL", "well of": "48-well plate; brim {X} mL"})],
        [("DMEM", {"volume": "48.8 mL"}), ("A3 cells", {"volume": "2.1 mL", "well of": "48-well plate; brim {X} mL"})],
        [],
        "2.4",
        "1.7",
    ),
    (
        "stock that is still frozen",
        "Transfer",
        {"source": "MAT-OWN00000", "amount": "4 µL"},
        [("Nystatin in DMSO", {"log": "box 2; {X}", "vol": "50 µL"}), ("tube", {})],
        [("Nystatin in DMSO", {"log": "box 2; {X}", "vol": "46 µL"}), ("portion", {"vol": "4 µL"})],
        [],
        "thawed",
        "frozen solid",
    ),
]  # fmt: skip


@pytest.mark.parametrize("step", FORMS, ids=[step[0] for step in FORMS])
def test_wrong_entry_of_a_form_is_an_error(step):
    _, *parts, right, wrong = step
    lines = [build_line(*parts, value) for value in (right, wrong)]
    for line in lines if "frozen" in step[0] else ():
        for material in (line["input_materials"][0], line["outcome"]["new_materials"][0]):
            material["environmental_condition"] = "-20C"
    assert check_transition(lines[0]).error_findings == ()
    assert check_transition(lines[1]).error_findings != ()


def test_reagent_with_its_amount_behind_it_must_come_from_an_input():
    inputs = [("Viral supernatant", {"vol": "0.8 mL"}), ("tube", {})]
    outputs = [
        ("Viral supernatant", {"vol": "0.7 mL"}),
        ("V1", {"vol": "0.1 mL", "contains": "virus; Blasticidin {X} µg/mL"}),
    ]
    line = build_line("Transfer", {"source": "MAT-OWN00000", "amount": "100 µL"}, inputs, outputs, [], "5")
    assert "L01" in {finding.code for finding in check_transition(line).error_findings}


def test_unknown_word_beside_a_concentration_is_no_new_ingredient():
    inputs = [("Wild type DNA 20 ng/uL", {"volume": "10 uL"}), ("water", {"volume": "9 mL"})]
    outputs = [
        ("Wild type DNA 20 ng/uL", {"volume": "40 uL", "brought to": "5 ug/mL"}),
        ("water", {"volume": "8.97 mL"}),
    ]
    line = build_line("Dilute", {"solvent": "MAT-OWN00001", "volume": "30 µL"}, inputs, outputs, [], "")
    assert "L01" not in {finding.code for finding in check_transition(line).error_findings}
