"""Declared changes in a vessel: precipitation, slow conversion, random hits and survival."""

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest

from simulation.offline.hidden_truth import check_truth
from tests.support.data_files import CATALOGUE
from tests.support.laboratory_factory import SmallLab, build_material

# 1 µg of silver chloride (143.32 g/mol) contains 35.453/143.32 µg of chloride and 1000/143.32 nmol of silver.
SILVER_CHLORIDE = {
    "action": "*", "needs": ["chloride", "silver nitrate"], "makes": "silver chloride", "dimension": "mass",
    "consumes": {"chloride": "0.24737", "silver nitrate": "6.9774 mmol per g"}, "kind": "particles", "phase_to": "suspension",
}  # fmt: skip


def get_amount(lab, key, name):
    parts = lab[key].ledger["components"]
    return Decimal(parts[name]["amount"]) if name in parts else Decimal(0)


def mix_with_silver(silver):
    """Return a bench with 1 mL of 1 mg/mL chloride, mixed with 1 mL of silver nitrate solution."""
    lab = SmallLab(
        CATALOGUE,
        build_material("sample", capacity="10 mL", hidden={"chloride": "1 mg/mL"}),
        build_material("silver", contents={"silver nitrate": silver}),
        truth={"reactions": [SILVER_CHLORIDE]},
    )
    assert lab.run_step("Transfer", "silver sample", source="@silver", amount="1 mL").outcome.success
    return lab


def test_precipitate_forms_on_mixing_until_the_scarcer_substance_is_used_up():
    # All chloride: 1000 µg / 0.24737 = 4042.527 µg of AgCl, which takes 28206.33 nmol of the 50000 of silver.
    lab = mix_with_silver("50 mM")
    assert round(get_amount(lab, "sample", "silver chloride"), 3) == Decimal("4042.527")
    assert get_amount(lab, "sample", "chloride") < Decimal("1e-6")
    assert round(get_amount(lab, "sample", "silver nitrate"), 1) == Decimal("21793.7")
    assert lab.get_property("sample", "phase") == "suspension"


def test_precipitation_with_too_little_silver_leaves_chloride_in_solution():
    # 10000 nmol / 6.9774 = 1433.199 µg of AgCl from 354.53 µg of chloride.
    lab = mix_with_silver("10 mM")
    assert round(get_amount(lab, "sample", "silver chloride"), 3) == Decimal("1433.199")
    assert round(get_amount(lab, "sample", "chloride"), 2) == Decimal("645.47")
    assert get_amount(lab, "sample", "silver nitrate") < Decimal("1e-6")


@pytest.mark.parametrize(("time", "turned"), [("3 day", "50"), ("6 day", "75"), ("9 day", "87.5")])
def test_reaction_with_a_half_time_converts_half_of_the_mineral_in_that_time(time, turned):
    reaction = {"action": "Incubate", "needs": ["apatite"], "from": "apatite", "makes": "calcium", "ratio": "0.4",
                "half_time": "3 day"}  # fmt: skip
    lab = SmallLab(CATALOGUE, build_material("flask", hidden={"apatite": "100 µg"}), truth={"reactions": [reaction]})
    assert lab.run_step("Incubate", "flask", temperature="30 °C", duration=time).outcome.success
    assert get_amount(lab, "flask", "apatite") == 100 - Decimal(turned)
    assert get_amount(lab, "flask", "calcium") == Decimal(turned) * Decimal("0.4")


def test_poisson_reaction_hits_the_share_of_cells_given_by_the_effective_particles_per_cell():
    # 1000 cells, 2000 particles of which half are effective: 1000 (1 - exp(-1)) = 632.12
    reaction = {"action": "Incubate", "needs": ["cells", "minicells"], "makes": "hit cells",
                "poisson": {"targets": "cells", "agent": "minicells", "efficiency": "0.5"}}  # fmt: skip
    lab = SmallLab(
        CATALOGUE, build_material("well", hidden={"cells": "1000 cells/mL", "minicells": "2000 1/mL"}),
        truth={"reactions": [reaction]},
    )  # fmt: skip
    assert lab.run_step("Incubate", "well", temperature="37 °C", duration="1 h").outcome.success
    assert round(get_amount(lab, "well", "hit cells"), 2) == Decimal("632.12")


def test_survival_follows_the_dose_and_dead_cells_are_counted():
    # 1 / (1 + (3/1)^2) = 0.1 of 1000 cells in 1 mL
    killing = {"action": "CellCultureIncubate", "components": ["cells"], "agent": "puromycin", "half": "1 µg/mL", "n": "2",
               "into": "dead cells"}  # fmt: skip
    lab = SmallLab(
        CATALOGUE,
        build_material("well", "suspension", contents={"puromycin": "3 µg/mL"}, hidden={"cells": "1000 cells/mL"}),
        build_material("control", "suspension", hidden={"cells": "1000 cells/mL"}),
        truth={"survival": [killing]},
    )
    assert lab.run_step("CellCultureIncubate", "well control", duration="48 h", temperature="37 °C").outcome.success
    assert get_amount(lab, "well", "cells") == 100
    assert get_amount(lab, "well", "dead cells") == 900
    assert get_amount(lab, "control", "cells") == 1000


def test_attached_components_stay_when_the_liquid_is_aspirated():
    entry = build_material("well", hidden={"dye": "10 µg/mL", "film": "5 µg"}, capacity="2 mL")
    entry["contents"]["film"]["kind"] = "attached"
    lab = SmallLab(CATALOGUE, entry, truth={})
    assert lab.run_step("Aspirate", "well", volume="1 mL").outcome.success
    assert get_amount(lab, "well", "film") == 5
    assert get_amount(lab, "well", "dye") == 0


def test_reaction_on_contact_cannot_declare_conditions():
    assert (
        check_truth(
            {"reactions": [SILVER_CHLORIDE]}, CATALOGUE, {"chloride": "mass", "silver nitrate": "amount"}, {"sample"}
        )
        == []
    )
    found = check_truth({"reactions": [{**SILVER_CHLORIDE, "when": {"duration": "1 h"}}]}, CATALOGUE)
    assert found == ['truth.reactions[0].when: not allowed with the action "*"']


# Peak separation in mV of a one-electron couple at 25 °C for the kinetic parameter psi (Nicholson, Anal. Chem. 1965, 37, 1351, table I).
NICHOLSON = {
    20: 61,
    7: 63,
    6: 64,
    5: 65,
    4: 66,
    3: 68,
    2: 72,
    1: 84,
    0.75: 92,
    0.5: 105,
    0.35: 121,
    0.25: 141,
    0.1: 212,
}
REVERSIBLE = 58.8  # mV, the peak separation without any delay in the table of the experiment


def test_peaks_of_ferrocene_separate_with_scan_rate_as_nicholson_computed():
    path = Path(__file__).parents[3] / "fixtures/experiments/ferrocene-cyclic-voltammetry.json"
    fields = json.loads(path.read_text())["draws"]["transfer"]["fields"]
    compared = 0
    for constant, shifts in fields.items():
        rate_constant = float(constant.removesuffix(" cm/s"))
        for name, shift in shifts.items():
            state, scan_rate = name.split("_")
            k0 = rate_constant / 5 if state == "fouled" else rate_constant
            # psi = k0 / sqrt(pi D F v / RT) with D = 2.4e-5 cm2/s and F/RT = 38.92 per V
            psi = k0 / math.sqrt(math.pi * 2.4e-5 * 38.92 * float(scan_rate) / 1000)
            separation = REVERSIBLE + 2000 * float(shift.removesuffix(" V"))
            above = min((x for x in NICHOLSON if x >= psi), default=None)
            below = max((x for x in NICHOLSON if x <= psi), default=None)
            if above is not None and below is not None:
                assert NICHOLSON[above] - 5 <= separation <= NICHOLSON[below] + 5, (constant, name)
                compared += 1
    assert compared > 60


@pytest.mark.parametrize(
    ("light", "excess"),
    # 60 mg of silver chloride, digested for 10 h: half of it turns in 400 h of room light or in 20 h under a lamp into 1.586 times
    # its mass, because silver nitrate in excess binds the chlorine again.
    [("dark", 0), ("room light", 60 * 0.586 * (1 - 0.5 ** (10 / 400))), ("lamp", 60 * 0.586 * (1 - 0.5**0.5))],
)
def test_light_makes_a_precipitate_of_silver_chloride_heavier(light, excess):
    path = Path(__file__).parents[3] / "fixtures/experiments/chloride-gravimetric-analysis.json"
    truth = json.loads(path.read_text(encoding="utf-8"))["truth"]
    beaker = build_material(
        "beaker", "suspension", "100 mL", "400 mL", "glass beaker", contents={"silver nitrate": "10 mM"},
        hidden={"colloidal silver chloride": "600 µg/mL"},
    )  # fmt: skip
    beaker["contents"]["colloidal silver chloride"]["kind"] = "particles"
    lab = SmallLab(CATALOGUE, beaker, truth=truth)
    step = lab.run_step("Incubate", "beaker", temperature="85 °C", duration="10 h", light=light)
    solids = [part for name, part in lab["beaker"].ledger["components"].items() if part.get("kind") == "particles"]
    assert sum(float(part["amount"]) for part in solids) / 1000 - 60 == pytest.approx(excess, rel=1e-6, abs=1e-9)
    looks = [seen.value for seen in step.outcome.new_observations if "Appearance" in seen.description]
    violet = "" if light == "dark" else ", violet where light fell on them"
    assert looks == [f"clear, white curds at the bottom{violet}"]
