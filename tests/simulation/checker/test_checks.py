"""Single checks with their arithmetic, and what they leave undecided."""

import copy

import pytest

from simulation.checker import check
from tests.simulation.checker.bases import BASES, code, line, saw, stuff


def changed(base, **fields):
    """Return a base with properties of one of its outputs changed: out0={"volume": "1 mL"}."""
    data = copy.deepcopy(BASES[base])
    for output, properties in fields.items():
        data["outcome"]["new_materials"][int(output.removeprefix("out"))]["properties"] |= properties
    return data


def codes(data, severity="error"):
    return {finding.code for finding in check(data).findings if finding.severity == severity}


@pytest.mark.parametrize("name", sorted(BASES))
def test_checker_accepts_the_correct_bases_of_the_suite(name):
    assert check(BASES[name]).errors == ()


def test_volume_check_allows_the_error_of_a_pipette():
    # 1 mL of 10 mL moved: 9.03 mL left is 3 % of the portion off and passes, 9.2 mL is 20 % off
    assert codes(changed("transfer", out0={"volume": "9.03 mL"})) == set()
    assert "L02" in codes(changed("transfer", out0={"volume": "9.20 mL"}))


def test_dilution_finding_has_the_expected_concentration():
    # 10 mg/mL x 5 µL in 505 µL is 99 µg/mL; the volume of solvent alone would give 100, which is within rounding
    wrong = check(changed("dose", out0={"puromycin": {"concentration": "990 µg/mL"}}))
    finding = next(finding for finding in wrong.errors if finding.code == "L03")
    assert finding.expected.startswith("99.0") and finding.got == "990 µg/mL" and finding.decidable


def test_volume_checks_are_undecided_without_volumes():
    data = changed("transfer")
    for material in (*data["input_materials"], *data["outcome"]["new_materials"]):
        material["properties"].pop("volume")
    report = check(data)
    assert report.errors == ()
    assert {"L02", "L07"} <= set(report.undecided)


def test_verdict_without_any_amount_is_undecidable():
    data = line("Storage", {"condition": "4C"}, [stuff("Plate", {})], [stuff("Plate", {}, "4C")])
    assert check(data).verdict == "undecidable"


def test_failed_action_needs_a_reason():
    assert codes(BASES["refused"]) == set()
    data = copy.deepcopy(BASES["refused"])
    data["outcome"]["failure_reason"] = "N/A"
    assert codes(data) == {"L22"}


def test_verdict_ignores_warnings():
    data = copy.deepcopy(BASES["mix"])
    data["outcome"]["new_observations"][0]["description"] += " (MAT-TEST0001)"
    assert codes(data, "warning") == {"L10"}
    assert check(data).verdict == "ok"


def test_dilution_check_allows_reactions_only_of_reactive_components():
    # 1 mL of 100 mM each: half of 100 mM without a reaction
    def mixed(name, left):
        parts = [
            stuff(f"{name} solution", {"volume": "1 mL", name: "100 mM"}),
            stuff("Sodium chloride brine", {"volume": "1 mL", "sodium": "100 mM"}),
        ]
        return line("Combine", {}, parts, [stuff("Both together", {"volume": "2 mL", name: left})])

    assert codes(mixed("silver nitrate", "1 mM")) == set()
    assert "L03" in codes(mixed("glucose", "1 mM"))


def test_growth_check_allows_one_doubling_per_doubling_time():
    # 2.0e5 in 40 h at 20 h each: 8.0e5, with 15 % for counting 9.2e5
    assert codes(changed("culture", out0={"cell_density": "9.0e5 cells/mL"})) == set()
    assert codes(changed("culture", out0={"cell_density": "9.9e5 cells/mL"})) == {"L13"}


def test_observation_may_repeat_a_number_of_the_inputs():
    data = copy.deepcopy(BASES["series"])
    data["outcome"]["new_observations"] = [saw("Diluted into HEPES at pH 7.4", "done", "visual")]
    assert codes(data) == set()
    data["outcome"]["new_observations"] = [saw("The pH of the dilutions", "6.9")]
    assert "L15" in codes(data)


def test_observation_may_deny_that_something_is_visible():
    assert codes(BASES["look"]) == set()
    data = copy.deepcopy(BASES["look"])
    data["outcome"]["new_observations"][0]["description"] = "AAV particles are too small to be visible"
    assert codes(data) == set()


def test_unchanged_sample_volume_warns_unless_other_samples_lost_volume():
    both = changed("hplc", out0={"volume": "1.0 mL"}, out1={"volume": "1.0 mL"})
    assert codes(both) == set() and "L02" in codes(both, "warning")
    assert codes(changed("hplc", out0={"volume": "1.0 mL"})) == {"L02"}


def test_frozen_material_may_be_stored_but_not_pipetted():
    frozen = stuff("Primer", {"volume": "100 µL", "state": "frozen"}, "-20C")
    assert (
        codes(
            line(
                "Storage",
                {"condition": "-80C"},
                [frozen],
                [stuff("Primer", {"volume": "100 µL", "state": "frozen"}, "-80C")],
            )
        )
        == set()
    )
    portions = [stuff("Primer", {"volume": "90 µL"}), stuff("Tube with primer", {"volume": "10 µL"})]
    assert codes(line("Transfer", {"volume": "10 µL"}, [frozen, stuff("Empty tube", {})], portions)) == {"L06"}


def test_unknown_name_warns_and_a_new_reagent_is_an_error():
    data = copy.deepcopy(BASES["combine"])
    data["outcome"]["new_materials"][0]["name"] = "Florbium"
    assert codes(data) == set() and "L01" in codes(data, "warning")
    data["outcome"]["new_materials"].append(stuff("Puromycin", {}))
    assert "L01" in codes(data)


def mixed(sources, **more):
    """10 µL of coffee and 10 µL of tea into one empty well by sound."""
    inputs = [
        stuff("Coffee", {"volume": "50 µL", "caffeine_concentration": "1 mg/mL"}),
        stuff("Tea", {"volume": "50 µL", "theanine_concentration": "2 mg/mL"}),
        stuff("Empty well", {"volume": "0 µL", "container": "384-well plate well"}),
    ]
    # 10 of 20 µL are coffee: 0.5 mg/mL caffeine, and 1 mg/mL theanine
    outputs = [
        stuff("Coffee", {"volume": "40 µL", "caffeine_concentration": "1 mg/mL"}),
        stuff("Tea", {"volume": "40 µL", "theanine_concentration": "2 mg/mL"}),
        stuff(
            "Well with both",
            {
                "volume": "20 µL",
                "caffeine_concentration": "0.5 mg/mL",
                "theanine_concentration": "1 mg/mL",
                "container": "384-well plate well",
            }
            | more,
        ),
    ]
    return line("AcousticLiquidHandling", {"sources": sources, "amount": "10 µL"}, inputs, outputs)


@pytest.mark.parametrize("sources", [["MAT-TEST0001", "MAT-TEST0002"], "MAT-TEST0001, MAT-TEST0002", ["Coffee", "Tea"]])
def test_acoustic_transfer_may_have_two_sources_for_one_well(sources):
    assert codes(mixed(sources)) == set()
    # 60 µL there and 80 µL left are more than the 100 µL that went in
    assert "L02" in codes(mixed(sources, volume="60 µL"))


def diluted(**more):
    """20 µL of an antibody 1:200 into a new tube; the rest stays behind."""
    # 20 x 200 = 4000 µL: 3980 µL buffer. 50 / 200 = 0.25 µg/mL
    inputs = [
        stuff("Antibody", {"volume": "100 µL", "antibody": "50 µg/mL"}),
        stuff("Blocking buffer", {"volume": "30 mL"}),
        stuff("New tube", {"size": "5 mL"}, supply="unlimited"),
    ]
    outputs = [
        stuff("Antibody 1:200", {"volume": "4 mL", "antibody": "0.25 µg/mL"} | more),
        stuff("Antibody", {"volume": "80 µL", "antibody": "50 µg/mL"}),
        stuff("Blocking buffer", {"volume": "26.02 mL"}),
    ]
    parameters = {"sample": code(1), "solvent": code(2), "sample_volume": "20 µL", "factor": "1:200"}
    return line("Dilute", parameters, inputs, outputs)


def test_dilution_may_take_a_portion_of_its_sample():
    assert codes(diluted()) == set()
    assert "L03" in codes(diluted(antibody="0.5 µg/mL"))
    assert "L02" in codes(diluted(volume="3 mL"))


def concentrate(told):
    """1 mL of a tenfold concentrate and 9 mL of water."""
    inputs = [
        stuff("TAE concentrate", {"volume": "1 mL", "buffer": "10X TAE"}),
        stuff("Water", {"volume": "100 mL"}),
    ]
    outputs = [stuff("TAE, ready", {"volume": "10 mL", "buffer": told}), stuff("Water", {"volume": "91 mL"})]
    return line("FillToVolume", {"solvent": code(2), "final_volume": "10 mL"}, inputs, outputs)


def test_strength_is_diluted_like_a_concentration():
    # 10 x 1 / 10 = 1
    assert codes(concentrate("1X TAE")) == set()
    assert codes(concentrate("5X TAE")) >= {"L03"}


def test_precipitation_products_are_not_decided():
    inputs = [
        stuff("Brine", {"volume": "20 mL", "Cl-": "0.05 M"}),
        stuff("Silver", {"volume": "20 mL", "AgNO3": "0.1 M"}),
    ]
    outputs = [stuff("Brine with silver", {"volume": "40 mL", "excess Ag+": "25 mM"})]
    assert codes(line("Combine", {}, inputs, outputs)) == set()


def weighed(grams):
    observation = saw("Mass of the boat", grams, "instrumental")
    return line("MeasureWeight", {}, [stuff("Boat", {})], [stuff("Boat", {})], [observation])


def test_balance_may_read_one_digit_below_zero():
    assert codes(weighed("-0.0001 g")) == set()
    assert codes(weighed("-0.5000 g")) == {"L23"}
