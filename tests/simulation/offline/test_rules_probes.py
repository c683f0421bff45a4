"""Probes and measuring cells: declared readings, else the value on the label, else only the run."""

import re

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

TRUTH = {
    "noise": {"MeasurepH": "0", "MeasureOsmolality": "0", "MeasureDensity": "0"},
    "responses": [
        {"action": "MeasurepH", "component": "acid", "signal": "pH", "unit": "", "noise": "0",
         "table": [["0 mM", "7"], ["10 mM", "4"]], "repeats": "replicates"},
        {"action": "MeasureConductivity", "component": "salt", "signal": "conductivity", "unit": "mS/cm", "slope": "0.1 mS/cm per mM",
         "intercept": "0 mS/cm", "noise": "0"},
        {"action": "CyclicVoltammetry", "parameter": "scan_rate", "requires": ["ferrocene"], "signal": "anodic peak current",
         "unit": "µA", "slope": "100 µA per V/s", "intercept": "0 µA", "noise": "0"},
        {"action": "UsePhotospectrometer", "component": "dye", "signal": "absorbance", "unit": "AU", "slope": "0.01 AU per µg/mL",
         "intercept": "0.05 AU", "noise": "0", "when": {"mode": "absorbance", "wavelength": {"minimum": "580 nm", "maximum": "600 nm"}}},
        {"action": "MeasureContactAngle", "component": "wax", "per": "fibre", "signal": "advancing angle", "unit": "°",
         "slope": "100 °", "intercept": "20 °", "noise": "0"},
    ],
}  # fmt: skip
SWEEP = {"reference_electrode": "@electrode", "start_potential": "0 V", "vertex_potential": "0.8 V"}


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("broth", hidden={"acid": "5 mM"}),
        build_material("buffer", pH="7.40", osmolality="290 mOsm/kg", density="1.02 g/mL"),
        build_material("brine", volume="10 mL", capacity="15 mL", hidden={"salt": "10 mM"}),
        build_material("ferrocene", volume="10 mL", capacity="20 mL", hidden={"ferrocene": "1 mM"}),
        build_material("electrolyte", volume="10 mL", capacity="20 mL"),
        build_material("dye", hidden={"dye": "30 µg/mL"}),
        build_material("cuvette", container="10 mm cuvette", hidden={"dye": "30 µg/mL"}),
        build_material("fibre", "solid", None, None, "rack", hidden={"wax": "1 mg", "fibre": "4 mg"}),
        build_material("electrode", "solid", None, None, "electrode body"),
        build_material("water", volume=None, capacity=None, unlimited=True),
        truth=TRUTH,
    )


def test_ph_probe_reads_the_declared_curve_or_the_stated_ph(small):
    # 5 mM lies half way from 7 to 4
    assert small.read_values("MeasurepH", "broth buffer", replicates=2, probe="micro") == ["5.50, 5.50", "7.00, 7.00"]
    small.run_step("Transfer", "buffer broth", source="@buffer", amount="500 µL")
    # 5 mM x 1 mL in 1.5 mL is 3.333 mM, a third of the way from 7 to 4
    assert small.read_values("MeasurepH", "broth", replicates=1) == ["6.00"]


def test_probes_read_the_stated_property_if_no_curve_is_declared(lab):
    small = SmallLab(
        lab.catalogue,
        build_material("buffer", pH="7.40", osmolality="290 mOsm/kg", density="1.02 g/mL"),
        build_material("plain"),
        truth={"noise": TRUTH["noise"]},
    )
    assert small.read_values("MeasurepH", "buffer plain", replicates=2) == ["7.4, 7.4", ""]
    assert small.read_values("MeasureOsmolality", "buffer plain", replicates=1) == ["290 mOsm/kg", ""]
    assert small.read_values("MeasureDensity", "buffer plain", replicates=1, sample_volume="500 µL") == [
        "1.0200 g/mL",
        "",
    ]
    # After mixing with another liquid, the label no longer applies.
    small.run_step("Transfer", "plain buffer", source="@plain", amount="100 µL")
    assert small.read_values("MeasurepH", "buffer") == [""]


def test_probe_reads_within_its_noise_and_leaves_the_sample_unchanged(lab):
    small = SmallLab(lab.catalogue, build_material("buffer", pH="7.00"))
    (value,) = small.read_values("MeasurepH", "buffer", replicates=10)
    readings = [float(part) for part in value.split(", ")]
    # 0.3 % of 7 is 0.021; five of them
    assert len(set(readings)) > 1
    assert all(abs(reading - 7) < 0.11 for reading in readings)
    assert small.get_property("buffer", "volume") == "1 mL"


def test_micro_probe_needs_less_than_the_standard_probe(small):
    assert small.get_rejection("MeasureConductivity", "broth").startswith("short of volume: needs 5 mL, 1 mL")
    assert small.read_values("MeasureConductivity", "brine") == ["1.000 mS/cm"]  # 10000 µM x 0.0001
    assert small.read_values("MeasureConductivity", "broth", probe="micro") == ["0.000 mS/cm"]


def test_freezing_point_osmometer_needs_a_larger_drop_than_vapour_pressure(small):
    reason = small.get_rejection("MeasureOsmolality", "buffer", sample_volume="10 µL")
    assert reason == "below the instrument's minimum of 20 µL: 10 µL for freezing point depression"
    small.run_step("MeasureOsmolality", "buffer", sample_volume="10 µL", method="vapour pressure")
    assert small.get_property("buffer", "volume") == "970 µL"  # 3 x 10 µL gone


def test_density_measurement_uses_up_the_sample_only_if_it_is_not_recovered(small):
    small.run_step("MeasureDensity", "buffer", sample_volume="400 µL")
    assert small.get_property("buffer", "volume") == "1 mL"
    small.run_step("MeasureDensity", "buffer", sample_volume="400 µL", recover_sample=False)
    assert small.get_property("buffer", "volume") == "600 µL"


def test_voltammetry_peak_current_follows_the_scan_rate(small):
    # 100 µA for each V/s: 20 µA at 0.2 V/s; without ferrocene the line is read at zero
    step = small.run_step("CyclicVoltammetry", "ferrocene electrolyte electrode", scan_rate="200 mV/s", **SWEEP)
    assert step.outcome.success, step.outcome.failure_reason
    assert [seen.value for seen in step.outcome.new_observations] == ["20.00 µA", "0.0000 µA"]
    assert "scan rate 200 mV/s" in step.outcome.new_observations[0].description
    assert small.get_property("ferrocene", "volume") == "10 mL"


@pytest.mark.parametrize(("end", "values"), [({}, ["-80.00 µA"]), ({"end_potential": "0.1 V"}, ["-80.00 µA"]), ({"end_potential": "0.8 V"}, [""])])  # fmt: skip
def test_sweep_returns_to_its_start_unless_another_end_is_given(lab, end, values):
    back = {"action": "CyclicVoltammetry", "component": "ferrocene", "signal": "cathodic peak current", "unit": "µA",
            "slope": "-0.08 µA per µM", "intercept": "0 µA", "noise": "0",
            "when": {"end_potential": {"maximum": "0.1 V"}}}  # fmt: skip
    small = SmallLab(
        lab.catalogue,
        build_material("ferrocene", volume="10 mL", capacity="20 mL", hidden={"ferrocene": "1 mM"}),
        build_material("electrode", "solid", None, None, "electrode body"),
        truth={"responses": [back]},
    )
    assert small.read_values("CyclicVoltammetry", "ferrocene electrode", **SWEEP, **end) == values  # 1000 µM x -0.08


def test_voltammetry_needs_two_potentials_and_an_electrode(small):
    same = SWEEP | {"vertex_potential": "0 V"}
    assert small.get_rejection("CyclicVoltammetry", "ferrocene electrode", **same).startswith("no sweep")
    wrong = SWEEP | {"reference_electrode": "@brine"}
    assert small.get_rejection("CyclicVoltammetry", "ferrocene brine", **wrong) == (
        "wrong material: reference_electrode is brine, no prepared reference electrode"
    )
    assert small.get_rejection("CyclicVoltammetry", "electrode", **SWEEP).startswith("no sample")


def test_spectrometer_reads_a_cuvette_directly_and_fills_one_from_a_tube(small):
    # 0.01 x 30 µg/mL + 0.05
    values = small.read_values("UsePhotospectrometer", "dye cuvette", wavelength="590 nm", sample_volume="400 µL")
    assert values == ["0.350 AU", "0.350 AU"]
    assert (small.get_property("dye", "volume"), small.get_property("cuvette", "volume")) == ("600 µL", "1 mL")


def test_spectrometer_at_an_undeclared_wavelength_gives_no_number(small):
    step = small.run_step("UsePhotospectrometer", "cuvette", wavelength="405 nm")
    (seen,) = step.outcome.new_observations
    assert seen.value == ""
    assert re.search(r"mode absorbance, wavelength 405 nm: run completed, data file recorded$", seen.description)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "critically unclear: wavelength is not given; absorbance is read at one"),
        (
            {"mode": "fluorescence", "excitation_wavelength": "488 nm"},
            "critically unclear: emission_wavelength is not given; fluorescence needs both wavelengths",
        ),
        (
            {"mode": "fluorescence", "excitation_wavelength": "520 nm", "emission_wavelength": "488 nm"},
            "wrong order: light is emitted at a longer wavelength than it is excited with",
        ),
    ],
)
def test_spectrometer_rejects_missing_wavelengths(small, parameters, reason):
    assert small.get_rejection("UsePhotospectrometer", "dye", **parameters) == reason


def test_contact_angle_uses_fresh_liquid_for_each_fibre(small):
    values = small.read_values(
        "MeasureContactAngle", "fibre brine", wetting_liquid="@brine", wetting_liquid_volume="2 mL", fiber_diameter="20 µm"
    )  # fmt: skip
    assert values == ["45.0 °"]  # 20 + 100 x 1 mg / 4 mg
    assert small.get_property("brine", "volume") == "8 mL"


def test_an_unlimited_supply_of_water_can_be_probed(small):
    assert small.read_values("MeasureConductivity", "water") == [""]
