"""The action catalogue as tools of chat models, and calls of these tools as actions.

A tool has the name of its action. Its arguments are `materials`, a list of barcodes, and the parameters of the action. The
schema tells a model what to write; what counts is checked by the catalogue, as for every action.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from simulation.lab.action_format import ActionFormatError
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.parameters import Parameter
from simulation.lab.quantities import list_units
from wetbench_site.text import parse_json

MATERIALS = "materials"
ToolStyle = Literal["openai", "anthropic"]
_BARCODE = {"type": "string", "pattern": "^MAT-[A-Z0-9]{8}$"}


class ToolCall(NamedTuple):
    """A call of a tool: its id, "" if it has none, and the action as {"name", "materials", "parameters"}."""

    call_id: str
    action: dict[str, Any]


def build_tools(catalogue: Catalogue, style: ToolStyle = "openai") -> list[dict[str, Any]]:
    """Return every action as a tool: OpenAI's function format, or Anthropic's with `input_schema`."""
    tools = []
    for kind in catalogue.types.values():
        facts = {"name": kind.name, "description": f"{kind.description} In: {kind.inputs}. Out: {kind.outputs}."}
        if style == "openai":
            tools.append({"type": "function", "function": {**facts, "parameters": build_schema(kind)}})
        else:
            tools.append({**facts, "input_schema": build_schema(kind)})
    return tools


def build_schema(kind: ActionType) -> dict[str, Any]:
    """Return the JSON schema of an action's arguments."""
    properties, required = {}, []
    if kind.max_materials:
        properties[MATERIALS] = {
            "type": "array", "items": _BARCODE, "minItems": kind.min_materials, "maxItems": kind.max_materials,
            "description": "Barcodes of the materials that the action uses, changes or consumes",
        }  # fmt: skip
        required += [MATERIALS] if kind.min_materials else []
    for parameter in kind.parameters:
        properties[parameter.name] = _build_parameter(parameter)
        required += [parameter.name] if parameter.required else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _build_parameter(parameter: Parameter) -> dict[str, Any]:
    described = {"description": parameter.description}
    if parameter.type == "range_with_units":
        units = "/".join(unit for unit in list_units(parameter.dimension) if unit)
        described["description"] += f"; {parameter.minimum} to {parameter.maximum}, with its unit: {units}"
    default = {} if parameter.default is None else {"default": parameter.default}
    return {**_build_type(parameter), **described, **default}


def _build_type(parameter: Parameter) -> dict[str, Any]:
    match parameter.type:
        case "select":
            return {"type": "string", "enum": list(parameter.options)}
        case "multiselect":
            return {"type": "array", "items": {"type": "string", "enum": list(parameter.options)}, "minItems": 1}
        case "range":
            low, high = (float(bound) for bound in (parameter.minimum, parameter.maximum))
            return {"type": "number", "minimum": low, "maximum": high}
        case "boolean":
            return {"type": "boolean"}
        case "object":
            keys = {key: _build_parameter(part) if part else {"type": "string"} for key, part in parameter.keys.items()}
            return {"type": "object", "properties": keys, "additionalProperties": False}
        case "material_selector":
            return dict(_BARCODE)
        case "multi_material_selector":
            return {"type": "array", "items": _BARCODE, "minItems": 1}
        case "text":
            # No `pattern`: JSON Schema has the regular expressions of JavaScript, which the catalogue's are not.
            return {"type": "string", "maxLength": parameter.max_length}
        case _:
            return {"type": "string"}


def is_tool_call(written: Mapping[str, Any]) -> bool:
    """Return whether an object is a tool call or a chat message, and not an action as an object."""
    return "function" in written or "input" in written or "arguments" in written or "role" in written


def read_tool_call(written: Mapping[str, Any]) -> ToolCall:
    """Return the action that a tool call requests.

    Accepted are a call of OpenAI's ({"id", "function": {"name", "arguments"}}), a block of Anthropic's ({"id", "name",
    "input"}), {"name", "arguments"}, and an assistant's message with one of them in `tool_calls` or `content`. Arguments
    are an object or its JSON text. Raises ActionFormatError.
    """
    if "role" in written:
        return read_tool_call(_find_call(written))
    function = written.get("function", written)
    if not isinstance(function, Mapping):
        raise ActionFormatError("function must be an object with name and arguments")
    arguments = function.get("arguments", function.get("input", {}))
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise ActionFormatError("The arguments of the call are not one JSON object") from error
    if not isinstance(arguments, Mapping):
        raise ActionFormatError("The arguments of the call must be an object")
    parameters = {name: value for name, value in arguments.items() if name != MATERIALS}
    action = {"name": function.get("name"), "materials": arguments.get(MATERIALS, []), "parameters": parameters}
    call_id = written.get("id")
    return ToolCall(call_id if isinstance(call_id, str) else "", action)


def _find_call(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    calls = message.get("tool_calls") or [block for block in blocks if block.get("type") == "tool_use"]
    if not isinstance(calls, list) or len(calls) != 1 or not isinstance(calls[0], Mapping):
        raise ActionFormatError("A message needs exactly one tool call: choose one action at a time")
    return calls[0]


def build_call(action_name: str, materials: list[str], parameters: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    """Return an action as a tool call in OpenAI's format."""
    arguments = {MATERIALS: materials, **parameters}
    function = {"name": action_name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}
