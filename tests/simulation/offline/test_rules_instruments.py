"""Every measurement action: it uses exactly its load, invents no number, and rejects frozen or empty samples."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

HEATING = {"start_temperature": "50 °C", "end_temperature": "200 °C"}
ELISA = {
    "primary_antibody": "@antibody",
    "capture_antibody": "@capture",
    "wash_buffer": "@buffer",
    "substrate": "@substrate",
}
SWEEP = {"reference_electrode": "@electrode", "start_potential": "0 V", "vertex_potential": "0.8 V"}
# Action -> phase and container of the sample, parameters, and what is left of 60 mL, of 2.5 g for solids.
RUNS = {
    "HPLC": ("liquid", "HPLC vial", {}, "59.97 mL"),  # 3 x 10 µL
    "CapillaryElectrophoresis": ("liquid", "vial", {"background_electrolyte": "@buffer"}, "59.96 mL"),  # 2 x 20 µL
    "AgaroseGelElectrophoresis": ("liquid", "tube", {}, "59.995 mL"),  # 5 µL
    "PAGE": ("liquid", "tube", {}, "59.985 mL"),  # 15 µL
    "CapillaryWestern": ("liquid", "tube", {"primary_antibody": "@antibody"}, "59.99 mL"),  # 2 x 5 µL
    "MassSpectrometry": ("liquid", "tube", {}, "59.94 mL"),  # 3 x 20 µL
    "TotalProteinQuantification": ("liquid", "tube", {"reagent": "@buffer"}, "59.985 mL"),  # 3 x 5 µL
    "qPCR": ("liquid", "tube", {"primers": "@antibody", "master_mix": "@buffer"}, "59.994 mL"),  # 3 x 2 µL
    "BioLayerInterferometry": ("liquid", "tube", {"ligand": "@antibody", "buffer": "@buffer"}, "59.8 mL"),  # 200 µL
    "CapillaryELISA": ("liquid", "tube", {"wash_buffer": "@buffer", "diluent": "@substrate"}, "59.925 mL"),  # 3 x 25 µL
    "ELISA": ("liquid", "tube", ELISA, "59.8 mL"),  # 2 x 100 µL
    "DNASequencing": ("liquid", "tube", {}, "59.99 mL"),  # 10 µL
    "NucleicAcidQuantification": ("liquid", "tube", {}, "59.998 mL"),  # 2 x 1 µL
    "FlowCytometry": ("suspension", "tube", {}, "59.8 mL"),  # 200 µL
    "CountLiquidParticles": ("suspension", "tube", {}, "56 mL"),  # 3 x 1 mL, and 1 mL thrown away
    "CoulterCount": ("suspension", "tube", {"electrolyte": "@buffer"}, "59.9 mL"),  # 100 µL
    "CellCounter": ("suspension", "tube", {}, "59.98 mL"),  # 2 x 10 µL
    "MeasureOsmolality": ("liquid", "tube", {}, "59.94 mL"),  # 3 x 20 µL
    "MeasureConductivity": ("liquid", "tube", {}, "60 mL"),
    "MeasureContactAngle": ("solid", "rack", {"wetting_liquid": "@buffer", "fiber_diameter": "20 µm"}, "2.5 g"),
    "MeasureDensity": ("liquid", "tube", {}, "60 mL"),
    "MeasureDissolvedOxygen": ("liquid", "tube", {}, "60 mL"),
    "MeasurepH": ("liquid", "tube", {}, "60 mL"),
    "MeasureWeight": ("liquid", "tube", {}, "60 mL"),
    "MeasureVolume": ("liquid", "tube", {}, "60 mL"),
    "MeasureCount": ("solid", "bottle", {}, "2.5 g"),
    "MeasureSurfaceTension": ("liquid", "tube", {}, "60 mL"),
    "MeasureRefractiveIndex": ("liquid", "tube", {}, "59.64 mL"),  # 3 x 120 µL
    "MeasureViscosity": ("liquid", "tube", {}, "59.7 mL"),  # 3 x 100 µL
    "MeasureMeltingPoint": ("powder", "bottle", HEATING, "2.491 g"),  # 3 x 3 mg
    "DynamicFoamAnalysis": ("liquid", "bottle", {"sample_volume": "10 mL", "replicates": 2}, "40 mL"),  # 2 x 10 mL
    "CyclicVoltammetry": ("liquid", "beaker", SWEEP, "60 mL"),
    "ImageSample": ("liquid", "tube", {}, "60 mL"),
    "VisualInspection": ("liquid", "tube", {"question": "What does it look like?"}, "60 mL"),
    "UseMicroscope": ("adherent culture", "dish", {}, "60 mL"),
    "ImageColonies": ("gel", "agar plate", {}, None),
    "QuantifyColonies": ("gel", "agar plate", {}, None),
    "UsePhotospectrometer": ("liquid", "tube", {"wavelength": "600 nm"}, "59 mL"),  # a cuvette of 1 mL
    "UsePlateReader": ("liquid", "well of a 6-well plate", {"wavelength": "600 nm"}, "60 mL"),
}  # fmt: skip
SOLID = ("solid", "powder", "gel")
# Readings that follow from the state of the sample without any declaration.
COMPUTED = {"MeasureVolume", "CellCounter", "UseMicroscope", "CountLiquidParticles", "CoulterCount", "VisualInspection"}
NOT_REFUSED = {"MeasureWeight", "ImageSample", "VisualInspection"}


def bench(lab, phase, container, **changes):
    solid = phase in SOLID
    size = {"volume": None, "mass": "2.5 g"} if solid else {"volume": "60 mL"}
    if phase == "gel":
        size.pop("mass")
    cells = {"yeast cells": "1e6 cells/mL"} if phase in ("suspension", "adherent culture") else {}
    return SmallLab(
        lab.catalogue,
        build_material("sample", **{"phase": phase, "capacity": "100 mL", "container": container, "hidden": cells} | size | changes),
        build_material("buffer", volume="400 mL", capacity="500 mL"),
        build_material("antibody", hidden={"antibody": "1 mg/mL"}),
        build_material("capture"),
        build_material("substrate", volume="50 mL", capacity="50 mL"),
        build_material("electrode", "solid", None, None, "electrode body"),
    )  # fmt: skip


def reagents(parameters):
    return " ".join(["sample", *dict.fromkeys(v[1:] for v in parameters.values() if str(v).startswith("@"))])


def test_measurement_tests_cover_every_measurement_action(lab):
    assert set(RUNS) == {kind.name for kind in lab.catalogue.types.values() if kind.kind == "measurement"}


@pytest.mark.parametrize("action", RUNS)
def test_measurement_uses_up_exactly_the_sample_it_needs_and_invents_no_number(lab, action):
    phase, container, parameters, left = RUNS[action]
    small = bench(lab, phase, container)
    step = small.run_step(action, reagents(parameters), **parameters)
    assert step.outcome.success, step.outcome.failure_reason
    assert small.get_property("sample", "mass" if phase in SOLID else "volume") == left
    for seen in step.outcome.new_observations if action not in COMPUTED else ():
        assert (seen.value, seen.description[-8:]) == ("", "recorded")
    assert small["sample"].is_usable


@pytest.mark.parametrize("action", sorted(set(RUNS) - NOT_REFUSED))
def test_measurement_rejects_a_frozen_sample(lab, action):
    _, container, parameters, _ = RUNS[action]
    small = bench(lab, "frozen", container, condition="-20C", hidden={"yeast cells": "1e6 cells/mL"})
    assert "frozen" in small.get_rejection(action, reagents(parameters), **parameters)


@pytest.mark.parametrize("action", sorted(set(RUNS) - NOT_REFUSED))
def test_measurement_rejects_an_empty_container(lab, action):
    _, container, parameters, _ = RUNS[action]
    small = bench(lab, "empty container", container, volume=None)
    assert "empty" in small.get_rejection(action, reagents(parameters), **parameters)


@pytest.mark.parametrize(
    ("action", "container", "rule"),
    [
        ("HPLC", "flask", "the autosampler takes vials and plates"),
        ("UseMicroscope", "2 mL tube", "the stage takes plates, dishes, culture flasks and slides"),
        ("UsePlateReader", "2 mL tube", "the reader takes microplate wells"),
        ("ImageColonies", "2 mL tube", "colonies are imaged on plates and dishes of solid medium"),
        ("QuantifyColonies", "2 mL tube", "colonies are imaged on plates and dishes of solid medium"),
    ],
)
def test_measurement_rejects_a_container_of_the_wrong_format(lab, action, container, rule):
    phase, _, parameters, _ = RUNS[action]
    refused = bench(lab, phase, container).get_rejection(action, reagents(parameters), **parameters)
    assert refused == f"wrong format: sample is in {container}; {rule}"


@pytest.mark.parametrize(
    ("action", "have", "needs"),
    [
        ("HPLC", "20 µL", "30 µL"),
        ("MeasurepH", "900 µL", "1 mL"),
        ("MeasureConductivity", "4 mL", "5 mL"),
        ("MeasureDissolvedOxygen", "1 mL", "2 mL"),
        ("MeasureSurfaceTension", "40 µL", "50 µL"),
        ("MeasureDensity", "480 µL", "1 mL"),
        ("CyclicVoltammetry", "2 mL", "3 mL"),
        ("CountLiquidParticles", "3.5 mL", "4 mL"),
        ("UsePhotospectrometer", "480 µL", "1 mL"),
        ("UsePlateReader", "15 µL", "20 µL"),
        ("CellCounter", "5 µL", "20 µL"),
    ],
)
def test_measurement_rejects_too_small_a_volume_and_states_the_needed_and_the_usable_one(lab, action, have, needs):
    phase, container, parameters, _ = RUNS[action]
    refused = bench(lab, phase, container, volume=have).get_rejection(action, reagents(parameters), **parameters)
    assert refused == f"short of volume: needs {needs}, {have} usable in sample"
