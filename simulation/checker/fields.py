"""L10, L11, L22 and L24: form and consistency of the outcome, and text that must not be in it."""

import re
from collections.abc import Iterator
from typing import Any

from simulation.checker.findings import Decided, Finding, Findings, error_finding, warning_finding
from simulation.checker.reading import families, words
from simulation.checker.reading.transition import Transition
from simulation.lab.materials import AVAILABILITY, CONDITIONS, MATERIAL_TYPES
from simulation.lab.outcomes import MEASUREMENT_TYPES

# A barcode reveals which materials belong together, and prompt text reveals the source: both would unblind
# raters.
_CODE = re.compile(r"\bMAT-[A-Z0-9]{4,12}\b")
# Phrases of simulator prompts, of instructions to plant an error, and of the JSON that models reply with.
_PROMPT_PHRASES = re.compile(
    r"SECRET\s*:|\bSECRET\b|error[_ ]type|BE SNEAKY|subtly (?:false|wrong|incorrect)|deliberately (?:wrong|false|incorrect)|"
    r"why the transition is|CRITICAL CONSTRAINTS|scientific experiment simulator|system prompt|as an AI\b|language model|"
    r"state management system|Respond in this JSON|not_available_for_further_use|available_for_use\b|new_materials\b|INCORRECT_TRANSITION",
    re.IGNORECASE,
)
_UNCHANGED_BY_FAILURE = ("properties", "available_for_use", "environmental_condition", "material_type")
# Texts that simulators write instead of null.
_NO_REASON = frozenset({"", "none", "n/a", "na", "null", "-", "no", "not applicable"})


def find_prompt_phrases(text: str) -> frozenset[str]:
    """Return the phrases of a text that can only come from a prompt or a planted error, in lower case with single spaces."""
    return frozenset(" ".join(found[0].casefold().split()) for found in _PROMPT_PHRASES.finditer(text))


def check_barcodes(transition: Transition) -> Findings:
    """L10: yield warnings of barcodes that agents and raters would read."""
    yield Decided("L10")
    # A shorter barcode may be a word or a number that is in a text by chance.
    barcodes = {view.barcode for view in transition.inputs if len(view.barcode) >= 6}
    for path, text in iter_visible_texts(transition):
        if _CODE.search(text) or any(code in text for code in barcodes):
            yield warning_finding("L10", path, "no barcode", "a barcode", f"{path} contains a barcode")


def check_prompt_text(transition: Transition) -> Findings:
    """L24: yield warnings of prompt text that agents and raters would read."""
    yield Decided("L24")
    for path, text in iter_visible_texts(transition):
        if _PROMPT_PHRASES.search(text):
            message = f"{path} contains text of a prompt or of a planted error"
            yield warning_finding("L24", path, "no prompt text", "prompt text", message)


def check_enumerations(transition: Transition) -> Findings:
    """L11: yield a finding if a field is missing or has a value that is not allowed. Other spellings are accepted."""
    yield Decided("L11")
    for view in transition.outputs:
        raw, path = view.raw, view.path
        if not isinstance(raw.get("name"), str) or not view.name.strip():
            yield _field_error(path, "text", raw.get("name"), f"{path} has no name")
        if not isinstance(raw.get("properties", {}), dict):
            yield _field_error(path, "an object", raw["properties"], f"the properties of {path} are not an object")
        material_type = words.parse_material_type(raw.get("material_type"))
        for field, member, allowed in (
            ("available_for_use", view.availability, AVAILABILITY),
            ("material_type", material_type, MATERIAL_TYPES),
            ("environmental_condition", view.condition, CONDITIONS),
        ):
            if not member:
                yield _check_member(transition, path, field, raw.get(field), ", ".join(allowed))
    for seen in transition.observations:
        kind, expected = seen.raw.get("measurement_type"), ", ".join(MEASUREMENT_TYPES)
        if not isinstance(kind, str) or not kind.strip() or len(kind) > 60:
            yield _field_error(seen.path, expected, kind, f"measurement_type is {_describe_value(kind)}")
        elif kind.strip().lower() not in MEASUREMENT_TYPES:
            text = "measurement_type is none of the four kinds"
            yield warning_finding("L11", seen.path, expected, _describe_value(kind), text, decidable=False)
        if not isinstance(seen.raw.get("description"), str):
            yield _field_error(seen.path, "text", seen.raw.get("description"), f"{seen.path} has no description")
    success = transition.outcome.get("success")
    if not isinstance(success, bool):
        yield _field_error("success", "true or false", success, "success is neither true nor false")


def _field_error(path: str, expected: str, value: Any, text: str) -> Finding:
    return error_finding("L11", path, expected, _describe_value(value), text)


def _check_member(transition: Transition, path: str, field: str, value: Any, allowed: str) -> Finding:
    # A simulator that never writes this field has another format, which is not an error of the step.
    views = (*transition.inputs, *transition.outputs)
    if value is None and not any(isinstance(view.raw.get(field), str) for view in views):
        return warning_finding("L11", path, allowed, "nothing", f"{field} is missing")
    return _field_error(path, allowed, value, f"{field} is {_describe_value(value)}")


def check_coherence(transition: Transition) -> Findings:
    """L22: yield an error if a success has a failure reason or no result, or a failure has no reason or a result."""
    yield Decided("L22")
    reason, action = transition.outcome.get("failure_reason"), transition.action
    has_reason = isinstance(reason, str) and reason.strip().lower().rstrip(".") not in _NO_REASON
    success = transition.outcome.get("success")
    if success is True and has_reason:
        text = "the action succeeded, but a reason for failure is given"
        yield error_finding("L22", "failure_reason", "none", "a reason", text)
    if success is False and not has_reason:
        text = "the action failed, but no reason is given"
        yield error_finding("L22", "failure_reason", "a reason", "none", text)
    has_result = transition.outputs or transition.observations
    if success is True and not has_result and transition.family not in (families.CONTROL, families.UNKNOWN):
        text = f"{action} succeeded, but led to neither materials nor observations"
        yield error_finding("L22", action, "materials or observations", "nothing", text)
    for output in transition.outputs if success is False else ():
        before = transition.find_input(output)
        if before is None or any(before.raw.get(key) != output.raw.get(key) for key in _UNCHANGED_BY_FAILURE):
            text = f"the action failed, but {output.name} is new or changed"
            yield error_finding("L22", output.name, "nothing changed", "a new or changed material", text)


def iter_visible_texts(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of everything in the outcome that agents and raters read. The reasoning is not part of it."""
    for view in transition.outputs:
        yield f"{view.path}.name", view.name
        for leaf in view.leaves:
            yield f"{view.path}.properties", f"{leaf.key}: {leaf.value_text}"
    for seen in transition.observations:
        yield seen.path, seen.full_text[:4000]
    reason = transition.outcome.get("failure_reason")
    if isinstance(reason, str):
        yield "failure_reason", reason[:4000]


def _describe_value(value: Any) -> str:
    if value is None:
        return "missing"
    return repr(value)[:40] if isinstance(value, str | bool | float) else type(value).__name__
