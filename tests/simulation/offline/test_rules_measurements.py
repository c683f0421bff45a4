"""Instruments and inspection: numbers from the state or from declared truth with seeded noise, or none."""

import re

import pytest

from tests.support.effort import takes_under
from tests.support.laboratory_factory import SmallLab, build_material

TRUTH = {
    "responses": [
        {"action": "HPLC", "component": "caffeine", "signal": "peak area", "unit": "mAU·s", "slope": "50 mAU·s per µg/mL", "intercept": "0 mAU·s", "noise": "0",
         "detection_limit": "1 µg/mL", "upper_limit": "200 µg/mL", "repeats": "replicate_injections",
         "scales_with": {"parameter": "injection_volume", "reference": "10 µL"},
         "when": {"detector": "UV absorbance", "detection_wavelength": {"minimum": "270 nm", "maximum": "276 nm"}}}],
    "fractions": [{"action": "FlowCytometry", "signal": "GFP-positive cells", "part": "green cells", "of": "HeLa cells", "background": "0",
                   "when": {"excitation_laser": "488 nm"}}],
    "counted": ["HeLa cells"],
    "lookups": [
        {"action": "DNASequencing", "signal": "codon 113", "requires": ["amplicon"], "values": {"fish_a": "CAG", "fish_b": "TAG"}},
        {"action": "VisualInspection", "signal": "pigment", "requires": ["fin"], "about": ["black"], "values": {"fish_a": "black lines"}}],
    "bands": [{"component": "amplicon", "length": "352 bp", "minimum": "10 ng"}],
}  # fmt: skip
AT_273 = {"detection_wavelength": "273 nm", "replicate_injections": 2}


@pytest.fixture
def small(lab):
    vial = {"container": "HPLC vial"}
    return SmallLab(
        lab.catalogue,
        build_material("sample", hidden={"caffeine": "40 µg/mL"}, **vial),
        build_material("strong", hidden={"caffeine": "400 µg/mL"}, **vial),
        build_material("blank", **vial),
        build_material("bottle", hidden={"caffeine": "40 µg/mL"}, container="100 mL bottle"),
        build_material("cells", "suspension", hidden={"HeLa cells": "1e5 cells/mL", "green cells": "2.5e4 cells/mL"}),
        build_material("dish", "adherent culture", container="dish", hidden={"HeLa cells": "1e5 cells/mL"}),
        build_material("buffer", pH="7.40"),
        build_material("fish_a", hidden={"amplicon": "30 ng/µL", "fin": "1 mg"}, volume="50 µL"),
        build_material("fish_b", hidden={"amplicon": "30 ng/µL"}, volume="50 µL"),
        build_material("ladder", contents={"DNA ladder": "50 ng/µL"}),
        build_material("salt", "powder", None, mass="2.5 g"),
        build_material("dregs", volume=None),
        truth=TRUTH,
    )


def test_peak_areas_are_proportional_to_the_declared_concentration_and_the_injection_volume(small):
    # 50 x 40 µg/mL = 2000 for 10 µL, twice that for 20 µL
    assert small.read_values("HPLC", "sample", **AT_273) == ["2000.0, 2000.0 mAU·s"]
    assert small.read_values("HPLC", "sample", injection_volume="20 µL", **AT_273) == ["4000.0, 4000.0 mAU·s"]
    assert small.get_property("sample", "volume") == "940 µL"  # 2 x 10 and 2 x 20 µL gone


def test_measurement_outside_the_range_gives_no_number(small):
    assert small.read_values("HPLC", "blank strong", **AT_273) == ["not detected", "off scale, above the linear range"]


def test_hplc_at_an_undeclared_wavelength_gives_no_number(small):
    step = small.run_step("HPLC", "sample", detection_wavelength="400 nm")
    (seen,) = step.outcome.new_observations
    assert (seen.value, seen.description) == (
        "",
        "HPLC of sample, detection wavelength 400 nm: run completed, data file recorded",
    )


def test_cytometer_counts_a_quarter_of_the_cells_as_green(small):
    (value,) = small.read_values("FlowCytometry", "cells", events=10000)
    percent, positive, events = re.fullmatch(r"([\d.]+) % \((\d+) of (\d+) events\)", value).groups()
    assert int(events) == 10000  # 200 µL of 1e5 per mL hold 20000
    assert float(percent) == int(positive) / 100
    # share 0.25: standard deviation sqrt(0.25 x 0.75 / 10000) = 0.43 %; five of them
    assert float(percent) == pytest.approx(25, abs=2.2)


def test_cytometer_counts_no_more_cells_than_it_drew(small):
    (value,) = small.read_values("FlowCytometry", "cells", sample_volume="10 µL", events=10000)
    drawn = int(value.partition(" of ")[2].removesuffix(" events)"))
    # 10 µL of 1e5 per mL; the pipette is off by 0.06 µL at most, with a scatter of 0.04 µL (four of them)
    assert drawn == pytest.approx(1000, abs=22)
    assert drawn != 1000


def test_cytometer_with_an_undeclared_laser_gives_no_share(small):
    assert small.read_values("FlowCytometry", "cells", excitation_laser="640 nm") == [""]


def test_cell_counter_reads_within_its_noise_and_leaves_the_rest_of_the_sample(small):
    (value,) = small.read_values("CellCounter", "cells", replicates=5)
    readings = [float(part.removesuffix(" cells/mL")) for part in value.split(", ")]
    assert len(set(readings)) > 1
    assert sum(readings) / 5 == pytest.approx(1e5, rel=0.12)  # 5 % each, 2.2 % of the mean, five of them
    # Five readings of 10 µL each out of 1 mL; the density of the rest is the same, and so is a second count.
    assert small["cells"].is_usable
    assert small.get_property("cells", "volume") == "950 µL"
    (again,) = small.read_values("CellCounter", "cells", replicates=5)
    readings = [float(part.removesuffix(" cells/mL")) for part in again.split(", ")]
    assert sum(readings) / 5 == pytest.approx(1e5, rel=0.12)


def test_volume_weight_and_ph_are_read_from_the_simulated_state_or_not_given(small):
    (volume,) = small.read_values("MeasureVolume", "blank", replicates=1)
    assert float(volume.removesuffix(" µL").removesuffix(" mL")) in (
        pytest.approx(1000, rel=0.05),
        pytest.approx(1, rel=0.05),
    )
    (mass,) = small.read_values("MeasureWeight", "salt", replicates=1)
    assert float(mass.removesuffix(" g")) == pytest.approx(2.5, rel=0.001)
    (ph,) = small.read_values("MeasurepH", "buffer", replicates=1)
    assert float(ph) == pytest.approx(7.4, abs=0.12)
    assert small.read_values("MeasurepH", "blank") == [""]
    assert small.read_values("MeasureVolume", "dregs") == [""]
    assert small.read_values("MeasureWeight", "blank") == [""]


def test_sequencing_gives_the_bases_of_the_fish_the_dna_came_from(small):
    assert small.read_values("DNASequencing", "fish_a fish_b blank") == ["CAG", "TAG", "no readable signal"]


def test_sequencing_dna_of_two_fish_gives_a_mixed_signal(small):
    small.run_step("Transfer", "fish_a fish_b", source="@fish_a", amount="5 µL")
    assert small.read_values("DNASequencing", "fish_b") == ["mixed signal of several origins"]


def test_gel_shows_a_band_if_there_is_product_and_uses_up_the_loaded_volume_of_each_sample(small):
    step = small.run_step("AgaroseGelElectrophoresis", "fish_a blank ladder", "gel", ladder="@ladder")
    assert [seen.value for seen in step.outcome.new_observations] == [
        "one band at about 350 bp",
        "no band",
        "ladder, steps resolved",
    ]
    assert (small.get_property("fish_a", "volume"), small.get_property("gel", "phase")) == ("45 µL", "gel")
    assert small.get_property("gel", "lanes") == "1: fish a; 2: blank; 3: ladder"


def test_gel_without_a_ladder_gives_no_length(small):
    (value,) = small.read_values("AgaroseGelElectrophoresis", "fish_a")
    assert "bp" not in value


def test_visual_inspection_answers_only_questions_that_the_experiment_declares(small):
    values = small.read_values("VisualInspection", "fish_a fish_b", question="Which fins are black?")
    assert values == ["black lines", ""]
    assert small.read_values("VisualInspection", "fish_a", question="Which fins smell?") == [""]
    assert small.read_values("VisualInspection", "blank", question="What does it look like?") == ["liquid, HPLC vial"]
    step = small.run_step("VisualInspection", "blank")
    assert step.outcome.rejected_by == "catalogue", "it asks one question"


def test_images_are_recorded_without_any_content(small):
    assert small.read_values("ImageSample", "sample dish") == ["", ""]
    assert small.read_values("ImageSample", "dish") == [""]


def test_microscope_without_fluorescence_shows_what_cells_look_like(small):
    assert small.read_values("UseMicroscope", "dish") == ["cells attached and spread"]


@pytest.mark.parametrize(
    ("action", "keys", "parameters", "reason"),
    [
        ("HPLC", "bottle", {}, "wrong format: bottle is in 100 mL bottle; the autosampler takes vials and plates"),
        ("FlowCytometry", "dish", {}, "wrong phase: the cells of dish are attached; they cannot be run through a flow cell"),
        ("FlowCytometry", "blank", {}, "no cells: there is nothing to count in blank"),
        ("CellCounter", "blank", {}, "no cells: there is nothing to count in blank"),
        ("AgaroseGelElectrophoresis", "salt", {}, "wrong phase: salt is powder, which cannot be loaded"),
        ("NucleicAcidQuantification", "dregs", {}, "critically unclear: the volume of dregs is not known"),
        ("MeasurepH", "salt", {}, "wrong phase: salt is powder, which cannot be probed"),
    ],
)  # fmt: skip
def test_instruments_reject_unsuitable_samples(small, action, keys, parameters, reason):
    assert small.get_rejection(action, keys, **parameters) == reason


def test_noise_depends_on_seed_step_and_material_only(lab):
    def read(seed, first=False):
        small = SmallLab(lab.catalogue, build_material("water"), build_material("oil"), seed=seed)
        if first:
            small.run_step("MeasureVolume", "oil")
        return small.read_values("MeasureVolume", "water oil")

    assert read(1) == read(1)
    assert read(1) != read(2)
    assert read(1) != read(1, first=True)


def test_a_balance_shows_its_last_digit_and_subtracts_the_container(lab):
    crucible = build_material(
        "crucible", "solid", None, None, "filter crucible", hidden={"silver chloride": "0.2034 g"}
    )
    dish = build_material("dish", "solid", None, None, "dish", hidden={"silver chloride": "0.2034 g"})
    small = SmallLab(lab.catalogue, crucible | {"tare": "31.2045 g"}, dish)
    values = small.read_values("MeasureWeight", "crucible dish", replicates=3)
    values += small.read_values("MeasureWeight", "crucible dish", replicates=3, tare=False)
    # 31.2045 + 0.2034 = 31.4079 g; the analytical balance scatters by 0.1 mg, six of them
    for value, true in zip(values, (0.2034, 0.2034, 31.4079, None), strict=True):
        readings = re.findall(r"(\d+\.\d{4}) g", value)
        assert len(readings) == (3 if true else 0)
        assert all(abs(float(reading) - true) < 0.0006 for reading in readings)


def test_balance_rejects_an_overload(lab):
    small = SmallLab(lab.catalogue, build_material("sand", "powder", None, mass="500 g"))
    assert (
        small.get_rejection("MeasureWeight", "sand")
        == "too heavy: sand weighs 500 g, but the analytical balance takes at most 220 g"
    )
    (value,) = small.read_values("MeasureWeight", "sand", balance="bench", replicates=1)
    assert re.fullmatch(r"(499\.9[4-9]|500\.0[0-6]) g", value)  # by 10 mg


def test_mass_of_a_liquid_needs_a_density(lab):
    small = SmallLab(lab.catalogue, build_material("syrup", density="1.3 g/mL"), build_material("oil"))
    syrup, oil = small.read_values("MeasureWeight", "syrup oil", replicates=1)
    assert float(syrup.removesuffix(" g")) == pytest.approx(1.3, abs=0.0006)  # 1 mL
    assert oil == ""


def test_density_is_measured_as_mass_divided_by_volume_with_little_noise(lab):
    small = SmallLab(lab.catalogue, build_material("acid", mass="1.84 g"))
    (value,) = small.read_values("MeasureDensity", "acid", replicates=1)
    assert float(value.removesuffix(" g/mL")) == pytest.approx(1.84, rel=0.003)


def test_tablets_are_counted_by_their_mass(lab):
    tablets = build_material("tablets", "solid", None, mass="12.4 g", **{"tablet mass": "310 mg"})
    small = SmallLab(lab.catalogue, tablets, build_material("pills", "solid", None, mass="12.4 g"))
    assert small.read_values("MeasureCount", "tablets pills") == ["40", ""]  # 12.4 / 0.31


def test_particles_within_the_bounds_of_size_are_counted(lab):
    milk = build_material("milk", "suspension", "20 mL", "50 mL", hidden={"fat globules": "2e6 particles/mL", "yeast cells": "1e5 cells/mL"})  # fmt: skip
    milk["contents"]["fat globules"]["kind"] = "particles"
    salt = build_material("salt", volume="20 mL", capacity="50 mL")
    truth = {"noise": {"CoulterCount": "0"}, "retained": {"fat globules": "3 µm", "yeast cells": "6 µm"}}
    small = SmallLab(lab.catalogue, milk, salt, truth=truth)
    wide = {"electrolyte": "@salt", "size_minimum": "2 µm", "replicates": 2}
    step = small.run_step("CoulterCount", "milk salt", **wide)
    assert {(seen.description.rpartition(" of ")[2], seen.value) for seen in step.outcome.new_observations} == {
        ("fat globules", "2e6 1/mL, 2e6 1/mL"),
        ("yeast cells", "100000 cells/mL, 100000 cells/mL"),
    }
    assert (small.get_property("milk", "volume"), small.get_property("salt", "volume")) == ("19.9 mL", "10 mL")
    narrow = wide | {"size_minimum": "5 µm", "electrolyte_volume": "5 mL"}
    assert small.read_values("CoulterCount", "milk salt", **narrow) == ["100000 cells/mL, 100000 cells/mL"]
    none = narrow | {"size_minimum": "10 µm"}
    assert small.read_values("CoulterCount", "milk salt", **none) == [""]


def test_icp_reads_the_requested_elements(lab):
    truth = {"responses": [
        {"action": "MassSpectrometry", "component": "calcium", "signal": "Ca", "unit": "µg/L", "slope": "1000 µg/L per µg/mL", "intercept": "0 µg/L",
         "noise": "0", "repeats": "replicates", "when": {"ionization": "ICP", "elements": ["Ca"]}}]}  # fmt: skip
    digest = build_material("digest", volume="10 mL", capacity="15 mL", hidden={"calcium": "0.5 µg/mL"})
    small = SmallLab(lab.catalogue, digest, build_material("yttrium"), truth=truth)
    asked = {"ionization": "ICP", "elements": "Ca, P", "sample_volume": "1 mL", "replicates": 2}
    standard = {"internal_standard": "@yttrium", "internal_standard_volume": "20 µL"}
    assert small.read_values("MassSpectrometry", "digest yttrium", **asked, **standard) == ["500.00, 500.00 µg/L"]
    assert (small.get_property("digest", "volume"), small.get_property("yttrium", "volume")) == ("8 mL", "960 µL")
    assert small.read_values("MassSpectrometry", "digest", **asked | {"elements": "P"}) == [""]


@pytest.mark.parametrize(
    ("action", "parameters", "reason"),
    [
        ("MassSpectrometry", {"ionization": "ICP", "elements": "Ca"}, "below the instrument's minimum of 500 µL: 20 µL for a reading with ICP"),
        ("MassSpectrometry", {"ionization": "ICP"}, "critically unclear: elements is not given; a plasma source measures chosen elements"),
        ("MassSpectrometry", {"ionization": "MALDI"}, "critically unclear: matrix is not given; MALDI embeds each sample in one"),
        ("MassSpectrometry", {"mass_range_low": "500 m/z", "mass_range_high": "400 m/z"}, "empty range: mass_range_low is not below mass_range_high"),
        ("TotalProteinQuantification", {}, "critically unclear: reagent is not given; the Bradford assay colours the protein with one"),
        ("CountLiquidParticles", {"size_minimum": "50 µm", "size_maximum": "20 µm"}, "empty range: size_minimum is not below size_maximum"),
        ("MeasureMeltingPoint", {"start_temperature": "200 °C", "end_temperature": "100 °C"}, "empty range: start_temperature is not below end_temperature"),
        ("MeasureMeltingPoint", {}, "wrong phase: sample is liquid, which cannot be melted in a capillary"),
        ("MeasureVolume", {}, "no sample"),
    ],
)  # fmt: skip
def test_measurement_with_contradictory_settings_is_rejected(lab, action, parameters, reason):
    small = SmallLab(
        lab.catalogue, build_material("sample"), build_material("box", "empty container", None, unlimited=True)
    )
    assert small.get_rejection(action, "box" if action == "MeasureVolume" else "sample", **parameters).startswith(
        reason
    )


def test_protein_assay_reads_standards_and_draws_the_reagent(lab):
    truth = {"responses": [
        {"action": "TotalProteinQuantification", "component": "protein", "signal": "absorbance", "unit": "AU", "slope": "0.001 AU per µg/mL",
         "intercept": "0.1 AU", "noise": "0", "when": {"assay": "Bradford"}}]}  # fmt: skip
    small = SmallLab(
        lab.catalogue,
        build_material("lysate", hidden={"protein": "400 µg/mL"}),
        build_material("standard", contents={"protein": "1 mg/mL"}),
        build_material("dye", volume="5 mL", capacity="10 mL"),
        truth=truth,
    )
    # 0.1 + 0.001 x 400 and x 1000; 2 samples in 3 wells of 200 µL
    values = small.read_values(
        "TotalProteinQuantification", "lysate standard dye", reagent="@dye", standards=small.codes["standard"]
    )
    assert values == ["0.500 AU", "1.100 AU"]
    assert small.get_property("dye", "volume") == "3.8 mL"


def test_measurement_can_use_up_the_last_of_a_sample(small):
    small.run_step("DNASequencing", "fish_a", sample_volume="40 µL")
    assert small.read_values("DNASequencing", "fish_a", sample_volume="10 µL") == ["CAG"]
    assert not small["fish_a"].is_usable


def test_measurement_over_a_pellet_reads_only_the_supernatant(lab):
    truth = {
        "responses": [
            TRUTH["responses"][0]
            | {"component": "yeast cells", "slope": "0.01 mAU·s per cells/mL", "detection_limit": "1 cells/mL"}
        ]
    }
    del truth["responses"][0]["upper_limit"]
    spun = build_material(
        "spun", "pellet and supernatant", container="HPLC vial", hidden={"yeast cells": "1e5 cells/mL"}
    )
    small = SmallLab(lab.catalogue, spun, truth=truth)
    assert small.read_values("HPLC", "spun", **AT_273) == ["not detected"]


def test_visual_inspection_checks_long_questions_quickly(small):
    long = [
        "W" + "." * 298 + "?",
        "W" + "1.1" * 99 + "!",
        "Wh" + "a.a" * 98,
        "W" + "1." * 149,
        "W" * 10**6,
        "W" + "?" * 299,
    ]

    def ask_them():
        for question in long:
            assert not small.run_step("VisualInspection", "sample", question=question).outcome.success

    assert takes_under(1, ask_them)  # a pattern that backtracks would take years


@pytest.mark.parametrize(("stain", "density", "viability"), [("trypan blue", 80_000, 80), ("none", 100_000, None)])
def test_cell_counter_tells_dead_cells_from_living_ones_only_with_a_stain(lab, stain, density, viability):
    # Of 1e5 cells per mL, 20 % are dead.
    cells = {"HeLa cells": "8e4 cells/mL", "dead HeLa cells": "2e4 cells/mL"}
    truth = {"counted": ["HeLa cells"], "noise": {"CellCounter": "0"}}
    small = SmallLab(lab.catalogue, build_material("cells", "suspension", hidden=cells), truth=truth)
    step = small.run_step("CellCounter", "cells", viability_stain=stain, replicates=5, fields=50)
    values = {seen.description.rpartition(": ")[2]: seen.value for seen in step.outcome.new_observations}
    assert values["density of HeLa cells"] == ", ".join([f"{density} cells/mL"] * 5)
    if viability is None:
        assert "viability" not in values
        return
    shares = [float(part.removesuffix(" %")) for part in values["viability"].split(", ")]
    # 50 images of 0.5 µL, diluted twice, show 1250 cells: a standard deviation of 1.1 %, of five readings 0.5 %; five of them
    assert sum(shares) / 5 == pytest.approx(viability, abs=2.5)


def test_detector_voltages_are_checked_against_their_allowed_range(small):
    assert small.run_step("FlowCytometry", "cells", detector_voltages="{FSC:400 V,FL1:0.5 kV}").outcome.success
    refused = small.run_step("FlowCytometry", "cells", detector_voltages="{FSC:4000 V}").outcome.failure_reason
    assert "0 V to 1000 V" in refused


def test_components_declared_as_one_count_are_counted_together(lab):
    truth = {
        "counted": {"HeLa cells": ["bright cells", "dark cells"]},
        "noise": {"CellCounter": "0"},
        "fractions": [
            {"action": "FlowCytometry", "signal": "bright", "part": "bright cells", "of": ["bright cells", "dark cells"],
             "background": "0"}],
    }  # fmt: skip
    cells = {"bright cells": "3e5 cells/mL", "dark cells": "1e5 cells/mL"}
    small = SmallLab(lab.catalogue, build_material("cells", "suspension", hidden=cells), truth=truth)
    (value,) = small.read_values("FlowCytometry", "cells", events=10000)
    # 3 of 4, with a standard deviation of sqrt(0.75 x 0.25 / 10000) = 0.43 %; five of them
    assert float(value.partition(" %")[0]) == pytest.approx(75, abs=2.2)
    assert small.read_values("CellCounter", "cells", replicates=1) == ["400000 cells/mL"]


def test_cytometer_mixes_sediment_before_counting_unless_mixing_is_switched_off(lab):
    spun = build_material(
        "spun", "pellet and supernatant", hidden={"HeLa cells": "1e5 cells/mL", "green cells": "1e5 cells/mL"}
    )
    truth = {"fractions": [TRUTH["fractions"][0]]}
    left_alone = SmallLab(lab.catalogue, spun, truth=truth)
    assert left_alone.read_values("FlowCytometry", "spun", mix_first=False, events=100) == [""]
    assert SmallLab(lab.catalogue, spun, truth=truth).read_values("FlowCytometry", "spun", events=100) == [
        "100 % (100 of 100 events)"
    ]


def test_declared_answer_is_not_given_if_an_excluded_component_is_present(lab):
    truth = {"lookups": [
        {"action": "ImageSample", "signal": "crystals", "requires": ["salt"], "without": ["water"], "values": {"dry": "white", "wet": "white"}}]}  # fmt: skip
    dry = build_material("dry", hidden={"salt": "1 g"})
    wet = build_material("wet", hidden={"salt": "1 g", "water": "1 g"})
    assert SmallLab(lab.catalogue, dry, wet, truth=truth).read_values("ImageSample", "dry wet") == ["white", ""]
