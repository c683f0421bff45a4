"""Settings that a record repeats under a word of their name, in a unit of their own or in the label of a reading."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition
from tests.support.data_files import CATALOGUE as TYPES


def codes(action, parameters, description, value, after=None):
    before = build_material("Sample K", {"volume": "5 mL"})
    output = build_material("Sample K", {"volume": "5 mL", **(after or {})})
    line = build_transition(action, parameters, [before], [output], [build_observation(description, value)])
    return {finding.code for finding in check_transition(line).error_findings}


@pytest.mark.parametrize(
    ("action", "parameters", "description", "right", "wrong"),
    [
        ("UseMicroscope", {"stimulation_power": "5 mW/mm²"}, "Series", "pulses at 5 mW/mm²", "pulses at 7 mW/mm²"),
        ("UseMicroscope", {"stimulation_power": "5 mW/mm2"}, "light dose", "5.0 mW/mm²", "12 mW/mm²"),
        ("UseMicroscope", {"stimulation_duration": "20 ms"}, "Series", "five pulses of 20 ms", "five pulses of 50 ms"),
        ("UseMicroscope", {"exposure_time": "50 ms"}, "camera", "exposure 0.05 s", "exposure 0.2 s"),
        ("AgaroseGelElectrophoresis", {"field": "5 V/cm"}, "run", "gel at 5 V/cm", "gel at 8 V/cm"),
        ("UsePhotospectrometer", {"wavelength": "590 nm"}, "Readout", "A_590 = 0.734", "A_490 = 0.734"),
        ("UsePhotospectrometer", {"wavelength": "600 nm"}, "culture", "OD600 0.42", "OD550 0.42"),
        ("UsePlateReader", {"wavelength": "562 nm"}, "Extinktion", "A562: 0.51; 0.52", "A595: 0.51; 0.52"),
        ("HPLC", {"detection_wavelength": "273 nm", "injection_volume": "10 µL"}, "log", "10 µL injected", "25 µL injected"),
        ("UsePlateReader", {"excitation_wavelength": "485 nm", "emission_wavelength": "528 nm"}, "RFU", "Ex/Em 485/528: 5210", "Ex/Em 544/590: 5210"),
        ("HPLC", {"flow_rate": "1 mL/min"}, "method printout", "flow 1.0 mL/min", "flow 0.4 mL/min"),
        ("CyclicVoltammetry", {"start_potential": "0 V", "vertex_potential": "0.8 V", "scan_rate": "50 mV/s"}, "CV", "window 0 to 0.8 V", "window 0 to 1.4 V"),
        ("Degas", {"duration": "15 min"}, "note", "sparged with argon for 15 min", "sparged with argon for 3 min"),
        ("CyclicVoltammetry", {"purge_time": "10 min"}, "cell", "purged 10 min with argon", "purged 3 min with argon"),
    ],
)  # fmt: skip
def test_record_repeats_the_setting(action, parameters, description, right, wrong):
    assert "L16" not in codes(action, parameters, description, right)
    assert "L16" in codes(action, parameters, description, wrong)


def test_heat_that_a_property_states_with_its_time_is_the_setting():
    setting = {"temperature": "121 °C", "duration": "20 min"}
    assert "L16" not in codes("Autoclave", setting, "note", "sealed", {"sterilised": "121 °C, 20 min"})
    assert "L16" in codes("Autoclave", setting, "note", "sealed", {"sterilised": "105 °C, 20 min"})


def test_object_that_cools_after_the_oven_is_below_the_setting():
    setting = {"temperature": "110 °C", "duration": "2 h"}
    assert "L16" not in codes(
        "DryingOven", setting, "balance", "not yet weighed", {"dish": "glass, ~105 °C, on a tile"}
    )
    assert "L16" not in codes(
        "DryingOven", setting, "balance", "not yet weighed", {"dish": "glass, 80 °C when taken out"}
    )
    assert "L16" in codes("DryingOven", setting, "oven", "dried for 2 h at 150 °C")


def test_default_of_a_method_that_was_not_chosen_is_no_setting():
    before, after = (
        build_material("Electrolyte", {"volume": "25.0 mL"}),
        {"volume": "24.8 mL", "loss": "vapour, p = 9.7 kPa"},
    )
    setting = {"method": "helium sparging", "duration": "15 min", "sparging_flow": "150 mL/min"}
    line = build_transition("Degas", setting, [before], [build_material("Electrolyte", after)])
    assert "L16" not in {finding.code for finding in check_transition(line, TYPES).error_findings}
