"""Parsing of hostile model replies into outcomes and verdicts, or into a list of problems."""

import json
import random

import pytest

from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE, UNLIMITED, Material
from simulation.lab.outcomes import Outcome, RejectedBy
from simulation.llm.conversation import MalformedCompletion, clean_text, extract_answer, extract_last_object
from simulation.llm.evidence_classifier import parse_verdict
from simulation.llm.lineage import Inputs
from simulation.llm.outcome_parsing import parse_outcome, split_secret
from tests.support.effort import takes_under
from tests.support.model_replies import (
    build_bench,
    build_draft,
    build_new_material,
    build_observation,
    build_reply,
    find_barcodes,
    write_reply,
)

ON = build_bench()
MATERIALS: tuple[Material, ...] = ON.inventory.materials  # S1 cells, S2 puromycin, S3 medium (unlimited)
CELLS, PUROMYCIN, MEDIUM = find_barcodes(ON, "Cells", "Puromycin", "Medium")
INPUTS = Inputs.from_materials(MATERIALS)
KEPT = (build_new_material("Cells", "S1"), build_new_material("Puromycin", "S2"))


def parse_valid_outcome(text: str, inputs: Inputs = INPUTS) -> Outcome:
    return parse_outcome(text, inputs).outcome


def collect_problems(text: str, inputs: Inputs = INPUTS) -> str:
    with pytest.raises(MalformedCompletion) as caught:
        parse_outcome(text, inputs)
    return " | ".join(caught.value.problems)


def test_outcome_reply_has_its_aliases_replaced_by_barcodes():
    new = build_new_material("Cells with puromycin", derived_from=["S1", "s2", "MAT-00000000"])
    found = parse_valid_outcome(
        write_reply(
            build_new_material("Cells", "S1"),
            build_new_material("Puromycin", PUROMYCIN),
            new,
            observations=[build_observation()],
        )
    )
    assert found.success and found.rejected_by == RejectedBy.NOBODY
    assert [material.replaces for material in found.new_materials] == [CELLS, PUROMYCIN, ""]
    assert found.new_materials[2].derived_from == (CELLS, PUROMYCIN)  # the barcode the model invented is dropped
    assert found.new_observations[0].to_json() == build_observation()


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "Let me think about the set {{a, b}} and the range [1, 2).\n{}\nI hope this helps!",
        'An object {{"note": "first"}} comes before it: {}',
        '<think>perhaps {{"success": false}}</think>\n{}',
        "perhaps so\n</think>\n{}",
        "[{}]",
        'It opens {{"a quote and a brace before it\n {}',
    ],
)
def test_last_json_object_is_parsed_despite_surrounding_text(around):
    assert parse_valid_outcome(extract_answer(around.format(write_reply(*KEPT)))).new_materials[0].replaces == CELLS


def test_last_of_two_json_objects_counts():
    first, last = write_reply(*KEPT, reasoning="first"), write_reply(*KEPT, reasoning="last")
    assert parse_valid_outcome(f"{first}\nor rather\n{last}").reasoning == "last"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I would rather not say.", "no JSON object"),
        ("", "no JSON object"),
        (write_reply(*KEPT)[:-10], "never closed"),
        (write_reply(*KEPT)[:60], "never closed"),
        (write_reply(*KEPT).replace('"success": true', '"success": True'), "cannot be read"),
        (write_reply(*KEPT).replace('"success": true', '"success": true,'), "cannot be read"),
        (write_reply(*KEPT).replace('"10 mL"', "NaN"), "NaN is not a JSON number"),
        (write_reply(*KEPT).replace('"10 mL"', "-Infinity"), "-Infinity is not a JSON number"),
        (write_reply(*KEPT).replace('"10 mL"', "1e999"), "too large"),
        (write_reply(*KEPT).replace('"10 mL"', "1234567890123456789"), "more than 18 digits"),
        (write_reply(*KEPT).replace('"success": true', '"success": true, "success": false'), "'success' occurs twice"),
        ('{"a":' * 33 + "1" + "}" * 33, "nested deeper than 32"),
        ('{"a": ' + "[" * 100_000, "nested deeper than 32"),
        ("x" * 300_000, "characters; at most 262144"),
        ("{}" * 1001, "more than 1000 objects"),
        ("{}", "success must be true or false"),
        (json.dumps(build_reply(KEPT, success="true")), "success must be true or false"),
        (json.dumps(build_reply(KEPT, success=None)), "success must be true or false"),
        (json.dumps(build_reply(KEPT, new_materials={"0": KEPT[0]})), "new_materials must be a list of objects, not an object"),
        (json.dumps(build_reply(KEPT, new_observations=["clear"])), "new_observations must be a list of objects"),
        (json.dumps({k: v for k, v in build_reply(KEPT).items() if k != "new_materials"}), "new_materials must be a list"),
        (json.dumps(build_reply([KEPT[0]] * 201)), "201 entries; allowed: 200"),
        (json.dumps(build_reply((), success=False)), "does not state why"),
        (json.dumps(build_reply((), success=False, failure_reason="None.")), "does not state why"),
        (json.dumps(build_reply((), success=False, failure_reason=7)), "failure_reason must be text"),
        (json.dumps(build_reply([build_new_material("Brew")], success=False, failure_reason="no")), "success is false, so nothing changes"),
        (write_reply(build_new_material("  ", "S1")), "new_materials[0].name must be text"),
        (write_reply(build_new_material("x" * 201, "S1")), "new_materials[0].name has 201 characters; allowed: 200"),
        (write_reply(build_new_material("MAT-00000000", "S1")), "nothing but a barcode"),
        (write_reply(build_new_material("Cells", "S1", properties=["10 mL"])), "new_materials[0].properties must be an object, not a list"),
        (write_reply(build_new_material("Cells", "S1", properties={str(n): n for n in range(41)})), "41 entries; allowed: 40"),
        (write_reply(build_new_material("Cells", "S1", properties={"a": list(range(1001))})), "values; allowed: 1000"),
        (write_reply(build_new_material("Cells", "S1", properties={"a": "x" * 4001})), "properties.a has 4001 characters"),
        (write_reply(build_new_material("Cells", "S1", properties={"": 1})), "'' is not a property name"),
        (write_reply(build_new_material("Cells", "S1", properties={"a": 1, " a ": 2})), "'a' occurs there twice"),
        (write_reply(build_new_material("Cells", "S1", properties={"b": [{CELLS: 1, "Cells": 2}]})), "'Cells' occurs there twice"),
        (write_reply(observations=[build_observation("MAT-00000000")]), "new_observations[0].description holds nothing but a barcode"),
        (write_reply(build_new_material("Cells", "S1", properties={"a": json.loads("[" * 9 + "]" * 9)})), "deeper than 8"),
        (write_reply(build_new_material("Cells", "S1", available_for_use="maybe")), "available_for_use must be one of unlimited, "),
        (write_reply(build_new_material("Cells", "S1", available_for_use=None)), "available_for_use must be one of"),
        (write_reply(build_new_material("Cells", "S1", material_type="lively")), "material_type must be one of static, dynamic, not 'lively'"),
        (write_reply(build_new_material("Cells", "S1", environmental_condition="lukewarm")), "environmental_condition must be one of room_temp"),
        (write_reply(build_new_material("Cells", "S1", environmental_condition=37)), "environmental_condition must be one of"),
        (write_reply(build_new_material("Elixir", available_for_use=UNLIMITED)), "nothing becomes unlimited"),
        (write_reply(build_new_material("Medium", "S3")), "is unlimited and never handed back"),
        (write_reply(build_new_material("Cells", "S1"), build_new_material("More cells", "S1")), "replaces already"),
        (write_reply(build_new_material("Cells", ["S1", "S2"])), "replaces must be the alias of one input"),
        (write_reply(build_new_material("Cells", derived_from=[1])), "derived_from must be a list of aliases"),
        (write_reply(observations=[build_observation(description=None)]), "new_observations[0].description must be text"),
        (write_reply(observations=[build_observation(measurement_type="")]), "measurement_type must be text"),
        (write_reply(observations=[build_observation(measurement_type="{}")]), "measurement_type must be a word"),
        (write_reply(observations=[build_observation(value={"pH": 7})]), "new_observations[0].value must be text, not an object"),
        (write_reply(observations=[build_observation(value="x" * 4001)]), "value has 4001 characters"),
    ],
)  # fmt: skip
def test_outcome_problem_names_the_field_and_the_allowed_values(text, said):
    assert said in collect_problems(text)


def test_all_problems_of_an_outcome_are_reported_together():
    told = collect_problems(
        write_reply(
            build_new_material("", "S1", material_type="x"),
            observations=[build_observation(measurement_type=3)],
            success="yes",
        )
    )
    assert all(said in told for said in ("success must", "[0].name", "material_type", "measurement_type"))


def test_invalid_characters_become_replacement_characters_at_every_depth():
    raw = write_reply(build_new_material("Cells\x00", "S1", properties={"no\ud800te": ["a\x07b", {"c": "\udfff"}]}))
    assert "\\u0000" in raw and "\\ud800" in raw  # escaped, so cleaning the raw text cannot find them
    material = parse_valid_outcome(raw).new_materials[0]
    assert material.name == "Cells�"
    assert material.properties == {"no�te": ["a�b", {"c": "�"}]}
    assert clean_text("a\x00b\r\nc\td\x9f\ud83d") == "a�b\nc\td��"
    assert clean_text("naïve µL 😀") == "naïve µL 😀"
    assert clean_text("10\u200b mL \u202eLm 01\ufeff") == "10� mL �Lm 01�"


def test_values_of_the_older_prompt_are_accepted_and_noted():
    older = build_new_material("Cells", "S1", environmental_condition="37C_5%CO2", supply="consumable")
    del older["available_for_use"]
    rest = build_new_material("Puromycin", "S2", environmental_condition="freezer", available_for_use="consumed")
    reading = parse_outcome(write_reply(older, rest), INPUTS)
    cells, puromycin = reading.outcome.new_materials
    assert (cells.available_for_use, cells.environmental_condition) == (AVAILABLE, "cell_culture_conditions")
    assert (cells.properties["temperature"], cells.properties["CO2"]) == ("37 °C", "5%")  # implied by the old value
    assert (puromycin.available_for_use, puromycin.environmental_condition) == (NOT_AVAILABLE, "-20C")
    assert "new_materials[0].supply 'consumable' read as available_for_further_use" in reading.notes


def test_enumerated_values_are_matched_despite_case_spaces_and_degree_signs():
    read = parse_valid_outcome(
        write_reply(build_new_material("Cells", "S1", environmental_condition="−20 °C", material_type="Static"))
    )
    assert (read.new_materials[0].environmental_condition, read.new_materials[0].material_type) == ("-20C", "static")


def test_unknown_fields_are_dropped_and_noted_and_a_timestamp_is_ignored():
    reading = parse_outcome(
        write_reply(
            build_new_material("Cells", "S1", barcode="MAT-1"),
            observations=[build_observation(timestamp="3")],
            mood="x",
        ),
        INPUTS,
    )
    assert reading.notes == (
        "the object: 1 unknown left out ('mood')",
        "new_materials[0]: 1 unknown left out ('barcode')",
        "not handed back and so used up: 'Puromycin'",
    )


def test_failure_reason_of_a_success_is_dropped_and_noted():
    reading = parse_outcome(write_reply(*KEPT, failure_reason="too cold"), INPUTS)
    assert (reading.outcome.success, reading.outcome.failure_reason) == (True, "")
    assert reading.notes == ("success is true, so failure_reason 'too cold' was left out",)


def test_length_limits_apply_after_barcodes_are_replaced_by_names():
    on = build_bench(build_draft("x" * 200)).inventory.materials
    [code] = [material.barcode for material in on]
    tube = Inputs.from_materials(on)
    named = parse_outcome(write_reply(build_new_material(f"Cells of {code}", "S1")), tube).outcome.new_materials[0]
    assert named.name == "Cells of " + "x" * 60
    for text, said in (
        # 4 x 60 characters and the spaces between them; 80 x 61 minus the last space
        (
            write_reply(build_new_material(f"{code} " * 4, "S1")),
            "new_materials[0].name has 243 characters; allowed: 200",
        ),
        (
            write_reply(build_new_material("a", "S1", properties={"of": f"{code} " * 80})),
            "properties.of has 4879 characters; allowed: 4000",
        ),
        (
            write_reply(build_new_material("a", "S1", properties={f"{code} {code}": 1})),
            "is not a property name; allowed: 1 to 100",
        ),
        (
            write_reply(build_new_material("a", "S1"), observations=[build_observation("S1 " * 80)]),
            "[0].description has 4879 characters; allowed: 4000",
        ),
        (
            write_reply(build_new_material("a", "S1"), observations=[build_observation(value="S1 " * 80)]),
            "[0].value has 4879 characters; allowed: 4000",
        ),
        (write_reply(success=False, failure_reason="S1 " * 80), "failure_reason has 4879 characters; allowed: 4000"),
    ):
        assert said in collect_problems(text, tube)


def test_name_made_of_barcodes_does_not_grow_from_step_to_step():
    name = "tube"
    for _ in range(5):
        on = build_bench(build_draft(name)).inventory.materials
        try:
            name = (
                parse_valid_outcome(
                    write_reply(build_new_material(f"{on[0].barcode} " * 3, "S1")), Inputs.from_materials(on)
                )
                .new_materials[0]
                .name
            )
        except MalformedCompletion:
            break
        assert len(name) <= 200


def test_values_that_a_database_would_change_are_converted_before_storing():
    properties = {"count": 1e15, "tiny": 1e-7, "zero": -0.0, "gone": None, "list": [1, None, True]}
    read = parse_valid_outcome(write_reply(build_new_material("Cells", "S1", properties=properties)))
    assert (
        json.dumps(read.new_materials[0].properties)
        == '{"count": "1000000000000000.0", "tiny": 1e-07, "zero": 0.0, "list": [1, true]}'
    )


def test_observed_number_becomes_text_and_measurement_type_is_normalised():
    read = parse_valid_outcome(
        write_reply(
            *KEPT,
            observations=[
                build_observation(value=7.4, measurement_type="Flow Cytometry"),
                build_observation(value=None),
            ],
        )
    )
    assert (read.new_observations[0].value, read.new_observations[0].measurement_type) == ("7.4", "flow_cytometry")
    assert read.new_observations[1].value == ""


def test_material_without_the_field_replaces_continues_the_input_with_the_same_unique_name():
    found = parse_valid_outcome(
        write_reply(build_new_material("Cells"), build_new_material("Puromycin"), build_new_material("Puromycin"))
    )
    assert [material.replaces for material in found.new_materials] == [CELLS, "", ""]


def test_material_whose_field_replaces_is_null_is_new_even_if_an_input_has_its_name():
    found = parse_valid_outcome(write_reply(build_new_material("Cells", replaces=None) | {"replaces": None}))
    assert found.new_materials[0].replaces == ""


def test_unknown_replaced_barcode_falls_back_to_the_material_name():
    reading = parse_outcome(write_reply(build_new_material("Cells", "MAT-ZZZZZZZZ")), INPUTS)
    assert reading.outcome.new_materials[0].replaces == CELLS
    assert "is not an input and was left out" in reading.notes[0]


def test_returned_unlimited_material_is_ignored_and_a_portion_of_it_is_new():
    echo, portion = (
        build_new_material("Medium", "S3", available_for_use=UNLIMITED),
        build_new_material("Medium", derived_from="S3"),
    )
    reading = parse_outcome(write_reply(*KEPT, echo, portion), INPUTS)
    assert [(m.name, m.replaces, m.derived_from) for m in reading.outcome.new_materials[2:]] == [
        ("Medium", "", (MEDIUM,))
    ]
    assert "stays as it is" in reading.notes[0]


def test_new_material_is_derived_from_the_only_input():
    found = parse_valid_outcome(write_reply(build_new_material("Pellet")), Inputs.from_materials(MATERIALS[:1]))
    assert found.new_materials[0].derived_from == (CELLS,)


def test_barcodes_in_texts_are_replaced_by_names_or_removed():
    one = build_new_material(f"Cells of {CELLS}", "S1", properties={"from": f"Cells ({CELLS})", "id": "MAT-12345678"})
    found = parse_valid_outcome(
        write_reply(one, observations=[build_observation(f"{PUROMYCIN} is clear, S1 and S9 are not")])
    )
    assert found.new_materials[0].name == "Cells of Cells"
    assert found.new_materials[0].properties == {"from": "Cells", "id": ""}
    assert found.new_observations[0].description == "Puromycin is clear, Cells and S9 are not"


@pytest.mark.parametrize(
    "code", [CELLS.lower(), CELLS.replace("-", "\u2011"), CELLS.replace("-", "\u2212").lower(), CELLS.replace("-", "_")]
)
def test_misspelled_and_embedded_barcodes_are_replaced_by_names(code):
    one = build_new_material(
        f"tube{code}b", "S1", properties={f"mass of {code}": f"see{code}", "from": f"Cells ({code})"}
    )
    found = parse_valid_outcome(write_reply(one, observations=[build_observation(f"_{code}_ is clear")]))
    assert found.new_materials[0].name == "tubeCellsb"
    assert found.new_materials[0].properties == {"mass of Cells": "seeCells", "from": "Cells"}
    assert found.new_observations[0].description == "_Cells_ is clear"
    assert parse_valid_outcome(write_reply(build_new_material("New", code))).new_materials[0].replaces == CELLS


def test_words_that_resemble_barcodes_are_kept_and_unknown_barcodes_are_removed():
    words = "a mat-finished plate in FORMAT-SPECIFIC1 packing (mat-finished), format-96wellplate"
    assert (
        parse_valid_outcome(write_reply(build_new_material("Cells", "S1", properties={"look": words})))
        .new_materials[0]
        .properties["look"]
        == words
    )
    nobodys = build_new_material("Cells", "S1", properties={"a": "x mat-0ew7e0p1 y", "b": "x (MAT-ABCDEFGH)"})
    assert parse_valid_outcome(write_reply(nobodys)).new_materials[0].properties == {"a": "x  y", "b": "x"}


@pytest.mark.parametrize(
    ("written_name", "name"),
    [("S1", "Cells"), ("Mix of S1 and S2", "Mix of Cells and Puromycin"), ("S1 + S2", "Cells + Puromycin"),
     ("Tube (S2)", "Tube (Puromycin)"), ("Standard S1", "Standard S1"), ("S1 nuclease", "S1 nuclease"),
     ("Mix of S1 and S9", "Mix of S1 and S9"), ("DNA cut with S1 nuclease", "DNA cut with S1 nuclease")],
)  # fmt: skip
def test_alias_in_a_name_is_replaced_if_it_refers_to_the_input(written_name, name):
    found = parse_valid_outcome(
        write_reply(build_new_material(written_name, "S1", properties={"is": written_name}))
    ).new_materials[0]
    assert (found.name, found.properties["is"]) == (name, name)


def test_material_named_like_the_alias_of_another_is_not_confused_with_it():
    tubes = Inputs.from_materials(build_bench(build_draft("S2"), build_draft("S1")).inventory.materials, "S2 S1")
    told = collect_problems(write_reply(build_new_material("S1", "S1"), build_new_material("S2", "S2")), tubes)
    assert "new_materials[0] is called 'S1' as the input S2 is, and replaces S1, which is called 'S2'" in told
    right = parse_valid_outcome(
        write_reply(build_new_material("S2", "S1"), build_new_material("S1", "S2")), tubes
    ).new_materials
    assert [material.replaces for material in right] == [material.barcode for material in tubes.materials]


def test_material_may_be_renamed_like_the_material_poured_into_it():
    poured = parse_valid_outcome(
        write_reply(build_new_material("Cells", "S1"), build_new_material("Cells", "S2"))
    ).new_materials
    assert [material.replaces for material in poured] == [CELLS, PUROMYCIN]
    assert parse_valid_outcome(write_reply(build_new_material("Medium", "S1"))).new_materials[0].replaces == CELLS


def test_text_that_looks_like_an_alias_is_kept_if_it_is_part_of_a_material_name():
    named = parse_valid_outcome(
        write_reply(build_new_material("Standard S1", "S1"), observations=[build_observation("S1 is blue")])
    )
    assert named.new_observations[0].description == "S1 is blue"
    given = Inputs.from_materials(MATERIALS, "a tube labelled S2 and MAT-LABEL001")
    assert (
        parse_valid_outcome(write_reply(build_new_material("MAT-LABEL001", "S1")), given).new_materials[0].name
        == "MAT-LABEL001"
    )
    assert (
        parse_valid_outcome(write_reply(observations=[build_observation("S2 nuclease")]), given)
        .new_observations[0]
        .description
        == "S2 nuclease"
    )


def test_failed_action_returns_no_materials_or_observations():
    same = build_new_material("Cells", "S1")
    reading = parse_outcome(
        write_reply(same, observations=[build_observation()], success=False, failure_reason=f"S1 ({CELLS}) is frozen"),
        INPUTS,
    )
    found = reading.outcome
    assert reading.notes == ("the action failed: 1 materials and 1 observations left out",)
    assert (found.success, found.new_materials, found.new_observations) == (False, (), ())
    assert found.failure_reason == f"Cells ({CELLS}) is frozen"
    assert found.rejected_by == RejectedBy.TRANSITION_MODEL


def test_failed_action_may_omit_the_lists():
    assert (
        parse_valid_outcome('{"success": false, "failure_reason": "no volume is stated"}').failure_reason
        == "no volume is stated"
    )


@pytest.mark.parametrize(
    ("reasoning", "kept", "secret"),
    [
        ("All is well. SECRET: 5 mL came from nowhere", "All is well.", "5 mL came from nowhere"),
        ("All is well.\n\n***SECRET***: <mass was lost>", "All is well.", "mass was lost"),
        ("Fine. secret : a SECRET: b", "Fine.", "a SECRET: b"),
        ("The secretary: nothing", "The secretary: nothing", ""),
        ("A top-secret: x", "A top-secret: x", ""),
        ("A TOP-SECRET: x", "A TOP-SECRET: x", ""),
        ("its secret: x\nsecret: y", "its secret: x", "y"),
        ("SECRET:", "", ""),
    ],
)
def test_secret_explanation_is_separated_from_the_reasoning(reasoning, kept, secret):
    assert split_secret(reasoning) == (kept, secret)


def test_parsed_outcome_never_has_a_secret_in_its_reasoning():
    reading = parse_outcome(write_reply(*KEPT, reasoning="fine SECRET: it is not"), INPUTS)
    assert (reading.outcome.reasoning, reading.secret) == ("fine", "it is not")
    assert parse_outcome(write_reply(*KEPT, SECRET="a field"), INPUTS).secret == "a field"


HOSTILE = (
    "{" * 262_144, '{"' * 131_072, '{"a":' * 52_000, '"' * 262_144, '{"a":"' + "\\" * 262_000, '{"a":{}' + ",{}" * 87_000,
    '{"a": [' + "1," * 130_000, "{ " * 131_072, "```" * 87_000, '{"' + "a" * 262_000, "<think>" * 37_000, "</think>\n" * 29_000,
    "<verdict>" * 29_000, "<reasoning>" * 23_000, "</reasoning>" * 21_000, '{"a":1}' * 37_000, '{"\\ud800' * 29_000,
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:8].encode("unicode_escape").decode())
def test_hostile_text_of_maximum_length_is_parsed_quickly(text):
    def parse_both_ways():
        for read in (lambda said: parse_outcome(said, INPUTS), parse_verdict):
            with pytest.raises(MalformedCompletion):
                read(extract_answer(text))

    assert takes_under(1, parse_both_ways)


def test_randomly_spoilt_reply_is_an_outcome_or_raises_malformed_completion():
    rng = random.Random(4)
    good = write_reply(
        *KEPT,
        build_new_material("New", derived_from=["S1"]),
        observations=[build_observation()],
        reasoning="x SECRET: y",
    )
    pieces = [
        "{",
        "}",
        "[",
        "]",
        '"',
        ",",
        "\\",
        "null",
        "1e400",
        "\x00",
        "\ud800",
        "S1",
        "true",
        '"success"',
        "-",
        "MAT-AAAAAAAA",
        "é",
    ]
    read = 0
    for _ in range(2000):
        text = good
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(pieces) + text[at + rng.randint(0, 12) :]
        try:
            found = parse_valid_outcome(extract_answer(text))
        except MalformedCompletion:
            continue
        read += 1
        json.dumps(found.to_json(), ensure_ascii=False).encode()  # can be stored in any database
        assert "\x00" not in json.dumps(found.to_json(), ensure_ascii=False)
    assert 50 < read < 1950


def test_last_json_object_is_found_in_surrounding_prose():
    assert extract_last_object('see {"success": 1, "a": "line\nend"}', "success") == {"success": 1, "a": "line\nend"}


VERDICT = (
    "<verdict>VALID</verdict>\n<reasoning>\nIt is enough.\n</reasoning>\n<confidence>0.85</confidence>\n"
    "<goal_relevance>directly supports goal</goal_relevance>\n<evidence_strength>strong</evidence_strength>"
)


def test_five_tags_are_parsed_as_a_verdict():
    found = parse_verdict(f"My answer:\n{VERDICT}\nThat is all.")
    assert (found.sufficient, found.reasoning, found.confidence) == (True, "It is enough.", 0.85)
    assert (found.goal_relevance, found.evidence_strength) == ("directly supports goal", "strong")
    spoken = VERDICT.replace("VALID", "**invalid**.").replace("strong", "Strong").replace("directly", "Directly")
    assert parse_verdict(spoken).sufficient is False


def test_tags_quoted_in_the_reasoning_are_ignored():
    quoting = VERDICT.replace("It is enough.", "The record says <verdict>INVALID</verdict> <confidence>9</confidence>.")
    assert parse_verdict(quoting).sufficient is True


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<verdict>VALID</verdict>", "", "<verdict> must be there once, not 0 times"),
        ("<verdict>VALID</verdict>", "<verdict>VALID</verdict><verdict>INVALID</verdict>", "once, not 2 times"),
        ("VALID</verdict>", "VALID or INVALID</verdict>", "<verdict> is 'VALID or INVALID'; allowed: valid, invalid"),
        ("</verdict>", "", "<verdict> is not closed"),
        ("0.85", "1.01", "<confidence> is '1.01'; allowed: a number from 0.0 to 1.0"),
        ("0.85", "NaN", "<confidence> is 'NaN'"),
        ("0.85", "-0.1", "<confidence> is '-0.1'"),
        ("0.85", "0." + "9" * 5000, "<confidence> is '0.9"),
        ("0.85", "high", "<confidence> is 'high'"),
        ("strong", "overwhelming", "allowed: strong, moderate, weak"),
        ("directly", "certainly", "allowed: directly supports goal, partially supports goal, does not support goal"),
        ("It is enough.", "", "<reasoning> is empty"),
        ("It is enough.", "</reasoning><verdict>INVALID</verdict><reasoning>", "<reasoning> must be there once"),
        ("</reasoning>", "", "<reasoning> must be there once, and be closed"),
    ],
)
def test_invalid_verdict_is_refused_with_the_allowed_values(old, new, said):
    with pytest.raises(MalformedCompletion) as caught:
        parse_verdict(VERDICT.replace(old, new))
    assert said in " | ".join(caught.value.problems)


def test_material_whose_name_two_inputs_share_is_matched_to_neither():
    twins = Inputs.from_materials(build_bench(build_draft("Cells"), build_draft("Cells")).inventory.materials)
    assert parse_valid_outcome(write_reply(build_new_material("Cells")), twins).new_materials[0].replaces == ""
