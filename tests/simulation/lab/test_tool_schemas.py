"""Tools of chat models: every action as a schema, and calls of several providers as actions."""

import json

import pytest

from simulation.lab.action_format import ActionFormatError
from simulation.lab.environment.tool_schemas import build_tools, read_tool_call
from tests.support.data_files import CATALOGUE

ACTION = {"name": "Wait", "materials": ["MAT-A1B2C3D4"], "parameters": {"duration": "5 min"}}
ARGUMENTS = {"materials": ["MAT-A1B2C3D4"], "duration": "5 min"}


def get_schema(name):
    return next(tool["input_schema"] for tool in build_tools(CATALOGUE, "anthropic") if tool["name"] == name)


def test_tools_have_every_action_in_both_formats():
    openai, anthropic = build_tools(CATALOGUE), build_tools(CATALOGUE, "anthropic")
    assert (
        [tool["function"]["name"] for tool in openai] == [tool["name"] for tool in anthropic] == list(CATALOGUE.types)
    )
    for first, second in zip(openai, anthropic, strict=True):
        assert first["type"] == "function" and set(second) == {"name", "description", "input_schema"}
        assert first["function"]["parameters"] == second["input_schema"]
        assert len(second["name"]) <= 64  # OpenAI's limit
    assert json.loads(json.dumps(openai)) == openai


def test_schema_has_every_parameter_of_the_action_with_its_type_and_bounds():
    for kind in CATALOGUE.types.values():
        schema = get_schema(kind.name)
        names = {parameter.name for parameter in kind.parameters}
        assert set(schema["properties"]) - {"materials"} == names and schema["additionalProperties"] is False
        needed = {parameter.name for parameter in kind.parameters if parameter.required}
        assert set(schema["required"]) - {"materials"} == needed
    transfer = get_schema("Transfer")["properties"]
    assert transfer["source"] == {
        "type": "string", "pattern": "^MAT-[A-Z0-9]{8}$", "description": CATALOGUE.types["Transfer"].parameters[0].description,
    }  # fmt: skip
    assert (
        transfer["amount"]["type"] == "string"
        and "0.1 µL to 1 L, with its unit: nL/µL/mL/L" in transfer["amount"]["description"]
    )
    assert transfer["mix_cycles"]["type"] == "number" and transfer["mix_cycles"]["maximum"] == 30
    assert transfer["mix_before"]["type"] == "boolean"
    assert "filter tip" in transfer["tip_type"]["enum"]
    assert transfer["materials"]["minItems"] == 2


def test_every_default_of_a_schema_is_allowed_by_the_catalogue():
    for kind in CATALOGUE.types.values():
        for parameter in kind.parameters:
            schema = get_schema(kind.name)["properties"][parameter.name]
            if "default" in schema:
                parameter.parse_value(schema["default"])


@pytest.mark.parametrize(
    ("call", "call_id"),
    [
        ({"id": "a", "type": "function", "function": {"name": "Wait", "arguments": json.dumps(ARGUMENTS)}}, "a"),
        ({"id": "b", "type": "tool_use", "name": "Wait", "input": ARGUMENTS}, "b"),
        ({"name": "Wait", "arguments": ARGUMENTS}, ""),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "Wait", "arguments": json.dumps(ARGUMENTS)}}]}, "c"),
        ({"role": "assistant", "content": [{"type": "text", "text": "Now."}, {"type": "tool_use", "id": "d", "name": "Wait", "input": ARGUMENTS}]}, "d"),
    ],
)  # fmt: skip
def test_tool_calls_of_each_provider_are_the_same_action(call, call_id):
    assert read_tool_call(call) == (call_id, ACTION)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"function": "Wait"}, "function must be an object"),
        ({"function": {"name": "Wait", "arguments": "{"}}, "not one JSON object"),
        ({"function": {"name": "Wait", "arguments": '{"duration": NaN}'}}, "not one JSON object"),
        ({"name": "Wait", "input": ["MAT-A1B2C3D4"]}, "must be an object"),
        ({"role": "assistant", "content": "I wait."}, "exactly one tool call"),
        ({"role": "assistant", "tool_calls": [{"name": "Wait", "input": {}}, {"name": "Quit", "input": {}}]}, "one action at a time"),
        ({"role": "assistant", "tool_calls": "Wait"}, "exactly one tool call"),
    ],
)  # fmt: skip
def test_unreadable_tool_call_is_refused_with_what_is_needed(call, told):
    with pytest.raises(ActionFormatError, match=told):
        read_tool_call(call)
