"""Moving liquids and solids: arithmetic, and what is rejected."""

from decimal import Decimal

import pytest

from tests.support.laboratory_factory import SmallLab, build_material, build_tubes


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("stock", contents={"salt": "10 mM", "dye": "2 mg/mL"}),
        build_material("water", volume="50 mL", capacity="100 mL", container="bottle"),
        build_material("vial", volume="480 µL"),
        build_material("ice", "frozen", condition="-80C"),
        build_material("cells", "adherent culture", container="dish", hidden={"HeLa cells": "1e5 cells"}),
        build_material("powder", "powder", None, mass="10 mg", contents={"salt": "171.12 µmol"}),
        build_material("tap", volume=None, capacity=None, unlimited=True),
        build_material("pellet", "pellet", None, hidden={"HeLa cells": "1e6 cells"}),
        build_tubes(),
        build_tubes("big_tubes", "15 mL", "15 mL tube"),
    )


def test_aliquots_keep_the_concentration_and_leave_the_rest(small):
    step = small.run_step("Aliquot", "stock tubes", "a b", volume="200 µL", count=2, label="Portion")
    assert [draft.name for draft in step.outcome.new_materials] == ["stock", "Portion 1", "Portion 2"]
    assert small.get_property("stock", "volume") == "600 µL"
    assert [small.get_property(key, "salt concentration") for key in ("stock", "a", "b")] == ["10 mM"] * 3
    assert step.outcome.new_materials[1].derived_from == (small.codes["stock"],)
    assert small["a"].ledger["components"]["dye"]["amount"] == "400"  # 0.2 mL x 2 mg/mL = 400 µg


def test_a_transfer_mixes_by_amounts(small):
    small.run_step("Transfer", "stock vial", source="@stock", amount="120 µL")
    # 120 µL x 10 mM = 1200 nmol in 600 µL = 2 mM
    assert small.get_property("vial", "salt concentration") == "2 mM"
    assert small.get_property("vial", "volume") == "600 µL"


def test_a_transfer_without_an_amount_moves_all_and_uses_up_the_source(small):
    small.run_step("Transfer", "vial stock", source="@vial")
    assert small["vial"].available_for_use == "not_available_for_further_use"
    assert (small.get_property("vial", "phase"), small.get_property("vial", "volume")) == ("empty container", None)
    assert small.get_property("stock", "volume") == "1.48 mL"


def test_all_of_a_liquid_in_an_empty_tube_is_a_liquid(small):
    small.run_step("Transfer", "vial tubes", "new", source="@vial")
    assert (small.get_property("new", "phase"), small.get_property("new", "volume")) == ("liquid", "480 µL")


def test_all_of_a_suspension_stays_a_suspension_in_its_new_vessel(lab):
    culture = build_material("culture", "suspension", hidden={"E. coli cells": "1e8 cells/mL"})
    small = SmallLab(lab.catalogue, culture, build_material("broth"), build_tubes())
    small.run_step("Transfer", "culture tubes", "tube", source="@culture")
    assert (small.get_property("tube", "phase"), small.get_property("culture", "phase")) == (
        "suspension",
        "empty container",
    )
    small.run_step("Transfer", "tube broth", source="@tube")
    assert small.get_property("broth", "phase") == "suspension"


def test_a_solid_moves_by_mass(small):
    small.run_step("Transfer", "powder tubes", "weighed", source="@powder", mass="2.5 mg")
    ledgers = [small[key].ledger for key in ("weighed", "powder")]
    masses = [Decimal(ledger["mass"]) for ledger in ledgers]
    assert sum(masses) == 10_000  # µg
    # 2.5 mg, at most 3 % off, and as much salt as the share of 10 mg that hold 171.12 µmol
    assert masses[0] == pytest.approx(2500, abs=75)
    amounts = [Decimal(ledger["components"]["salt"]["amount"]) for ledger in ledgers]
    assert amounts[0] == pytest.approx(masses[0] * Decimal("17.112"), abs=Decimal("1E-6"))
    assert sum(amounts) == 171_120


def test_weighed_portions_vary_and_together_take_no_more_than_there_is(small):
    small.run_step("Aliquot", "water tubes", "a b c d", volume="100 µL", count=4)
    step = small.run_step("Transfer", "powder a b c d", source="@powder", mass="2.5 mg")
    assert step.outcome.success, step.outcome.failure_reason
    # 10 mg is all there is, 42.78 µmol of salt in each quarter of it, at most 3 % off
    amounts = [Decimal(small[key].ledger["components"]["salt"]["amount"]) for key in "abcd"]
    assert len(set(amounts)) > 1 and sum(amounts) <= 171_120
    assert all(amount == pytest.approx(42_780, rel=Decimal("0.03")) for amount in amounts)
    assert "short of mass" in small.get_rejection("Transfer", "powder a", source="@powder", mass="2.5 mg")


def test_a_serial_dilution_divides_by_the_factor_each_time(small):
    step = small.run_step(
        "SerialDilute",
        "stock water tubes",
        "d1 d2 d3",
        diluent="@water",
        factor=4,
        dilutions=3,
        transfer_volume="100 µL",
    )
    assert step.outcome.new_materials[2].name == "stock 1:4"
    # 10 mM / 4, / 16, / 64; 400 µL each less the 100 µL passed on, the last keeps all
    assert [small.get_property(key, "salt concentration") for key in ("d1", "d2", "d3")] == [
        "2.5 mM",
        "625 µM",
        "156 µM",
    ]
    assert [small.get_property(key, "volume") for key in ("d1", "d2", "d3")] == ["300 µL", "300 µL", "400 µL"]
    assert small.get_property("water", "volume") == "49.1 mL"


def test_dilute_and_fill_to_volume_add_the_given_volume(small):
    small.run_step("Dilute", "stock water", solvent="@water", volume="250 µL")
    assert small.get_property("stock", "salt concentration") == "8 mM"  # 10 mM x 1 / 1.25
    small.run_step("FillToVolume", "stock water", solvent="@water", total_volume="2 mL")
    assert (small.get_property("stock", "volume"), small.get_property("stock", "salt concentration")) == (
        "2 mL",
        "5 mM",
    )
    assert "too full" in small.get_rejection("FillToVolume", "stock water", solvent="@water", total_volume="1 mL")


def test_combine_pools_the_materials_and_uses_them_up(small):
    step = small.run_step("Combine", "stock vial big_tubes", "pool")
    assert small.get_property("pool", "volume") == "1.48 mL"
    assert set(step.outcome.new_materials[-1].derived_from) == {small.codes["stock"], small.codes["vial"]}
    assert not small["stock"].is_usable
    assert not small["vial"].is_usable


def test_resuspend_suspends_a_pellet_in_medium(small):
    small.run_step("Resuspend", "pellet water", solvent="@water", volume="500 µL")
    assert (small.get_property("pellet", "phase"), small.get_property("pellet", "volume")) == ("suspension", "500 µL")


def test_discarded_materials_cannot_be_used_again(small):
    small.run_step("Discard", "vial")
    step = small.run_step("Degas", "vial")
    assert "not available any more" in step.outcome.failure_reason


def test_unlimited_water_is_drawn_and_never_returned(small):
    step = small.run_step("Transfer", "tap vial", source="@tap", amount="100 µL")
    assert [draft.replaces for draft in step.outcome.new_materials] == [small.codes["vial"]]
    assert small.get_property("vial", "volume") == "580 µL"


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "reason"),
    [
        ("Transfer", "vial stock", {"source": "@vial", "amount": "600 µL"}, "short of volume: needs 600 µL, 480 µL usable in vial"),
        ("Transfer", "water vial", {"source": "@water", "amount": "5 mL"}, "too small a container: 2 mL capacity, 5.48 mL would be in it (vial)"),
        ("Transfer", "ice vial", {"source": "@ice", "amount": "10 µL"}, "frozen: thaw it first (ice)"),
        ("Transfer", "water ice", {"source": "@water", "amount": "10 µL"}, "frozen: thaw it first (ice)"),
        ("Transfer", "cells vial", {"source": "@cells", "amount": "10 µL"}, "wrong phase: the cells of cells are attached; they cannot be pipetted"),
        ("Transfer", "powder vial", {"source": "@powder", "amount": "10 µL"}, "wrong phase: powder is powder, which cannot be pipetted"),
        ("Transfer", "vial stock", {"source": "@vial", "amount": "0.4 µL"}, "below the instrument's minimum of 500 nL: 400 nL of vial"),
        ("Transfer", "powder vial", {"source": "@powder", "mass": "20 mg"}, "short of mass: needs 20 mg, 10 mg usable in powder"),
        ("Transfer", "vial tap", {"source": "@vial", "amount": "10 µL"}, "unlimited: tap cannot be changed; pour into a container or a limited material"),
        ("Transfer", "tubes vial", {"source": "@tubes", "amount": "10 µL"}, "wrong material: source is tubes, which is empty container"),
        ("Aliquot", "stock tubes", {"volume": "300 µL", "count": 4}, "short of volume: needs 1.2 mL, 1 mL usable in stock"),
        ("Aliquot", "stock vial", {"volume": "10 µL"}, "no container: Aliquot takes one source and a supply of empty containers"),
        ("Aliquot", "stock tubes", {"volume": "10 µL", "count": "1.5"}, "not a whole number: count is 1.5"),
        ("Resuspend", "stock water", {"solvent": "@water", "volume": "10 µL"}, "wrong phase: stock is liquid, not a pellet or a dry solid"),
        ("Dilute", "tap water", {"solvent": "@water", "volume": "10 µL"}, "unlimited: tap cannot be changed; take a portion of it first"),
    ],
)  # fmt: skip
def test_rejected_transfer_gives_the_numbers_and_changes_nothing(small, action, keys, parameters, reason):
    assert small.get_rejection(action, keys, **parameters) == reason


def test_transfer_checks_the_total_volume_before_anything_moves(small):
    reason = small.get_rejection("Transfer", "vial stock powder", source="@vial", amount="250 µL")
    assert reason == "short of volume: needs 500 µL, 480 µL usable in vial"


def test_mixing_a_known_with_a_hidden_amount_shows_no_concentration(lab):
    small = SmallLab(
        lab.catalogue,
        build_material("standard", contents={"caffeine": "1 mg/mL"}),
        build_material("coffee", hidden={"caffeine": "0.4 mg/mL"}),
    )
    small.run_step("Transfer", "standard coffee", source="@standard", amount="100 µL")
    assert small.get_property("standard", "caffeine concentration") == "1 mg/mL"
    assert small.get_property("coffee", "caffeine concentration") is None
    assert small["coffee"].ledger["components"]["caffeine"]["amount"] == "500"  # 400 + 100 µg


@pytest.fixture
def droplets(lab):
    return SmallLab(
        lab.catalogue,
        build_material(
            "compound", volume="40 µL", capacity="65 µL", container="well of a plate", contents={"drug": "10 mM"}
        ),
        build_material(
            "dye", volume="20 µL", capacity="65 µL", container="well of a plate", contents={"dye": "1 mg/mL"}
        ),
        build_material(
            "well_one", "adherent culture", "50 µL", "100 µL", "well of a plate", hidden={"HeLa cells": "1e4 cells"}
        ),
        build_material("trough", volume="10 mL", capacity="20 mL", dead_volume="2 mL"),
        build_material("primer", "solid", None, contents={"strand": "10 nmol"}),
        build_tubes("wells", "100 µL", "well of a plate"),
        build_tubes(),
    )


def test_acoustic_transfer_moves_nanolitres_from_each_source_to_each_destination(droplets):
    sources = f"{droplets.codes['compound']}, {droplets.codes['dye']}"
    droplets.run_step("AcousticLiquidHandling", "compound dye well_one wells", "new", sources=sources, amount="50 nL")
    # two destinations of 50 nL each
    assert (droplets.get_property("compound", "volume"), droplets.get_property("dye", "volume")) == (
        "39.9 µL",
        "19.9 µL",
    )
    assert (droplets.get_property("new", "volume"), droplets.get_property("well_one", "volume")) == (
        "100 nL",
        "50.1 µL",
    )
    # 0.05 µL x 10 mM = 0.5 nmol in 0.1 µL
    assert droplets["well_one"].ledger["components"]["drug"]["amount"] == "0.5"
    assert droplets.get_property("new", "drug concentration") == "5 mM"


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"amount": "51 nL"}, "not a whole number of droplets: 51 nL is not a multiple of 2.5 nL"),
        ({"amount": "10 µL", "source_plate": "384 wells, 15 µL stay"}, "short of volume: needs 10 µL, 5 µL usable in dye (15 µL must stay in it)"),
    ],
)  # fmt: skip
def test_acoustic_transfer_needs_whole_droplets_and_a_minimum_volume(droplets, parameters, reason):
    assert droplets.get_rejection("AcousticLiquidHandling", "dye well_one", sources="@dye", **parameters) == reason


def test_transfer_leaves_the_dead_volume_of_a_trough(droplets):
    reason = droplets.get_rejection("Aliquot", "trough tubes", volume="1.7 mL", count=5)
    assert reason == "short of volume: needs 8.5 mL, 8 mL usable in trough (2 mL must stay in it)"
    droplets.run_step("Aliquot", "trough tubes", "a b c d", volume="2 mL", count=4)
    assert droplets.get_property("trough", "volume") == "2 mL"


def test_resuspend_dissolves_a_dry_dna_strand(droplets):
    droplets.run_step("Resuspend", "primer trough", solvent="@trough", volume="100 µL")
    assert (droplets.get_property("primer", "phase"), droplets.get_property("primer", "strand concentration")) == (
        "liquid",
        "100 µM",
    )


def test_powder_dissolves_unless_it_is_particles_or_has_no_named_component(lab):
    salt, sand = (
        build_material("salt", "powder", None, contents={"salt": "5 mg"}, mass="5 mg"),
        build_material("sand", "powder", None, mass="5 mg", hidden={"sand": "5 mg"}),
    )
    sand["contents"]["sand"]["kind"] = "particles"
    bench = SmallLab(
        lab.catalogue,
        salt,
        sand,
        build_material("dust", "powder", None, mass="5 mg"),
        build_material("water", volume="5 mL", capacity="5 mL"),
    )
    bench.run_step("Transfer", "water salt sand dust", source="@water", amount="1 mL")
    assert [bench.get_property(key, "phase") for key in ("salt", "sand", "dust")] == [
        "liquid",
        "suspension",
        "suspension",
    ]
