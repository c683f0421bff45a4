"""The form of every reply as a JSON schema: what providers enforce, and where the parsers take fields and allowed values from.

The schemas use only what the strict modes of OpenAI and Anthropic accept: every field is required, no field may be added, there
is no recursion, and no limits of numbers or lengths. An object with free names is a list of names and values.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from simulation.lab import materials
from simulation.lab.actions import Catalogue

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}

# The words of a verdict, and the closed lists of the fields beside it.
VERDICTS = ("VALID", "INVALID")
RELEVANCE = ("directly supports goal", "partially supports goal", "does not support goal")
STRENGTH = ("strong", "moderate", "weak")
CONFIDENCES = (1, 2, 3, 4, 5)  # of a model rater
CANNOT_JUDGE = "cannot judge"


def build_object(**fields: Schema) -> Schema:
    """Return the schema of an object with exactly these fields. Models write them in this order."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def build_list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def build_choice(allowed: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(allowed)}


def list_fields(schema: Schema) -> tuple[str, ...]:
    """Return the names of an object's fields, in order."""
    return tuple(schema["properties"])


def list_allowed(schema: Schema, field: str) -> tuple[Any, ...]:
    """Return the allowed values of an object's field."""
    return tuple(schema["properties"][field]["enum"])


_SIMPLE_VALUE: Schema = {"anyOf": [TEXT, NUMBER, BOOLEAN]}
# One level of nesting: recursive schemas are not accepted by every provider.
_PROPERTY_VALUE: Schema = {
    "anyOf": [TEXT, NUMBER, BOOLEAN, TEXTS, build_list(build_object(name=TEXT, value=_SIMPLE_VALUE))]
}
PROPERTY = build_object(name=TEXT, value=_PROPERTY_VALUE)
NEW_MATERIAL = build_object(
    name=TEXT,
    properties=build_list(PROPERTY),
    # Nothing becomes unlimited, so that word is not among the choices.
    available_for_use=build_choice(word for word in materials.AVAILABILITY if word != materials.UNLIMITED),
    material_type=build_choice(materials.MATERIAL_TYPES),
    environmental_condition=build_choice(materials.CONDITIONS),
    replaces={"anyOf": [TEXT, {"type": "null"}]},
    derived_from=TEXTS,
)
NEW_OBSERVATION = build_object(description=TEXT, measurement_type=TEXT, value=TEXT)
OUTCOME = build_object(
    reasoning=TEXT,
    success=BOOLEAN,
    failure_reason=TEXT,
    new_materials=build_list(NEW_MATERIAL),
    new_observations=build_list(NEW_OBSERVATION),
)
VERDICT = build_object(
    reasoning=TEXT,
    verdict=build_choice(VERDICTS),
    confidence=NUMBER,
    goal_relevance=build_choice(RELEVANCE),
    evidence_strength=build_choice(STRENGTH),
)
PARAMETER = build_object(name=TEXT, value=TEXT)


def build_rating_schema(yes: str, no: str) -> Schema:
    """Return the schema of a rating with these verdicts. It is the same for every item, so that providers can cache prompts."""
    return build_object(
        reason=TEXT,
        verdict=build_choice((yes, no, CANNOT_JUDGE)),
        confidence={"type": "integer", "enum": list(CONFIDENCES)},
        marks=TEXTS,
    )


@lru_cache(maxsize=16)
def build_action_schema(catalogue: Catalogue, has_thought: bool) -> Schema:
    """Return the schema of an agent's action, with its thought before it if the scaffold asks for one.

    Values of parameters are text, as in the three lines: the catalogue defines their types.
    """
    thought = {"thought": TEXT} if has_thought else {}
    return build_object(
        **thought, action=build_choice(catalogue.types), materials=TEXTS, parameters=build_list(PARAMETER)
    )
