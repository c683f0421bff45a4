"""L10, L11, L22 and L24: form and consistency of the outcome, and text that must not be in it."""

import re
from collections.abc import Iterator
from typing import Any

from simulation.checker.findings import Finding, Ran, Said, error, warning
from simulation.checker.reading import families, terms
from simulation.checker.reading.transition import Transition
from simulation.lab.materials import AVAILABILITY, CONDITIONS, MATERIAL_TYPES
from simulation.lab.outcomes import MEASUREMENT_TYPES

# A barcode reveals which materials belong together, and prompt text reveals the source: both would unblind
# raters.
_CODE = re.compile(r"\bMAT-[A-Z0-9]{4,12}\b")
# Phrases of simulator prompts, of instructions to plant an error, and of the JSON that models reply with.
_LEAKS = re.compile(
    r"SECRET\s*:|\bSECRET\b|error[_ ]type|BE SNEAKY|subtly (?:false|wrong|incorrect)|deliberately (?:wrong|false|incorrect)|"
    r"why the transition is|CRITICAL CONSTRAINTS|scientific experiment simulator|system prompt|as an AI\b|language model|"
    r"state management system|Respond in this JSON|not_available_for_further_use|available_for_use\b|new_materials\b|INCORRECT_TRANSITION",
    re.IGNORECASE,
)
# What simulators write instead of null.
_NO_REASON = frozenset({"", "none", "n/a", "na", "null", "-", "no", "not applicable"})


def prompt_words(text: str) -> frozenset[str]:
    """Return the phrases of a text that can only come from a prompt or a planted error, in lower case with single spaces."""
    return frozenset(" ".join(found[0].casefold().split()) for found in _LEAKS.finditer(text))


def leaks(transition: Transition) -> Said:
    """L10 and L24: warn of barcodes and prompt text that agents and raters would read. They never decide a verdict."""
    yield Ran("L10")
    yield Ran("L24")
    # A shorter barcode may be a word or a number that is in a text by chance.
    barcodes = {view.barcode for view in transition.inputs if len(view.barcode) >= 6}
    for path, text in read_by_people(transition):
        if _CODE.search(text) or any(code in text for code in barcodes):
            yield warning("L10", path, "no barcode", "a barcode", f"{path} contains a barcode")
        if _LEAKS.search(text):
            yield warning(
                "L24",
                path,
                "no prompt text",
                "prompt text",
                f"{path} contains text of a prompt or of a planted error",
            )


def enums(transition: Transition) -> Said:
    """L11: fields exist and have values of their closed lists; other spellings of a value are accepted."""
    yield Ran("L11")
    for view in transition.outputs:
        if not isinstance(view.raw.get("name"), str) or not view.name.strip():
            yield error("L11", view.place, "text", _shown(view.raw.get("name")), f"{view.place} has no name")
        if not isinstance(view.raw.get("properties", {}), dict):
            yield error(
                "L11",
                view.place,
                "an object",
                _shown(view.raw.get("properties")),
                f"the properties of {view.place} are not an object",
            )
        for field, member, allowed in (
            ("available_for_use", view.availability, AVAILABILITY),
            ("material_type", terms.material_type(view.raw.get("material_type")), MATERIAL_TYPES),
            ("environmental_condition", view.condition, CONDITIONS),
        ):
            yield from _member(transition, view.place, field, view.raw.get(field), member, allowed)
    for seen in transition.seen:
        yield from _measurement_type(seen.place, seen.raw.get("measurement_type"))
        if not isinstance(seen.raw.get("description"), str):
            yield error(
                "L11", seen.place, "text", _shown(seen.raw.get("description")), f"{seen.place} has no description"
            )
    if not isinstance(transition.outcome.get("success"), bool):
        yield error(
            "L11",
            "success",
            "true or false",
            _shown(transition.outcome.get("success")),
            "success is neither true nor false",
        )


def coherence(transition: Transition) -> Said:
    """L22: a success has no reason for failure; a failure has one and changes nothing."""
    yield Ran("L22")
    reason = transition.outcome.get("failure_reason")
    has_reason = isinstance(reason, str) and reason.strip().lower().rstrip(".") not in _NO_REASON
    success = transition.outcome.get("success")
    if success is True and has_reason:
        yield error(
            "L22", "failure_reason", "none", "a reason", "the action succeeded, but a reason for failure is given"
        )
    if success is False:
        if not has_reason:
            yield error("L22", "failure_reason", "a reason", "none", "the action failed, but no reason is given")
        yield from _unchanged(transition)
    elif (
        success is True
        and not transition.outputs
        and not transition.seen
        and transition.family not in (families.CONTROL, families.UNKNOWN)
    ):
        yield error(
            "L22",
            transition.action,
            "materials or observations",
            "nothing",
            f"{transition.action} succeeded, but led to neither materials nor observations",
        )


def _unchanged(transition: Transition) -> Iterator[Finding]:
    """A failed action hands back its inputs unchanged, or nothing."""
    for output in transition.outputs:
        before = transition.before(output)
        is_unchanged = before is not None and all(
            before.raw.get(key) == output.raw.get(key)
            for key in ("properties", "available_for_use", "environmental_condition", "material_type")
        )
        if not is_unchanged:
            yield error(
                "L22",
                output.name,
                "nothing changed",
                "a new or changed material",
                f"the action failed, but {output.name} is new or changed",
            )


def _member(
    transition: Transition, place: str, field: str, written: Any, meant: str, allowed: tuple[str, ...]
) -> Iterator[Finding]:
    if meant:
        return
    # A simulator that never writes this field has another format; that is no error of the step.
    if written is None and not any(
        isinstance(view.raw.get(field), str) for view in (*transition.inputs, *transition.outputs)
    ):
        yield warning("L11", place, ", ".join(allowed), "nothing", f"{field} is missing")
        return
    yield error("L11", place, ", ".join(allowed), _shown(written), f"{field} is {_shown(written)}")


def _measurement_type(place: str, written: Any) -> Iterator[Finding]:
    """An open list: the four kinds, or the name of a technique."""
    if not isinstance(written, str) or not written.strip() or len(written) > 60:
        yield error(
            "L11", place, ", ".join(MEASUREMENT_TYPES), _shown(written), f"measurement_type is {_shown(written)}"
        )
    elif written.strip().lower() not in MEASUREMENT_TYPES:
        yield warning(
            "L11",
            place,
            ", ".join(MEASUREMENT_TYPES),
            _shown(written),
            "measurement_type is none of the four kinds",
            decidable=False,
        )


def read_by_people(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of everything in the outcome that agents and raters read. The reasoning is not part of it."""
    for view in transition.outputs:
        yield f"{view.place}.name", view.name
        for leaf in view.leaves:
            yield f"{view.place}.properties", f"{leaf.key}: {leaf.text}"
    for seen in transition.seen:
        yield seen.place, seen.text[:4000]
    reason = transition.outcome.get("failure_reason")
    if isinstance(reason, str):
        yield "failure_reason", reason[:4000]


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    return repr(value)[:40] if isinstance(value, str | bool | float) else type(value).__name__
