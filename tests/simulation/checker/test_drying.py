"""Solids that are dried, reagents that are washed out, and volumes that add up over all vessels of a step."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.test_names import build_line

# (name, action, parameters, inputs, outputs, observations, right, wrong, code); {X} is replaced. Barcodes are MAT-OWN and the index of the input.
STEPS = [
    (
        "dissolved solid",
        "DryingOven",
        {"temperature": "110 °C"},
        [("DISH 3", {"m_soln_g": 12.0, "m_solute_g": 0.240})],
        [("DISH 3 DRY", {"m_solid_g": "{X}"})],
        [],
        "0.240",
        "0.024",
        "L04",
    ),
    (
        "listed salt",
        "DryingOven",
        {"temperature": "110 °C"},
        [("Wet cake", {"masses_g": {"BaSO4": 0.80, "water": 1.10, "KNO3": "{X}"}, "total_mass_g": 1.90})],
        [("Dry cake", {"masses_g": {"BaSO4": 0.80}, "total_mass_g": 0.80})],
        [],
        "0",
        "0.05",
        "L04",
    ),
    (
        # 2.000 g less 30 mg are 1.970 g of ice.
        "ice in the trap",
        "Lyophilize",
        {"freezing_temperature": "-50 °C"},
        [("FRACTION 2", {"m_total_g": 2.000, "m_solid_mg": 30})],
        [("FRACTION 2 LYO", {"m_solid_mg": 30, "state": "dry_powder"}), ("TRAP_ICE", {"m_g": "{X}"})],
        [],
        "1.970",
        "1.790",
        "L04",
    ),
    (
        # 3 wells take 2 x 0.5 µL each: the sources lose 3 µL together, 1.5 µL each.
        "gains of all wells",
        "AcousticLiquidHandling",
        {"sources": ["MAT-OWN00000", "MAT-OWN00001"], "amount": "500 nL"},
        [("DRUG A", {"V_uL": "20.00"}), ("DRUG B", {"V_uL": "20.00"}), *((f"E{n}", {"V_uL": "99.00"}) for n in (1, 2, 3))],
        [("DRUG A", {"V_uL": "{X}"}), ("DRUG B", {"V_uL": "{X}"}), *((f"E{n}", {"V_uL": "100.00"}) for n in (1, 2, 3))],
        [],
        "18.50",
        "19.50",
        "L02",
    ),
    (
        "reagent of the old medium",
        "Wash",
        {"wash_medium": "MAT-OWN00001", "replacement_medium": "MAT-OWN00002", "wash_volume": "1 mL", "replacement_volume": "1 mL", "washes": 2},
        [("cells, well B2", {"volume": "1 mL", "blasticidin": "5 µg/mL"}), ("PBS", {"volume": "90 mL"}), ("RPMI", {"volume": "90 mL", "blasticidin present": False})],
        [("cells, well B2", {"volume": "1 mL", "blasticidin": "{X} µg/mL"}), ("PBS", {"volume": "88 mL"}), ("RPMI", {"volume": "89 mL"})],
        [],
        "0",
        "5",
        "L03",
    ),
    (
        # 3 elutions of 0.5 mL need 1.5 mL.
        "portions of a reagent",
        "SolidPhaseExtraction",
        {"elution_buffer": "MAT-OWN00001", "sample_volume": "2 mL", "elution_volume": "0.5 mL", "elutions": 3},
        [("juice", {"volume": "10 mL"}), ("acetone", {"volume": "{X} mL"})],
        [("juice", {"volume": "8 mL"}), ("extract of juice", {"volume": "1.5 mL"})],
        [],
        "1.6",
        "1.1",
        "L07",
    ),
    (
        # 1 mL of 200 mM in 10 mL.
        "diluent that says what it lacks",
        "Dilute",
        {"solvent": "MAT-OWN00001", "volume": "9 mL"},
        [("KCl 200 mM", {"vol": "1 mL"}), ("Ringer buffer, no K", {"vol": "50 mL"})],
        [("KCl 200 mM", {"vol": "10 mL", "now": "KCl {X} mM"}), ("Ringer buffer, no K", {"vol": "41 mL"})],
        [],
        "20",
        "22.2",
        "L03",
    ),
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=[step[0] for step in STEPS])
def test_amount_that_is_lost_or_made_is_an_error(step):
    _, *parts, right, wrong, code = step
    assert check_transition(build_line(*parts, right)).error_findings == ()
    assert code in {finding.code for finding in check_transition(build_line(*parts, wrong)).error_findings}


@pytest.mark.parametrize(("density", "codes"), [("1.5e6 cells/mL", set()), ("6.0e6 cells/mL", {"L04"})])
def test_density_of_cells_is_their_number_over_the_volume(density, codes):
    # 3 million cells in 2 mL.
    inputs = [("HeLa pellet", {"number_of_cells": "3.0 million", "state": "pellet"}), ("RPMI", {"volume": "20 mL"})]
    outputs = [
        ("HeLa suspension", {"number_of_cells": "3.0 million", "V_mL": 2.0, "cell_density": density}),
        ("RPMI", {"volume": "18 mL"}),
    ]
    line = build_line("Resuspend", {"solvent": "MAT-OWN00001", "volume": "2 mL"}, inputs, outputs, [], "")
    assert codes <= {finding.code for finding in check_transition(line).error_findings}
    assert bool(check_transition(line).error_findings) == bool(codes)


@pytest.mark.parametrize(("number", "codes"), [(4, set()), (6, {"L19"})])
def test_extract_is_of_an_individual_among_the_inputs(number, codes):
    inputs = [(f"Tail clip of mouse number {n}", {"mass": "2 mg"}) for n in (3, 4)]
    outputs = [(f"DNA extract of mouse number {n}", {"volume": "40 µL"}) for n in (3, number)]
    line = build_line(
        "AttemptDNAExtraction", {"method": "silica column", "elution_volume": "40 µL"}, inputs, outputs, [], ""
    )
    assert {finding.code for finding in check_transition(line).error_findings} == codes
