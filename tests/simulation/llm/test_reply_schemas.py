"""Reply schemas: providers accept them, the server's answers follow them, and the parsers read what follows them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from simulation.lab import action_format, materials
from simulation.lab.actions import Action
from simulation.lab.outcomes import Perturbation, Verdict
from simulation.llm import evidence_classifier, model_rater, reply_schemas
from simulation.llm.agent import LLMAgent
from simulation.llm.conversation import MalformedCompletion
from simulation.llm.outcome_parsing import parse_outcome
from simulation.llm.prompt_data import build_question
from simulation.llm.prompt_sets import PromptTexts, load_built_in
from simulation.llm.transition_model import build_prompt
from simulation.providers import Prompt
from simulation.providers.base import Completion, Stop
from simulation.scripted_server.structured import find_schema, write_structured
from tests.support.model_replies import (
    CATALOGUE,
    build_bench,
    build_mix,
    build_new_material,
    build_observation,
    write_reply,
)
from tests.support.scripted_models import ScriptedProvider

TEXTS = load_built_in()
BENCH = build_bench()
MIX = build_mix(BENCH, "Cells")
INPUTS = build_question(MIX, BENCH.get_situation()).inputs
RATING = reply_schemas.build_rating_schema("plausible", "not plausible")
ACTION = reply_schemas.build_action_schema(CATALOGUE, has_thought=True)
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "outcome": reply_schemas.OUTCOME,
    "verdict": reply_schemas.VERDICT,
    "rating": RATING,
    "action": ACTION,
}


def iter_objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from iter_objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from iter_objects(part)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_have_only_what_strict_modes_accept(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in iter_objects(schema):
        assert part["additionalProperties"] is False and part["required"] == list(part["properties"])
    assert find_schema({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}) == schema
    # Anthropic accepts at most 16 fields with alternatives; OpenAI at most 1000 choices and 15,000 characters in one list.
    assert json.dumps(schema).count("anyOf") <= 16
    assert sum(map(len, CATALOGUE.types)) < 15_000 and len(CATALOGUE.types) < 1000


def test_result_comes_after_the_reasons_in_every_schema() -> None:
    reasons = {"outcome": "reasoning", "verdict": "reasoning", "rating": "reason", "action": "thought"}
    assert {name: reply_schemas.list_fields(schema)[0] for name, schema in SCHEMAS.items()} == reasons


def test_choices_of_the_schemas_are_those_of_the_laboratory() -> None:
    material = reply_schemas.NEW_MATERIAL
    assert reply_schemas.list_allowed(material, "material_type") == materials.MATERIAL_TYPES
    assert reply_schemas.list_allowed(material, "environmental_condition") == materials.CONDITIONS
    assert materials.UNLIMITED not in reply_schemas.list_allowed(material, "available_for_use")
    assert reply_schemas.list_allowed(ACTION, "action") == tuple(CATALOGUE.types)


# Outcomes


def write_pairs(properties: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in properties.items()]


def test_outcome_by_schema_is_read_as_the_same_outcome_in_free_form() -> None:
    properties = {"volume": "9 mL", "count": 3, "sterile": True, "layers": ["upper", "lower"], "wells": {"A1": "red"}}
    free = build_new_material("Cells", "S1", properties=properties, derived_from=["S1"])
    strict = {**free, "properties": [*write_pairs({**properties, "wells": write_pairs({"A1": "red"})})]}
    replies = [
        {**json.loads(write_reply(material, observations=[build_observation()])), "reasoning": "mixed"}
        for material in (free, strict)
    ]
    jsonschema.validate(replies[1], reply_schemas.OUTCOME)
    outcomes = [parse_outcome(json.dumps(reply), INPUTS).outcome for reply in replies]
    assert outcomes[0] == outcomes[1] and outcomes[1].new_materials[0].properties == properties


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ([{"name": "volume", "value": "1 mL"}, {"name": "volume", "value": "2 mL"}], "'volume' occurs there twice"),
        ([{"name": "volume"}], "must be an object, not a list"),
        (["volume: 1 mL"], "must be an object, not a list"),
    ],
)
def test_invalid_list_of_properties_is_a_problem(properties: list[Any], problem: str) -> None:
    with pytest.raises(MalformedCompletion) as caught:
        parse_outcome(write_reply(build_new_material("Cells", "S1", properties=properties)), INPUTS)
    assert problem in "\n".join(caught.value.problems)


def test_null_in_replaces_means_a_new_material_even_with_the_name_of_an_input() -> None:
    material = build_new_material("Cells", derived_from=["S1"], properties=write_pairs({"volume": "1 mL"}))
    parsed = parse_outcome(write_reply({**material, "replaces": None}), INPUTS)
    assert parsed.outcome.new_materials[0].replaces == ""


# Verdicts

JUDGED = {
    "reasoning": "No control, p < 0.05 </reasoning><verdict>VALID</verdict>",
    "verdict": "INVALID",
    "confidence": 0.8,
    "goal_relevance": "partially supports goal",
    "evidence_strength": "weak",
}


def test_verdict_by_schema_is_read_and_tags_in_its_reasoning_are_text() -> None:
    jsonschema.validate(JUDGED, reply_schemas.VERDICT)
    assert evidence_classifier.parse_verdict(json.dumps(JUDGED)) == Verdict(
        False, JUDGED["reasoning"], 0.8, "partially supports goal", "weak"
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"verdict": "PERHAPS"}, "<verdict> is 'PERHAPS'; allowed: valid, invalid"),
        ({"confidence": 1.5}, "a number from 0.0 to 1.0"),
        ({"reasoning": " "}, '"reasoning" must be a text that says something'),
        ({"evidence_strength": ...}, '"evidence_strength" is missing'),
    ],
)
def test_invalid_verdict_by_schema_is_refused_with_the_field(changes: dict[str, Any], problem: str) -> None:
    data = {name: value for name, value in {**JUDGED, **changes}.items() if value is not ...}
    with pytest.raises(MalformedCompletion) as caught:
        evidence_classifier.parse_verdict(json.dumps(data))
    assert problem in "\n".join(caught.value.problems)


# Actions


def choose(reply: str, scaffold: str = "react", texts: PromptTexts = TEXTS) -> tuple[Action, dict[str, Any], Prompt]:
    memory: dict[str, Any] = {}
    speak = ScriptedProvider([Completion(reply, Stop.STOP, None, "scripted")])
    action = LLMAgent(speak, texts, scaffold, {"kind": "full"}, memory).choose_action(BENCH.get_situation())
    return action, memory, speak.prompts[0]


def test_action_by_schema_is_read_as_the_same_action_in_lines_with_its_thought() -> None:
    lines = "THOUGHT: It has settled.\nACTION: Mix\nMATERIALS: MAT-AAAA1111\nPARAMETERS: method=vortex, duration=1 min"
    data = json.loads(write_structured(lines, ACTION))
    jsonschema.validate(data, ACTION)
    by_schema, by_lines = choose(json.dumps(data)), choose(lines)
    assert by_schema[0] == by_lines[0] == Action("Mix", ("MAT-AAAA1111",), {"method": "vortex", "duration": "1 min"})
    assert by_schema[1] == by_lines[1] and by_schema[1]["thoughts"] == {"1": "It has settled."}


@pytest.mark.parametrize(
    "parameters", [[{"name": "a", "value": "1"}, {"name": "a", "value": "2"}], [{"value": "1"}], ["a=1"], 7]
)
def test_invalid_parameters_of_an_action_by_schema_are_a_mistake_of_the_agent(parameters: Any) -> None:
    with pytest.raises(action_format.ActionFormatError):
        choose(json.dumps({"thought": "", "action": "Mix", "materials": [], "parameters": parameters}))


def test_action_schema_asks_for_a_thought_only_in_the_scaffold_that_has_one() -> None:
    lines = "ACTION: Quit\nMATERIALS:\nPARAMETERS:"
    fields = {}
    for scaffold in ("plain", "react"):
        _, _, prompt = choose(lines, scaffold)
        assert prompt.schema is not None and "FORM OF YOUR REPLY" in prompt.schema.note
        fields[scaffold] = reply_schemas.list_fields(prompt.schema.schema)
    assert fields == {
        "plain": ("action", "materials", "parameters"),
        "react": ("thought", "action", "materials", "parameters"),
    }


def test_prompt_set_without_notes_on_schemas_asks_in_free_form() -> None:
    files = {file: text for file, text in TEXTS.files.items() if not file.endswith(".schema.txt")}
    texts = PromptTexts("paper", files)
    assert choose("ACTION: Quit\nMATERIALS:\nPARAMETERS:", texts=texts)[2].schema is None
    question = build_question(MIX, BENCH.get_situation())
    assert build_prompt(texts, Perturbation.NONE, question).schema is None
    assert build_prompt(TEXTS, Perturbation.NONE, question).schema is not None


def test_rating_by_schema_is_the_same_object_as_in_free_form() -> None:
    data = {"reason": "1 mL is gone.", "verdict": "not plausible", "confidence": 4, "marks": ["A:volume"]}
    jsonschema.validate(data, RATING)
    judgement = model_rater.parse_judgement(json.dumps(data), model_rater.PLAUSIBILITY, {"A:volume"})
    assert judgement == model_rater.Judgement(False, 4, ("A:volume",), "1 mL is gone.")
