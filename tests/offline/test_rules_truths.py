"""The declared truth is checked field by field before anything is played."""

import copy

import pytest

from simulation.offline.truths import check

RESPONSE = {
    "action": "HPLC", "component": "caffeine", "signal": "area", "unit": "mAU·s", "slope": "58", "intercept": "1", "noise": "0.01",
    "detection_limit": "1 µg/mL", "repeats": "replicate_injections", "when": {"detector": ["UV absorbance"], "percent_b": {"minimum": "5 %"}},
}  # fmt: skip


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_the_truth_of_every_experiment_file_is_well_formed(lab, slug):
    assert check(lab.specs[slug].truth, lab.catalogue) == []


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_every_component_the_truth_needs_is_in_a_material_or_made_by_a_reaction(lab, slug):
    spec = lab.specs[slug]
    there = {name for draft in spec.drafts() for name in draft.ledger["components"]}
    there |= {reaction.get("makes") for reaction in spec.truth.get("reactions", ())}
    named = {name for reaction in spec.truth.get("reactions", ()) for name in reaction["needs"]}
    named |= {entry["component"] for kind in ("responses", "bands") for entry in spec.truth.get(kind, ())}
    named |= {name for lookup in spec.truth.get("lookups", ()) for name in lookup["requires"]}
    named |= {*spec.truth.get("counted", ()), *spec.truth.get("retained", ())}
    assert named
    assert named <= there


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "lentivirus-moi-optimization", "zebrafish-genotyping"])
def test_look_ups_name_initial_materials(lab, slug):
    spec = lab.specs[slug]
    keys = {key for key, _ in spec.materials}
    assert {key for lookup in spec.truth.get("lookups", ()) for key in lookup["values"]} <= keys


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("slope", "steep", "truth.responses[0].slope: is 'steep'; allowed: a number as text"),
        ("slope", 58.4, "truth.responses[0].slope: is 58.4; allowed: a number as text"),
        ("detection_limit", "1", "truth.responses[0].detection_limit: is '1'; allowed: a concentration"),
        ("action", "HLPC", "truth.responses[0].action: is 'HLPC'; allowed: "),
        ("colour", "red", "truth.responses[0].colour: unknown field; allowed: "),
        ("repeats", "often", "truth.responses[0]: 'often' is no parameter; allowed: "),
        ("when", {"detector": "nose"}, "truth.responses[0].when.detector: detector is 'nose'"),
        ("when", {"wavelength": "3 nm"}, "truth.responses[0].when.wavelength: no parameter of HPLC; allowed: "),
        ("when", {"percent_b": {"least": "3 %"}}, "truth.responses[0].when.percent_b: is {'least': '3 %'}; allowed: "),
    ],
)
def test_a_wrong_field_is_named_with_what_is_allowed(lab, field, value, problem):
    truth = {"responses": [{**copy.deepcopy(RESPONSE), field: value}]}
    assert check({"responses": [RESPONSE]}, lab.catalogue) == []
    (found,) = check(truth, lab.catalogue)
    assert found.startswith(problem)


def test_a_missing_field_and_an_unknown_kind_are_named(lab):
    without = {name: value for name, value in RESPONSE.items() if name != "slope"}
    assert check({"responses": [without]}, lab.catalogue) == ["truth.responses[0].slope: is missing"]
    (found,) = check({"respones": []}, lab.catalogue)
    assert found.startswith("truth.respones: unknown field; allowed: bands, counted, ")


def test_wholes_are_checked_too(lab):
    assert (
        check({"retained": {"fines": "1 µm"}, "counted": ["cells"], "noise": {"CellCounter": "0.1"}}, lab.catalogue)
        == []
    )
    problems = check({"retained": {"fines": "1 mg"}, "counted": "cells"}, lab.catalogue)
    assert [problem.split(":")[0] for problem in problems] == ["truth.retained", "truth.counted"]


def test_a_product_needs_one_way_to_know_how_much_there_is(lab):
    reaction = {"action": "Incubate", "needs": ["a"], "makes": "b"}
    assert check({"reactions": [reaction]}, lab.catalogue) == [
        "truth.reactions[0].makes: needs exactly one of from, per_volume, poisson"
    ]
    assert check({"reactions": [{**reaction, "per_volume": "1 ng/µL"}]}, lab.catalogue) == []
    assert check({"reactions": [{**reaction, "from": "a"}]}, lab.catalogue) == ["truth.reactions[0].ratio: is missing"]
