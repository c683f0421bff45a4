"""Gels, capillaries and immunoassays: bands where they are declared, and exact reagent volumes."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

TRUTH = {
    "bands": [{"component": "amplicon", "length": "352 bp", "minimum": "10 ng"}],
    "responses": [
        {"action": "PAGE", "component": "GFP", "signal": "band at 27 kDa", "unit": "% of lane", "slope": "2 % of lane per µg/mL", "intercept": "0 % of lane",
         "noise": "0", "when": {"stain": "Coomassie blue"}},
        {"action": "CapillaryWestern", "component": "GFP", "signal": "band at 27 kDa", "unit": "area", "slope": "100 area per µg/mL",
         "intercept": "0 area", "noise": "0", "repeats": "replicates", "requires": ["anti-GFP"]},
        {"action": "CapillaryWestern", "component": "fusion", "signal": "band at 56 kDa", "unit": "area", "slope": "100 area per µg/mL",
         "intercept": "0 area", "noise": "0", "within": ["anti-GFP"]},
        {"action": "ELISA", "component": "GFP", "signal": "absorbance", "unit": "AU", "slope": "0.1 AU per µg/mL", "intercept": "0.05 AU",
         "noise": "0", "requires": ["anti-GFP"], "when": {"detection_wavelength": {"minimum": "440 nm", "maximum": "460 nm"}}},
        {"action": "qPCR", "component": "template", "signal": "threshold cycle", "unit": "cycles", "noise": "0",
         "detection_limit": "1 ng/mL",
         "log10": {"slope": "-3.32 cycles", "intercept": "30 cycles", "at": "1 µg/mL"}, "within": ["primer A", "primer B"]},
    ],
}  # fmt: skip
PCR = {"primers": ["@primer_A", "@primer_B"], "master_mix": "@mix"}


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("lysate", hidden={"GFP": "20 µg/mL", "fusion": "5 µg/mL"}),
        build_material("blank"),
        build_material("dna", hidden={"amplicon": "30 ng/µL", "template": "10 ng/µL"}, volume="50 µL"),
        build_material("ladder"),
        build_material("anti_GFP", hidden={"anti-GFP": "1 mg/mL"}, volume="100 µL"),
        build_material("anti_actin", hidden={"anti-actin": "1 mg/mL"}, volume="100 µL"),
        build_material("wash", volume="20 mL", capacity="50 mL"),
        build_material("substrate", volume="5 mL", capacity="15 mL"),
        build_material("primer_A", hidden={"primer A": "10 µM"}, volume="100 µL"),
        build_material("primer_B", hidden={"primer B": "10 µM"}, volume="100 µL"),
        build_material("mix"),
        truth=TRUTH,
    )


def do(small, action, keys, made="", **parameters):
    """Like small.do, with barcodes in lists as well."""
    written = {
        name: [small.codes[part[1:]] for part in value] if isinstance(value, list) else value
        for name, value in parameters.items()
    }
    step = small.run_step(action, keys, made, **written)
    assert step.outcome.success, step.outcome.failure_reason
    return [seen.value for seen in step.outcome.new_observations]


def test_a_polyacrylamide_gel_is_one_slab_with_a_lane_per_sample(small):
    # 2 x 20 µg/mL; the ladder's lane is recorded as a ladder
    values = do(small, "PAGE", "lysate blank ladder", "gel", ladder="@ladder", load_volume="20 µL")
    assert values == ["40 % of lane", "0 % of lane", "ladder, steps resolved"]
    assert (small.get_property("lysate", "volume"), small.get_property("ladder", "volume")) == ("980 µL", "980 µL")
    assert small["gel"].name == "Polyacrylamide gel, 12 %"
    assert small.get_property("gel", "lanes") == "1: lysate; 2: blank; 3: ladder"
    assert small.bench.history[-1].outcome.new_materials[-1].taken == {
        small.codes[key]: "20 µL" for key in ("lysate", "blank", "ladder")
    }


def test_gel_shows_dna_only_with_a_dna_stain(small):
    assert do(small, "PAGE", "dna", gel_type="TBE", stain="SYBR Gold") == [
        "one band, length not read for want of a ladder"
    ]
    assert do(small, "PAGE", "dna", gel_type="TBE", stain="silver") == [""]


def test_western_uses_antibody_by_its_dilution_and_shows_a_band_for_each_declared_protein(small):
    # 100 x 20 and 100 x 5; two capillaries of 10 µL at 1:5 take 4 µL of the antibody
    values = do(small, "CapillaryWestern", "lysate anti_GFP", primary_antibody="@anti_GFP", primary_dilution=5)
    assert values == ["2000, 2000 area", "500 area"]
    assert (small.get_property("anti_GFP", "volume"), small.get_property("lysate", "volume")) == ("96 µL", "990 µL")


def test_western_uses_at_least_the_smallest_pipette_volume_of_antibody(small):
    do(small, "CapillaryWestern", "lysate anti_GFP", primary_antibody="@anti_GFP", primary_dilution=1000)
    assert small.get_property("anti_GFP", "volume") == "99.5 µL"  # 0.02 µL would do


def test_western_with_another_antibody_does_not_show_the_protein(small):
    values = do(small, "CapillaryWestern", "lysate anti_actin", primary_antibody="@anti_actin")
    assert values == ["0, 0 area"]  # read as at zero; the second band is not declared without its antibody


def test_western_without_an_antibody_is_rejected(small):
    step = small.run_step("CapillaryWestern", "lysate")
    assert step.outcome.failure_reason.startswith("CapillaryWestern needs primary_antibody")


def test_immunoassay_in_a_plate_uses_up_some_of_every_reagent(small):
    given = {"primary_antibody": "@anti_GFP", "capture_antibody": "@anti_actin", "wash_buffer": "@wash", "substrate": "@substrate"}  # fmt: skip
    values = do(
        small, "ELISA", "lysate blank anti_GFP anti_actin wash substrate", sample_volume="50 µL", antibody_dilution=50, **given
    )  # fmt: skip
    assert values == ["2.050 AU", "0.050 AU"]  # 0.05 + 0.1 x 20
    left = {key: small.get_property(key, "volume") for key in ("lysate", "anti_GFP", "anti_actin", "wash", "substrate")}
    # 2 samples in 2 wells each: 2 x 50 µL a sample; 4 x 100 µL / 50 of each antibody; 4 wells x 2 antibodies x 3 washes of
    # 300 µL; 4 x 100 µL substrate
    assert left == {"lysate": "900 µL", "anti_GFP": "92 µL", "anti_actin": "92 µL", "wash": "12.8 mL", "substrate": "4.6 mL"}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "critically unclear: capture_antibody is not given; a sandwich starts with one on the plate"),
        ({"format": "indirect"}, "critically unclear: secondary_antibody is not given; the first antibody carries no label in an indirect assay"),
        ({"format": "direct", "sample_volume": "200 µL", "replicates": 6}, "short of volume: needs 1.2 mL, 1 mL usable in lysate"),
        ({"format": "direct", "antibody_dilution": 1}, "short of volume: needs 200 µL, 100 µL usable in anti GFP"),
    ],
)  # fmt: skip
def test_immunoassay_that_lacks_a_reagent_is_rejected(small, changes, reason):
    given = {"primary_antibody": "@anti_GFP", "wash_buffer": "@wash", "substrate": "@substrate"}
    assert small.get_rejection("ELISA", "lysate anti_GFP wash substrate", **given, **changes) == reason


def test_a_capillary_immunoassay_dilutes_its_samples(small):
    do(small, "CapillaryELISA", "lysate wash substrate", wash_buffer="@wash", diluent="@substrate", dilution_factor=5)
    # 3 x 25 µL of sample, four times as much diluent, one filling of wash buffer
    left = {key: small.get_property(key, "volume") for key in ("lysate", "substrate", "wash")}
    assert left == {"lysate": "925 µL", "substrate": "4.7 mL", "wash": "10 mL"}
    reason = small.get_rejection("CapillaryELISA", "lysate wash", wash_buffer="@wash")
    assert reason == "critically unclear: diluent is not given; samples are to be diluted 2 times"


def test_qpcr_gives_a_threshold_cycle_only_with_both_primers_and_takes_them_from_their_tubes(small):
    # 30 - 3.32 x log10(10 µg/mL) = 26.68
    assert do(small, "qPCR", "dna primer_A primer_B mix", **PCR) == ["26.68 cycles"]
    left = {key: small.get_property(key, "volume") for key in ("dna", "primer_A", "primer_B", "mix")}
    # 3 reactions: 2 µL template, 1 µL of each primer, 10 µL mix
    assert left == {"dna": "44 µL", "primer_A": "97 µL", "primer_B": "97 µL", "mix": "970 µL"}
    one = {"primers": ["@primer_A"], "master_mix": "@mix"}
    assert do(small, "qPCR", "dna primer_A mix", **one) == [""]


def test_qpcr_that_exceeds_the_reaction_volume_is_rejected(small):
    codes = {"primers": small.codes["primer_A"], "master_mix": small.codes["mix"]}
    keys = "dna primer_A mix"
    assert small.get_rejection("qPCR", keys, **codes, sample_volume="10 µL") == (
        "too much volume: 21 µL of template and reagents in a reaction of 20 µL"
    )
    assert small.get_rejection("qPCR", keys, **codes, detection="hydrolysis probe") == (
        "critically unclear: probe is not given; detection is by hydrolysis probe"
    )


def test_sequencing_uses_up_sample_and_primer_for_each_strand(small):
    do(small, "DNASequencing", "dna primer_A", primer_tube="@primer_A", primer_volume="2 µL", direction="both")
    assert (small.get_property("dna", "volume"), small.get_property("primer_A", "volume")) == ("40 µL", "96 µL")


def test_gel_rejects_more_samples_than_lanes(lab):
    many = [build_material(f"tube_{number}") for number in range(27)]
    small = SmallLab(lab.catalogue, *many)
    keys = " ".join(small.codes)
    assert small.get_rejection("PAGE", keys) == "too many samples: 27 for 26 lanes"
