"""Foreign spellings: the meaning of properties, amounts and parameters."""

from decimal import Decimal

import pytest

from simulation.checker.reading import linking, transition, units
from simulation.checker.reading import properties as material_view


def view_material(properties, name="Coffee", **fields):
    return material_view.build_material_view({"name": name, "properties": properties, **fields}, "here")


@pytest.mark.parametrize(
    "properties",
    [
        {"volume": "1.00 mL"},
        {"liquid_volume": "1000 µL"},
        {"vol (mL)": 1},
        {"volume_ul": 1000},
        {"volume": {"value": 1, "unit": "mL"}},
        {"media": {"volume": "1,000 uL"}},
        {"Sample Volume": "about 1 ml"},
        {"volume": "1 mL", "container_volume": "2 mL", "wash volume": "9 mL"},
        {"volumeUl": "1000"},
        {"volume": "1 mL", "liquid_volume": "1000 μL"},
    ],
)
def test_volume_is_read_in_many_spellings(properties):
    assert view_material(properties).volume.value == 1000


@pytest.mark.parametrize(
    "properties",
    [
        {"volume": 1},  # no unit anywhere
        {"volume": "1-2 mL"},
        {"volume": "200 µL per well"},
        {"volume": "some mL"},
        {"container_volume": "15 mL"},
        {"volume_added": "1 mL"},
        {"volume": "1 mL", "current_volume": "2 mL"},
        {"volume": True},
    ],
)
def test_unclear_volume_is_unknown(properties):
    assert view_material(properties).volume is None


def test_capacity_is_not_a_volume():
    view = view_material({"container": {"type": "tube", "capacity": {"value": 1.5, "unit": "mL"}}})
    assert (view.capacity.value, view.volume, view.container) == (1500, None, "tube")


@pytest.mark.parametrize(
    ("properties", "component", "value"),
    [
        ({"caffeine concentration": "1 mg/mL"}, "caffeine", 1000),
        ({"concentrations": {"caffeine": "1 mg/mL"}}, "caffeine", 1000),
        ({"caffeine_conc_mg_per_ml": 1}, "caffeine", 1000),
        ({"components": {"NaCl": {"concentration": "137 mM"}}}, "nacl", 137_000),
        ({"cell_density": "1.2 x 10^6 cells/mL"}, "cell", 1_200_000),
        ({"cells": "1.2×10⁶ cells per mL"}, "cell", 1_200_000),
        ({"concentration": "5 µM"}, "", 5),
    ],
)
def test_concentration_is_assigned_to_its_component(properties, component, value):
    assert {name: amount.value for name, amount in view_material(properties).concentrations.items()} == {
        component: value
    }


@pytest.mark.parametrize(
    "text", ["9**9**9 m", "1:10", "1.2.3 mL", "NaN mL", "inf mL", "9" * 400 + " mL", "mL", "--5 mL"]
)
def test_text_that_is_not_an_amount_is_parsed_as_none(text):
    assert units.parse_amount(text) is None


def test_text_37c_is_parsed_as_a_temperature_and_not_as_an_electric_charge():
    assert units.parse_amount("37C")[:2] == (Decimal(37), "temperature")


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ({"volume": "50 uL"}, 50),
        ({"aliquot_volume": "50 µL", "mixing_volume": "30 µL"}, 50),
        ({"transfer_volume_ul": 50}, 50),
        ({"amount": {"value": 0.05, "unit": "mL"}, "tip_volume": "200 µL"}, 50),
    ],
)
def test_moved_volume_is_found_under_any_parameter_name_that_means_it(written, moved):
    assert transition.parse_parameters(written, []).find_moved_volume().value == moved


@pytest.mark.parametrize("written", [{"final_volume": "1 mL"}, {"volume": "1 mL", "amount": "2 mL"}, {"amount": "all"}])
def test_ambiguous_volume_parameter_is_not_taken_as_the_moved_volume(written):
    assert transition.parse_parameters(written, []).find_moved_volume() is None


@pytest.mark.parametrize("written", ["1:10", "10", 10, "10x", "1/10", "10-fold", "1 in 10"])
def test_dilution_factor_is_read_in_many_spellings(written):
    assert transition.parse_parameters({"dilution_factor": written}, []).find_dilution_factor() == 10


def link_by_name(inputs, outputs, family="move"):
    before = [view_material({}, name, barcode=f"MAT-{place:08}") for place, name in enumerate(inputs)]
    return linking.link_materials(before, [view_material({}, name) for name in outputs], family)


def test_outputs_are_linked_to_inputs_by_name():
    assert link_by_name(["Coffee stock", "Empty vial A"], ["Coffee stock (residual)", "Vial A with coffee"]) == {
        0: 0,
        1: 1,
    }
    assert link_by_name(["HEK293T cells", "Puromycin"], ["HEK293T cells with puromycin", "Residual puromycin"]) == {
        0: 0,
        1: 1,
    }


def test_output_is_linked_to_no_input_if_two_inputs_fit_its_name():
    assert link_by_name(["Sample tube", "Sample tube"], ["Sample tube, mixed", "Sample tube, mixed"]) == {}


def test_output_is_linked_to_its_input_by_barcode_before_name():
    before = [view_material({}, "A cup", barcode="MAT-00000001"), view_material({}, "B cup", barcode="MAT-00000002")]
    assert linking.link_materials(before, [view_material({}, "A cup", replaces="MAT-00000002")], "move") == {0: 1}


@pytest.mark.parametrize("name", ["Stock", "Stock A", "Source", "Brewed coffee", "Original sample"])
@pytest.mark.parametrize("left", ["{}", "{} (remaining)", "Residual {}", "{}, left over"])
def test_output_described_as_the_remainder_is_linked_to_its_input_in_many_spellings(name, left):
    outputs = ["Portion 1", "Portion 2", left.format(name)]
    assert link_by_name([name], outputs) == {2: 0}


def test_output_is_linked_to_the_input_with_its_full_name_before_one_with_a_shortened_name():
    # Both names are "coffee" without words for remainders
    assert link_by_name(["Coffee", "Coffee stock"], ["Coffee stock", "Coffee"]) == {0: 1, 1: 0}


@pytest.mark.parametrize(
    ("properties", "container"),
    [
        ({"flask": "100 mL"}, "100 mL flask"),
        ({"vessel": "14 mL culture tube"}, "14 mL culture tube"),
        ({"tube": "1.5 mL", "container": "rack"}, "rack"),
        ({"medium": "LB"}, ""),
    ],
)
def test_container_is_read_from_a_key_or_its_value(properties, container):
    assert view_material(properties).container == container


@pytest.mark.parametrize(
    ("properties", "volume"),
    [
        ({"liquid": "5 mL"}, 5000),
        ({"vol_uL": 480}, 480),
        ({"well": "B2", "well volume": "300 µL", "max well volume": "360 µL"}, 300),
        ({"wells": 96, "well volume": "300 µL"}, None),  # volume of each well, full or empty
    ],
)
def test_volume_stated_for_each_well_is_not_read_as_the_volume_of_the_material(properties, volume):
    volume_read = view_material(properties).volume
    assert (volume_read.value if volume_read else None) == volume


def test_parameter_may_list_several_materials():
    before = [
        material_view.build_material_view({"name": name, "barcode": f"MAT-0000000{n}"}, f"place {n}")
        for n, name in ((1, "A"), (2, "B"))
    ]
    parsed = transition.parse_parameters({"sources": ["MAT-00000001", "MAT-00000002"]}, before)
    assert list(parsed.materials_by_key.values()) == before and parsed.find_material(transition.SOURCE) is None


@pytest.mark.parametrize(
    ("written", "number"), [(["A1", "A2", "B12"], 3), ("A1, A2", 2), (96, None), (["A1:A12"], None), (["Z9"], None)]
)
def test_wells_are_counted_in_a_list_of_wells(written, number):
    assert transition.parse_parameters({"wells": written}, []).count_wells() == number


def test_vessel_that_holds_a_volume_is_not_empty():
    assert not view_material({"phase": "empty container", "volume": "80 mL"}).is_empty_vessel
    assert view_material({"phase": "empty container", "volume": "0 mL"}).is_empty_vessel


def test_label_that_the_action_sets_is_no_evidence_of_contents():
    def read(parameters):
        new = {"name": "Puromycin medium, 8 µg/mL", "properties": {"volume": "20 mL"}}
        data = {
            "input_materials": [],
            "action": {"name": "Aliquot", "parameters": parameters},
            "outcome": {"new_materials": [new]},
        }
        return transition.parse_transition(data).outputs[0].concentrations

    assert read({"volume": "20 mL"})
    assert not read({"volume": "20 mL", "label": "Puromycin medium, 8 µg/mL"})


def test_bound_is_no_concentration():
    assert not view_material({"volume": "1 L", "water content": "below 30 ppm"}).concentrations
