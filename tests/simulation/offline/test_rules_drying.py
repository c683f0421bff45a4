"""Drying: solvent leaves, everything dissolved stays, and what left is accounted for."""

from decimal import Decimal

import pytest

from tests.support.laboratory_factory import SmallLab, build_material


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("brine", volume="4 mL", capacity="10 mL", container="glass beaker", contents={"salt": "10 mM"}, pH="7.1"),
        build_material("broth", "suspension", "4 mL", "10 mL", contents={"sugar": "2 mg/mL"}, hidden={"yeast cells": "1e6 cells/mL"}),
        build_material("spirit", volume="1 mL", hidden={"ethanol": "400 µL", "dye": "1 mg"}),
        build_material("hydrate", "powder", None, mass="10 mg", hidden={"salt": "8.5 mg", "water": "1.5 mg"}),
        build_material("crucible", "empty container", None, "30 mL", "filter crucible"),
        build_material("ice", "frozen", condition="-80C", contents={"protein": "3 mg/mL"}),
        build_material("cells", "adherent culture", container="dish", hidden={"HeLa cells": "1e5 cells"}),
        build_material("jug", volume="50 mL", capacity="100 mL", container="glass bottle"),
    )  # fmt: skip


def amount(small, key, name):
    return small[key].ledger["components"][name]["amount"]


def test_oven_dries_four_millilitres_in_an_hour_and_keeps_the_salt(small):
    assert small.read_values("DryingOven", "brine", temperature="110 °C", duration="1 h") == ["dry"]
    assert (small.get_property("brine", "phase"), small.get_property("brine", "dried")) == ("solid", "110 °C for 1 h")
    assert amount(small, "brine", "salt") == "40000"  # 4 mL x 10 mM = 40 µmol
    assert (small.get_property("brine", "salt amount"), small.get_property("brine", "pH")) == ("40 µmol", None)
    vapour = small.bench.inventory.materials[-1]
    assert (vapour.name, vapour.properties["volume"], vapour.is_usable) == (
        "Vapour driven off by DryingOven",
        "4 mL",
        False,
    )


def test_oven_leaves_a_sample_wet_if_the_time_is_too_short(small):
    # at 80 °C 2 mL leave in an hour, so 0.5 mL in 15 min; 4 mL x 10 mM in 3.5 mL = 11.4 mM
    assert small.read_values("DryingOven", "brine", temperature="80 °C", duration="15 min") == [
        "still wet, 3.5 mL of liquid in it"
    ]
    assert (small.get_property("brine", "phase"), small.get_property("brine", "volume")) == ("liquid", "3.5 mL")
    assert small.get_property("brine", "salt concentration") == "11.4 mM"


def test_drying_a_solid_removes_water_and_nothing_else(small):
    small.run_step("Desiccate", "hydrate", "moisture")
    assert small.get_property("hydrate", "mass") == "8.5 mg"
    assert list(small["hydrate"].ledger["components"]) == ["salt"]
    assert amount(small, "moisture", "water") == "1500"


def test_an_empty_crucible_may_be_dried_before_it_is_weighed(small):
    small.run_step("DryingOven", "crucible", temperature="130 °C", duration="2 h")
    assert (small.get_property("crucible", "phase"), small.get_property("crucible", "dried")) == (
        "empty container",
        "130 °C for 2 h",
    )


def test_evaporation_stops_at_the_target_volume(small):
    small.run_step(
        "Evaporate", "brine", "condensate", method="rotary evaporator", target_volume="500 µL", duration="30 min"
    )
    assert (small.get_property("brine", "volume"), small.get_property("brine", "salt concentration")) == (
        "500 µL",
        "80 mM",
    )
    assert small["condensate"].ledger["volume"] == "3500"
    assert small["condensate"].ledger["components"] == {}


def test_concentrator_removes_a_millilitre_per_hour(small):
    small.run_step("Evaporate", "broth", duration="90 min")
    assert (small.get_property("broth", "volume"), small.get_property("broth", "phase")) == ("2.5 mL", "suspension")
    assert amount(small, "broth", "sugar") == "8000"
    small.run_step("Evaporate", "broth", duration="3 h")
    assert small.get_property("broth", "phase") == "solid"
    assert amount(small, "broth", "yeast cells") == "4000000"


def test_evaporation_removes_a_volatile_component_in_proportion_to_the_volume(small):
    small.run_step("Evaporate", "spirit", "condensate", target_volume="250 µL", duration="2 h")
    # three quarters of the volume leave, with three quarters of the 400 µL of ethanol
    assert (amount(small, "spirit", "ethanol"), amount(small, "condensate", "ethanol")) == ("100", "300")
    assert amount(small, "spirit", "dye") == "1000"
    small.run_step("Evaporate", "spirit", "rest")
    assert list(small["spirit"].ledger["components"]) == ["dye"]


def test_freeze_drying_leaves_a_powder_and_lasts_for_the_sum_of_its_phases(small):
    small.run_step("Lyophilize", "ice broth", "trap", primary_drying_time="8 h")
    assert [small.get_property(key, "phase") for key in ("ice", "broth")] == ["powder", "powder"]
    assert (amount(small, "ice", "protein"), small["ice"].environmental_condition) == ("3000", "room_temp")
    assert small["trap"].ledger["volume"] == "5000"  # 1 mL and 4 mL
    assert small.bench.elapsed == (4 + 8 + 4) * 3600
    small.run_step("Resuspend", "ice jug", solvent="@jug", volume="500 µL")
    assert (small.get_property("ice", "phase"), small.get_property("ice", "protein concentration")) == (
        "liquid",
        "6 mg/mL",
    )


def test_drying_conserves_amounts_and_volumes(small):
    before = sum(Decimal(placed.ledger.get("volume") or 0) for placed in small.bench.inventory)
    for keys, duration in (("brine", "7 min"), ("brine", "13 min"), ("spirit", "17 min"), ("jug", "1 h")):
        small.run_step("Evaporate", keys, method="centrifugal vacuum concentrator", duration=duration)
    assert amount(small, "brine", "salt") == "40000"
    assert sum(Decimal(placed.ledger.get("volume") or 0) for placed in small.bench.inventory) == before


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "reason"),
    [
        ("DryingOven", "broth", {"temperature": "150 °C"}, "too hot: 150 °C for broth in 2 ml tube, plastic stands 120 °C at most"),
        ("DryingOven", "ice", {"temperature": "60 °C"}, "frozen: thaw it first (ice)"),
        ("DryingOven", "cells", {"temperature": "60 °C"}, "wrong phase: the cells of cells are attached; they cannot be dried in an oven"),
        ("Desiccate", "brine", {}, "wrong phase: brine is liquid; a desiccator dries solids"),
        ("Evaporate", "brine", {"target_volume": "5 mL"}, "nothing to take off: brine holds 4 mL, no more than 5 mL"),
        ("Evaporate", "hydrate", {}, "wrong phase: hydrate is powder, which cannot be evaporated"),
        ("Lyophilize", "jug", {}, "too short: 50 mL in jug need 100 h of primary drying (500 µL an hour), 16 h given"),
        ("Lyophilize", "brine", {"primary_drying_time": "1 h"}, "too short: 4 mL in brine need 8 h of primary drying (500 µL an hour), 1 h given"),
    ],
)  # fmt: skip
def test_rejected_drying_changes_nothing(small, action, keys, parameters, reason):
    assert small.get_rejection(action, keys, **parameters) == reason
