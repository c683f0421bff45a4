"""Build payloads from records by an allow-list, in the same order for every source.

A payload has these keys and no others:
  transition: kind, lineage (is it known which output continues which input?), action {name, parameters
    [[label, value]]}, before [{ref, name, properties [[label, value]], condition, availability}], after [the same, and
    continues: the ref of the input it continues, or ""], observations [{type, description, value}], rejected (the reason, or "")
  evidence: kind, goal, steps [{number, time, action, materials [{ref, name}], made (as `after`), observations, rejected}]
  context (beside a transition, where a study shows it): goal, time, steps [{number, time, action, materials [name],
    parameters [[label, value]], rejected}]
A ref is a letter (A, B, ...) that identifies one material throughout the payload; barcodes never appear.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.blinding.material_rows import (
    MISSING,
    REJECTED,
    has_known_lineage,
    list_equivalent_keys,
    rows_by_key,
)
from ratings.blinding.material_rows import align_materials as align_materials
from ratings.blinding.material_rows import format_difference as format_difference
from ratings.blinding.material_rows import list_mark_keys as list_mark_keys
from ratings.blinding.pseudonyms import (
    AVAILABILITY,
    UNLIMITED,
    Pseudonyms,
    describe_condition,
    format_elapsed,
    format_label,
    index_to_letters,
)
from simulation.lab.materials import CONDITION_NAMES
from simulation.lab.observation_tables import observation_key
from simulation.lab.outcomes import NOTE
from wetbench_site.text import hash_text

Record = Mapping[str, Any]
Payload = dict[str, Any]

_DIGITS = re.compile(r"([0-9]{1,15})")
_ERROR_PATH = re.compile(r"(new_materials|new_observations)\[([0-9]{1,4})\](?:\.(.+))?", re.DOTALL)


def blind_transition(step: Record, twin_outcome: Record | None = None, *, lineage: bool = True) -> Payload:
    """Return the payload of one step. If a twin's outcome is given, it replaces the step's own outcome.

    Without `lineage`, or if two outputs claim to continue the same input, no output is shown as the continuation of
    an input.
    """
    # The before materials are the same for an original and its twins; only the outcome can differ.
    outcome = step["outcome"] if twin_outcome is None else twin_outcome
    names = Pseudonyms()
    # Letters follow the order of the inputs and are given before anything of the outcome is read, so all versions of a
    # pair have the same letters.
    before = [
        _blind_material(material, names.add_material(material["barcode"], material["name"]))
        for material in step["inputs"]
    ]
    # One input claimed by two outputs would be drawn as two continuations; a rater must not see an uncertain relation.
    claims = [draft["replaces"] for draft in outcome["new_materials"] if draft["replaces"]]
    is_certain = lineage and len(set(claims)) == len(claims)
    return {
        "kind": "transition",
        "lineage": is_certain,
        "action": _blind_action(step["action"], names),
        # Cleaned only now: a name can contain the barcode of a material that is listed later.
        "before": [names.clean_material(material) for material in before],
        # The index of the outcome is dropped here: the letter is all that a rater sees.
        "after": [
            names.clean_material(
                {**_blind_material(outcome["new_materials"][at.position], at.ref), "continues": at.continues}
            )
            for at in _order_materials(outcome, step["inputs"], names, is_certain)
        ],
        "observations": [_blind_observation(observation, names) for observation in outcome["new_observations"]],
        "rejected": _rejection_reason(outcome, names),
    }


def blind_evidence(goal: str, steps: Sequence[Record]) -> Payload:
    """Return the payload of an episode: its goal and its steps, as every classifier receives them, without barcodes."""
    names = Pseudonyms()
    goal_text = names.format_value(goal)
    return {"kind": "evidence", "goal": goal_text, "steps": [_blind_evidence_step(step, names) for step in steps]}


def blind_context(goal: str, steps_before: Sequence[Record]) -> Payload:
    """Return the context of a rated step: the goal and the earlier steps without their outcomes."""
    names = Pseudonyms()
    # A step without an end time counts with its start.
    end_times = [step.get("ended_at", step["started_at"]) for step in steps_before]
    return {
        "goal": names.format_value(goal),
        "time": format_elapsed(max(end_times, default=0)),
        "steps": [_blind_context_step(step, names) for step in steps_before],
    }


def payload_digest(payload: Payload) -> str:
    """Return the SHA-256 of the payload in canonical form. Raters cannot distinguish two payloads with equal digests."""
    # Sorted keys and no spaces: equal payloads must have equal bytes, whatever order a dictionary was built in.
    return hash_text(json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def pair_digest(payload: Payload) -> str:
    """Return the digest that all versions of one pair share: that of the action and the materials before it.

    A record of evidence has no other version, so it is its own pair.
    """
    if payload["kind"] == "evidence":
        return payload_digest(payload)
    # The outcome is left out, because it is what the versions of a pair differ in.
    return payload_digest({"action": payload["action"], "before": payload["before"]})


def find_error_keys(step: Record, outcome: Record, paths: Iterable[str], *, lineage: bool = True) -> list[str]:
    """Return the mark keys of an error at these paths of the outcome, such as "new_materials[1].properties.volume".

    A path to a whole material or observation means that it was added or left out. Data that is not shown has no key:
    a rater can mark such an error only as "something is missing".
    """
    payload = blind_transition(step, outcome, lineage=lineage)
    keys = [key for path in paths for key in _find_keys_at_path(path, step, outcome, payload)]
    # Only keys that the page offers: an error in something that is not displayed cannot be marked.
    valid_keys = set(list_mark_keys(payload))
    return [key for key in dict.fromkeys(keys) if key in valid_keys]


class _OrderedMaterial(NamedTuple):
    """A new material: its index in the outcome, its letter, and the letter of the input it continues ("" if none)."""

    position: int
    ref: str
    continues: str


def _order_materials(
    outcome: Record, inputs: Sequence[Record], names: Pseudonyms, lineage: bool
) -> list[_OrderedMaterial]:
    """Return the materials after the action: continuations in the order of their inputs, then new ones by content."""
    barcodes = [material["barcode"] for material in inputs]
    # An unlimited supply is never used up, so its continuation adds no information; models differ in whether they list
    # it, which could reveal the source.
    unlimited = {material["barcode"] for material in inputs if material["available_for_use"] == UNLIMITED}
    drafts = [(at, draft) for at, draft in enumerate(outcome["new_materials"]) if draft["replaces"] not in unlimited]
    continuing = [(at, draft) for at, draft in drafts if lineage and draft["replaces"] in barcodes]
    continuing.sort(key=lambda entry: barcodes.index(entry[1]["replaces"]))
    continued_indexes = {at for at, _ in continuing}
    # Sorted, because the order in a reply differs between models and could reveal the source.
    drafts = [entry for entry in drafts if entry[0] not in continued_indexes]
    new = sorted(drafts, key=lambda entry: _natural_sort_key(entry[1]))
    ordered = [_OrderedMaterial(at, ref := names.get_letter(draft["replaces"]), ref) for at, draft in continuing]
    for place, (at, _) in enumerate(new, len(barcodes)):
        ordered.append(_OrderedMaterial(at, index_to_letters(place), ""))
    return ordered


def _natural_sort_key(draft: Record) -> list[Any]:
    """Return a sort key: by name, with "well 2" before "well 10", then by properties."""
    parts = _DIGITS.split(draft["name"].casefold())
    natural = [(at % 2, int(part) if at % 2 else 0, part) for at, part in enumerate(parts)]  # every other one is digits
    return [natural, json.dumps([draft["name"], draft["properties"]], sort_keys=True, default=str)]


def _blind_action(action: Record, names: Pseudonyms) -> Payload:
    return {"name": names.format_value(action["name"]), "parameters": _blind_parameters(action, names)}


def _blind_parameters(action: Record, names: Pseudonyms) -> list[list[str]]:
    parameters = action["parameters"]
    # Sorted by name, because the order of parameters in a reply differs between models.
    return [
        [names.format_value(format_label(key)), names.format_value(describe_condition(parameters[key]))]
        for key in sorted(parameters)
    ]


def _blind_material(material: Record, ref: str) -> Payload:
    condition, availability = material["environmental_condition"], material["available_for_use"]
    properties = material["properties"]
    return {
        "ref": ref,
        "name": material["name"],
        "properties": [[format_label(key), properties[key]] for key in sorted(properties)],
        # A value outside the vocabulary is not displayed: its spelling could identify a simulator.
        "condition": CONDITION_NAMES.get(condition, "not stated"),
        "availability": AVAILABILITY.get(availability, "not stated"),
    }


def _blind_observation(observation: Record, names: Pseudonyms) -> Payload:
    kind = observation["measurement_type"]
    if kind == NOTE:
        # Only the rule-based cast marks routine notes as such, so the mark would reveal the source.
        kind = "quantitative" if _DIGITS.search(str(observation["value"])) else "visual"
    fields = {"type": kind, "description": observation["description"], "value": observation["value"]}
    return {name: names.format_value(value) for name, value in fields.items()}


def _blind_evidence_step(step: Record, names: Pseudonyms) -> Payload:
    outcome = step["outcome"]
    inputs = [{"ref": names.add_material(m["barcode"], m["name"]), "name": m["name"]} for m in step["inputs"]]
    input_barcodes = {material["barcode"] for material in step["inputs"]}
    made = []
    # In a record of evidence lineage comes from the barcodes that the laboratory assigned, not from claims of a reply.
    for barcode, draft in zip(step["barcodes"], outcome["new_materials"], strict=True):
        ref = names.add_material(barcode, draft["name"])
        made.append({**_blind_material(draft, ref), "continues": ref if barcode in input_barcodes else ""})
    return {
        "number": step["number"],
        "time": format_elapsed(step["started_at"]),
        "action": _blind_action(step["action"], names),
        "materials": [{"ref": m["ref"], "name": names.format_value(m["name"])} for m in inputs],
        "made": [names.clean_material(material) for material in made],
        "observations": [_blind_observation(observation, names) for observation in outcome["new_observations"]],
        "rejected": _rejection_reason(outcome, names),
    }


def _blind_context_step(step: Record, names: Pseudonyms) -> Payload:
    """Return a step of the context. Materials have names only, because letters belong to the step that is rated."""
    # Letters of these steps would not match those of the rated step: two sets of names are filled, only texts are used.
    context_names = Pseudonyms()
    for material in step["inputs"]:
        names.add_material(material["barcode"], material["name"])
        context_names.add_material(material["barcode"], material["name"])
    return {
        "number": step["number"],
        "time": format_elapsed(step["started_at"]),
        "action": names.format_value(step["action"]["name"]),
        "materials": [context_names.format_value(material["name"]) for material in step["inputs"]],
        "parameters": _blind_parameters(step["action"], context_names),
        "rejected": _rejection_reason(step["outcome"], context_names),
    }


def _rejection_reason(outcome: Record, names: Pseudonyms) -> str:
    return "" if outcome["success"] else names.format_value(outcome["failure_reason"]) or "no reason given"


def _find_keys_at_path(path: str, step: Record, outcome: Record, payload: Payload) -> list[str]:
    if path in ("success", "failure_reason"):
        return [REJECTED]
    match = _ERROR_PATH.fullmatch(path)
    if match is None:
        return []
    index, subpath = int(match[2]), match[3] or ""
    if match[1] == "new_observations":
        # The path of a full observation does not show whether it was added or removed; the number of observations does.
        is_added = subpath or len(outcome["new_observations"]) > len(step["outcome"]["new_observations"])
        return [observation_key(index + 1) if is_added and index < len(outcome["new_observations"]) else MISSING]
    return _find_material_keys(index, subpath, step, outcome, payload)


def _find_material_keys(index: int, subpath: str, step: Record, outcome: Record, payload: Payload) -> list[str]:
    """Return the mark keys for a path in a material; for a whole one, all rows if it was added, else those of its loss."""
    names = Pseudonyms()
    for material in step["inputs"]:
        # The same order as when the payload was built, so that the letters agree.
        names.add_material(material["barcode"], material["name"])
    materials = _order_materials(outcome, step["inputs"], names, has_known_lineage(payload))
    ordered_by_index = {ordered.position: ordered for ordered in materials}
    if not subpath and not _is_added(index, step["outcome"], outcome):
        lost = names.get_letter(_get_new_material(step["outcome"], index).get("replaces", ""))
        # Raters can mark the loss in three ways, depending on the layout; each of them counts as a hit.
        return [MISSING, f"{lost}/gone", f"{lost}/row"]
    if index not in ordered_by_index:
        return [MISSING]
    ordered = ordered_by_index[index]
    shown = next(material for material in payload["after"] if material["ref"] == ordered.ref)
    keys: list[str] = []
    for row in _find_row_keys(subpath, outcome["new_materials"][index], step, shown):
        keys += [row] if row == MISSING else list_equivalent_keys(payload, f"{ordered.ref}{row}")
    return keys


_FACTS = {"name": "/name", "environmental_condition": "/place", "available_for_use": "/availability"}


def _find_row_keys(subpath: str, draft: Record, step: Record, shown: Payload) -> list[str]:
    """Return the rows at a path inside a material: all for the whole material, none for data that raters do not see.

    A property that was left out has a row only if the input had it; it can also be marked as something missing.
    """
    rows = rows_by_key(shown)
    if not subpath or subpath == "properties":
        return list(rows)
    if not subpath.startswith("properties."):
        return [_FACTS[subpath]] if subpath in _FACTS else []
    property_path = subpath.removeprefix("properties.")
    row_of_property = dict(zip(sorted(draft["properties"]), (row for row in rows if row.startswith(":")), strict=True))
    if name := _longest_prefix(property_path, row_of_property):
        return [row_of_property[name]]
    known_properties = [key for m in (*step["inputs"], *step["outcome"]["new_materials"]) for key in m["properties"]]
    name = _longest_prefix(property_path, known_properties)
    return [f":{format_label(name)}", MISSING] if name else [MISSING]


def _longest_prefix(path: str, names: Iterable[str]) -> str:
    """Return the longest of the names that a path begins with, because a name may contain dots."""
    # "." and "[" continue a path into a value.
    prefixes = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    return max(prefixes, key=len, default="")


def _is_added(index: int, original: Record, outcome: Record) -> bool:
    """Return whether an error path to this whole material means that the twin added it; else it was left out."""
    claim = _get_new_material(outcome, index).get("replaces")
    if claim is None:
        # An index beyond the end is something that the twin left out.
        return False
    if claim:
        return claim not in [draft["replaces"] for draft in original["new_materials"]]
    new, old = (sum(not draft["replaces"] for draft in one["new_materials"]) for one in (outcome, original))
    return new > old


def _get_new_material(outcome: Record, index: int) -> Record:
    drafts: Sequence[Record] = outcome["new_materials"]
    return drafts[index] if index < len(drafts) else {}
