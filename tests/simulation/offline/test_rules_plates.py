"""Separating wells of a plate leaves them unchanged."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material


def well(name, key, treatment=None):
    properties = {
        "phase": "suspension",
        "volume": "200 µL",
        "container": "well of a 96-well plate",
        "container_capacity": "300 µL",
    }
    properties |= {"treatment": treatment} if treatment else {}
    return {"well": name, "key": key, "name": f"{key} culture", "properties": properties,
            "contents": {f"{key} cells": {"concentration": "1e6 cells/mL", "known": False}}}  # fmt: skip


def plate(key, *wells):
    made = build_material(
        key, "plate", None, None, "96-well plate", condition="incubating_conditions", temperature="30 °C"
    )
    return {**made, "wells": list(wells)}


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        plate("plate", well("A1", "first", "drug"), well("A2", "second", "drug"), well("A3", "third", "none")),
        plate("bare", well("B1", "fourth")),
        build_material("tube"),
    )


def test_separated_well_keeps_its_properties_and_contents(small):
    step = small.run_step("SeparateWells", "plate", "a1 a2 a3")
    assert [draft.name for draft in step.outcome.new_materials[1:]] == [
        "first culture",
        "second culture",
        "third culture",
    ]
    assert (
        small.get_property("a1", "well"),
        small.get_property("a1", "volume"),
        small.get_property("a1", "phase"),
    ) == (
        "A1",
        "200 µL",
        "suspension",
    )
    # 0.2 mL x 1e6 cells/mL
    assert small["a1"].ledger["components"]["first cells"]["amount"] == "200000"
    assert (small["a1"].ledger["key"], step.outcome.new_materials[1].derived_from) == ("first", (small.codes["plate"],))
    assert not small["plate"].is_usable
    assert small.bench.elapsed == 0


def test_separated_wells_are_usable_and_the_plate_is_not(small):
    small.run_step("SeparateWells", "plate", "a1 a2 a3")
    small.run_step("Transfer", "a1 tube", source="@a1", amount="50 µL")
    assert small.get_property("tube", "volume") == "1.05 mL"
    assert "not available any more" in small.run_step("SeparateWells", "plate").outcome.failure_reason


def test_wells_of_one_treatment_stay_a_plate_until_separated_again(small):
    step = small.run_step("SeparateWells", "plate", "drug none", grouping="by treatment")
    assert [draft.name for draft in step.outcome.new_materials[1:]] == ["plate: drug", "plate: none"]
    assert (small.get_property("drug", "wells"), small.get_property("drug", "wells in use")) == ("A1, A2", "2")
    small.run_step("SeparateWells", "drug", "a1 a2")
    assert small["a2"].ledger["components"]["second cells"]["amount"] == "200000"


@pytest.mark.parametrize(
    ("keys", "parameters", "reason"),
    [
        ("tube", {}, "no wells: tube is liquid; there is nothing to separate"),
        ("bare", {"grouping": "by treatment"}, "no treatments: no well of bare names one; separate each well"),
    ],
)
def test_separate_wells_rejects_material_without_wells_or_treatments(small, keys, parameters, reason):
    assert small.get_rejection("SeparateWells", keys, **parameters) == reason
