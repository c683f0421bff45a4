"""Parse a model's reply as an outcome, or raise MalformedCompletion with everything that is wrong."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from simulation.lab.materials import Draft, Material
from simulation.lab.outcomes import Observation, Outcome, RejectedBy
from simulation.llm.errors import MalformedCompletion
from simulation.llm.replies import codes, fields, vocabulary
from simulation.llm.replies.cleaning import answer, clean_text, quoted
from simulation.llm.replies.lineage import Inputs, linked, tell_what_is_gone
from simulation.llm.replies.objects import last_object
from simulation.llm.replies.remarks import Remarks
from simulation.llm.replies.tags import read_verdict

__all__ = ["Reading", "answer", "clean_text", "read_outcome", "read_verdict", "split_secret"]

_FIELDS = ("new_materials", "new_observations", "reasoning", "success", "failure_reason")
_MATERIAL = (
    "name", "properties", "available_for_use", "supply", "material_type", "environmental_condition", "replaces", "derived_from",
)  # fmt: skip
_OBSERVATION = ("description", "measurement_type", "value", "timestamp")
_NO_REASON = ("", "none", "n/a", "na", "null", "-", "no", "not applicable")
_SECRET = re.compile(r"\bSECRET\b[*_]*\s*:[*_]*", re.IGNORECASE)
_BEFORE_SECRET = "*_#(["  # emphasis and brackets before it
_SENTENCE_ENDS = ".!?…:;)]}\"'”’»—–"


class Reading(NamedTuple):
    """An outcome, the secret after its reasoning, and notes on values that were interpreted."""

    outcome: Outcome
    secret: str
    notes: tuple[str, ...]


def read_outcome(text: str, inputs: Inputs) -> Reading:
    """Return the last JSON object of a reply as the outcome of an action on these inputs. Raises MalformedCompletion."""
    data = last_object(text, expects="success")
    # Labels in the reply itself are not aliases: a model may name its new tubes S1, S2 and so on.
    inputs = _without_own_series(data, inputs)
    remarks = Remarks()
    fields.unknown(data, (*_FIELDS, *_secret_keys(data)), "the object", remarks)
    success = data.get("success")
    if not isinstance(success, bool):
        remarks.wrong("success must be true or false, without quotation marks")
    reason = _reason(data, inputs, remarks)
    entries = fields.entries(data, "new_materials", fields.MOST_MATERIALS, remarks)
    drafts = linked(entries, [_draft(e, at, inputs, remarks) for at, e in enumerate(entries)], inputs, remarks)
    observations = _observations(data, _with_labels(inputs, drafts), remarks)
    reasoning, secret = split_secret(_reasoning(data, remarks))
    # A rejection changes nothing, so what the model returned with it is dropped.
    if success is False:
        _need_nothing_changed(drafts, inputs, remarks)
        if drafts or observations:
            remarks.told(f"the action failed: {len(drafts)} materials and {len(observations)} observations left out")
        drafts, observations = (), ()
    else:
        tell_what_is_gone(drafts, inputs, remarks)
    # All problems at once, so that one repair turn can mend them.
    if remarks.problems:
        raise MalformedCompletion(*remarks.problems)
    outcome = Outcome(
        success=success is True,
        new_materials=drafts,
        new_observations=observations,
        reasoning=reasoning,
        failure_reason=reason,
        rejected_by=RejectedBy.NOBODY if success else RejectedBy.TRANSITION_MODEL,
    )
    return Reading(outcome, secret or _secret_field(data), tuple(remarks.notes))


def split_secret(reasoning: str) -> tuple[str, str]:
    """Return the reasoning up to the first SECRET: and the text after it; "" if there is none.

    Lower case counts only at the start of a line or sentence: "top-secret:" does not count.
    """
    for match in _SECRET.finditer(reasoning):
        end = match.start()  # walked back in a loop: a regular expression would retry from each position of a long run
        while end and (reasoning[end - 1].isspace() or reasoning[end - 1] in _BEFORE_SECRET):
            end -= 1
        begins = end == 0 or reasoning[end - 1] in _SENTENCE_ENDS or "\n" in reasoning[end : match.start()]
        apart = end < match.start() and match[0].startswith("SECRET")
        if begins or apart:
            return reasoning[:end].strip(), reasoning[match.end() :].strip(" \n\t*_)]<>")
    return reasoning.strip(), ""


def _draft(entry: Mapping[str, Any], at: int, inputs: Inputs, remarks: Remarks) -> Draft:
    place = f"new_materials[{at}]"
    fields.unknown(entry, _MATERIAL, place, remarks)
    # Aliases become names before the length is checked, because the names are longer.
    name = inputs.named_within(fields.text(entry, "name", place, fields.LONGEST_NAME, remarks))
    name = fields.within(" ".join(name.split()), f"{place}.name", fields.LONGEST_NAME, remarks)
    if not name and isinstance(entry.get("name"), str) and entry["name"].strip():
        remarks.wrong(f"{place}.name holds nothing but a barcode; name the material")
    return Draft(
        name=name,
        properties=fields.properties(entry, place, remarks, inputs.named_within),
        available_for_use=vocabulary.availability(entry, place, remarks),
        material_type=vocabulary.material_type(entry, place, remarks),
        environmental_condition=vocabulary.condition(entry, place, remarks),
    )


def _without_own_series(data: Mapping[str, Any], inputs: Inputs) -> Inputs:
    """Return the inputs with the reply's own labels: a reply with S1, S2, ... beyond the inputs uses these as labels."""
    materials = data.get("new_materials")
    labels = (
        [(e.get("name"), e.get("properties")) for e in materials if isinstance(e, Mapping)]
        if isinstance(materials, list)
        else []
    )
    labels_found = codes.aliases(json.dumps(labels, ensure_ascii=False))
    has_own_labels = any(int(word[1:]) > len(inputs.materials) for word in labels_found)
    return inputs.also(" ".join(labels_found)) if has_own_labels else inputs


def _with_labels(inputs: Inputs, drafts: tuple[Draft, ...]) -> Inputs:
    """Return the inputs with names of new materials as labels: a new material called S1 is meant by S1, not the alias."""
    return inputs.also(" ".join(f"{draft.name} {json.dumps(draft.properties)}" for draft in drafts))


def _observations(data: Mapping[str, Any], inputs: Inputs, remarks: Remarks) -> tuple[Observation, ...]:
    observations = []
    for index, entry in enumerate(fields.entries(data, "new_observations", fields.MOST_OBSERVATIONS, remarks)):
        place = f"new_observations[{index}]"
        fields.unknown(entry, _OBSERVATION, place, remarks)
        raw = {
            "description": fields.text(entry, "description", place, fields.LONGEST_TEXT, remarks),
            "value": fields.value(entry, place, remarks),
        }
        fields_text = {
            key: fields.within(inputs.told(text), f"{place}.{key}", fields.LONGEST_TEXT, remarks)
            for key, text in raw.items()
        }
        if raw["description"] and not fields_text["description"]:
            remarks.wrong(f"{place}.description holds nothing but a barcode; say what was observed")
        observations.append(
            Observation(
                fields_text["description"], fields.measurement_type(entry, place, remarks), fields_text["value"]
            )
        )
    return tuple(observations)


def _reason(data: Mapping[str, Any], inputs: Inputs, remarks: Remarks) -> str:
    """Return why the action failed: required if it did, and "" otherwise."""
    written = data.get("failure_reason")
    if not isinstance(written, str | None):
        remarks.wrong("failure_reason must be text")
        return ""
    bare = (written or "").strip()
    has_reason = bare.lower().rstrip(".") not in _NO_REASON
    if data.get("success") is True and has_reason:
        remarks.told(f"success is true, so failure_reason {quoted(bare)} was left out")
        return ""
    if data.get("success") is False and not has_reason:
        remarks.wrong("success is false and failure_reason does not say why")
    reason = fields.within(bare if has_reason else "", "failure_reason", fields.LONGEST_TEXT, remarks)
    return fields.within(inputs.reason(reason), "failure_reason", fields.LONGEST_TEXT, remarks)


def _reasoning(data: Mapping[str, Any], remarks: Remarks) -> str:
    """Return the model's reasoning, which may be missing because nothing depends on it."""
    value = data.get("reasoning")
    if not isinstance(value, str):
        remarks.told("reasoning is missing" if value is None else "reasoning is no text and was left out")
        return ""
    return value[: fields.LONGEST_REASONING]


def _need_nothing_changed(drafts: tuple[Draft, ...], inputs: Inputs, remarks: Remarks) -> None:
    """Record a problem if a failed action changed a material. It may return its inputs unchanged, which means nothing."""
    input_of = {material.barcode: material for material in inputs.materials}
    for draft in drafts:
        before = input_of.get(draft.replaces)
        if before is None or _state(draft) != _state(before):
            remarks.wrong(f"success is false, so nothing changes; {quoted(draft.name)} must not be in new_materials")


def _state(thing: Draft | Material) -> tuple[Any, ...]:
    return thing.properties, thing.available_for_use, thing.material_type, thing.environmental_condition


def _secret_keys(data: Mapping[str, Any]) -> list[str]:
    return [key for key in data if key.strip().casefold() == "secret"]


def _secret_field(data: Mapping[str, Any]) -> str:
    """Return the secret if the model wrote it as a separate field."""
    values = [data[key] for key in _secret_keys(data)]
    return values[0].strip()[: fields.LONGEST_REASONING] if values and isinstance(values[0], str) else ""
