"""Single checks with their arithmetic, and what they leave undecided."""

import copy
from decimal import Decimal

import pytest

from simulation.checker import check_transition
from simulation.checker.findings import Decided, compare
from tests.simulation.checker.bases import BASES, barcode_of, build_material, build_observation, build_transition


def change_base(base, **fields):
    """Return a base with properties of one of its outputs changed: out0={"volume": "1 mL"}."""
    data = copy.deepcopy(BASES[base])
    for output, properties in fields.items():
        data["outcome"]["new_materials"][int(output.removeprefix("out"))]["properties"] |= properties
    return data


def find_codes(data, severity="error"):
    return {finding.code for finding in check_transition(data).findings if finding.severity == severity}


@pytest.mark.parametrize("name", sorted(BASES))
def test_checker_accepts_every_correct_transition_from_which_the_suite_is_derived(name):
    assert check_transition(BASES[name]).error_findings == ()


def test_volume_check_allows_the_error_of_a_pipette():
    # 1 mL of 10 mL moved: 9.03 mL left is 3 % of the portion off and passes, 9.2 mL is 20 % off
    assert find_codes(change_base("transfer", out0={"volume": "9.03 mL"})) == set()
    assert "L02" in find_codes(change_base("transfer", out0={"volume": "9.20 mL"}))


def test_dilution_finding_has_the_expected_concentration():
    # 10 mg/mL x 5 µL in 505 µL is 99 µg/mL; the volume of solvent alone would give 100, which is within rounding
    wrong = check_transition(change_base("dose", out0={"puromycin": {"concentration": "990 µg/mL"}}))
    finding = next(finding for finding in wrong.error_findings if finding.code == "L03")
    assert finding.expected.startswith("99.0") and finding.got == "990 µg/mL" and finding.decidable


def test_volume_checks_are_undecided_if_no_volumes_are_stated():
    data = change_base("transfer")
    for material in (*data["input_materials"], *data["outcome"]["new_materials"]):
        material["properties"].pop("volume")
    report = check_transition(data)
    assert report.error_findings == ()
    assert {"L02", "L07"} <= set(report.undecided)


def test_verdict_on_a_transition_without_any_amount_is_undecidable():
    data = build_transition(
        "Storage", {"condition": "4C"}, [build_material("Plate", {})], [build_material("Plate", {}, "4C")]
    )
    assert check_transition(data).verdict == "undecidable"


def test_failed_action_without_a_stated_reason_is_an_error():
    assert find_codes(BASES["refused"]) == set()
    data = copy.deepcopy(BASES["refused"])
    data["outcome"]["failure_reason"] = "N/A"
    assert find_codes(data) == {"L22"}


def test_verdict_ignores_warnings():
    data = copy.deepcopy(BASES["mix"])
    data["outcome"]["new_observations"][0]["description"] += " (MAT-TEST0001)"
    assert find_codes(data, "warning") == {"L10"}
    assert check_transition(data).verdict == "ok"


def test_dilution_check_allows_reactions_only_of_reactive_components():
    # 1 mL of 100 mM each: half of 100 mM without a reaction
    def mixed(name, left):
        parts = [
            build_material(f"{name} solution", {"volume": "1 mL", name: "100 mM"}),
            build_material("Sodium chloride brine", {"volume": "1 mL", "sodium": "100 mM"}),
        ]
        return build_transition("Combine", {}, parts, [build_material("Both together", {"volume": "2 mL", name: left})])

    assert find_codes(mixed("silver nitrate", "1 mM")) == set()
    assert "L03" in find_codes(mixed("glucose", "1 mM"))


def test_growth_check_allows_one_doubling_per_doubling_time():
    # 2.0e5 in 40 h at 20 h each: 8.0e5, with 15 % for counting 9.2e5
    assert find_codes(change_base("culture", out0={"cell_density": "9.0e5 cells/mL"})) == set()
    assert find_codes(change_base("culture", out0={"cell_density": "9.9e5 cells/mL"})) == {"L13"}


def test_observation_may_repeat_a_number_from_an_input_but_not_state_a_contradicting_one():
    data = copy.deepcopy(BASES["series"])
    data["outcome"]["new_observations"] = [build_observation("Diluted into HEPES at pH 7.4", "done", "visual")]
    assert find_codes(data) == set()
    data["outcome"]["new_observations"] = [build_observation("The pH of the dilutions", "6.9")]
    assert "L15" in find_codes(data)


def test_observation_may_deny_that_something_is_visible():
    assert find_codes(BASES["look"]) == set()
    data = copy.deepcopy(BASES["look"])
    data["outcome"]["new_observations"][0]["description"] = "AAV particles are too small to be visible"
    assert find_codes(data) == set()


def test_unchanged_sample_volume_is_a_warning_or_an_error_if_other_samples_lost_volume():
    both = change_base("hplc", out0={"volume": "1.0 mL"}, out1={"volume": "1.0 mL"})
    assert find_codes(both) == set() and "L02" in find_codes(both, "warning")
    assert find_codes(change_base("hplc", out0={"volume": "1.0 mL"})) == {"L02"}


def test_frozen_material_may_be_stored_but_not_pipetted():
    frozen = build_material("Primer", {"volume": "100 µL", "state": "frozen"}, "-20C")
    assert (
        find_codes(
            build_transition(
                "Storage",
                {"condition": "-80C"},
                [frozen],
                [build_material("Primer", {"volume": "100 µL", "state": "frozen"}, "-80C")],
            )
        )
        == set()
    )
    portions = [build_material("Primer", {"volume": "90 µL"}), build_material("Tube with primer", {"volume": "10 µL"})]
    assert find_codes(
        build_transition("Transfer", {"volume": "10 µL"}, [frozen, build_material("Empty tube", {})], portions)
    ) == {"L06"}


def test_output_with_an_unknown_name_is_a_warning_and_a_reagent_from_nowhere_an_error():
    data = copy.deepcopy(BASES["combine"])
    data["outcome"]["new_materials"][0]["name"] = "Florbium"
    assert find_codes(data) == set() and "L01" in find_codes(data, "warning")
    data["outcome"]["new_materials"].append(build_material("Puromycin", {}))
    assert "L01" in find_codes(data)


def mix_sources(sources, **more):
    """Transfer 10 µL of coffee and 10 µL of tea into one empty well with an acoustic dispenser."""
    inputs = [
        build_material("Coffee", {"volume": "50 µL", "caffeine_concentration": "1 mg/mL"}),
        build_material("Tea", {"volume": "50 µL", "theanine_concentration": "2 mg/mL"}),
        build_material("Empty well", {"volume": "0 µL", "container": "384-well plate well"}),
    ]
    # 10 of 20 µL are coffee: 0.5 mg/mL caffeine, and 1 mg/mL theanine
    outputs = [
        build_material("Coffee", {"volume": "40 µL", "caffeine_concentration": "1 mg/mL"}),
        build_material("Tea", {"volume": "40 µL", "theanine_concentration": "2 mg/mL"}),
        build_material(
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
    return build_transition("AcousticLiquidHandling", {"sources": sources, "amount": "10 µL"}, inputs, outputs)


@pytest.mark.parametrize("sources", [["MAT-TEST0001", "MAT-TEST0002"], "MAT-TEST0001, MAT-TEST0002", ["Coffee", "Tea"]])
def test_acoustic_transfer_may_have_two_sources_for_one_well(sources):
    assert find_codes(mix_sources(sources)) == set()
    # 60 µL there and 80 µL left are more than the 100 µL that went in
    assert "L02" in find_codes(mix_sources(sources, volume="60 µL"))


def dilute_portion(**more):
    """20 µL of an antibody 1:200 into a new tube; the rest stays behind."""
    # 20 x 200 = 4000 µL: 3980 µL buffer. 50 / 200 = 0.25 µg/mL
    inputs = [
        build_material("Antibody", {"volume": "100 µL", "antibody": "50 µg/mL"}),
        build_material("Blocking buffer", {"volume": "30 mL"}),
        build_material("New tube", {"size": "5 mL"}, supply="unlimited"),
    ]
    outputs = [
        build_material("Antibody 1:200", {"volume": "4 mL", "antibody": "0.25 µg/mL"} | more),
        build_material("Antibody", {"volume": "80 µL", "antibody": "50 µg/mL"}),
        build_material("Blocking buffer", {"volume": "26.02 mL"}),
    ]
    parameters = {"sample": barcode_of(1), "solvent": barcode_of(2), "sample_volume": "20 µL", "factor": "1:200"}
    return build_transition("Dilute", parameters, inputs, outputs)


def test_dilution_may_use_only_a_portion_of_its_sample():
    assert find_codes(dilute_portion()) == set()
    assert "L03" in find_codes(dilute_portion(antibody="0.5 µg/mL"))
    assert "L02" in find_codes(dilute_portion(volume="3 mL"))


def dilute_concentrate(told):
    """1 mL of a tenfold concentrate and 9 mL of water."""
    inputs = [
        build_material("TAE concentrate", {"volume": "1 mL", "buffer": "10X TAE"}),
        build_material("Water", {"volume": "100 mL"}),
    ]
    outputs = [
        build_material("TAE, ready", {"volume": "10 mL", "buffer": told}),
        build_material("Water", {"volume": "91 mL"}),
    ]
    return build_transition("FillToVolume", {"solvent": barcode_of(2), "final_volume": "10 mL"}, inputs, outputs)


def test_strength_written_as_10x_is_checked_in_dilutions_like_a_concentration():
    # 10 x 1 / 10 = 1
    assert find_codes(dilute_concentrate("1X TAE")) == set()
    assert find_codes(dilute_concentrate("5X TAE")) >= {"L03"}


def test_precipitation_products_are_not_reported_as_errors():
    inputs = [
        build_material("Brine", {"volume": "20 mL", "Cl-": "0.05 M"}),
        build_material("Silver", {"volume": "20 mL", "AgNO3": "0.1 M"}),
    ]
    outputs = [build_material("Brine with silver", {"volume": "40 mL", "excess Ag+": "25 mM"})]
    assert find_codes(build_transition("Combine", {}, inputs, outputs)) == set()


def weigh_boat(grams):
    observation = build_observation("Mass of the boat", grams, "instrumental")
    return build_transition(
        "MeasureWeight", {}, [build_material("Boat", {})], [build_material("Boat", {})], [observation]
    )


def test_balance_reading_may_be_one_last_digit_below_zero_but_not_more():
    assert find_codes(weigh_boat("-0.0001 g")) == set()
    assert find_codes(weigh_boat("-0.5000 g")) == {"L23"}


def test_finding_has_the_tolerance_that_was_applied():
    # 1 mL of 10 mL moved: 5 % of the portion, and half a digit of each of the volumes, at most 0.5 %
    wrong = check_transition(change_base("transfer", out0={"volume": "9.20 mL"}))
    finding = next(finding for finding in wrong.error_findings if finding.code == "L02" and finding.expected == "9 mL")
    assert finding.tolerance == "105 µL"
    assert "tolerance" not in finding.to_json()


def test_compare_allows_a_difference_up_to_the_tolerance_on_each_side():
    def find(found, **limits):
        items = list(compare("L02", "Vial", Decimal(100), Decimal(found), "volume", "text", **limits))
        assert items[0] == Decided("L02", quantity=True)
        return [(item.expected, item.tolerance) for item in items[1:]]

    assert find(105, above=Decimal(5), below=Decimal(2)) == find(98, above=Decimal(5), below=Decimal(2)) == []
    assert find(106, above=Decimal(5), below=Decimal(2)) == [("100 µL", "5 µL")]
    assert find(97, above=Decimal(5), below=Decimal(2)) == [("100 µL", "2 µL")]
    assert find(106, above=Decimal(5)) == [("at most 100 µL", "5 µL")] and find(1, above=Decimal(5)) == []
    assert find(97, below=Decimal(2)) == [("at least 100 µL", "2 µL")] and find(900, below=Decimal(2)) == []


def test_empty_vessel_named_by_a_parameter_does_not_explain_a_gain_in_volume():
    sample = build_material("Ferrocene", {"volume": "15 mL"})
    electrode = build_material("Empty tube", {})
    data = build_transition(
        "CyclicVoltammetry", {"electrode": "Empty tube"}, [sample, electrode],
        [build_material("Ferrocene", {"volume": "900 mL"}), build_material("Empty tube", {})],
    )  # fmt: skip
    data["outcome"]["new_observations"] = [build_observation("current", "1 µA")]
    assert "L02" in {
        finding.code for finding in check_transition(data).error_findings if "Ferrocene held" in finding.text
    }
