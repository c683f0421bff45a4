"""The properties of a material after a step: its medium, its condition and its treatments."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material, build_tubes

CULTURED = {"duration": "24 h", "temperature": "37 °C", "carbon_dioxide": "5 %"}


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("cells", "suspension", "1 mL", "4 mL", "well of a plate", hidden={"HeLa cells": "100000 cells"},
                 medium="DMEM with 10 % FBS"),
        build_material("saline", volume="10 mL", capacity="20 mL"),
        build_material("broth", volume="10 mL", capacity="20 mL"),
        build_material("tea", volume="10 mL", capacity="20 mL", appearance="amber, clear"),
        build_tubes(),
    )  # fmt: skip


def test_medium_lists_each_addition_once(small):
    for _ in range(2):
        small.run_step("Transfer", "saline cells", source="@saline", amount="100 µL")
    assert small.get_property("cells", "medium") == "DMEM with 10 % FBS + saline"
    small.run_step("Aliquot", "cells tubes", "portion", volume="100 µL")
    assert small.get_property("portion", "medium") == "DMEM with 10 % FBS + saline"


def test_material_leaves_the_incubator_when_it_is_handled_but_not_while_it_waits(small):
    small.run_step("CellCultureIncubate", "cells", **CULTURED)
    small.run_step("Wait", "cells", duration="10 min")
    assert (small["cells"].environmental_condition, small.get_property("cells", "temperature")) == (
        "cell_culture_conditions",
        "37 °C",
    )
    small.run_step("Transfer", "saline cells", source="@saline", amount="100 µL")
    assert (small["cells"].environmental_condition, small.get_property("cells", "temperature")) == ("room_temp", None)
    assert small.get_property("cells", "humidity") is None


def test_filtrate_shows_its_filter_until_something_is_added(small):
    small.run_step("Filter", "tea tubes", "filtrate", volume="500 µL", pore_size="0.22 µm", membrane="PTFE")
    assert small.get_property("filtrate", "filtered through") == "0.22 µm PTFE"
    assert small.get_property("tea", "filtered through") is None
    small.run_step("Transfer", "saline filtrate", source="@saline", amount="100 µL")
    assert small.get_property("filtrate", "filtered through") is None


def test_dna_extract_loses_the_properties_of_its_source(small):
    small.run_step("AttemptDNAExtraction", "tea cells", elution_volume="50 µL")
    assert small["tea"].name == "DNA extract of tea" and small.get_property("tea", "appearance") is None
    assert small.get_property("cells", "medium") is None


def test_gel_shows_its_lanes_and_no_liquid_properties(small):
    small.run_step("AgaroseGelElectrophoresis", "tea broth", "gel", load_volume="5 µL")
    assert dict(small["gel"].properties) == {"phase": "gel", "lanes": "1: tea; 2: broth"}
    assert small["gel"].ledger["volume"] == "10"  # what was loaded is still accounted for


def test_thermocycler_record_quotes_its_settings(lab):
    tube = build_material("reaction", volume="25 µL", capacity="200 µL", container="0.2 mL PCR tube")
    step = SmallLab(lab.catalogue, tube).run_step("Thermocycler", "reaction", annealing_temperature="58 °C", cycles=35)
    assert [(seen.description, seen.value) for seen in step.outcome.new_observations] == [
        (
            "Thermocycler display, cycles 35, annealing temperature 58 °C",
            "program completed, holding at 4.0 °C",
        )
    ]


def test_concentration_is_displayed_rounded_and_stored_exactly(lab):
    # 32 µL of 10 mg/mL into 20 mL: 320 µg in 20.032 mL is 15.9744... µg/mL
    small = SmallLab(
        lab.catalogue,
        build_material("polybrene", contents={"polybrene": "10 mg/mL"}),
        build_material("medium", volume="20 mL", capacity="50 mL"),
    )
    small.run_step("Transfer", "polybrene medium", source="@polybrene", amount="32 µL")
    assert small.get_property("medium", "polybrene concentration") == "16 µg/mL"
    assert small["medium"].ledger["components"]["polybrene"]["amount"] == "320"
