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
