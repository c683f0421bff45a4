"""Times that a record states: a total, a clock, a list of events or the time since a treatment follows from the settings."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def codes(line):
    return {finding.code for finding in check_transition(line).error_findings}


def record(action, parameters, description, value, samples=1):
    materials = [build_material(f"Sample {n}", {"volume": "8 mL"}) for n in range(1, samples + 1)]
    return build_transition(action, parameters, materials, materials, [build_observation(description, value)])


# There and back 2 x 0.8 V at 0.1 V/s are 16 s; five cycles 80 s.
SWEEP = {
    "start_potential": "-200 mV",
    "vertex_potential": "0.6 V",
    "end_potential": "-0.2 V",
    "scan_rate": "100 mV/s",
    "cycles": 5,
}
# Two samples, three injections of 12 min and 5 min of equilibration: at least 6 x 12 + 5 x 5 = 97 min.
SEQUENCE = {"run_time": "12 min", "equilibration_time": "5 min", "replicate_injections": 3}
# 35 x (15 + 20 + 30 s) + 180 + 300 s = 2755 s, without the time for heating and cooling.
PCR = {"cycles": 35, "denaturation_time": "15 s", "annealing_time": "20 s", "extension_time": "30 s", "initial_denaturation_time": "3 min", "final_extension_time": "5 min"}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "parameters", "description", "right", "wrong"),
    [
        ("CyclicVoltammetry", SWEEP, "total sweep time, 5 cycles", "80 s", "108 s"),
        ("CyclicVoltammetry", SWEEP, "tiempo de barrido (5 ciclos)", "80 s", "40 s"),
        ("CyclicVoltammetry", SWEEP, "Voltammogram", "all five cycles took 1.33 min", "all five cycles took 2.5 min"),
        ("HPLC", SEQUENCE, "Sequence log", "Started: 10:05; ended: 11:47", "Started: 10:05; ended: 11:17"),
        ("HPLC", SEQUENCE, "run log", "on at 09:00, last vial off at 10:42", "on at 09:00, last vial off at 09:50"),
        ("HPLC", SEQUENCE, "total sequence time", "102 min", "60 min"),
        ("Thermocycler", PCR, "total run time", "1 h 25 min", "20 min"),
        ("Thermocycler", PCR, "log", "start 14:00, finished 15:20", "start 14:00, finished 14:20"),
        ("DryingOven", {"temperature": "105 °C", "duration": "2 h"}, "oven", "in 14:00, out 16:05", "in 14:00, out 15:00"),
        ("DryingOven", {"temperature": "105 °C", "duration": "6 h"}, "Ofen", "von 9:00 bis 15:10", "von 9:00 bis 12:00"),
        ("Incubate", {"temperature": "37 °C", "duration": "3 h"}, "log", "t=0 s: start; t=10800 s: complete", "t=0 s: start; t=600 s: complete"),
        ("Lyophilize", {"duration": "24 h"}, "log", "2024-03-04 16:00 vacuum on; 2024-03-05 16:10 vacuum off", "2024-03-04 16:00 vacuum on; 2024-03-05 04:10 vacuum off"),
        ("qPCR", {"cycles": 40, "denaturation_time": "15 s", "annealing_time": "60 s"}, "run duration", "1 h 20 min", "12 min"),
        ("Incubate", {"temperature": "37 °C", "duration": "16 h"}, "log", "17:00 - 09:00", "17:00 - 02:00"),
    ],
)  # fmt: skip
def test_recorded_time_is_not_shorter_than_the_settings(action, parameters, description, right, wrong):
    samples = 2 if action == "HPLC" else 1
    assert "L13" not in codes(record(action, parameters, description, right, samples))
    assert "L13" in codes(record(action, parameters, description, wrong, samples))


def test_recording_ends_after_its_last_pulse_and_has_as_many_frames():
    # The tenth pulse comes at 30 + 9 x 20 = 210 s; 180 s at 100 ms are 1800 frames.
    setting = {
        "stimulation_pulses": 10,
        "stimulation_interval": "20 s",
        "stimulation_at": "30 s",
        "frame_interval": "100 ms",
    }
    enough, short = {**setting, "record_for": "240 s"}, {**setting, "record_for": "180 s"}
    assert codes(record("UseMicroscope", enough, "Responses", "10 of 10 pulses")) == set()
    assert codes(record("UseMicroscope", short, "Responses", "10 of 10 pulses")) == {"L16"}
    assert codes(record("UseMicroscope", short, "Stack", "1800 frames saved")) == set()
    assert codes(record("UseMicroscope", short, "Stack", "900 frames saved")) == {"L16"}
    assert codes(record("UseMicroscope", short, "Stack", {"frames": 900})) == {"L16"}


@pytest.mark.parametrize(("age", "expected"), [("36 h", set()), ("37 h", set()), ("48 h", {"L13"})])
def test_time_since_a_treatment_follows_the_clock(age, expected):
    # 133,200 s - 3600 s = 36 h
    properties = {"medium": "2 mL", "temperature": "37 °C", "CO2": "5 %"}
    before = build_material("HEK293T, transfected at t = 3600 s, dish 1", properties, "cell_culture_conditions")
    after = build_material(f"HEK293T, {age} after transfection, dish 1", properties, "cell_culture_conditions")
    after |= {"created_at": 3600, "last_modified": 133200}
    setting = {"duration": "36 h", "temperature": "37 °C", "carbon_dioxide": "5 %"}
    assert codes(build_transition("CellCultureIncubate", setting, [before], [after])) == expected


def test_material_is_not_changed_again_before_the_step_is_over():
    def line(moment):
        clips = build_material("Clips", {"volume": "1 mL"})
        after = clips | {"created_at": 0, "last_modified": moment}
        line = build_transition("Incubate", {"temperature": "56 °C", "duration": "3 h"}, [clips], [after])
        line["input_materials"][0]["last_modified"] = 86400
        return line

    assert "L13" not in codes(line(97200))
    assert "L13" in codes(line(87000))
