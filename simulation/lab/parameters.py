"""Typed, bounded parameters of an action: allowed text and parsed values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.errors import LabError

PARAMETER_TYPES = (
    "select", "multiselect", "range", "range_with_units", "boolean", "object", "material_selector",
    "multi_material_selector", "text",
)  # fmt: skip

_MAX_OBJECT_LENGTH = 2000  # maximum number of characters of an object written as text
# Bounded repetitions: a text of millions of digits must not be converted.
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,9})?(?:[eE][+-]?[0-9]{1,2})?")


class ParameterError(LabError):
    """Raised for a parameter value that is not allowed. The message states the allowed values."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an action type: `type` is one of PARAMETER_TYPES, bounds are inclusive."""

    name: str
    type: str
    description: str
    required: bool = False
    default: Any = None
    options: tuple[str, ...] = ()
    dimension: str = ""
    minimum: Any = None
    maximum: Any = None
    keys: "Mapping[str, Parameter | None]" = field(default_factory=dict)  # of an object; None: any value
    pattern: str = ""
    max_length: int = 300

    def parse_value(self, value: Any) -> Any:
        """Return the typed value: Decimal in the dimension's base unit, bool, str, tuple of str, or dict. Raises ParameterError."""
        # One method per entry of PARAMETER_TYPES.
        return getattr(self, f"_read_{self.type}")(value)

    def describe_allowed(self) -> str:
        """Return a readable description of the allowed values."""
        match self.type:
            case "select" | "multiselect":
                return ("one of " if self.type == "select" else "any of ") + ", ".join(self.options)
            case "range" | "range_with_units":
                units = [unit for unit in quantities.list_units(self.dimension) if unit] if self.dimension else []
                return f"{self.minimum} to {self.maximum}" + (f", in {'/'.join(units)}" if self.dimension else "")
            case "boolean":
                return "true or false"
            case "object":
                keys = (f"{key} ({kind.describe_allowed()})" if kind else key for key, kind in self.keys.items())
                return f"keys {', '.join(keys)}"
            case "text":
                return f"text of at most {self.max_length} characters"
            case _:
                return "a barcode" if self.type == "material_selector" else "one or more barcodes"

    def _read_select(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise ParameterError(f"{self.name} is {value!r}; it must be {self.describe_allowed()}")
        return value

    def _read_multiselect(self, value: Any) -> tuple[str, ...]:
        chosen = _split_list(value)
        if not chosen or any(v not in self.options for v in chosen):
            raise ParameterError(f"{self.name} is {value!r}; it must be {self.describe_allowed()}")
        return chosen

    def _read_range(self, value: Any) -> Decimal:
        # Booleans are integers in Python; "true" is not a number here.
        if isinstance(value, bool) or not _PLAIN_NUMBER.fullmatch(str(value).strip()):
            raise ParameterError(f"{self.name} is {value!r}; it must be a number from {self.describe_allowed()}")
        low, high = Decimal(str(self.minimum)), Decimal(str(self.maximum))
        return self._check_bounds(Decimal(str(value).strip()), value, low, high)

    def _read_range_with_units(self, value: Any) -> Decimal:
        try:
            amount = quantities.parse_quantity(value, self.dimension).value
        except quantities.QuantityError as error:
            raise ParameterError(f"{self.name}: {error}") from error
        low, high = (quantities.parse_quantity(bound, self.dimension).value for bound in (self.minimum, self.maximum))
        return self._check_bounds(amount, value, low, high)

    def _read_boolean(self, value: Any) -> bool:
        if value is True or value == "true":
            return True
        if value is False or value == "false":
            return False
        raise ParameterError(f"{self.name} is {value!r}; it must be true or false")

    def _read_object(self, value: Any) -> dict[str, Any]:
        """Return the given keys with their typed values. Text such as `{FSC:400 V,SSC:500 V}` is accepted as well."""
        pairs = _parse_pairs(value) if isinstance(value, str) else value
        if not isinstance(pairs, Mapping) or not pairs or any(key not in self.keys for key in pairs):
            raise ParameterError(f"{self.name} is {value!r}; it takes the keys {', '.join(self.keys)}")
        kinds = [(key, part, self.keys[key]) for key, part in pairs.items()]
        return {key: kind._parse_nested(part) if kind else part for key, part, kind in kinds}

    def _parse_nested(self, value: Any) -> Any:
        """Return the typed value of one key of an object.

        A number without a unit is accepted if both bounds are in the base unit, such as V for the paper's {FSC:400}.
        """
        # A number without a unit is accepted only if no other unit can be meant.
        if self.type == "range_with_units" and _is_plain_number(value):
            base_unit = quantities.base_unit(self.dimension)
            if all(quantities.parse_unit(bound, self.dimension) == base_unit for bound in (self.minimum, self.maximum)):
                return self.parse_value(f"{value} {base_unit}".strip())
        return self.parse_value(value)

    def _read_material_selector(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ParameterError(f"{self.name} is {value!r}; it must be one barcode")
        return value

    def _read_multi_material_selector(self, value: Any) -> tuple[str, ...]:
        chosen = _split_list(value)
        if not chosen:
            raise ParameterError(f"{self.name} is {value!r}; it must be one or more barcodes")
        return chosen

    def _read_text(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.max_length:
            raise ParameterError(f"{self.name} must be text of at most {self.max_length} characters")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ParameterError(f"{self.name} is {value[:60]!r}; {self.description}")
        return value

    def _check_bounds(self, amount: Decimal, written: Any, low: Decimal, high: Decimal) -> Decimal:
        if not low <= amount <= high:
            raise ParameterError(f"{self.name} is {written}; it must be {self.describe_allowed()}")
        return amount


def _is_plain_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return False
    # Python raises ValueError when converting very long integers to text.
    if isinstance(value, int) and abs(value) >= 10**12:
        return False
    return _PLAIN_NUMBER.fullmatch(str(value).strip()) is not None


def _split_list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        # A list may be written as text, as in the paper's format.
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return ()


def _parse_pairs(text: str) -> dict[str, str] | None:
    """Return the dict written as `{key:value,key:value}`, or None for another form. Every comma separates two pairs."""
    stripped = text.strip()
    if len(stripped) > _MAX_OBJECT_LENGTH or not (stripped.startswith("{") and stripped.endswith("}")):
        return None
    pairs = [part.partition(":") for part in stripped[1:-1].split(",")]
    if not all(colon for _, colon, _ in pairs):
        return None
    return {key.strip(): value.strip() for key, _, value in pairs}
