"""The declared truth is checked field by field before an episode starts."""

import copy
from dataclasses import replace

import pytest

from simulation.casts import casting
from simulation.lab.actions import Catalogue
from simulation.lab.errors import LabError
from simulation.offline.hidden_truth import check_truth
from tests.support.laboratory_factory import SmallLab, build_material

RESPONSE = {
    "action": "HPLC", "component": "caffeine", "signal": "area", "unit": "mAU·s", "slope": "58 mAU·s per µg/mL", "intercept": "1 mAU·s", "noise": "0.01",
    "detection_limit": "1 µg/mL", "repeats": "replicate_injections", "when": {"detector": ["UV absorbance"], "percent_b": {"minimum": "5 %"}},
}  # fmt: skip


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_the_truth_of_every_experiment_file_is_well_formed(lab, slug):
    assert check_truth(lab.specs[slug].truth, lab.catalogue) == []


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_every_component_the_truth_needs_is_in_a_material_or_made_by_a_reaction(lab, slug):
    spec = lab.specs[slug]
    there = {name for draft in spec.initial_materials() for name in draft.ledger["components"]}
    there |= {reaction.get("makes") for reaction in spec.truth.get("reactions", ())}
    named = {name for reaction in spec.truth.get("reactions", ()) for name in reaction["needs"]}
    named |= {
        entry["component"]
        for kind in ("responses", "bands")
        for entry in spec.truth.get(kind, ())
        if "component" in entry
    }
    named |= {name for lookup in spec.truth.get("lookups", ()) for name in lookup["requires"]}
    named |= {*spec.truth.get("counted", ()), *spec.truth.get("retained", ())}
    assert named
    assert named <= there


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_lookups_of_every_experiment_name_only_initial_materials(lab, slug):
    spec = lab.specs[slug]
    keys = {key for key, _ in spec.materials}
    assert {key for lookup in spec.truth.get("lookups", ()) for key in lookup["values"]} <= keys


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("slope", "steep per µg/mL", "truth.responses[0].slope: is 'steep per µg/mL'; allowed: a number in mAU·s"),
        ("slope", "58.4 AU per µg/mL", "truth.responses[0].slope: is '58.4 AU per µg/mL'; allowed: a number in mAU·s"),
        ("slope", "58.4 mAU·s", "truth.responses[0].slope: is '58.4 mAU·s'; allowed: a slope with a unit"),
        ("slope", "58.4 mAU·s per µL", "truth.responses[0].slope: is '58.4 mAU·s per µL'; allowed: a concentration"),
        ("slope", 58.4, "truth.responses[0].slope: is 58.4; allowed: text, not empty"),
        (
            "intercept",
            "1",
            "truth.responses[0].intercept: is '1'; allowed: a number in mAU·s, as text like \"2 mAU·s\"",
        ),
        ("noise_floor", "1 mAU", "truth.responses[0].noise_floor: is '1 mAU'; allowed: a number in mAU·s"),
        ("detection_limit", "1", "truth.responses[0].detection_limit: is '1'; allowed: a concentration"),
        ("action", "HLPC", "truth.responses[0].action: is 'HLPC'; allowed: "),
        ("colour", "red", "truth.responses[0].colour: unknown field; allowed: "),
        ("repeats", "often", "truth.responses[0]: 'often' is not a parameter of HPLC; allowed: "),
        ("when", {"detector": "nose"}, "truth.responses[0].when.detector: detector is 'nose'"),
        ("when", {"wavelength": "3 nm"}, "truth.responses[0].when.wavelength: not a parameter of HPLC; allowed: "),
        (
            "slope",
            "1e999 mAU·s per µg/mL",
            "truth.responses[0].slope: is '1e999 mAU·s per µg/mL'; allowed: a number in mAU·s",
        ),
        ("noise", "-1", "truth.responses[0].noise: is '-1'; allowed: a number from 0 to 1"),
        ("when", {"detector": []}, "truth.responses[0].when.detector: is []; allowed: one of"),
        (
            "scales_with",
            {"parameter": "injection_volume", "reference": "often"},
            "truth.responses[0].scales_with.reference: injection_volume: 'often' is not a quantity",
        ),
        (
            "when",
            {"detector": {"all": ["fluorescence"]}},
            "truth.responses[0].when.detector: is {'all': ['fluorescence']}",
        ),
        ("when", {"percent_b": {"least": "3 %"}}, "truth.responses[0].when.percent_b: is {'least': '3 %'}; allowed: "),
    ],
)
def test_truth_check_names_a_wrong_field_and_the_allowed_values(lab, field, value, problem):
    truth = {"responses": [{**copy.deepcopy(RESPONSE), field: value}]}
    assert check_truth({"responses": [RESPONSE]}, lab.catalogue) == []
    (found,) = check_truth(truth, lab.catalogue)
    assert found.startswith(problem)


@pytest.mark.parametrize("condition", [{"all": []}, {"all": ["mauve"]}, {"some": ["RFP 555/605"]}])
def test_truth_check_names_a_condition_that_several_chosen_options_cannot_meet(lab, condition):
    reaction = {"action": "UseMicroscope", "needs": ["dye"], "when": {"channels": condition}}
    (found,) = check_truth({"reactions": [reaction]}, lab.catalogue)
    assert found.startswith("truth.reactions[0].when.channels: ")


def test_truth_check_names_missing_fields_and_unknown_kinds(lab):
    without = {name: value for name, value in RESPONSE.items() if name != "signal"}
    assert check_truth({"responses": [without]}, lab.catalogue) == ["truth.responses[0].signal: is missing"]
    (found,) = check_truth({"respones": []}, lab.catalogue)
    assert found.startswith("truth.respones: unknown field; allowed: appearances, bands, counted, ")


def test_truth_check_also_covers_fields_that_are_not_lists_of_entries(lab):
    assert (
        check_truth(
            {"retained": {"fines": "1 µm"}, "counted": ["cells"], "noise": {"CellCounter": "0.1"}}, lab.catalogue
        )
        == []
    )
    problems = check_truth({"retained": {"fines": "1 mg"}, "counted": "cells"}, lab.catalogue)
    assert [problem.split(":")[0] for problem in problems] == ["truth.retained", "truth.counted"]


def test_truth_check_needs_exactly_one_amount_of_a_product(lab):
    reaction = {"action": "Incubate", "needs": ["a"], "makes": "b"}
    assert check_truth({"reactions": [reaction]}, lab.catalogue) == [
        "truth.reactions[0].makes: needs exactly one of from, per_volume, poisson, consumes"
    ]
    assert check_truth({"reactions": [{**reaction, "per_volume": "1 ng/µL"}]}, lab.catalogue) == []
    assert check_truth({"reactions": [{**reaction, "from": "a"}]}, lab.catalogue) == [
        "truth.reactions[0].ratio: is missing"
    ]


@pytest.mark.parametrize("time", ["0 h", "-1 h", "often"])
def test_truth_check_needs_a_positive_doubling_time(lab, time):
    growth = {"action": "CellCultureIncubate", "components": ["cells"], "doubling_time": time}
    (found,) = check_truth({"growth": [growth]}, lab.catalogue)
    assert found.startswith(f"truth.growth[0].doubling_time: is {time!r}; allowed: a duration above zero")


def test_truth_check_rejects_unknown_phases(lab):
    reaction = {"action": "Incubate", "needs": ["cells"], "phase_from": "liquid", "phase_to": "plasma"}
    (found,) = check_truth({"reactions": [reaction]}, lab.catalogue)
    assert found.startswith("truth.reactions[0].phase_to: is 'plasma'; allowed: one of empty container, ")


def test_action_without_a_handler_raises_an_error_that_names_it(lab):
    small = SmallLab(Catalogue({"Mix": replace(lab.catalogue.types["Mix"], handler="stir")}), build_material("tea"))
    with pytest.raises(LabError, match="the rule-based cast has no handler 'stir' for Mix"):
        small.run_step("Mix", "tea")


def test_unknown_phase_is_rejected_with_the_allowed_phases(lab):
    odd = {
        "materials": [
            {"key": "tea", "properties": {"phase": "liqiud"}},
            {"key": "plate", "properties": {"phase": "plate"}, "wells": [{"key": "well", "properties": {}}]},
        ]
    }
    problems = casting.check_truth(odd, lab.catalogue)
    assert problems[0].startswith(
        "materials[0].properties.phase: is 'liqiud'; allowed: empty container, consumable, liquid,"
    )
    assert problems[1].startswith("materials[1].wells[0].properties.phase: is None; allowed: ")
    assert len(problems) == 2


def test_truth_check_needs_a_unit_that_the_instrument_reports(lab):
    # A refractometer reports a bare number from 1.3 to 1.7, never a percentage.
    response = {"action": "MeasureRefractiveIndex", "component": "sugar", "signal": "refractive index", "noise": "0",
                "slope": "0.00014 per mg/mL", "intercept": "1.333"}  # fmt: skip
    assert check_truth({"responses": [{**response, "unit": ""}]}, lab.catalogue, {"sugar": "mass"}, {"cup"}) == []
    (found,) = check_truth(
        {"responses": [{**response, "unit": "%", "slope": "1 % per mg/mL", "intercept": "0 %"}]}, lab.catalogue
    )
    assert found == "truth.responses[0].unit: is '%'; allowed: units of MeasureRefractiveIndex: ''"


def test_truth_check_needs_both_units_of_a_ratio_between_a_mass_and_an_amount(lab):
    reaction = {
        "action": "Incubate",
        "needs": ["salt"],
        "makes": "acid",
        "from": "salt",
        "dimension": "amount",
        "ratio": "17.1",
    }
    known = {"salt": "mass"}
    (found,) = check_truth({"reactions": [reaction]}, lab.catalogue, known, {"cup"})
    assert found == "truth.reactions[0].ratio: is '17.1'; allowed: a ratio of amounts as text, like '5 nmol per µg'"
    assert check_truth({"reactions": [{**reaction, "ratio": "17.1 mmol per g"}]}, lab.catalogue, known, {"cup"}) == []
