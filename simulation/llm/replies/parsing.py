"""What a language model wrote -> an outcome or a verdict, or MalformedCompletion with everything wrong. Pure and total."""

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
_BEFORE_SECRET = "*_#(["  # emphasis and brackets that belong to it
_SENTENCE_ENDS = ".!?…:;)]}\"'”’»—–"


class Reading(NamedTuple):
    """An outcome, the secret that stood behind its reasoning, and what was read differently from how it was written."""

    outcome: Outcome
    secret: str
    notes: tuple[str, ...]


def read_outcome(text: str, inputs: Inputs) -> Reading:
    """The last JSON object of a reply as the outcome of an action on these inputs. MalformedCompletion if it is none."""
    data = last_object(text, expects="success")
    inputs = _without_own_series(data, inputs)
    remarks = Remarks()
    fields.unknown(data, (*_FIELDS, *_secret_keys(data)), "the object", remarks)
    success = data.get("success")
    if not isinstance(success, bool):
        remarks.wrong("success must be true or false, without quotation marks")
    reason = _reason(data, inputs, remarks)
    written = fields.entries(data, "new_materials", fields.MOST_MATERIALS, remarks)
    drafts = linked(written, [_draft(e, at, inputs, remarks) for at, e in enumerate(written)], inputs, remarks)
    seen = _observations(data, _with_labels(inputs, drafts), remarks)
    reasoning, secret = split_secret(_reasoning(data, remarks))
    if success is False:
        _need_nothing_changed(drafts, inputs, remarks)
        if drafts or seen:
            remarks.told(f"the action failed: {len(drafts)} materials and {len(seen)} observations left out")
        drafts, seen = (), ()
    else:
        tell_what_is_gone(drafts, inputs, remarks)
    if remarks.problems:
        raise MalformedCompletion(*remarks.problems)
    outcome = Outcome(
        success=success is True,
        new_materials=drafts,
        new_observations=seen,
        reasoning=reasoning,
        failure_reason=reason,
        rejected_by=RejectedBy.NOBODY if success else RejectedBy.TRANSITION_MODEL,
    )
    return Reading(outcome, secret or _secret_field(data), tuple(remarks.notes))


def split_secret(reasoning: str) -> tuple[str, str]:
    """The reasoning up to the first SECRET: and what stands behind it; "" where there is none.

    Small letters count only where a line or a sentence begins: a top-secret: is none.
    """
    for found in _SECRET.finditer(reasoning):
        end = found.start()  # walked back by hand: a search that begins with such a run tries each of its places anew
        while end and (reasoning[end - 1].isspace() or reasoning[end - 1] in _BEFORE_SECRET):
            end -= 1
        begins = end == 0 or reasoning[end - 1] in _SENTENCE_ENDS or "\n" in reasoning[end : found.start()]
        apart = end < found.start() and found[0].startswith("SECRET")
        if begins or apart:
            return reasoning[:end].strip(), reasoning[found.end() :].strip(" \n\t*_)]<>")
    return reasoning.strip(), ""


def _draft(entry: Mapping[str, Any], at: int, inputs: Inputs, remarks: Remarks) -> Draft:
    place = f"new_materials[{at}]"
    fields.unknown(entry, _MATERIAL, place, remarks)
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
    """A reply that labels materials S1, S2 and so on, past the last of the inputs, means its own labels by them."""
    listed = data.get("new_materials")
    labels = (
        [(e.get("name"), e.get("properties")) for e in listed if isinstance(e, Mapping)]
        if isinstance(listed, list)
        else []
    )
    written = codes.aliases(json.dumps(labels, ensure_ascii=False))
    own = any(int(word[1:]) > len(inputs.materials) for word in written)
    return inputs.also(" ".join(written)) if own else inputs


def _with_labels(inputs: Inputs, drafts: tuple[Draft, ...]) -> Inputs:
    """A material that the reply itself calls S1 is meant by S1, not the alias."""
    return inputs.also(" ".join(f"{draft.name} {json.dumps(draft.properties)}" for draft in drafts))


def _observations(data: Mapping[str, Any], inputs: Inputs, remarks: Remarks) -> tuple[Observation, ...]:
    seen = []
    for at, entry in enumerate(fields.entries(data, "new_observations", fields.MOST_OBSERVATIONS, remarks)):
        place = f"new_observations[{at}]"
        fields.unknown(entry, _OBSERVATION, place, remarks)
        said = {
            "description": fields.text(entry, "description", place, fields.LONGEST_TEXT, remarks),
            "value": fields.value(entry, place, remarks),
        }
        told = {
            key: fields.within(inputs.told(text), f"{place}.{key}", fields.LONGEST_TEXT, remarks)
            for key, text in said.items()
        }
        if said["description"] and not told["description"]:
            remarks.wrong(f"{place}.description holds nothing but a barcode; say what was observed")
        seen.append(Observation(told["description"], fields.measurement_type(entry, place, remarks), told["value"]))
    return tuple(seen)


def _reason(data: Mapping[str, Any], inputs: Inputs, remarks: Remarks) -> str:
    """Why the action failed: needed if it did, and nothing if it did not."""
    written = data.get("failure_reason")
    if not isinstance(written, str | None):
        remarks.wrong("failure_reason must be text")
        return ""
    bare = (written or "").strip()
    given = bare.lower().rstrip(".") not in _NO_REASON
    if data.get("success") is True and given:
        remarks.told(f"success is true, so failure_reason {quoted(bare)} was left out")
        return ""
    if data.get("success") is False and not given:
        remarks.wrong("success is false and failure_reason does not say why")
    said = fields.within(bare if given else "", "failure_reason", fields.LONGEST_TEXT, remarks)
    return fields.within(inputs.reason(said), "failure_reason", fields.LONGEST_TEXT, remarks)


def _reasoning(data: Mapping[str, Any], remarks: Remarks) -> str:
    """What the model says of why; nothing depends on it, so that it may be missing."""
    written = data.get("reasoning")
    if not isinstance(written, str):
        remarks.told("reasoning is missing" if written is None else "reasoning is no text and was left out")
        return ""
    return written[: fields.LONGEST_REASONING]


def _need_nothing_changed(drafts: tuple[Draft, ...], inputs: Inputs, remarks: Remarks) -> None:
    """A failed action may hand back its inputs as they were; that is the same as nothing."""
    known = {material.barcode: material for material in inputs.materials}
    for draft in drafts:
        before = known.get(draft.replaces)
        if before is None or _state(draft) != _state(before):
            remarks.wrong(f"success is false, so nothing changes; {quoted(draft.name)} must not be in new_materials")


def _state(thing: Draft | Material) -> tuple[Any, ...]:
    return thing.properties, thing.available_for_use, thing.material_type, thing.environmental_condition


def _secret_keys(data: Mapping[str, Any]) -> list[str]:
    return [key for key in data if key.strip().casefold() == "secret"]


def _secret_field(data: Mapping[str, Any]) -> str:
    """Some write the secret as a field of its own."""
    said = [data[key] for key in _secret_keys(data)]
    return said[0].strip()[: fields.LONGEST_REASONING] if said and isinstance(said[0], str) else ""
