"""Heat, cold, time, growth and declared reactions."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

WARM = {"temperature": {"minimum": "35 °C", "maximum": "39 °C"}}
TRUTH = {
    "growth": [{"action": "CellCultureIncubate", "components": ["HeLa cells", "hit HeLa cells"], "doubling_time": "24 h",
                "limit": "1e6 1/mL", "when": WARM}],
    "reactions": [
        {"action": "CellCultureIncubate", "needs": ["HeLa cells"], "phase_from": "suspension", "phase_to": "adherent culture",
         "when": {**WARM, "duration": {"minimum": "4 h"}}},
        {"action": "CellCultureIncubate", "needs": ["HeLa cells", "virus"], "uses": ["virus"], "makes": "hit HeLa cells",
         "poisson": {"targets": "HeLa cells", "agent": "virus"}, "when": WARM},
        {"action": "Thermocycler", "needs": ["DNA", "primer"], "makes": "product", "per_volume": "30 ng/µL",
         "when": {"cycles": {"minimum": 25}}},
    ],
}  # fmt: skip


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("virus", "frozen", "1 mL", condition="-80C"),
        build_material("cells", "suspension", "1 mL", hidden={"HeLa cells": "1e5 cells/mL"}),
        build_material(
            "infected", "adherent culture", "1 mL", hidden={"HeLa cells": "1e5 cells/mL", "virus": "1e5 TU/mL"}
        ),
        build_material(
            "pcr", volume="25 µL", container="0.2 mL PCR tube", hidden={"DNA": "1 ng/µL"}, contents={"primer": "400 nM"}
        ),
        build_material("no_template", volume="25 µL", container="0.2 mL PCR tube", contents={"primer": "400 nM"}),
        build_material("in_a_vial", volume="25 µL", container="glass vial"),
        build_material("full", volume="150 µL", container="0.2 mL PCR tube"),
        build_material("soda", dissolved_gas="carbonated"),
        truth=TRUTH,
    )


def test_frozen_millilitre_thaws_at_37_degrees_after_two_minutes(small):
    assert small.read_values("Incubate", "virus", temperature="37 °C", duration="1 min") == ["still ice in it"]
    assert small.get_property("virus", "phase") == "frozen"
    assert small.read_values("Incubate", "virus", temperature="37 °C", duration="2 min") == ["no ice left"]
    assert small.get_property("virus", "phase") == "liquid"
    assert (small["virus"].environmental_condition, small.get_property("virus", "temperature")) == (
        "incubating_conditions",
        "37 °C",
    )


def test_material_on_the_bench_thaws_during_other_steps(small):
    small.run_step("Storage", "virus", condition="room_temp")
    assert small.get_property("virus", "phase") == "frozen"
    small.run_step("Degas", "soda", duration="15 min")
    small.run_step("Mix", "virus")  # 10 min at room temperature are enough
    assert small.get_property("virus", "phase") == "liquid"


def test_waiting_in_the_freezer_thaws_nothing(small):
    small.run_step("Wait", "virus", duration="24 h")
    assert "frozen" in small.get_rejection("Mix", "virus")


def test_storage_at_minus_20_degrees_freezes_a_liquid(small):
    small.run_step("Storage", "soda", condition="-20C")
    assert (small.get_property("soda", "phase"), small["soda"].environmental_condition) == ("frozen", "-20C")
    assert "frozen" in small.get_rejection("Degas", "soda")


def test_culture_doubles_cells_in_the_declared_time_and_attaches_them(small):
    small.run_step("CellCultureIncubate", "cells", duration="24 h")
    assert small["cells"].ledger["components"]["HeLa cells"]["amount"] == "200000"  # 1e5 x 2^(24/24)
    assert small.get_property("cells", "phase") == "adherent culture"
    assert (small.get_property("cells", "temperature"), small.get_property("cells", "carbon dioxide")) == (
        "37 °C",
        "5 %",
    )


def test_culture_stops_at_the_declared_density_and_does_not_grow_in_the_cold(small):
    small.run_step("CellCultureIncubate", "cells", duration="1 h", temperature="20 °C")
    assert small["cells"].ledger["components"]["HeLa cells"]["amount"] == "100000"
    small.run_step("CellCultureIncubate", "cells", duration="30 day")
    assert float(small["cells"].ledger["components"]["HeLa cells"]["amount"]) == pytest.approx(1e6)


def test_one_virus_per_cell_infects_63_percent_of_the_cells(small):
    small.run_step("CellCultureIncubate", "infected", duration="24 h")
    parts = small["infected"].ledger["components"]
    # 1 - exp(-1) = 0.632121, and both double
    assert float(parts["hit HeLa cells"]["amount"]) / float(parts["HeLa cells"]["amount"]) == pytest.approx(
        0.632121, abs=1e-6
    )
    assert "virus" not in parts
    assert not any("hit" in name for name in small["infected"].properties)


def test_thermocycler_makes_a_product_only_with_template_and_enough_cycles(small):
    small.run_step("Thermocycler", "pcr", cycles=10)
    assert "product" not in small["pcr"].ledger["components"]
    small.run_step("Thermocycler", "pcr no_template", cycles=35)
    assert small["pcr"].ledger["components"]["product"]["amount"] == "0.75"  # 25 µL x 30 ng/µL = 0.75 µg
    assert "product" not in small["no_template"].ledger["components"]


def test_degas_is_recorded_and_changes_no_volume(small):
    small.run_step("Degas", "soda")
    assert (small.get_property("soda", "dissolved gas"), small.get_property("soda", "volume")) == ("removed", "1 mL")


@pytest.mark.parametrize(
    ("action", "keys", "reason"),
    [
        (
            "Thermocycler",
            "in_a_vial",
            "wrong format: in a vial is in glass vial; a thermocycler takes PCR tubes and PCR plates",
        ),
        ("Thermocycler", "full", "too much volume: 150 µL in full, the block takes 100 µL"),
        ("Mix", "infected", "wrong phase: the cells of infected are attached; they cannot be mixed"),
        ("CellCultureIncubate", "virus", "frozen: thaw it first (virus)"),
    ],
)
def test_rules_reject_heating_or_mixing_of_unsuitable_materials_with_a_reason(small, action, keys, reason):
    assert small.get_rejection(action, keys) == reason


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "seconds"),
    [
        # 180 s, then 35 x (30 + 30 + 45) s, then 300 s
        ("Thermocycler", "pcr", {}, 180 + 35 * 105 + 300),
        # 600 s of reverse transcription, 60 s, 2 x (10 + 20 + 30) s, no final extension
        ("Thermocycler", "pcr", {"reverse_transcription_time": "10 min", "initial_denaturation_time": "1 min", "cycles": 2,
                                 "denaturation_time": "10 s", "annealing_time": "20 s", "extension_time": "30 s",
                                 "final_extension_time": "0 s"}, 780),
        ("Mix", "soda", {"duration": "90 s"}, 90),
        ("Degas", "soda", {"duration": "20 min"}, 1200),
        ("Centrifuge", "cells", {"duration": "7 min", "force": "300 x g"}, 420),
        ("Incubate", "soda", {"duration": "30 day"}, 30 * 86400),
    ],
)  # fmt: skip
def test_thermocycler_takes_the_time_of_its_programme(small, action, keys, parameters, seconds):
    assert small.run_step(action, keys, **parameters).outcome.success
    assert small.bench.elapsed == seconds


def test_solvent_freezes_and_thaws_at_its_own_freezing_point(lab):
    bench = SmallLab(
        lab.catalogue,
        build_material("stock", "frozen", "100 µL", condition="-20C", **{"freezing point": "18.5 °C"}),
        build_material("water_stock", "frozen", "100 µL", condition="-20C"),
    )
    bench.run_step("Storage", "stock water_stock", condition="4C", duration="4 h")
    assert (bench.get_property("stock", "phase"), bench.get_property("water_stock", "phase")) == ("frozen", "liquid")
    bench.run_step("Storage", "stock", condition="room_temp", duration="1 h")
    assert bench.get_property("stock", "phase") == "liquid"
    bench.run_step("Storage", "stock water_stock", condition="4C", duration="1 h")
    assert (bench.get_property("stock", "phase"), bench.get_property("water_stock", "phase")) == ("frozen", "liquid")
