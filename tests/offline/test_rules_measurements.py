"""Instruments and eyes: numbers from the state or from declared truth, with seeded noise, or none at all."""

import re

import pytest
from small_lab import SmallLab, material

TRUTH = {
    "responses": [
        {"action": "HPLC", "component": "caffeine", "signal": "peak area", "unit": "mAU·s", "slope": "50", "intercept": "0", "noise": "0",
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
        material("sample", hidden={"caffeine": "40 µg/mL"}, **vial),
        material("strong", hidden={"caffeine": "400 µg/mL"}, **vial),
        material("blank", **vial),
        material("bottle", hidden={"caffeine": "40 µg/mL"}, container="100 mL bottle"),
        material("cells", "suspension", hidden={"HeLa cells": "1e5 cells/mL", "green cells": "2.5e4 cells/mL"}),
        material("dish", "adherent culture", container="dish", hidden={"HeLa cells": "1e5 cells/mL"}),
        material("buffer", pH="7.40"),
        material("fish_a", hidden={"amplicon": "30 ng/µL", "fin": "1 mg"}, volume="50 µL"),
        material("fish_b", hidden={"amplicon": "30 ng/µL"}, volume="50 µL"),
        material("ladder", contents={"DNA ladder": "50 ng/µL"}),
        material("salt", "powder", None, mass="2.5 g"),
        material("dregs", volume=None),
        truth=TRUTH,
    )


def test_peak_areas_follow_the_declared_line_and_the_injection_volume(small):
    # 50 x 40 µg/mL = 2000 for 10 µL, twice that for 20 µL
    assert small.values("HPLC", "sample", **AT_273) == ["2000, 2000 mAU·s"]
    assert small.values("HPLC", "sample", injection_volume="20 µL", **AT_273) == ["4000, 4000 mAU·s"]
    assert small.shown("sample", "volume") == "940 µL"  # 2 x 10 and 2 x 20 µL gone


def test_below_and_above_the_range_there_is_no_number(small):
    assert small.values("HPLC", "blank strong", **AT_273) == ["not detected", "off scale, above the linear range"]


def test_at_a_wavelength_nothing_is_declared_for_the_run_is_recorded_without_a_number(small):
    step = small.do("HPLC", "sample", detection_wavelength="400 nm")
    (seen,) = step.outcome.new_observations
    assert (seen.value, seen.description) == (
        "",
        "HPLC of sample, detection wavelength 400 nm: run completed, data file recorded",
    )


def test_the_cytometer_counts_a_quarter_of_the_cells_as_green(small):
    (value,) = small.values("FlowCytometry", "cells", events=10000)
    percent, positive, events = re.fullmatch(r"([\d.]+) % \((\d+) of (\d+) events\)", value).groups()
    assert int(events) == 10000  # 200 µL of 1e5 per mL hold 20000
    assert float(percent) == int(positive) / 100
    # share 0.25: standard deviation sqrt(0.25 x 0.75 / 10000) = 0.43 %; five of them
    assert float(percent) == pytest.approx(25, abs=2.2)


def test_the_cytometer_cannot_see_more_cells_than_it_drew(small):
    (value,) = small.values("FlowCytometry", "cells", sample_volume="10 µL", events=10000)
    assert value.endswith("of 1000 events)")  # 10 µL of 1e5 per mL


def test_with_a_laser_nothing_is_declared_for_no_share_is_made_up(small):
    assert small.values("FlowCytometry", "cells", excitation_laser="640 nm") == [""]


def test_the_counter_reads_within_its_noise_and_uses_the_sample_up(small):
    (value,) = small.values("CellCounter", "cells", replicates=5)
    readings = [float(part.removesuffix(" cells/mL")) for part in value.split(", ")]
    assert len(set(readings)) > 1
    assert sum(readings) / 5 == pytest.approx(1e5, rel=0.12)  # 5 % each, 2.2 % of the mean, five of them
    assert not small["cells"].usable


def test_volume_weight_and_ph_come_from_the_books_or_not_at_all(small):
    (volume,) = small.values("MeasureVolume", "blank", replicates=1)
    assert float(volume.removesuffix(" µL").removesuffix(" mL")) in (
        pytest.approx(1000, rel=0.05),
        pytest.approx(1, rel=0.05),
    )
    (mass,) = small.values("MeasureWeight", "salt", replicates=1)
    assert float(mass.removesuffix(" g")) == pytest.approx(2.5, rel=0.001)
    (ph,) = small.values("MeasurepH", "buffer", replicates=1)
    assert float(ph) == pytest.approx(7.4, abs=0.12)
    assert small.values("MeasurepH", "blank") == [""]
    assert small.values("MeasureVolume", "dregs") == [""]
    assert small.values("MeasureWeight", "blank") == [""]


def test_bases_are_those_of_the_fish_the_dna_came_from(small):
    assert small.values("DNASequencing", "fish_a fish_b blank") == ["CAG", "TAG", "no readable signal"]


def test_dna_of_two_fish_in_one_tube_gives_a_mixed_signal(small):
    small.do("Transfer", "fish_a fish_b", source="@fish_a", amount="5 µL")
    assert small.values("DNASequencing", "fish_b") == ["mixed signal of several origins"]


def test_a_gel_shows_a_band_where_there_is_product_and_takes_the_load_from_each(small):
    step = small.do("AgaroseGelElectrophoresis", "fish_a blank ladder", "gel", ladder="@ladder")
    assert [seen.value for seen in step.outcome.new_observations] == [
        "one band at about 350 bp",
        "no band",
        "ladder, steps resolved",
    ]
    assert (small.shown("fish_a", "volume"), small.shown("gel", "phase")) == ("45 µL", "gel")
    assert small.shown("gel", "lanes") == "1: fish a; 2: blank; 3: ladder"


def test_without_a_ladder_no_length_is_read(small):
    (value,) = small.values("AgaroseGelElectrophoresis", "fish_a")
    assert "bp" not in value


def test_a_question_is_answered_where_something_declared_is_to_be_seen(small):
    values = small.values("VisualInspection", "fish_a fish_b", question="Which fins are black?")
    assert values == ["black lines", ""]
    assert small.values("VisualInspection", "fish_a", question="Which fins smell?") == [""]
    assert small.values("VisualInspection", "blank") == ["liquid, HPLC vial"]


def test_pictures_are_recorded_and_not_made_up(small):
    assert small.values("ImageSample", "sample dish") == ["", ""]
    assert small.values("UseMicroscope", "dish") == [""]


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
def test_what_does_not_fit_an_instrument_is_refused(small, action, keys, parameters, reason):
    assert small.refused(action, keys, **parameters) == reason


def test_noise_depends_on_seed_step_and_material_only(lab):
    def read(seed, first=False):
        small = SmallLab(lab.catalogue, material("water"), material("oil"), seed=seed)
        if first:
            small.do("MeasureVolume", "oil")
        return small.values("MeasureVolume", "water oil")

    assert read(1) == read(1)
    assert read(1) != read(2)
    assert read(1) != read(1, first=True)
