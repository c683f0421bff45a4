"""Planted errors in plain steps: states, places, sources and vessels that no handling gives; and readings sized by noise."""

import random
from dataclasses import replace
from decimal import Decimal

import pytest

from simulation.lab.deviations import SizeRange
from simulation.lab.materials import NOT_AVAILABLE, Inventory, NewMaterial
from simulation.lab.outcomes import NOTE, Observation, Perturbation
from simulation.offline.injectors import precision
from simulation.offline.injectors.edits import INJECTORS, Case
from tests.simulation.offline.test_injectors import (
    build_dilution,
    build_material,
    case,
    collect_properties,
    collect_values,
    is_applicable,
    liquid,
    plant_errors,
    read,
)
from tests.simulation.offline.test_injectors_science import culture, with_bystanders

OBVIOUS, SUBTLE = Perturbation.OBVIOUS, Perturbation.SUBTLE


def put_on_bench(example, *materials):
    action, situation, outcome = example
    return action, replace(situation, inventory=Inventory((*situation.inventory, *materials))), outcome


def collect_headings(plants):
    return {plant.outcome.new_observations[0].description for plant in plants}


def fill(draft, source="Stock", note="1.00 mL"):
    """Return a step that adds 1 mL of the stock to what the draft shows, with its note."""
    return case("Mix", (draft,), (Observation(f"Delivered from {source}", NOTE, note),))


# States, places and availability


def test_planted_exhaustion_is_of_a_material_of_which_at_least_half_is_left():
    plants = plant_errors(OBVIOUS, "used_up_with_plenty_left", build_dilution())
    # 10 mL are left where 1 mL was, and 891 of 900 mL.
    assert {plant.field for plant in plants} == {f"new_materials[{n}].available_for_use" for n in (0, 1)}
    changed = {one.available_for_use for plant in plants for one in plant.outcome.new_materials}
    assert NOT_AVAILABLE in changed
    assert not is_applicable(OBVIOUS, "used_up_with_plenty_left", case("Mix", (liquid(volume="0.4 mL"),)))


def test_planted_solid_is_in_a_state_that_something_on_the_bench_has():
    example = build_dilution()
    assert not is_applicable(OBVIOUS, "turned_solid", example)
    salt = build_material("MAT-CCCCCCCC", "Salt", phase="powder")
    plants = plant_errors(OBVIOUS, "turned_solid", put_on_bench(example, salt))
    assert collect_properties(plants, 0, "phase") == {"powder"}
    # An incubation could evaporate the liquid.
    assert not is_applicable(OBVIOUS, "turned_solid", put_on_bench(case("Incubate", (liquid(volume="1 mL"),)), salt))


def test_planted_freezer_holds_cells_without_a_cryoprotectant():
    freezer = build_material("MAT-CCCCCCCC", "Virus", "-80C", phase="frozen")
    cells = put_on_bench(case("Mix", (culture(**{"cell type": "HeLa"}),)), freezer)
    places = {
        plant.outcome.new_materials[0].environmental_condition
        for plant in plant_errors(OBVIOUS, "culture_in_the_freezer", cells)
    }
    assert places == {"-80C"}
    protected = culture(**{"cell type": "HeLa", "DMSO concentration": "10 %"})
    assert not is_applicable(OBVIOUS, "culture_in_the_freezer", put_on_bench(case("Mix", (protected,)), freezer))
    assert not is_applicable(OBVIOUS, "culture_in_the_freezer", put_on_bench(case("Mix", (liquid(),)), freezer))


def test_planted_look_is_that_of_another_material_and_shares_no_word_with_the_right_one():
    action, situation, outcome = case("Mix", (liquid(appearance="amber, clear"),))
    situation.inventory["MAT-AAAAAAAA"].properties["appearance"] = "amber, clear"
    others = [
        build_material(f"MAT-{letter * 8}", name, phase="liquid", appearance=look)
        for letter, name, look in (("C", "Coffee", "dark brown, cloudy"), ("D", "Tea", "pale amber, cloudy"))
    ]
    example = put_on_bench((action, situation, outcome), *others)
    assert collect_properties(plant_errors(OBVIOUS, "another_look", example), 0, "appearance") == {"dark brown, cloudy"}


# Sources


def test_planted_source_kills_the_cells_or_stops_the_polymerase_that_it_is_added_to():
    names = ("Ethanol 70", "DMEM")
    grown = fill(culture(volume="2 mL", **{"cell type": "HeLa"}))
    plants = plant_errors(OBVIOUS, "harmful_source_noted", with_bystanders(grown, *names))
    assert collect_headings(plants) == {"Delivered from Ethanol 70"}
    assert {plant.explanation for plant in plants} == {
        "the note says that Ethanol 70 was delivered, which kills the cells; the step delivered Stock"
    }
    mixed = with_bystanders(fill(liquid(volume="2 mL", dNTP_concentration="1 mM")), *names)
    assert "which stops the polymerase" in plant_errors(OBVIOUS, "harmful_source_noted", mixed)[0].explanation
    # What ends in "in water" is no pure water, and a plain solution takes no harm.
    assert not is_applicable(OBVIOUS, "harmful_source_noted", with_bystanders(grown, "EGTA in water"))
    plain = with_bystanders(fill(liquid(volume="2 mL")), *names)
    assert not is_applicable(OBVIOUS, "harmful_source_noted", plain)


def test_a_source_that_does_harm_is_not_planted_as_subtle():
    grown = fill(culture(volume="2 mL", **{"cell type": "HeLa"}))
    assert not is_applicable(SUBTLE, "wrong_source_noted", with_bystanders(grown, "Ethanol"))


def test_planted_source_is_the_vessel_that_was_filled():
    new = NewMaterial("Vial", {"phase": "liquid", "volume": "1 mL"}, derived_from=("MAT-AAAAAAAA",))
    assert collect_headings(plant_errors(OBVIOUS, "filled_from_itself", fill(new))) == {"Delivered from Vial"}


def test_planted_reagent_is_of_the_class_of_the_right_one():
    action, situation, outcome = with_bystanders(
        fill(liquid(volume="2 mL"), "Primer F"), "Primer R", "Plasmid X", "Acetone"
    )
    stock, *others = situation.inventory
    example = action, replace(situation, inventory=Inventory((replace(stock, name="Primer F"), *others))), outcome
    assert collect_headings(plant_errors(SUBTLE, "wrong_reagent_noted", example)) == {"Delivered from Primer R"}
    assert collect_headings(plant_errors(SUBTLE, "wrong_source_noted", example)) == {"Delivered from Acetone"}


# Vessels


@pytest.mark.parametrize(
    ("kind", "draft", "vessel"),
    [
        ("culture_in_a_tube", culture, "15 mL centrifuge tube"),
        ("solvent_in_polystyrene", lambda **shown: liquid("Acetonitrile", **shown), "15 mL bottle, polystyrene"),
    ],
)
def test_planted_vessel_is_one_that_the_material_does_not_stand(kind, draft, vessel):
    held = {"volume": "1 mL", "container": "10 mL well", "container_capacity": "10 mL"}
    action, situation, outcome = case("Mix", (draft(**held),))
    situation.inventory["MAT-AAAAAAAA"].properties.update(held)
    other = build_material("MAT-CCCCCCCC", "Other", phase="liquid", container=vessel, container_capacity="15 mL")
    example = put_on_bench((action, situation, outcome), other)
    for plant in plant_errors(SUBTLE, kind, example):
        shown = plant.outcome.new_materials[0].properties
        assert (shown["container"], shown["container_capacity"]) == (vessel, "15 mL")
    assert not is_applicable(SUBTLE, kind, case("Mix", (liquid("Water", **held),)))


# Readings


def build_reading(value, noise, floor=None, unit="AU"):
    """Return the case of one reading whose response is declared with this noise."""
    response = {"signal": "absorbance", "action": "Incubate", "unit": unit, "noise": noise}
    response |= {"noise_floor": f"{floor} {unit}"} if floor else {}
    case_of_reading = Case(*read(value, "Incubate of Stock: absorbance"), truth={"responses": [response]})
    return case_of_reading, case_of_reading.readings[0]


def test_precision_combines_relative_noise_and_floor_or_is_that_of_counts():
    # sqrt((0.03 x 1)^2 + 0.04^2) = 0.05
    example, reading = build_reading("1.000 AU", "0.03", "0.04")
    assert precision.find_precision(example, reading, Decimal(1)) == Decimal("0.05")
    # Of 10,000 events half are positive: sqrt(0.5 x 0.5 / 10,000) = 0.005, which is 0.5 %.
    shared, share = build_reading("50 % (5000 of 10000 events)", "0.03")
    assert precision.find_precision(shared, share, Decimal(50)) == Decimal("0.5")
    undeclared = Case(*read("1.000 AU", "Incubate of Stock: emission"), truth=example.truth)
    assert precision.find_precision(undeclared, undeclared.readings[0], Decimal(1)) is None


@pytest.mark.parametrize(
    ("relative", "narrowed"),
    [
        ("0.02", (0.10, 0.30)),  # 5 x 2 % and 15 x 2 %
        ("0.03", (0.15, 0.40)),  # 15 x 3 % are 45 %, more than the largest size
        ("0.004", (0.10, 0.125)),  # 15 x 0.4 % are 6 %, less than a reader sees: a quarter above the smallest size
        ("0.1", None),  # 5 x 10 % are 50 %
    ],
)
def test_sizes_of_readings_are_five_to_fifteen_standard_deviations_within_the_requested_range(relative, narrowed):
    sizes = precision.narrow_sizes(SizeRange(), Decimal(relative))
    assert sizes == (None if narrowed is None else pytest.approx(narrowed))


def test_sizes_below_the_detection_limit_are_as_requested():
    assert precision.narrow_sizes(SizeRange(0.02, 0.08), Decimal("0.05")) == SizeRange(0.02, 0.08)


def test_planted_odd_reading_is_five_standard_deviations_from_the_others():
    example, _ = build_reading("1.000, 1.030 AU", "0.02")
    kind = INJECTORS[SUBTLE]["replicate_off"]
    plans = [plan for seed in range(8) for plan in kind.iter_plans(example, random.Random(seed))]
    values = [[Decimal(part.split()[0]) for part in plan.edits[0].new.split(", ")] for plan in plans]
    # 5 x 2 % of the other reading are 0.100 or 0.103; 15 x 2 % above 1.030 are 1.339.
    assert values and all(Decimal("0.1") <= abs(first - second) <= Decimal("0.34") for first, second in values)


def test_readings_in_the_noise_get_no_subtle_size():
    # The floor is 40 % of the reading, so five standard deviations are twice the reading.
    example, reading = build_reading("0.050 AU", "0.02", "0.02")
    assert precision.draw_reading_factors(example, reading, random.Random(1)) == []


def test_planted_reading_far_from_its_replicates_is_off_by_a_factor_of_more_than_two():
    example = read("0.3010 g, 0.3011 g", "MeasureWeight of Stock: mass")
    for value in collect_values(plant_errors(OBVIOUS, "far_from_its_replicates", example)):
        first, second = (Decimal(part.split()[0]) for part in value.split(", "))
        assert max(first, second) > 2 * min(first, second)
    # The same is no subtle error: a tenth of a mass is seen at a glance on a balance of four decimals.
    assert not is_applicable(SUBTLE, "replicate_off", example)
