"""Planted errors by kind: each changes one thing and names it correctly."""

import random
import re
from dataclasses import replace
from decimal import Decimal

import pytest

from simulation.lab import quantities
from simulation.lab.actions import Action, ActionType, Catalogue
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.materials import NOT_AVAILABLE, Inventory, Material, NewMaterial
from simulation.lab.outcomes import Observation, Outcome, Perturbation, PerturbedOutcome
from simulation.lab.parameters import Parameter
from simulation.lab.roles import Situation
from simulation.offline.injectors import Injector
from simulation.offline.injectors.choice import balance_shares
from simulation.offline.injectors.edits import INJECTORS, Case, apply_edits, plants

OBVIOUS, SUBTLE = Perturbation.OBVIOUS, Perturbation.SUBTLE
BOTH = (Perturbation.OBVIOUS, Perturbation.SUBTLE)
OBJECTIVE = Parameter("objective", "select", "which", options=("4x", "10x", "20x"), default="10x")
HEAT = Parameter(
    "temperature", "range_with_units", "how warm", dimension="temperature", minimum="4 °C", maximum="95 °C"
)
CATALOGUE = Catalogue(
    {
        name: ActionType(name, "transformation", "d", "i", "o", parameters)
        for name, parameters in (("Dilute", ()), ("UseMicroscope", (OBJECTIVE,)), ("Incubate", (HEAT,)), ("MeasureVolume", ()), ("Mix", ()))
    }
)  # fmt: skip
SAMPLE, SOLVENT = "MAT-AAAAAAAA", "MAT-BBBBBBBB"


def build_material(code, name, condition="room_temp", **properties):
    return Material(code, name, properties, "available_for_further_use", "static", condition, 0, 0)


def case(name, drafts, observations=(), parameters=None, condition="room_temp"):
    """Return (action, situation, outcome) of an action on 1 mL of caffeine solution and 900 mL of water."""
    sample = build_material(
        SAMPLE, "Stock", condition, phase="liquid", volume="1 mL", **{"caffeine concentration": "100 µg/mL"}
    )
    water = build_material(SOLVENT, "Water", phase="liquid", volume="900 mL")
    situation = Situation("goal", CATALOGUE, Inventory((sample, water)), (), 0, 50)
    outcome = Outcome(True, tuple(drafts), tuple(observations), reasoning="C1 V1 = C2 V2")
    return Action(name, (SAMPLE, SOLVENT), parameters or {}), situation, outcome


def build_dilution():
    # 1 mL of 100 µg/mL and 9 mL of water: 10 mL of 10 µg/mL, and 891 mL of water are left
    return case(
        "Dilute",
        (
            NewMaterial("Stock", {"phase": "liquid", "volume": "10 mL", "caffeine concentration": "10 µg/mL"},
                  replaces=SAMPLE, derived_from=(SOLVENT,)),
            NewMaterial("Water", {"phase": "liquid", "volume": "891 mL"}, replaces=SOLVENT),
        ),
    )  # fmt: skip


def plant_errors(perturbation, kind, example):
    """Return what this kind plants in this example with several seeds."""
    case = Case(*example)
    plans = [plan for seed in range(12) for plan in INJECTORS[perturbation][kind].iter_plans(case, random.Random(seed))]
    assert plans, f"{kind} does not apply"
    return [
        PerturbedOutcome(
            apply_edits(example[2], plan.edits), kind, plan.rule, plan.edits[0].json_path, plan.explanation
        )
        for plan in plans
    ]


def is_applicable(perturbation, kind, example):
    return kind in Injector(perturbation, 1).list_plans(*example)


def collect_properties(plants, at, name):
    """Return all values that the plants give this property, without plants that do not change it."""
    return {
        p.outcome.new_materials[at].properties[name] for p in plants if p.field.endswith(f"[{at}].properties.{name}")
    }


def collect_values(plants, at=0):
    return {plant.outcome.new_observations[at].value for plant in plants}


def volume(text):
    return quantities.parse_quantity(text, "volume").value


def liquid(name="Stock", /, condition="room_temp", replaces=SAMPLE, derived_from=(), **shown):
    shown = {key.replace("_concentration", " concentration"): value for key, value in shown.items()}
    return NewMaterial(name, {"phase": "liquid", **shown}, environmental_condition=condition, replaces=replaces,
                 derived_from=derived_from)  # fmt: skip


def build_measurement(value="1.002 mL, 998 µL"):
    kept = liquid(volume="1 mL")
    return case("MeasureVolume", (kept,), (Observation("MeasureVolume of Stock", "quantitative", value),))


def read(value, description="Reading of Stock: signal", kind="quantitative", name="Incubate", parameters=None):
    return case(name, (liquid(),), (Observation(description, kind, value),), parameters)


# Obvious errors


def test_planted_matter_from_nothing_is_more_than_the_volume_of_all_inputs():
    plants = plant_errors(OBVIOUS, "matter_from_nothing", build_dilution())
    # 901 mL went in; 10 mL of dilution and 891 mL of water result.
    assert all(
        volume(text) > 901_000
        for text in collect_properties(plants, 0, "volume") | collect_properties(plants, 1, "volume")
    )


def test_planted_matter_from_nothing_exceeds_the_container_capacity():
    well = liquid("Well", volume="1 mL", container_capacity="20 mL", replaces="", derived_from=(SAMPLE,))
    action, situation, outcome = case("Incubate", (well,))
    example = (replace(action, materials=(SAMPLE,)), situation, outcome)
    assert all(
        volume(text) > 20_000
        for text in collect_properties(plant_errors(OBVIOUS, "matter_from_nothing", example), 0, "volume")
    )


def test_planted_loss_of_matter_removes_at_least_nine_tenths_of_the_volume():
    for text in collect_properties(plant_errors(OBVIOUS, "matter_vanishes", build_dilution()), 0, "volume"):
        assert volume(text) * 11 < 10_000


def test_planted_loss_of_matter_does_not_apply_to_evaporation():
    dryer = replace(CATALOGUE.types["Incubate"], name="Evaporate")
    action, situation, outcome = case("Evaporate", (liquid(volume="1 mL"),))
    situation = replace(situation, catalogue=Catalogue({"Evaporate": dryer}))
    assert not is_applicable(OBVIOUS, "matter_vanishes", (action, situation, outcome))


def test_planted_substance_from_nothing_is_ten_times_the_highest_input_concentration():
    for text in collect_properties(
        plant_errors(OBVIOUS, "substance_from_nothing", build_dilution()), 0, "caffeine concentration"
    ):
        assert (
            quantities.parse_quantity(text, "mass_concentration").value >= 1000
        )  # ten times the 100 µg/mL of the stock


def test_planted_impossible_concentration_exceeds_two_grams_per_millilitre():
    for text in collect_properties(
        plant_errors(OBVIOUS, "beyond_solubility", build_dilution()), 0, "caffeine concentration"
    ):
        assert quantities.parse_quantity(text, "mass_concentration").value > 2_000_000


def test_planted_impossible_growth_is_about_ten_doublings_or_a_thousandfold_loss_of_cells():
    culture = liquid(**{"HeLa cells_concentration": "300000 cells/mL"})
    found = collect_properties(
        plant_errors(OBVIOUS, "cells_in_no_time", case("Incubate", (culture,))), 0, "HeLa cells concentration"
    )
    # 300000 x 1024 = 3.07e8 and 300000 / 1024 = 293, to one or two digits
    assert {"3e8 cells/mL", "290 cells/mL"} <= found | {"290 cells/mL"}
    numbers = [quantities.parse_quantity(text, "number_density").value for text in found]
    assert all(number > 300_000 * 900 or number < 300_000 / 900 for number in numbers)


def test_planted_return_of_a_used_up_material_restores_its_previous_properties():
    gone = NewMaterial("Stock", {"phase": "liquid", "volume": "0 µL"}, NOT_AVAILABLE, replaces=SAMPLE)
    back = plant_errors(OBVIOUS, "consumed_comes_back", case("Dilute", (gone,)))[0].outcome.new_materials[0]
    assert back.properties == {"phase": "liquid", "volume": "1 mL"}
    assert back.available_for_use == "available_for_further_use"


def test_planted_wet_after_drying_has_the_words_of_a_sample_that_was_dried_too_short():
    # Half of the 1 mL before the step.
    assert collect_values(plant_errors(OBVIOUS, "wet_after_drying", read("dry", "Stock afterwards", "visual"))) == {
        "still wet, 500 µL of liquid in it"
    }


def test_planted_share_above_all_reports_more_positive_events_than_events():
    for value in collect_values(plant_errors(OBVIOUS, "more_than_all", read("45.2 % (4520 of 10000 events)"))):
        positive, events = map(int, re.search(r"\((\d+) of (\d+)", value).groups())
        assert positive > events


def test_planted_impossible_setting_is_just_beyond_the_maximum_of_the_instrument():
    seen = (Observation("Incubate of Stock, temperature 37 °C: run completed", "instrumental"),)
    for plant in plant_errors(OBVIOUS, "impossible_setting", case("Incubate", (), seen, {"temperature": "37 °C"})):
        degrees = re.search(r"temperature ([\d.]+) °C", plant.outcome.new_observations[0].description)[1]
        # The action goes to 95 °C: 1.3 times that is 123.5 °C and three times 285 °C.
        assert Decimal("123.5") <= Decimal(degrees) <= 285


def test_measured_sample_is_never_planted_as_still_available_even_after_counting_cells():
    gone = NewMaterial("Stock", {"phase": "liquid", "volume": "0 µL"}, NOT_AVAILABLE, replaces=SAMPLE)
    action, situation, outcome = case("CellCounter", (gone,))
    counter = ActionType("CellCounter", "measurement", "d", "i", "o", ())
    situation = replace(situation, catalogue=Catalogue({"CellCounter": counter}))
    assert not is_applicable(OBVIOUS, "consumed_comes_back", (action, situation, outcome))


# Subtle errors


def test_planted_dilution_slip_divides_by_the_solvent_volume_instead_of_the_total():
    # 100 µg/mL x 1 mL / 9 mL = 11.1 µg/mL where 100 x 1 / 10 = 10 is right; 11 is it to two digits
    plants = plant_errors(SUBTLE, "dilution_slip", build_dilution())
    assert collect_properties(plants, 0, "caffeine concentration") == {"11 µg/mL"}
    assert plants[0].field == "new_materials[0].properties.caffeine concentration"
    assert "11 µg/mL" in plants[0].explanation and "10 µg/mL" in plants[0].explanation


def test_planted_dilution_slip_does_not_apply_if_it_is_obvious_or_equal_to_rounding():
    # 1 mL and 0.5 mL of water: 100 x 1 / 0.5 = 200 µg/mL would be more than the stock had, which is an obvious error
    weak = liquid(volume="1.5 mL", caffeine_concentration="66.7 µg/mL", derived_from=(SOLVENT,))
    # 1 mL in 100 mL: 1 µg/mL, and 1.01 for the slip, which is indistinguishable from rounding
    weaker = replace(weak, properties={**weak.properties, "volume": "100 mL", "caffeine concentration": "1 µg/mL"})
    assert not any(is_applicable(SUBTLE, "dilution_slip", case("Dilute", (draft,))) for draft in (weak, weaker))


def test_planted_tenfold_error_is_a_tenth_or_ten_times_the_concentration():
    found = collect_properties(plant_errors(OBVIOUS, "off_by_ten", build_dilution()), 0, "caffeine concentration")
    assert found == {"1 µg/mL", "100 µg/mL"}


def test_planted_concentration_errors_do_not_apply_to_steps_with_a_reaction():
    made = liquid(volume="1 mL", caffeine_concentration="100 µg/mL")
    for perturbation, kind in ((OBVIOUS, "off_by_ten"), (SUBTLE, "concentration_slip")):
        assert is_applicable(perturbation, kind, case("Dilute", (made,)))
        assert not is_applicable(perturbation, kind, case("Thermocycler", (made,)))


def test_planted_unreduced_volume_of_a_source_is_the_volume_before_the_step():
    assert collect_properties(plant_errors(SUBTLE, "residual_not_reduced", build_dilution()), 1, "volume") == {"900 mL"}


def test_planted_ignored_addition_shows_the_volume_before_the_step():
    assert collect_properties(plant_errors(SUBTLE, "addition_ignored", build_dilution()), 0, "volume") == {"1 mL"}


def test_planted_portion_slip_is_off_by_a_fraction_of_the_moved_volume():
    # 9 mL were added to 1 mL: a half, a quarter, a fifth, a tenth of 9 mL more or less than 10 mL, to a digit or two
    # 5.5 and 14.5, 7.75 and 12.25, 8.2 and 11.8, 9.1 and 10.9
    found = collect_properties(plant_errors(SUBTLE, "portion_slip", build_dilution()), 0, "volume")
    assert found == {"5.5 mL", "14.5 mL", "7.8 mL", "12.2 mL", "8.2 mL", "12 mL", "9 mL", "11 mL"}


def test_planted_gain_of_volume_applies_only_to_steps_that_move_nothing():
    kept = liquid(volume="1.5 mL")
    action, situation, outcome = case("Mix", (kept,))
    situation.inventory[SAMPLE].properties["volume"] = "1.5 mL"
    found = {
        volume(text)
        for text in collect_properties(plant_errors(SUBTLE, "volume_gained", (action, situation, outcome)), 0, "volume")
    }
    assert found and all(1500 / Decimal("1.7") < each < 1500 * Decimal("1.7") and each != 1500 for each in found)
    assert not is_applicable(SUBTLE, "volume_gained", build_dilution())


def test_planted_gain_of_volume_is_never_a_loss_in_steps_during_which_liquid_could_evaporate():
    plants = plant_errors(SUBTLE, "volume_gained", case("Incubate", (liquid(volume="1 mL"),)))
    assert all(volume(text) > 1000 for text in collect_properties(plants, 0, "volume"))


def test_planted_swaps_exchange_the_concentrations_of_two_solutes_or_two_samples():
    one = liquid(calcium_concentration="2 mM", sodium_concentration="140 mM")
    other = liquid("Other", replaces="", calcium_concentration="8 mM")
    plant = plant_errors(SUBTLE, "swapped_solutes", case("Dilute", (one,)))[0]
    assert plant.outcome.new_materials[0].properties == {
        "phase": "liquid", "calcium concentration": "140 mM", "sodium concentration": "2 mM",
    }  # fmt: skip
    for plant in plant_errors(SUBTLE, "swapped_samples", case("Dilute", (one, other))):
        assert [draft.properties["calcium concentration"] for draft in plant.outcome.new_materials] == ["8 mM", "2 mM"]


def test_planted_swap_of_identities_contradicts_the_material_names():
    fins = [NewMaterial(f"Fin {n}", {"phase": "tissue", "fish": f"progeny {n}, tank {n}"}) for n in (1, 2)]
    for plant in plant_errors(SUBTLE, "swapped_identities", case("Dilute", fins)):
        assert [draft.properties["fish"][:9] for draft in plant.outcome.new_materials] == ["progeny 2", "progeny 1"]


def microscope(*places):
    seen = tuple(Observation(f"UseMicroscope of {name}, objective 10x: image", "instrumental") for name in places)
    return case("UseMicroscope", (), seen, {"objective": "10x"})


def test_planted_wrong_objective_is_the_same_in_every_record_of_the_step():
    for plant in plant_errors(SUBTLE, "wrong_objective", microscope("Stock", "Water")):
        named = {re.search(r"objective (\d+x)", one.description)[1] for one in plant.outcome.new_observations}
        assert len(named) == 1 and named < {"4x", "20x"}


def test_planted_wrong_setting_needs_an_action_that_states_the_right_one():
    action, situation, outcome = microscope("Stock")
    assert is_applicable(SUBTLE, "wrong_objective", (action, situation, outcome))
    assert not is_applicable(SUBTLE, "wrong_objective", (replace(action, parameters={}), situation, outcome))


def test_planted_wrong_temperature_is_not_confused_with_an_equal_setting_of_another_parameter():
    warm = replace(HEAT, name="lid_temperature", maximum="110 °C")
    cycler = ActionType("Incubate", "transformation", "d", "i", "o", (HEAT, warm), echo=("temperature",))
    seen = (Observation("Incubate of Stock, temperature 58 °C: run completed", "instrumental"),)
    action, situation, outcome = case("Incubate", (), seen, {"temperature": "58 °C", "lid_temperature": "58 °C"})
    situation = replace(situation, catalogue=Catalogue({"Incubate": cycler}))
    for plant in plant_errors(SUBTLE, "wrong_temperature", (action, situation, outcome)):
        assert plant.explanation.startswith("temperature was set to 58 °C")


def test_planted_wrong_temperature_stays_within_the_allowed_range():
    plants = plant_errors(
        SUBTLE, "wrong_temperature", case("Incubate", (liquid(temperature="37 °C"),), (), {"temperature": "37C"})
    )
    for text in collect_properties(plants, 0, "temperature"):
        assert quantities.parse_quantity(text, "temperature").value != 37
        assert 4 <= quantities.parse_quantity(text, "temperature").value <= 95


def test_planted_outdated_property_has_the_value_from_before_the_step():
    assert collect_properties(
        plant_errors(SUBTLE, "stale_property", build_dilution()), 0, "caffeine concentration"
    ) == {"100 µg/mL"}


def test_planted_detachment_of_cells_does_not_apply_to_cells_in_trypsin():
    attached = NewMaterial("Stock", {"phase": "adherent culture"}, replaces=SAMPLE)
    action, situation, outcome = case("Dilute", (attached,))
    situation.inventory[SAMPLE].properties["phase"] = "adherent culture"
    # Without a suspension in the step, the phase itself would reveal the error.
    assert not is_applicable(SUBTLE, "wrong_phase", (action, situation, outcome))
    situation.inventory[SOLVENT].properties["phase"] = "suspension"
    assert collect_properties(plant_errors(SUBTLE, "wrong_phase", (action, situation, outcome)), 0, "phase") == {
        "suspension"
    }
    loose = replace(attached, properties={**attached.properties, "trypsin concentration": "1 mg/mL"})
    assert not is_applicable(SUBTLE, "wrong_phase", (action, situation, replace(outcome, new_materials=(loose,))))


def test_planted_suspension_is_noted_as_a_liquid_only_if_its_cells_can_be_seen():
    for density, fits in (("9000000 cells/mL", False), ("20000000 cells/mL", True)):
        cells = liquid(**{"E. coli cells_concentration": density})
        cells = replace(cells, properties={**cells.properties, "phase": "suspension"})
        action, situation, outcome = case("Mix", (cells,))
        situation.inventory[SAMPLE].properties["phase"] = "suspension"
        assert is_applicable(SUBTLE, "wrong_phase", (action, situation, outcome)) is fits


def test_planted_powder_left_dry_after_adding_liquid_is_not_subtle():
    action, situation, outcome = case("Dilute", (liquid(),))
    situation.inventory[SAMPLE].properties["phase"] = "powder"
    assert not is_applicable(SUBTLE, "wrong_phase", (action, situation, outcome))


def test_planted_wrong_place_is_one_where_others_of_the_step_are():
    action, situation, outcome = case("Dilute", (liquid(condition="4C"),), parameters={"condition": "4C"})
    plants = plant_errors(SUBTLE, "wrong_place", (action, situation, outcome))
    places = {plant.outcome.new_materials[0].environmental_condition for plant in plants}
    assert places == {"room_temp"}


def test_planted_place_is_one_that_the_action_sets_or_that_harms_the_material():
    for material, kind in ((liquid(condition="4C"), ""), (liquid("Total RNA", condition="4C"), "harmful_place")):
        example = case("Dilute", (material,))
        assert not is_applicable(SUBTLE, "wrong_place", example)
        assert is_applicable(SUBTLE, "harmful_place", example) is bool(kind)


@pytest.mark.parametrize("text", ["below 12 mg/kg", "at least 30 g", "12 larvae", "10 ×"])
def test_planted_change_of_a_label_leaves_bounds_counts_and_multiples(text):
    action, situation, outcome = case("Mix", (liquid(label=text),))
    situation.inventory[SAMPLE].properties["label"] = text
    assert not is_applicable(SUBTLE, "unasked_change", (action, situation, outcome))


@pytest.mark.parametrize(("text", "least", "most"), [("20 °C", 3, 9), ("15 g", 1, 6)])
def test_planted_change_of_a_label_keeps_whole_numbers_and_moves_temperatures_by_degrees(text, least, most):
    action, situation, outcome = case("Mix", (liquid(label=text),))
    situation.inventory[SAMPLE].properties["label"] = text
    found = collect_properties(plant_errors(SUBTLE, "unasked_change", (action, situation, outcome)), 0, "label")
    # Degrees are moved by 3 to 9; 10 % to 40 % of 15 g are 1.5 to 6 g, rounded to 1 to 6.
    numbers = [int(value.split()[0]) for value in found]
    right = int(text.split()[0])
    assert numbers and all(least <= abs(number - right) <= most for number in numbers)


def test_planted_wrong_vessel_is_another_of_the_bench_that_could_hold_the_material():
    held = {"volume": "1 mL", "container": "15 mL tube", "container_capacity": "15 mL"}
    action, situation, outcome = case("Mix", (liquid(**held),))
    situation.inventory[SAMPLE].properties.update(held)
    situation.inventory[SOLVENT].properties.update({"container": "50 mL flask", "container_capacity": "50 mL"})
    for plant in plant_errors(SUBTLE, "another_vessel", (action, situation, outcome)):
        shown = plant.outcome.new_materials[0].properties
        assert (shown["container"], shown["container_capacity"]) == ("50 mL flask", "50 mL")


def test_planted_vessel_too_small_is_one_of_the_bench_with_less_than_half_the_room():
    held = {"volume": "10 mL", "container": "15 mL tube", "container_capacity": "15 mL"}
    action, situation, outcome = case("Mix", (liquid(**held),))
    situation.inventory[SOLVENT].properties.update({"container": "2 mL tube", "container_capacity": "2 mL"})
    for plant in plant_errors(OBVIOUS, "vessel_too_small", (action, situation, outcome)):
        shown = plant.outcome.new_materials[0].properties
        assert (shown["container"], shown["container_capacity"]) == ("2 mL tube", "2 mL")


def test_planted_wrong_reading_deviates_by_a_tenth_to_two_fifths():
    for value in collect_values(plant_errors(SUBTLE, "reading_off", build_measurement())):
        # 1.002 mL and 998 µL are within 2 µL of 1 mL.
        assert all(97 < abs(volume(part) - 1000) < 403 for part in value.split(", "))


def test_planted_wrong_reading_of_a_balance_keeps_the_difference_between_replicates():
    portion = NewMaterial("Stock", {"phase": "powder", "mass": "301.2 mg"}, replaces=SAMPLE)
    seen = (Observation("MeasureWeight of Stock, balance analytical: mass", "quantitative", "0.3010 g, 0.3011 g"),)
    for value in collect_values(plant_errors(SUBTLE, "reading_off", case("MeasureVolume", (portion,), seen))):
        first, second = (Decimal(part.split()[0]) for part in value.split(", "))
        assert second - first == Decimal("0.0001") and re.fullmatch(r"0\.\d{4} g, 0\.\d{4} g", value)


def test_planted_swap_of_readings_applies_only_to_samples_known_to_differ():
    drafts = [
        liquid(f"Standard {i}", replaces="", caffeine_concentration=f"{c} µg/mL") for i, c in ((1, 5), (2, 50), (3, 5))
    ]
    seen = [
        Observation(f"HPLC of Standard {i}: caffeine peak area", "quantitative", v)
        for i, v in ((1, "10"), (2, "99"), (3, "11"))
    ]
    for plant in plant_errors(SUBTLE, "swapped_readings", case("MeasureVolume", drafts, seen)):
        assert [one.value for one in plant.outcome.new_observations] in (["99", "10", "11"], ["10", "11", "99"])


def test_planted_swap_of_readings_needs_two_numbers_and_one_reading_of_each_sample():
    drafts = [liquid(f"Standard {i}", replaces="", caffeine_concentration=f"{c} µg/mL") for i, c in ((1, 5), (2, 50))]
    first, second = (f"HPLC of Standard {i}: caffeine peak area" for i in (1, 2))
    for values, further, fits in (
        (("16", "10"), (), True),
        (("not detected", "10"), (), False),
        (("16", "10"), ("HPLC of Standard 2: caffeine peak height",), False),
    ):
        pairs = [*zip((first, second), values, strict=True), *((description, "7") for description in further)]
        seen = [Observation(description, "quantitative", value) for description, value in pairs]
        assert is_applicable(SUBTLE, "swapped_readings", case("MeasureVolume", drafts, seen)) is fits


def test_planted_swap_of_readings_exchanges_ladder_and_lane():
    lanes = [
        Observation("Gel lane of PCR 1", "visual", "no band"),
        Observation("Gel lane of DNA ladder", "visual", "ladder"),
    ]
    plant = plant_errors(SUBTLE, "swapped_readings", case("MeasureVolume", (), lanes))[0]
    assert [one.value for one in plant.outcome.new_observations] == ["ladder", "no band"]


def test_planted_odd_replicate_of_a_percentage_does_not_exceed_the_whole():
    for value in collect_values(plant_errors(SUBTLE, "replicate_off", read("95 %, 96 %"))):
        assert all(Decimal(part.removesuffix(" %")) <= 100 for part in value.split(", "))


def test_planted_odd_replicate_of_a_ph_or_temperature_is_at_a_distance():
    for text, name, most in (("7.02, 6.98", "pH", "0.95"), ("20.1 °C, 20.0 °C", "temperature", "9.2")):
        example = read(text, f"Reading of Stock: {name}")
        for value in collect_values(plant_errors(SUBTLE, "replicate_off", example)):
            first, second = (Decimal(part.removesuffix(" °C")) for part in value.split(", "))
            assert Decimal("0.2") < abs(first - second) < Decimal(most)


def test_planted_wrong_share_contradicts_the_count_beside_it():
    for value in collect_values(plant_errors(SUBTLE, "share_and_count", read("2 % (200 of 10000 events)"))):
        percent, positive = re.match(r"([\d.]+) % \((\d+) of", value).groups()
        assert Decimal(percent) * 100 != int(positive) and Decimal(percent) <= 100


# The injector


def test_injector_does_not_change_a_number_that_a_reading_of_the_step_repeats():
    kept = liquid(pH="7.37", volume="100 mL")
    example = case("Mix", (kept,), (Observation("AdjustpH of Stock: pH", "quantitative", "7.37"),))
    example[1].inventory[SAMPLE].properties["pH"] = "7.37"
    assert not is_applicable(SUBTLE, "unasked_change", example)
    assert not is_applicable(OBVIOUS, "beyond_the_instrument", example)
    assert is_applicable(OBVIOUS, "matter_vanishes", example)
    weighed = case("Mix", (kept,), (Observation("MeasureVolume of Stock", "quantitative", "100.2 mL"),))
    assert not is_applicable(OBVIOUS, "matter_vanishes", weighed)


def test_style_matching_gives_equal_weight_to_errors_that_lengthen_and_shorten_the_text():
    # three make it longer and one shorter: a half of all is 1/4 each and 1/4 of the rest goes to the one that changes nothing
    shares = balance_shares([1, 1, 1, 1, 1], [(1,), (1,), (1,), (-1,), (0,)])
    assert sum(shares[:3]) == pytest.approx(shares[3])
    assert sum(shares) == pytest.approx(1)
    # 3 and 1 meet at sqrt(3 x 1) each; the last keeps its 1
    assert shares[4] == pytest.approx(1 / (1 + 2 * 3**0.5))


def test_style_matching_drops_errors_that_change_style_in_one_direction_unless_all_do():
    assert balance_shares([1, 1], [(1, 0), (0, 0)])[0] < 0.001
    assert balance_shares([1, 3], [(1, 0), (1, 1)])[0] > 0.99
    assert balance_shares([1, 3], [(1, 0), (1, 0)]) == pytest.approx([0.25, 0.75])


def test_injector_uses_only_units_that_occur_in_the_step():
    # more than the 901 mL that went in is written in litres
    action, situation, outcome = build_dilution()
    assert all(
        text.endswith(" L")
        for text in collect_properties(plant_errors(OBVIOUS, "matter_from_nothing", build_dilution()), 0, "volume")
    )
    assert not is_applicable(OBVIOUS, "matter_from_nothing", (action, situation, outcome))
    situation.inventory[SOLVENT].properties["container_capacity"] = "1 L"
    assert is_applicable(OBVIOUS, "matter_from_nothing", (action, situation, outcome))


@pytest.mark.parametrize("perturbation", BOTH)
@pytest.mark.parametrize(
    "outcome",
    [Outcome.make_rejected("no"), Outcome(success=True)],
    ids=["a rejected step", "a step that leaves nothing"],
)
def test_injector_raises_if_no_error_fits(perturbation, outcome):
    action, situation, _ = build_dilution()
    injector = Injector(perturbation, 1)
    assert injector.list_plans(action, situation, outcome) == {}
    with pytest.raises(NoErrorFits, match=f"no {perturbation} error fits this outcome of Dilute"):
        injector.perturb_outcome(action, situation, outcome)


def test_injector_rejects_a_perturbation_of_none():
    with pytest.raises(LabError, match="allowed: obvious, subtle"):
        Injector(Perturbation.NONE, 1)


def test_injector_that_is_declared_twice_is_an_error():
    with pytest.raises(LabError, match="two injectors are named 'wrong_phase'"):
        plants(OBVIOUS, "no rule", name="wrong_phase")(lambda case, rng: iter(()))


def test_injector_result_depends_on_the_seed_only():
    action, situation, outcome = build_dilution()
    results = [Injector(SUBTLE, seed).perturb_outcome(action, situation, outcome) for seed in range(12)]
    again = [Injector(SUBTLE, seed).perturb_outcome(action, situation, outcome) for seed in range(12)]
    assert results == again
    assert len({result.kind for result in results}) > 1


def test_injector_leaves_the_correct_outcome_unchanged():
    action, situation, outcome = build_dilution()
    before = (action.to_json(), situation.inventory.to_json(), outcome.to_json())
    for perturbation in BOTH:
        Injector(perturbation, 3).perturb_outcome(action, situation, outcome)
    assert (action.to_json(), situation.inventory.to_json(), outcome.to_json()) == before


def test_planted_count_of_animal_cells_is_more_than_a_millilitre_has_room_for():
    example = read("212000 cells/mL, 209000 cells/mL", "CellCounter of Stock: density of HEK293T cells")
    for value in collect_values(plant_errors(OBVIOUS, "beyond_the_instrument", example)):
        # Half a picolitre each: two thousand million fill a millilitre.
        assert all(float(part.split()[0]) > 2 * 10**9 for part in value.split(", "))
