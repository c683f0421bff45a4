"""What vessels, sorbents and instruments can take, how solids pack, and how much repeated readings need."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def codes(action, parameters, before, after, *records, name="Sample K"):
    observations = [build_observation(*record) for record in records]
    line = build_transition(
        action, parameters, [build_material(name, before)], [build_material(name, after)], observations
    )
    return {finding.code for finding in check_transition(line).error_findings}


# 20 g of 3.2 g/mL have 6.25 mL, 60 g have 18.75 mL.
@pytest.mark.parametrize(
    "density", [{"density": "3.2 g/cm3"}, {"grain density": "3.2 g/mL"}, {"Dichte": "3,2 g/cm³"}, {"rho": "3200 kg/m3"}]
)
def test_solid_fits_into_its_tube(density):
    def grind(mass):
        material = {"mass": mass, **density, "vessel": "15 mL tube"}
        return codes("Mix", {"method": "shake", "duration": "1 min"}, material, material)

    assert grind("20.0 g") == set()
    assert grind("60.0 g") == {"L05"}


def test_tapped_density_decides_before_that_of_the_grain():
    # 3.50 g at 1.7 g/mL take 2.06 mL, although the grains have only 1.09 mL.
    def powder(mass):
        material = {
            "mass": mass,
            "grain density": "3.2 g/mL",
            "tapped density": "1.7 g/mL",
            "vessel": "1.5 mL microtube",
        }
        return codes("Storage", {"condition": "room_temp"}, material, material)

    assert powder("2.00 g") == set()
    assert powder("3.50 g") == {"L05"}


def test_equal_spheres_do_not_fill_more_than_three_quarters_of_a_bed():
    # 50.0 g / 2.50 g/mL = 20.0 mL
    def bed(volume):
        glass = {"mass of beads": "50.0 g", "density": "2.50 g/mL", "bed volume": volume}
        return codes(
            "Mix", {"method": "shake", "duration": "1 min"}, glass, glass, name="Monodisperse glass beads, column bed"
        )

    assert bed("31 mL") == set()
    assert bed("22 mL") == {"L23"}


@pytest.mark.parametrize(
    ("vessel", "temperature", "expected"),
    [
        ("polystyrene weigh boat", "130 °C", {"L05"}),
        ("polystyrene weigh boat", "60 °C", set()),
        ("glass dish", "130 °C", set()),
        ("50 mL polypropylene tube", "110 °C", set()),
        ("LDPE bottle", "150 °C", {"L05"}),
    ],
)
def test_plastic_vessels_soften_in_the_oven(vessel, temperature, expected):
    material = {"net mass": "0.65 g", "vessel": vessel}
    assert codes("DryingOven", {"temperature": temperature, "duration": "2 h"}, material, material) == expected


def test_vessel_that_the_record_calls_deformed_is_no_error():
    before = {"vessel": "polystyrene weigh boat"}
    setting = {"temperature": "130 °C", "duration": "2 h"}
    assert codes("DryingOven", setting, before, before, ("Boat", "the boat is warped and partly melted")) == set()


@pytest.mark.parametrize(("cartridge", "expected"), [("500 mg, 3 mL", set()), ("30 mg, 1 mL", {"L05"})])
def test_sorbent_does_not_bind_more_than_part_of_its_mass(cartridge, expected):
    # 25 mL of 1.64 mg/mL are 41 mg.
    before = [
        build_material("Coffee", {"volume": "30 mL", "caffeine concentration": "1.64 mg/mL"}),
        build_material("Methanol", {"volume": "20 mL"}),
    ]
    after = [
        build_material("Coffee, rest", {"volume": "5 mL", "caffeine concentration": "1.64 mg/mL"}),
        build_material("Methanol, rest", {"volume": "18 mL"}),
        build_material("Extract", {"volume": "2 mL", "caffeine mass": "41 mg"}),
    ]
    setting = {
        "elution_buffer": "MAT-TEST0002",
        "cartridge": cartridge,
        "sample_volume": "25 mL",
        "elution_volume": "2 mL",
    }
    line = build_transition("SolidPhaseExtraction", setting, before, after)
    assert {f.code for f in check_transition(line).error_findings if f.code == "L05"} == expected


@pytest.mark.parametrize(("volume", "expected"), [("8 mL", set()), ("0.4 mL", {"L05"})])
def test_electrodes_need_a_volume_to_be_immersed(volume, expected):
    material = {"volume": volume, "vessel": "10 mL cell"}
    setting = {"start_potential": "0 V", "vertex_potential": "0.5 V", "scan_rate": "100 mV/s", "cycles": 1}
    assert codes("CyclicVoltammetry", setting, material, material, ("Voltammogram", "reversible")) == expected


def test_readings_need_no_more_than_there_is():
    # 3 x 20 µL = 60 µL
    setting = {"sample_volume": "20 µL", "replicates": 3}
    record = ("A562", "0.51")
    assert "L07" not in codes("TotalProteinQuantification", setting, {"volume": "75 µL"}, {"volume": "15 µL"}, record)
    assert "L07" in codes("TotalProteinQuantification", setting, {"volume": "45 µL"}, {"volume": "0 µL"}, record)


def test_readings_do_not_use_several_times_their_portions():
    # 3 x 50 µL = 150 µL of 2 mL
    setting, record = {"sample_volume": "50 µL", "replicates": 3}, ("Osmolality", "303 mOsm/kg")
    assert codes("MeasureOsmolality", setting, {"volume": "2.00 mL"}, {"volume": "1.80 mL"}, record) == set()
    assert codes("MeasureOsmolality", setting, {"volume": "2.00 mL"}, {"volume": "1.55 mL"}, record) == {"L02"}


def test_one_foreign_condition_among_values_of_the_list_is_an_error():
    def line(condition, other="4C"):
        first, second = build_material("A", {"volume": "1 mL"}, other), build_material("B", {"volume": "1 mL"}, other)
        return build_transition(
            "Mix", {"duration": "1 min"}, [first, second], [first, build_material("B", {"volume": "1 mL"}, condition)]
        )

    def found(line):
        return {finding.code for finding in check_transition(line).error_findings}

    assert found(line("4C")) == set()
    assert found(line("4 °C")) == set()
    assert found(line("refrigerated")) == {"L11"}
    # A simulator that always writes so has another spelling of the list.
    assert "L11" not in found(line("fridge", "fridge"))


@pytest.mark.parametrize(
    ("action", "device", "right", "wrong"),
    [
        ("Filter", {"filter": "centrifugal unit 0.5 mL, 30 kDa"}, "450 µL", "3 mL"),
        ("Dialysis", {"device": "cassette 0.5-3 mL"}, "2 mL", "12 mL"),
    ],
)
def test_filter_unit_and_cassette_hold_their_sample(action, device, right, wrong):
    def found(volume):
        return codes(action, {**device, "duration": "16 h"}, {"volume": volume}, {"volume": volume}) & {"L05"}

    assert found(right) == set()
    assert found(wrong) == {"L05"}


@pytest.mark.parametrize(("mass", "expected"), [("118.2205 g", set()), ("318.2205 g", {"L05"})])
def test_balance_with_a_stated_maximum(mass, expected):
    setting = {"balance": "analytical (max 220 g)"}
    assert codes("MeasureWeight", setting, {"colour": "white"}, {"colour": "white"}, ("Reading", mass)) == expected


@pytest.mark.parametrize(("force", "expected"), [("2000 x g", set()), ("9000 x g", {"L05"})])
def test_rotor_is_not_run_above_its_rating(force, expected):
    setting = {"force": force, "rotor": "swing-out, max 4500 x g", "duration": "10 min"}
    assert codes("Centrifuge", setting, {"volume": "8 mL"}, {"volume": "8 mL"}) == expected


@pytest.mark.parametrize(("volume", "expected"), [("10 mL", set()), ("100 mL", {"L05"})])
def test_culture_flask_holds_no_more_than_up_to_its_neck(volume, expected):
    flask = {"volume": volume, "container": "T25 flask"}
    assert codes("Mix", {"method": "swirl", "duration": "1 min"}, flask, flask) & {"L05"} == expected


@pytest.mark.parametrize(("left", "expected"), [("9.4 mL", set()), ("6.4 mL", {"L02"})])
def test_washes_take_their_volume_from_the_wash_buffer(left, expected):
    # 3 washes of 200 µL are 0.6 mL of 10 mL.
    before = [build_material("Beads", {"volume": "50 µL"}), build_material("PBST", {"volume": "10 mL"})]
    after = [build_material("Beads, washed", {"volume": "50 µL"}), build_material("PBST, left", {"volume": left})]
    setting = {"wash_buffer": "MAT-TEST0002", "wash_volume": "200 µL", "washes": 3}
    line = build_transition("Wash", setting, before, after)
    assert {finding.code for finding in check_transition(line).error_findings} & {"L02"} == expected
