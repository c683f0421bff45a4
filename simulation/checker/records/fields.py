"""L10, L11, L22, L24: the form of the answer, whether it agrees with itself, and what must not stand in it."""

import re
from collections.abc import Iterator
from typing import Any

from simulation.checker.findings import Finding, Ran, Said, error, warning
from simulation.checker.reading import families, terms
from simulation.checker.reading.transition import Transition
from simulation.lab.materials import AVAILABILITY, CONDITIONS, MATERIAL_TYPES
from simulation.lab.outcomes import MEASUREMENT_TYPES

_CODE = re.compile(r"\bMAT-[A-Z0-9]{4,12}\b")
_LEAKS = re.compile(
    r"SECRET\s*:|\bSECRET\b|error[_ ]type|BE SNEAKY|subtly (?:false|wrong|incorrect)|deliberately (?:wrong|false|incorrect)|"
    r"why the transition is|CRITICAL CONSTRAINTS|scientific experiment simulator|system prompt|as an AI\b|language model|"
    r"state management system|Respond in this JSON|not_available_for_further_use|available_for_use\b|new_materials\b|INCORRECT_TRANSITION",
    re.IGNORECASE,
)
_NO_REASON = frozenset({"", "none", "n/a", "na", "null", "-", "no", "not applicable"})


def prompt_words(text: str) -> frozenset[str]:
    """What of a text can only come from a prompt or from a planted error, in one spelling."""
    return frozenset(" ".join(found[0].casefold().split()) for found in _LEAKS.finditer(text))


def leaks(transition: Transition) -> Said:
    """L10 and L24: barcodes and prompt text where agents and raters read. They warn; they never decide."""
    yield Ran("L10")
    yield Ran("L24")
    codes = {view.barcode for view in transition.inputs if len(view.barcode) >= 6}
    for place, text in read_by_people(transition):
        if _CODE.search(text) or any(code in text for code in codes):
            yield warning("L10", place, "no barcode", "a barcode", f"a barcode stands in {place}")
        if _LEAKS.search(text):
            yield warning(
                "L24",
                place,
                "what was seen or made",
                "text of a prompt",
                f"text of a prompt or of a planted error stands in {place}",
            )


def enums(transition: Transition) -> Said:
    """L11: fields are there and hold what their closed lists allow; other spellings of a member are let pass."""
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
                f"properties of {view.place} are no object",
            )
        for field, meant, allowed in (
            ("available_for_use", view.availability, AVAILABILITY),
            ("material_type", terms.material_type(view.raw.get("material_type")), MATERIAL_TYPES),
            ("environmental_condition", view.condition, CONDITIONS),
        ):
            yield from _member(transition, view.place, field, view.raw.get(field), meant, allowed)
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
    """L22: success has no reason of failure, failure has one and changes nothing."""
    yield Ran("L22")
    reason = transition.outcome.get("failure_reason")
    given = isinstance(reason, str) and reason.strip().lower().rstrip(".") not in _NO_REASON
    success = transition.outcome.get("success")
    if success is True and given:
        yield error(
            "L22", "failure_reason", "none", "a reason", "the action succeeded and a reason of failure is given"
        )
    if success is False:
        if not given:
            yield error("L22", "failure_reason", "a reason", "none", "the action failed and no reason is given")
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
            f"{transition.action} succeeded and led to nothing",
        )


def _unchanged(transition: Transition) -> Iterator[Finding]:
    """A failed action may at most hand back its inputs as they were."""
    for output in transition.outputs:
        before = transition.before(output)
        same = before is not None and all(
            before.raw.get(key) == output.raw.get(key)
            for key in ("properties", "available_for_use", "environmental_condition", "material_type")
        )
        if not same:
            yield error(
                "L22",
                output.name,
                "nothing changed",
                "a new or changed material",
                f"the action failed and {output.name} is new or changed",
            )


def _member(
    transition: Transition, place: str, field: str, written: Any, meant: str, allowed: tuple[str, ...]
) -> Iterator[Finding]:
    if meant:
        return
    if written is None and not any(
        isinstance(view.raw.get(field), str) for view in (*transition.inputs, *transition.outputs)
    ):
        yield warning("L11", place, ", ".join(allowed), "nothing", f"{field} is missing")
        return
    yield error("L11", place, ", ".join(allowed), _shown(written), f"{field} is {_shown(written)}")


def _measurement_type(place: str, written: Any) -> Iterator[Finding]:
    """An open list: four words, and any other name of a technique."""
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
            "measurement_type is none of the four",
            decidable=False,
        )


def read_by_people(transition: Transition) -> Iterator[tuple[str, str]]:
    """Everything agents and raters read of the outcome, with its place. The reasoning is not among it."""
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
