"""Write an answer in the form of the JSON schema that a request carries, as the structured outputs of the providers do."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from simulation.scripted_server.questions import bad_request

_ACTION = re.compile(
    r"^(?:THOUGHT:\s*(?P<thought>.*?)\n)?ACTION:[ \t]*(?P<action>.*)\nMATERIALS:[ \t]*(?P<materials>.*)\nPARAMETERS:[ \t]*(?P<parameters>.*)$",
    re.DOTALL,
)
_TAG = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)
_PAIR = re.compile(r", (?=\w+=)")  # a comma before the next name; other commas are part of a value


def find_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON schema in a request of either API, or None. Raises RefusedError for a schema that strict modes reject."""
    response_format = body.get("response_format") or {}
    output_format = (body.get("output_config") or {}).get("format") or {}
    if response_format.get("type") == "json_schema":
        schema, name = response_format["json_schema"].get("schema"), "response_format"
    elif output_format.get("type") == "json_schema":
        schema, name = output_format.get("schema"), "output_config.format"
    else:
        return None
    if not isinstance(schema, Mapping):
        raise bad_request(f"{name}: a JSON schema is required")
    _check_strict(schema, name, name)
    return schema


def _check_strict(schema: Any, path: str, name: str) -> None:
    """Raise RefusedError unless every object lists all its fields as required and allows no others."""
    if not isinstance(schema, Mapping):
        return
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise bad_request(f"Invalid schema for {name}: in {path}, 'additionalProperties' must be false")
        if list(schema.get("required", ())) != list(schema.get("properties", {})):
            raise bad_request(f"Invalid schema for {name}: in {path}, 'required' must list every property")
    for key in ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "$ref"):
        if key in schema:
            raise bad_request(f"Invalid schema for {name}: in {path}, '{key}' is not supported")
    for field, part in schema.get("properties", {}).items():
        _check_strict(part, f"{path}.{field}", name)
    for part in (schema.get("items"), *schema.get("anyOf", ())):
        _check_strict(part, path, name)


def write_structured(text: str, schema: Mapping[str, Any]) -> str:
    """Return an answer in free form as JSON of this schema. A text that has no such form is returned unchanged."""
    fields = tuple(schema["properties"])
    convert = next((convert for name, convert in _CONVERSIONS.items() if name in fields), None)
    data = convert(text) if convert else None
    return text if data is None else json.dumps({name: data.get(name, "") for name in fields}, ensure_ascii=False)


def _convert_action(text: str) -> dict[str, Any] | None:
    match = _ACTION.match(text)
    if match is None:
        return None
    pairs = [pair.split("=", 1) for pair in _PAIR.split(match["parameters"].strip()) if "=" in pair]
    return {
        "thought": match["thought"] or "",
        "action": match["action"].strip(),
        "materials": [code.strip() for code in match["materials"].split(",") if code.strip()],
        "parameters": [{"name": name.strip(), "value": value.strip()} for name, value in pairs],
    }


def _convert_outcome(text: str) -> dict[str, Any] | None:
    data = _parse_json(text)
    if data is None:
        return None
    for material in data["new_materials"]:
        material["properties"] = _list_pairs(material["properties"])
        material.setdefault("replaces", None)
        material.setdefault("derived_from", [])
    for observation in data["new_observations"]:
        observation.pop("timestamp", None)
    return data


def _list_pairs(properties: Mapping[str, Any], depth: int = 1) -> list[dict[str, Any]]:
    """Return properties as a list of names and values. What is nested deeper than the schema allows becomes text."""
    pairs = []
    for name, value in properties.items():
        if isinstance(value, Mapping) and depth == 1:
            value = _list_pairs(value, depth + 1)
        elif isinstance(value, list) and depth == 1:
            value = [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in value]
        elif not isinstance(value, str | int | float):
            value = json.dumps(value, ensure_ascii=False)
        pairs.append({"name": name, "value": value})
    return pairs


def _convert_verdict(text: str) -> dict[str, Any] | None:
    tags = dict(_TAG.findall(text))
    return {**tags, "confidence": float(tags["confidence"])} if "confidence" in tags else None


def _parse_json(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


# By a field that only this kind of reply has.
_CONVERSIONS: Mapping[str, Callable[[str], dict[str, Any] | None]] = {
    "action": _convert_action,
    "new_materials": _convert_outcome,
    "goal_relevance": _convert_verdict,
    "marks": _parse_json,
}
