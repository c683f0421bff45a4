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
        if not isinstance(view.raw.get("name"), str) or not view.name.strip():
            yield error_finding(
                "L11", view.path, "text", _describe_value(view.raw.get("name")), f"{view.path} has no name"
            )
        if not isinstance(view.raw.get("properties", {}), dict):
            yield error_finding(
                "L11",
                view.path,
                "an object",
                _describe_value(view.raw.get("properties")),
                f"the properties of {view.path} are not an object",
            )
        for field, member, allowed in (
            ("available_for_use", view.availability, AVAILABILITY),
            ("material_type", words.parse_material_type(view.raw.get("material_type")), MATERIAL_TYPES),
            ("environmental_condition", view.condition, CONDITIONS),
        ):
            yield from _check_member(transition, view.path, field, view.raw.get(field), member, allowed)
    for seen in transition.observations:
        yield from _check_measurement_type(seen.path, seen.raw.get("measurement_type"))
        if not isinstance(seen.raw.get("description"), str):
            yield error_finding(
                "L11",
                seen.path,
                "text",
                _describe_value(seen.raw.get("description")),
                f"{seen.path} has no description",
            )
    if not isinstance(transition.outcome.get("success"), bool):
        yield error_finding(
            "L11",
            "success",
            "true or false",
            _describe_value(transition.outcome.get("success")),
            "success is neither true nor false",
        )


def check_coherence(transition: Transition) -> Findings:
    """L22: yield an error if a success has a failure reason or no result, or a failure has no reason or a result."""
    yield Decided("L22")
    reason = transition.outcome.get("failure_reason")
    has_reason = isinstance(reason, str) and reason.strip().lower().rstrip(".") not in _NO_REASON
    success = transition.outcome.get("success")
    if success is True and has_reason:
        yield error_finding(
            "L22", "failure_reason", "none", "a reason", "the action succeeded, but a reason for failure is given"
        )
    if success is False:
        if not has_reason:
            yield error_finding(
                "L22", "failure_reason", "a reason", "none", "the action failed, but no reason is given"
            )
        yield from _check_failure_effects(transition)
    elif (
        success is True
        and not transition.outputs
        and not transition.observations
        and transition.family not in (families.CONTROL, families.UNKNOWN)
    ):
        yield error_finding(
            "L22",
            transition.action,
            "materials or observations",
            "nothing",
            f"{transition.action} succeeded, but led to neither materials nor observations",
        )


def _check_failure_effects(transition: Transition) -> Iterator[Finding]:
    """Yield an error if a failed action returns a new or changed material."""
    for output in transition.outputs:
        before = transition.find_input(output)
        is_unchanged = before is not None and all(
            before.raw.get(key) == output.raw.get(key)
            for key in ("properties", "available_for_use", "environmental_condition", "material_type")
        )
        if not is_unchanged:
            yield error_finding(
                "L22",
                output.name,
                "nothing changed",
                "a new or changed material",
                f"the action failed, but {output.name} is new or changed",
            )


def _check_member(
    transition: Transition, path: str, field: str, value: Any, member: str, allowed: tuple[str, ...]
) -> Iterator[Finding]:
    if member:
        return
    # A simulator that never writes this field has another format, which is not an error of the step.
    if value is None and not any(
        isinstance(view.raw.get(field), str) for view in (*transition.inputs, *transition.outputs)
    ):
        yield warning_finding("L11", path, ", ".join(allowed), "nothing", f"{field} is missing")
        return
    yield error_finding("L11", path, ", ".join(allowed), _describe_value(value), f"{field} is {_describe_value(value)}")


def _check_measurement_type(path: str, value: Any) -> Iterator[Finding]:
    """Yield an error if the type is not a short text, and a warning if it is none of the four kinds."""
    if not isinstance(value, str) or not value.strip() or len(value) > 60:
        yield error_finding(
            "L11",
            path,
            ", ".join(MEASUREMENT_TYPES),
            _describe_value(value),
            f"measurement_type is {_describe_value(value)}",
        )
    elif value.strip().lower() not in MEASUREMENT_TYPES:
        yield warning_finding(
            "L11",
            path,
            ", ".join(MEASUREMENT_TYPES),
            _describe_value(value),
            "measurement_type is none of the four kinds",
            decidable=False,
        )


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
