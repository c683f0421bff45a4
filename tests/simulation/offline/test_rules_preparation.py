"""Adjusting a pH, grinding, digesting, preparing an electrode, freezing and autoclaving."""

import re

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

# pH 5 without hydroxide and 8 at 3 mM, linear between: 1 pH unit per mM.
TRUTH = {
    "responses": [
        {"action": ["MeasurepH", "AdjustpH"], "component": "hydroxide", "signal": "pH", "unit": "", "noise": "0",
         "table": [["0 mM", "5"], ["3 mM", "8"]]},
    ],
}  # fmt: skip


def bench(lab, truth=None):
    return SmallLab(
        lab.catalogue,
        build_material("buffer", volume="10 mL", capacity="20 mL"),
        build_material("base", volume="5 mL", capacity="10 mL", contents={"hydroxide": "100 mM"}, pH="13"),
        build_material("acid", volume="50 mL", capacity="100 mL", contents={"nitric acid": "10 mM"}, pH="2"),
        build_material("known", volume="10 mL", capacity="20 mL", pH="6"),
        build_material("rock", "solid", None, mass="100 mg", hidden={"calcium": "12 mg"}),
        build_material("cells", "suspension", hidden={"HeLa cells": "1e6 cells/mL"}, medium="medium with 10 % DMSO"),
        build_material("full", "suspension", "1.9 mL", hidden={"HeLa cells": "1e6 cells/mL"}),
        build_material("vial", container="glass vial"),
        build_material("protectant", volume="5 mL", capacity="10 mL", contents={"DMSO": "2 mL"}),
        build_material("attached", "adherent culture", container="dish", hidden={"HeLa cells": "1e5 cells"}),
        build_material("yeast", "suspension", "1 mL", "2 mL", "glass bottle", hidden={"yeast cells": "1e6 cells/mL"}),
        build_material("spirit", volume="1 mL", contents={"ethanol": "700 µL"}),
        truth=truth,
    )  # fmt: skip


@pytest.fixture
def small(lab):
    return bench(lab)


def test_titration_adds_increments_until_the_target_ph_is_reached(lab):
    small = bench(lab, TRUTH)
    values = small.read_values(
        "AdjustpH", "buffer base", titrant="@base", target_ph="7.0", tolerance="0.02", increment="5 µL"
    )
    # pH 6.98 needs 1.98 mM: 41 steps give 205 µL x 100 mM / 10.205 mL = 2.009 mM, pH 7.009; 40 steps give 1.961 mM, pH 6.96.
    # The pipette of 10 µL is off by 0.06 µL in 5 µL at most, or 1.2 %, so that the meter shows 6.98 to 7.03.
    assert (small.get_property("buffer", "volume"), small.get_property("base", "volume")) == ("10.205 mL", "4.795 mL")
    assert len(values) == 1
    assert 6.98 <= float(values[0]) <= 7.03
    assert small.get_property("buffer", "pH") == values[0]
    assert small["buffer"].ledger["components"]["hydroxide"]["amount"] == "20500"  # 205 µL x 100 mM in nmol


def test_titration_without_declared_ph_adds_the_given_volume_and_gives_no_ph(small):
    step = small.run_step("AdjustpH", "buffer base", titrant="@base", target_ph="7.4", titrant_volume="150 µL")
    (seen,) = step.outcome.new_observations
    assert (seen.value, seen.description.endswith("150 µL of titrant added, run completed, no pH on record")) == (
        "",
        True,
    )
    assert (small.get_property("buffer", "pH"), small.get_property("buffer", "volume")) == (None, "10.15 mL")
    small.run_step("AdjustpH", "buffer acid", titrant="@acid", target_ph="7.2", max_titrant_volume="0.5 mL")
    assert (small.get_property("buffer", "pH"), small.get_property("acid", "volume")) == (None, "49.5 mL")


@pytest.mark.parametrize(
    ("keys", "parameters", "reason"),
    [
        ("buffer base", {"titrant": "@base", "target_ph": "7"}, "critically unclear: how much of base is added to buffer"),
        ("known acid", {"titrant": "@acid", "target_ph": "7.4", "titrant_volume": "1 mL"},
         "wrong titrant: pH 7.4 does not lie between known at pH 6 and acid at pH 2"),
        ("rock base", {"titrant": "@base", "target_ph": "7", "titrant_volume": "1 mL"}, "wrong phase: rock is solid, which cannot be titrated"),
        ("buffer base", {"titrant": "@base", "target_ph": "7", "titrant_volume": "6 mL"}, "short of volume: needs 6 mL, 5 mL usable in base"),
    ],
)  # fmt: skip
def test_titration_rejects_an_unreachable_ph(small, keys, parameters, reason):
    assert small.get_rejection("AdjustpH", keys, **parameters) == reason


def test_titration_rejects_too_little_titrant_and_too_large_steps(lab):
    small = bench(lab, TRUTH)
    asked = {"titrant": "@base", "target_ph": "7", "tolerance": "0.02"}
    # 100 µL give 100 x 100 / 10.1 mM = 0.99 mM, pH 5.99; with an error of 1 %, 0.98 to 1.00 mM, pH 5.98 to 6.00
    too_little = small.get_rejection("AdjustpH", "buffer base", max_titrant_volume="100 µL", **asked)
    assert re.fullmatch(r"short of titrant: 100 µL brought buffer to pH (5\.9[89]|6\.00), not to 7", too_little)
    # 120 µL: pH 6.19; 240 µL: 24 / 10.24 mM = 2.34 mM, pH 7.34; with an error of 1 %, 2.32 to 2.37 mM
    too_much = small.get_rejection("AdjustpH", "buffer base", increment="120 µL", **asked)
    assert re.fullmatch(
        r"overshot: 120 µL takes buffer from one side of pH 7 to pH 7\.3[2-7]; take less at a time", too_much
    )


def test_microwave_digestion_dissolves_a_solid_and_conserves_its_elements(small):
    small.run_step("Microwave", "rock acid", acid="@acid", acid_volume="10 mL")
    assert (small.get_property("rock", "phase"), small.get_property("rock", "volume")) == ("liquid", "10 mL")
    assert small["rock"].ledger["components"]["calcium"]["amount"] == "12000"
    assert small.get_property("rock", "nitric acid concentration") == "10 mM"
    assert (small.get_property("rock", "container_capacity"), small.get_property("acid", "volume")) == (
        "55 mL",
        "40 mL",
    )
    assert small.bench.elapsed == 30 * 60  # 10 min up, 10 min held, 10 min cooling


def test_microwave_digestion_rejects_a_dry_sample_without_acid(small):
    assert small.get_rejection("Microwave", "rock") == "dry: rock holds no liquid that takes up microwaves; add an acid"


def test_grinding_keeps_the_mass_and_gives_the_particle_size_only_with_a_sieve(small):
    small.run_step("Grind", "rock")
    assert (small.get_property("rock", "phase"), small.get_property("rock", "mass")) == ("powder", "100 mg")
    assert small.get_property("rock", "particle size") == "not measured"
    small.run_step("Grind", "rock", sieve="75 µm")
    assert small.get_property("rock", "particle size") == "below 75 µm"
    assert (
        small.get_rejection("Grind", "buffer") == "wrong phase: buffer is liquid; only dry solids and tissue are ground"
    )


def test_reference_electrode_needs_no_material(small):
    small.run_step("PrepareReferenceElectrode", "", "electrode", type="Ag/Ag+ (non-aqueous)",
             filling_solution="10 mM AgNO3 and 0.1 M TBAPF6 in acetonitrile")  # fmt: skip
    assert small.get_property("electrode", "electrode type") == "Ag/Ag+ (non-aqueous)"
    assert (small.get_property("electrode", "phase"), small["electrode"].is_usable) == ("consumable", True)
    reason = small.get_rejection(
        "PrepareReferenceElectrode", "", type="saturated calomel", filling_solution="3 M KCl in water"
    )
    assert reason == "wrong filling solution: saturated calomel takes saturated KCl, not 3 M KCl in water"


def test_freeze_cells_adds_the_cryoprotectant(small):
    small.run_step("FreezeCells", "cells protectant", cryoprotectant="@protectant", cryoprotectant_volume="250 µL")
    assert (small.get_property("cells", "phase"), small["cells"].environmental_condition) == ("frozen", "-196C")
    assert (small.get_property("cells", "volume"), small.get_property("cells", "cryoprotectant")) == (
        "1.25 mL",
        "protectant",
    )
    assert small["cells"].ledger["components"]["HeLa cells"]["amount"] == "1000000"


def test_freeze_cells_finds_the_cryoprotectant_in_the_medium(small):
    small.run_step("FreezeCells", "cells", store_at="-80C")
    assert small.get_property("cells", "cryoprotectant") == "DMSO"


def test_flash_freezing_moves_the_sample_to_the_given_storage(small):
    small.run_step("FlashFreeze", "spirit", store_at="-80C")
    assert (small.get_property("spirit", "phase"), small["spirit"].environmental_condition) == ("frozen", "-80C")


def test_autoclave_turns_living_cells_into_dead_cells(small):
    small.run_step("Autoclave", "yeast", duration="20 min")
    assert small["yeast"].ledger["components"] == {
        "dead yeast cells": {"dimension": "count", "amount": "1000000", "known": False}
    }
    assert (small.get_property("yeast", "sterilised"), small.get_property("yeast", "volume")) == (
        "121 °C for 20 min",
        "1 mL",
    )
    assert small.bench.elapsed == 60 * 60


def test_autoclave_cycle_that_is_too_short_does_not_sterilise(small):
    small.run_step("Autoclave", "yeast", duration="10 min")
    # The yeast is dead after seconds; spores of bacteria would not be.
    assert list(small["yeast"].ledger["components"]) == ["dead yeast cells"]
    assert small.get_property("yeast", "sterilised") is None


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "reason"),
    [
        ("FlashFreeze", "vial", {}, "wrong container: vial is in glass vial, which cracks in the bath"),
        ("FlashFreeze", "full", {}, "too full: 1.9 mL in full, above 1.8 mL of 2 mL it bursts its container when it freezes"),
        ("FreezeCells", "attached", {}, "wrong phase: the cells of attached are attached; they cannot be frozen in suspension"),
        ("FreezeCells", "buffer", {}, "no cells: there is nothing to freeze slowly in buffer"),
        ("FreezeCells", "cells protectant", {"cryoprotectant": "@protectant"}, "critically unclear: how much of protectant is added to each"),
        ("Autoclave", "spirit", {}, "flammable: spirit holds ethanol; its vapour explodes in an autoclave"),
        ("Autoclave", "buffer", {"caps_loosened": False}, "sealed: buffer holds 10 mL and would burst; loosen its cap"),
        ("Autoclave", "full", {}, "too full: 1.9 mL in full, above 1.5 mL of 2 mL it boils over"),
    ],
)  # fmt: skip
def test_freezing_and_autoclaving_reject_unsuitable_materials_and_settings_with_a_reason(
    small, action, keys, parameters, reason
):
    assert small.get_rejection(action, keys, **parameters) == reason
