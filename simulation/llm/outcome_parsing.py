"""Parse a model's reply as an outcome, or raise MalformedCompletion with everything that is wrong."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from simulation.lab.materials import Material, NewMaterial
from simulation.lab.outcomes import Observation, Outcome, RejectedBy
from simulation.llm import reply_fields, reply_schemas
from simulation.llm.conversation import MalformedCompletion, extract_last_object, quote_short
from simulation.llm.lineage import Inputs, find_aliases, link_materials, note_used_up
from simulation.llm.reply_fields import LONGEST_NAME, LONGEST_REASONING, LONGEST_TEXT, ParseNotes, limit_length
from simulation.llm.reply_schemas import list_fields

_FIELDS = list_fields(reply_schemas.OUTCOME)
_MATERIAL = (*list_fields(reply_schemas.NEW_MATERIAL), "supply")  # an older name of available_for_use
_OBSERVATION = (*list_fields(reply_schemas.NEW_OBSERVATION), "timestamp")  # which the bench sets itself
_NO_REASON = ("", "none", "n/a", "na", "null", "-", "no", "not applicable")
_SECRET = re.compile(r"\bSECRET\b[*_]*\s*:[*_]*", re.IGNORECASE)
_BEFORE_SECRET = "*_#(["  # emphasis and brackets before it
_SENTENCE_ENDS = ".!?…:;)]}\"'”’»—–"


class ParsedOutcome(NamedTuple):
    """An outcome, the secret explanation after its reasoning, and notes on values that were interpreted."""

    outcome: Outcome
    secret: str
    notes: tuple[str, ...]


def parse_outcome(text: str, inputs: Inputs) -> ParsedOutcome:
    """Return the last JSON object of a reply as the outcome of an action on these inputs. Raises MalformedCompletion."""
    data = extract_last_object(text, expects="success")
    inputs = _with_reply_labels(data, inputs)
    remarks = ParseNotes()
    # Some models write the secret as a separate field.
    secret_keys = [key for key in data if key.strip().casefold() == "secret"]
    reply_fields.note_unknown_fields(data, (*_FIELDS, *secret_keys), "the object", remarks)
    success = data.get("success")
    if not isinstance(success, bool):
        remarks.add_problem("success must be true or false, without quotation marks")
    reason = _parse_failure_reason(data, inputs, remarks)
    entries = reply_fields.parse_entries(data, "new_materials", reply_fields.MOST_MATERIALS, remarks)
    materials = [_parse_material(entry, at, inputs, remarks) for at, entry in enumerate(entries)]
    drafts = link_materials(entries, materials, inputs, remarks)
    # Codes in new materials are labels: if a new material is called S1, S1 is not an alias.
    labelled = inputs.with_texts(" ".join(f"{draft.name} {json.dumps(draft.properties)}" for draft in drafts))
    observations = _parse_observations(data, labelled, remarks)
    reasoning = data.get("reasoning")
    if not isinstance(reasoning, str):
        # Nothing depends on it.
        remarks.add_note("reasoning is missing" if reasoning is None else "reasoning is not text and was left out")
        reasoning = ""
    reasoning, secret = split_secret(reasoning[:LONGEST_REASONING])
    if not secret and secret_keys and isinstance(data[secret_keys[0]], str):
        secret = data[secret_keys[0]].strip()[:LONGEST_REASONING]
    # A rejection changes nothing, so what the model returned with it is dropped.
    if success is False:
        _check_nothing_changed(drafts, inputs, remarks)
        if drafts or observations:
            remarks.add_note(
                f"the action failed: {len(drafts)} materials and {len(observations)} observations left out"
            )
        drafts, observations = (), ()
    else:
        note_used_up(drafts, inputs, remarks)
    # All problems at once, so that one repair turn can correct them.
    if remarks.problems:
        raise MalformedCompletion(*remarks.problems)
    rejected_by = RejectedBy.NOBODY if success else RejectedBy.TRANSITION_MODEL
    outcome = Outcome(success is True, drafts, observations, reasoning, reason, rejected_by)
    return ParsedOutcome(outcome, secret, tuple(remarks.notes))


def split_secret(reasoning: str) -> tuple[str, str]:
    """Return the reasoning up to the first SECRET: and the text after it; "" if there is none.

    In lower case, the word counts only at the start of a line or sentence: "top-secret:" does not count.
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


def _with_reply_labels(data: Mapping[str, Any], inputs: Inputs) -> Inputs:
    """Return the inputs with the reply's own labels: if S5 exceeds the number of inputs, S1 and so on are no aliases."""
    materials = data.get("new_materials")
    entries = [entry for entry in materials if isinstance(entry, Mapping)] if isinstance(materials, list) else []
    labels = [(entry.get("name"), entry.get("properties")) for entry in entries]
    aliases = find_aliases(json.dumps(labels, ensure_ascii=False))
    has_own_labels = any(int(word[1:]) > len(inputs.materials) for word in aliases)
    return inputs.with_texts(" ".join(aliases)) if has_own_labels else inputs


def _parse_material(entry: Mapping[str, Any], index: int, inputs: Inputs, remarks: ParseNotes) -> NewMaterial:
    place = f"new_materials[{index}]"
    reply_fields.note_unknown_fields(entry, _MATERIAL, place, remarks)
    # Aliases become names before the length is checked, because the names are longer.
    name = inputs.replace_in_property(reply_fields.parse_text(entry, "name", place, LONGEST_NAME, remarks))
    name = limit_length(" ".join(name.split()), f"{place}.name", LONGEST_NAME, remarks)
    if not name and isinstance(entry.get("name"), str) and entry["name"].strip():
        remarks.add_problem(f"{place}.name holds nothing but a barcode; name the material")
    return NewMaterial(
        name=name,
        properties=reply_fields.parse_properties(entry, place, remarks, inputs.replace_in_property),
        available_for_use=reply_fields.parse_choice(entry, "available_for_use", place, remarks),
        material_type=reply_fields.parse_choice(entry, "material_type", place, remarks),
        environmental_condition=reply_fields.parse_choice(entry, "environmental_condition", place, remarks),
    )


def _parse_observations(data: Mapping[str, Any], inputs: Inputs, remarks: ParseNotes) -> tuple[Observation, ...]:
    observations = []
    entries = reply_fields.parse_entries(data, "new_observations", reply_fields.MOST_OBSERVATIONS, remarks)
    for index, entry in enumerate(entries):
        place = f"new_observations[{index}]"
        reply_fields.note_unknown_fields(entry, _OBSERVATION, place, remarks)
        written = {
            "description": reply_fields.parse_text(entry, "description", place, LONGEST_TEXT, remarks),
            "value": reply_fields.parse_value(entry, place, remarks),
        }
        texts = {
            key: limit_length(inputs.replace_in_observation(text), f"{place}.{key}", LONGEST_TEXT, remarks)
            for key, text in written.items()
        }
        if written["description"] and not texts["description"]:
            remarks.add_problem(f"{place}.description holds nothing but a barcode; state what was observed")
        measurement_type = reply_fields.parse_measurement_type(entry, place, remarks)
        observations.append(Observation(texts["description"], measurement_type, texts["value"]))
    return tuple(observations)


def _parse_failure_reason(data: Mapping[str, Any], inputs: Inputs, remarks: ParseNotes) -> str:
    """Return why the action failed, which a failed action must state, or "" if it succeeded."""
    written = data.get("failure_reason")
    if not isinstance(written, str | None):
        remarks.add_problem("failure_reason must be text")
        return ""
    reason = (written or "").strip()
    has_reason = reason.lower().rstrip(".") not in _NO_REASON
    if data.get("success") is True and has_reason:
        remarks.add_note(f"success is true, so failure_reason {quote_short(reason)} was left out")
        return ""
    if data.get("success") is False and not has_reason:
        remarks.add_problem("success is false and failure_reason does not state why")
    reason = limit_length(reason if has_reason else "", "failure_reason", LONGEST_TEXT, remarks)
    return limit_length(inputs.replace_in_reason(reason), "failure_reason", LONGEST_TEXT, remarks)


def _check_nothing_changed(drafts: tuple[NewMaterial, ...], inputs: Inputs, remarks: ParseNotes) -> None:
    """Record a problem if a failed action changed a material. Inputs that are returned unchanged are allowed."""

    def get_state(material: NewMaterial | Material) -> tuple[Any, ...]:
        words = (material.available_for_use, material.material_type, material.environmental_condition)
        return material.properties, *words

    for draft in drafts:
        before = inputs.by_barcode.get(draft.replaces)
        if before is None or get_state(draft) != get_state(before):
            remarks.add_problem(
                f"success is false, so nothing changes; {quote_short(draft.name)} must not be in new_materials"
            )
