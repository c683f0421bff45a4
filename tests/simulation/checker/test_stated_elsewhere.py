"""What a record states in another place, form or word is read, and is no reason for an error."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def codes(line):
    return {finding.code for finding in check_transition(line).error_findings}


def incubate(before, after, duration="72 h", condition="cell_culture_conditions"):
    """Return a transition in which a dish of neurons stays in the incubator or comes into it."""
    inputs, outputs = build_material("Dish 2", before), build_material("Dish 2", after)
    inputs["environmental_condition"], outputs["environmental_condition"] = condition, "cell_culture_conditions"
    settings = {"duration": duration, "temperature": "37 °C", "carbon_dioxide": "5 %"}
    return build_transition("CellCultureIncubate", settings, [inputs], [outputs], [])


def test_a_dish_that_stays_in_its_incubator_need_not_repeat_its_settings():
    assert codes(incubate({"volume": "2 mL"}, {"volume": "2 mL"})) == set()


def test_a_dish_must_not_lose_the_carbon_dioxide_that_it_had():
    before = {"volume": "2 mL", "temperature": "37 °C", "CO2": "5 %"}
    assert codes(incubate(before, {"volume": "2 mL", "temperature": "37 °C"})) == {"L14"}


def test_a_dish_that_comes_into_an_incubator_states_its_settings():
    assert "L14" in codes(incubate({"volume": "2 mL"}, {"volume": "2 mL"}, condition="room_temp"))


@pytest.mark.parametrize(
    ("before", "right", "wrong"),
    [
        # 72 h are 3 days: 5 + 3 = 8
        ({"DIV": "5 d"}, {"DIV": "8 d"}, {"DIV": "11 d"}),
        ({"age": "fifth day in vitro"}, {"age": "day eight in vitro"}, {"age": "day eleven in vitro"}),
        ({"age": "5th day in vitro"}, {"age": "eighth day in vitro"}, {"age": "tenth day in vitro"}),
        ([{"k": "DIV", "v": 5, "u": "d"}], [{"k": "DIV", "v": 8, "u": "d"}], [{"k": "DIV", "v": 6, "u": "d"}]),
    ],
)
def test_days_add_up_to_the_age_of_a_culture(before, right, wrong):
    def record(value):
        return {"culture": value, "volume": "2 mL"} if isinstance(value, list) else {**value, "volume": "2 mL"}

    assert codes(incubate(record(before), record(right))) == set()
    assert codes(incubate(record(before), record(wrong))) == {"L13"}


@pytest.mark.parametrize(
    ("start", "end"),
    [("t_start", "t_end"), ("entra", "sale"), ("in", "out"), ("Beginn", "Ende")],
)
def test_times_of_day_in_two_fields_are_as_far_apart_as_the_step_takes(start, end):
    # 14:20 plus 105 min is 16:05; 15:45 is 85 min.
    def stay(text):
        before, after = {"volume": "50 µL", start: "14:20"}, {"volume": "50 µL", start: "14:20", end: text}
        settings = {"duration": "105 min", "temperature": "25 °C"}
        materials = [build_material("Lysate", before)], [build_material("Lysate", after)]
        return build_transition("Incubate", settings, *materials, [])

    assert "L13" not in codes(stay("16:05"))
    assert "L13" in codes(stay("15:45"))


def test_readings_of_two_things_may_differ_tenfold():
    sample = build_material("Diluted DNA", {"volume": "50 µL"})
    after = build_material("Diluted DNA", {"volume": "46 µL"})
    settings = {"sample_volume": "2 µL", "replicates": 2, "dilution_factor": 10}
    value = "4.1 ng/µL in the tube, 41 ng/µL in the extract"
    seen = [build_observation("fluorometer", value, "quantitative")]
    assert codes(build_transition("NucleicAcidQuantification", settings, [sample], [after], seen)) == set()


def test_isolate_r2_is_no_coefficient():
    plate = build_material("Plate of isolate R2", {"volume": "200 µL"})
    seen = [build_observation("The isolate R2 wells averaged 1.26 at 590 nm.", "1.26", "quantitative")]
    line = build_transition("UsePlateReader", {"mode": "absorbance", "wavelength": "590 nm"}, [plate], [plate], seen)
    assert codes(line) == set()


def test_a_word_of_a_vessel_before_a_colon_does_not_size_the_vessel():
    # 8.0 mL x 0.25 mg/mL = 2.0 mg, in 2.0 mL 1.0 mg/mL
    def concentrate(text):
        before = build_material("tea extract, round flask: 8.0 mL, caffeine 0.25 mg/mL", {})
        after = build_material(f"tea extract, round flask: 2.0 mL, caffeine {text}", {})
        return build_transition("Evaporate", {"target_volume": "2 mL"}, [before], [after], [])

    assert codes(concentrate("1.0 mg/mL")) == set()


@pytest.mark.parametrize("salt", ["CaCl2.2H2O", "CaCl2·2H2O", "CaCl2 2H2O"])
def test_hydrates_are_the_salt(salt):
    flask = build_material(f"{salt} in volumetric flask", {"mass": "7.351 g", "flask_mark": "500 mL"})
    water = build_material("Water", {"volume": "2 L"})
    rest = build_material("Water", {"volume": "1.5 L"})
    stock = build_material("CaCl2 stock, volumetric flask", {"volume": "500 mL", "CaCl2": "100 mmol/L"})
    settings = {"solvent": "MAT-TEST0002", "total_volume": "500 mL"}
    assert "L01" not in codes(build_transition("FillToVolume", settings, [flask, water], [stock, rest], []))
