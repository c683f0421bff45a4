"""Match a reading against a line of a rubric: its action, lineage, settings, properties and value."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.rubrics import RubricLine
from simulation.offline.evidence import Reading

_MENTIONS: dict[str, Callable[[Iterable[bool]], bool]] = {"mentions": any, "mentions_all": all}


def collect_distinct_values(readings: Sequence[Reading], name: str) -> set[object]:
    """Return the distinct values of a visible property, or of a parameter of the step if there is no such property."""
    texts = [reading.properties.get(name, reading.parameters.get(name)) for reading in readings]
    return {_parse_amount(str(text)) for text in texts if text is not None}


def _parse_amount(text: str) -> object:
    """Return the amount that a text expresses, or the text itself if it expresses none. "50 µL" and "0.05 mL" are equal amounts."""
    for dimension in quantities.list_dimensions():
        try:
            return quantities.parse_quantity(text, dimension)
        except quantities.QuantityError:
            continue
    return text


def matches_line(line: RubricLine, reading: Reading) -> bool:
    return (
        reading.action in line.actions
        and reading.origins.issuperset(line.of)
        and not reading.origins.intersection(line.not_of)
        # A pooled sample does not count for any of the materials listed in `each`.
        and (not line.each or len(reading.origins.intersection(line.each)) == 1)
        and all(
            _meets_condition(condition, reading.parameters.get(name)) for name, condition in line.parameters.items()
        )
        and all(
            _meets_condition(condition, reading.properties.get(name)) for name, condition in line.properties.items()
        )
        and (not line.value or bool(reading.observed_values))
        and (line.value != "numeric" or reading.first_number is not None)
        and (not line.signal or _is_within(reading.first_number, line.signal))
    )


def _is_within(signal: Decimal | None, bounds: Mapping[str, str]) -> bool:
    if signal is None:
        return False
    low, high = (Decimal(bounds.get(name, signal)) for name in ("at_least", "at_most"))
    return low <= signal <= high


def follows_earlier_lines(reading: Reading, earlier: Sequence[Sequence[Reading]]) -> bool:
    """Return whether each line named in `after` counted the material, or an ancestor of it, in an earlier step."""
    return all(
        any(
            earlier_reading.barcode in reading.ancestors and earlier_reading.step < reading.step
            for earlier_reading in counted
        )
        for counted in earlier
    )


def _meets_condition(condition: Mapping[str, Any], value: Any) -> bool:
    """Return whether a value meets every part of a condition. Amounts are compared as quantities, not as text."""
    if value is None:
        return "absent" in condition
    text = ", ".join(map(_format_value, value)) if isinstance(value, list | tuple) else _format_value(value)
    for kind, requested in condition.items():
        if kind == "absent":
            continue
        if kind in _MENTIONS:
            words = requested if isinstance(requested, list) else [requested]
            if not _MENTIONS[kind](word.lower() in text.lower() for word in words):
                return False
        elif not _compare_amounts(kind, text, str(requested)):
            return False
    return True


def _format_value(value: Any) -> str:
    """Return the value as an agent writes it: `true`, not Python's True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare_amounts(kind: str, written: str, requested: str) -> bool:
    if kind == "equals" and written.strip() == requested:
        return True
    for dimension in quantities.list_dimensions():
        try:
            # A text does not name its dimension, so the first dimension in which both texts are amounts is used.
            actual, required = (quantities.parse_quantity(text, dimension).value for text in (written, requested))
        except quantities.QuantityError:
            continue
        return {"equals": actual == required, "at_least": actual >= required, "at_most": actual <= required}[kind]
    return False
