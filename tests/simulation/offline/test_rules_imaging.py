"""Microscopes, plate readers and colonies: additions stay in the sample and are read as declared."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

TRUTH = {
    "responses": [
        {"action": ["UseMicroscope", "UsePlateReader"], "component": "glutamate", "within": ["neuron cells"], "signal": "dF/F",
         "unit": "", "hill": {"bottom": "0", "top": "2", "half": "100 µM", "n": "1"}, "noise": "0"},
        {"action": "UseMicroscope", "parameter": "stimulation_power", "within": ["neuron cells"], "signal": "evoked dF/F",
         "unit": "", "slope": "0.1 per mW/mm²", "intercept": "0", "noise": "0",
         "when": {"stimulation_wavelength": {"minimum": "460 nm", "maximum": "490 nm"}}},
        {"action": "UseMicroscope", "component": "forskolin", "requires": ["ionomycin"], "within": ["neuron cells"],
         "signal": "FRET ratio", "unit": "", "slope": "0.01 per µM", "intercept": "1", "noise": "0",
         "when": {"channels": ["FRET 436/535"]}},
    ],
    "lookups": [{"action": "ImageColonies", "signal": "colour", "requires": ["blue colonies"], "values": {"agar": "blue"}}],
}  # fmt: skip
ADD = {"compound": "@glutamate", "compound_volume": "100 µL"}
RECORD = {"record_for": "60 s", "frame_interval": "100 ms"}
FRET = {"mode": "fluorescence", "channels": ["CFP 436/480", "FRET 436/535"]}


# 100 µL are delivered with a systematic error of 0.8 µL at most and a scatter of 0.3 µL (four of them): 2 %.
PIPETTE = 0.02


class ReadAs(str):
    """A reading that equals every other within the errors of a pipette."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return float(str(other)) == pytest.approx(float(str(self)), rel=PIPETTE)


@pytest.fixture
def small(lab):
    dish = {"phase": "adherent culture", "container": "35 mm dish", "volume": "900 µL"}
    return SmallLab(
        lab.catalogue,
        build_material("dish", medium="HBSS", hidden={"neuron cells": "1e5 cells/mL"}, **dish),
        build_material("other", hidden={"neuron cells": "1e5 cells/mL"}, **dish),
        build_material("full", capacity="950 µL", hidden={"neuron cells": "1e5 cells/mL"}, **dish),
        build_material(
            "well", "liquid", "100 µL", "360 µL", "well of a 96-well plate", hidden={"neuron cells": "1e5 cells/mL"}
        ),
        build_material("plate", "plate", None, "360 µL", "96-well plate"),
        build_material("bare", "liquid", container="slide"),
        build_material("glutamate", contents={"glutamate": "1 mM"}),
        build_material("ionomycin", contents={"ionomycin": "100 µM"}),
        build_material("forskolin", contents={"forskolin": "500 µM"}),
        build_material(
            "agar", "gel", None, None, "agar plate", hidden={"blue colonies": "120", "white colonies": "400"}
        ),
        build_material("bald", "gel", None, None, "agar plate"),
        truth=TRUTH,
    )


def test_microscope_measures_with_the_added_compound_which_stays_in_the_sample(small):
    step = small.run_step("UseMicroscope", "dish other glutamate", **ADD, **RECORD, compound_at="10 s")
    # 100 µL of 1 mM into 900 µL: 100 µM, half way up, and 0.5 % more per 1 % more of it
    assert [float(seen.value) for seen in step.outcome.new_observations] == [pytest.approx(1, rel=PIPETTE)] * 2
    assert small.get_property("dish", "volume") == "1 mL"
    assert small.get_property("dish", "glutamate concentration") == "100 µM"
    assert small.get_property("dish", "medium") == "HBSS + glutamate"
    assert small.get_property("glutamate", "volume") == "800 µL"
    assert step.outcome.new_materials[0].taken == {small.codes["glutamate"]: "100 µL"}


def test_microscope_reading_reflects_the_first_and_second_dose_together(small):
    small.run_step("UseMicroscope", "dish glutamate", **ADD)
    # 200 µL of 1 mM in 1100 µL: 181.8 µM, so 2 x 181.8 / 281.8 = 1.290
    assert small.read_values("UseMicroscope", "dish glutamate", **ADD) == [ReadAs("1.290")]


def test_two_compounds_are_added_in_their_order(small):
    both = {"compound": "@ionomycin", "compound_volume": "100 µL", "second_compound": "@forskolin", "second_compound_volume": "100 µL"}  # fmt: skip
    times = {"record_for": "10 min", "compound_at": "1 min", "second_compound_at": "5 min"}
    values = small.read_values("UseMicroscope", "dish ionomycin forskolin", **both, **times, **FRET)
    # no glutamate: 0; forskolin 500 µM x 100 / 1100 = 45.45 µM, so 1 + 0.4545
    assert values == ["0.000", ReadAs("1.455")]
    assert small.get_property("dish", "volume") == "1.1 mL"
    assert small.get_property("dish", "ionomycin concentration") == "9.09 µM"


def test_microscope_stimulation_gives_the_response_declared_for_its_wavelength(small):
    light = {"stimulation_power": "5 mW/mm²", "stimulation_wavelength": "470 nm", "stimulation_duration": "10 ms"}
    step = small.run_step("UseMicroscope", "dish", **light, **RECORD)
    assert [seen.value for seen in step.outcome.new_observations] == ["0.000", "0.500"]
    assert "stimulation power 5 mW/mm²" in step.outcome.new_observations[0].description
    assert small.read_values("UseMicroscope", "dish", **light | {"stimulation_wavelength": "590 nm"}) == ["0.000"]
    assert small.read_values("UseMicroscope", "dish", **light | {"stimulation_power": "0 mW/mm²"}) == ["0.000", "0.000"]


def test_microscope_recording_takes_time_per_sample(small):
    before = small.bench.elapsed
    small.run_step("UseMicroscope", "dish other glutamate", **ADD, record_for="10 min")
    assert small.bench.elapsed - before == 2 * (3 + 10) * 60


def test_plate_reader_additions_are_conserved(small):
    shine = {"mode": "fluorescence", "excitation_wavelength": "488 nm", "emission_wavelength": "525 nm"}
    # 100 µL of 1 mM to 100 µL: 500 µM, so 2 x 500 / 600
    assert small.read_values("UsePlateReader", "well glutamate", **ADD, **shine, **RECORD) == [ReadAs("1.667")]
    assert small.get_property("well", "volume") == "200 µL"
    assert small.get_property("glutamate", "volume") == "900 µL"


@pytest.mark.parametrize(
    ("keys", "parameters", "reason"),
    [
        ("dish glutamate", {"compound": "@glutamate"}, "critically unclear: compound_volume is not given; how much of the compound goes into each sample?"),
        ("dish glutamate", ADD | {"compound_at": "2 min", "record_for": "60 s"}, "too late: compound is added at 2 min, the record ends at 1 min"),
        ("dish glutamate", {"second_compound": "@glutamate", "second_compound_volume": "1 µL"}, "critically unclear: compound is not given; a second one follows a first"),
        ("dish", {"stimulation_power": "1 mW/mm²"}, "critically unclear: light stimulates with a wavelength and a power, and one is not given"),
        ("dish", {"frame_interval": "1 s"}, "too long: frame_interval is longer than the record"),
        ("dish", RECORD | {"exposure_time": "0.2 s"}, "too long: an exposure of 0.2 s does not fit between frames that are 0.1 s apart"),
        ("dish", {"mode": "fluorescence"}, "critically unclear: excitation_wavelength is not given; name channels, or both wavelengths"),
        ("full glutamate", ADD, "too small a container: 950 µL capacity, 1 mL would be in it (full)"),
        ("dish other glutamate", ADD | {"compound_volume": "600 µL"}, "short of volume: needs 600 µL, 400 µL usable in glutamate"),
        ("plate", {}, "wrong phase: plate is a whole plate; separate its wells first"),
        ("bare", {}, "no cells: there is nothing to image in bare"),
    ],
)  # fmt: skip
def test_rejected_imaging_gives_the_reason_and_changes_nothing(small, keys, parameters, reason):
    assert small.get_rejection("UseMicroscope", keys, **parameters) == reason


def test_colonies_are_counted_up_to_the_maximum_and_given_per_volume_plated(small):
    values = small.read_values("QuantifyColonies", "agar", plated_volume="100 µL", dilution_factor=1000)
    # 120 x 1000 / 0.1 mL; 400 are more than the 300 that can be told apart
    assert values == ["120", "1.2e6 per mL", "too many to count"]
    assert small.read_values("QuantifyColonies", "agar", countable_maximum=500) == ["120", "400"]
    assert small.read_values("QuantifyColonies", "bald") == [""]


def test_colony_colour_is_recorded_where_declared(small):
    assert small.read_values("ImageColonies", "agar bald") == ["blue", ""]
