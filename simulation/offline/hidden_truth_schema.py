"""The fields of a hidden truth and the values that each allows.

A check returns an empty text if its value is allowed. Otherwise it returns a description of what is allowed.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.lab import quantities
from simulation.lab.materials import CONTENT_KINDS
from simulation.offline.chemistry import parse_concentration
from simulation.offline.vessels import PHASES

Check = Callable[[Any], str]
AMOUNTS = ("mass", "amount", "count", "enzyme_units")
_LARGEST = 10**12


def a_text(value: Any) -> str:
    return "" if isinstance(value, str) and value else "text, not empty"


def any_text(value: Any) -> str:
    return "" if isinstance(value, str) else "text"


def a_list_of_texts(value: Any) -> str:
    return "" if isinstance(value, list) and value and not any(map(a_text, value)) else "a list of texts"


def one_or_more(value: Any) -> str:
    return a_list_of_texts(value) if isinstance(value, list) else a_text(value)


def a_number(value: Any) -> str:
    try:
        # Numbers are text in the files: JSON numbers would be read as floats and lose exactness.
        fits = isinstance(value, str) and Decimal(value).is_finite() and abs(Decimal(value)) <= _LARGEST
        return "" if fits else 'a number as text, like "0.05"'
    except InvalidOperation:
        return 'a number as text, like "0.05"'


def a_share(value: Any) -> str:
    return "" if not a_number(value) and 0 <= Decimal(value) <= 1 else 'a number from 0 to 1 as text, like "0.05"'


def a_phase(value: Any) -> str:
    return "" if value in PHASES else f"one of {', '.join(PHASES)}"


def an_amount_dimension(value: Any) -> str:
    return "" if value in AMOUNTS else f"one of {', '.join(AMOUNTS)}"


def a_quantity(dimension: str) -> Check:
    def check_quantity(value: Any) -> str:
        expected = f"a {dimension} above zero in {', '.join(unit for unit in quantities.list_units(dimension) if unit)}"
        try:
            return "" if quantities.parse_quantity(value, dimension).value > 0 else expected
        except quantities.QuantityError:
            return expected

    return check_quantity


def a_concentration(value: Any) -> str:
    try:
        parse_concentration(value)
    except quantities.QuantityError:
        return 'a concentration, like "5 µg/mL", "3 µM" or "1e5 cells/mL"'
    return ""


def an_object_of(check_value: Check, keys: tuple[str, ...] = ()) -> Check:
    def check_object(value: Any) -> str:
        fits = isinstance(value, Mapping) and value and (not keys or set(value) == set(keys))
        problem = (
            next((expected for part in value.values() if (expected := check_value(part))), "") if fits else "an object"
        )
        return f"{problem} {'with ' + ', '.join(keys) if keys else 'by name'}" if problem else ""

    return check_object


def a_kind(value: Any) -> str:
    return "" if value in CONTENT_KINDS else f"one of {', '.join(CONTENT_KINDS)}"


def above_zero(value: Any) -> str:
    return "" if not a_number(value) and Decimal(value) > 0 else 'a number above zero as text, like "2"'


def a_poisson_hit(value: Any) -> str:
    fits = isinstance(value, Mapping) and {"targets", "agent"} <= set(value) <= {"targets", "agent", "efficiency"}
    fits = fits and not a_text(value["targets"]) and not a_text(value["agent"])
    return "" if fits and not above_zero(value.get("efficiency", "1")) else "an object with targets, agent (efficiency)"


def a_scale(value: Any) -> str:
    fits = isinstance(value, Mapping) and {"parameter", "reference"} <= set(value) <= {
        "parameter",
        "reference",
        "power",
    }
    fits = fits and not a_text(value["parameter"]) and not a_text(value["reference"])
    return "" if fits and not a_number(value.get("power", "1")) else "an object with parameter, reference (and power)"


def a_hill_curve(value: Any) -> str:
    fits = isinstance(value, Mapping) and set(value) == {"bottom", "top", "half", "n"} and not a_text(value["half"])
    fits = fits and not any(a_number(value[name]) for name in ("bottom", "top")) and not above_zero(value["n"])
    return "" if fits else "an object with bottom, top, half and n, as text"


def a_table(value: Any) -> str:
    fits = isinstance(value, list) and len(value) > 1 and all(
        isinstance(point, list) and len(point) == 2 and not a_text(point[0]) and not a_number(point[1]) for point in value
    )  # fmt: skip
    return "" if fits else 'a list of at least two points, like ["2 µM", "7.1"]'


# Kind of entry -> (required fields, optional fields). `action` and `when` are checked elsewhere, with the catalogue.
ENTRIES: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    "responses": (
        {"signal": a_text, "unit": any_text, "noise": a_share},
        {
            "component": a_text, "per": one_or_more, "chosen": an_object_of(an_object_of(a_text)), "components": an_object_of(a_number), "parameter": a_text,
            "slope": a_number, "intercept": a_number, "hill": a_hill_curve, "table": a_table,
            "log10": an_object_of(a_number, ("slope", "intercept")),
            "requires": a_list_of_texts, "within": a_list_of_texts, "noise_floor": a_number,
            "detection_limit": a_concentration, "upper_limit": a_concentration, "repeats": a_text, "scales_with": a_scale,
        },
    ),
    "fractions": ({"signal": a_text, "part": one_or_more, "of": one_or_more, "background": a_share}, {}),
    "lookups": (
        {"signal": a_text, "requires": a_list_of_texts, "values": an_object_of(a_text)}, {"about": a_list_of_texts, "without": a_list_of_texts, "chosen": an_object_of(an_object_of(a_text))},
    ),
    "reactions": (
        {"needs": a_list_of_texts},
        {
            "uses": a_list_of_texts, "makes": a_text, "dimension": an_amount_dimension, "from": a_text, "ratio": a_number, "noise": a_share,
            "per_volume": a_concentration, "poisson": a_poisson_hit, "consumes": an_object_of(above_zero), "kind": a_kind,
            "half_time": a_quantity("duration"),
            "phase_from": a_phase, "phase_to": a_phase,
        },
    ),
    "growth": (
        {"components": a_list_of_texts, "doubling_time": a_quantity("duration")}, {"limit": a_concentration, "needs": a_list_of_texts},
    ),
    "survival": (
        {"components": a_list_of_texts, "agent": a_text, "half": a_concentration, "n": above_zero}, {"into": a_text},
    ),
    "bands": ({"component": a_text, "length": a_quantity("base_pairs"), "minimum": a_quantity("mass")}, {}),
}  # fmt: skip
# Fields of the truth that are one object, not a list of entries.
WHOLE_FIELDS: dict[str, Check] = {
    "retained": an_object_of(a_quantity("length")),
    "counted": lambda value: (
        an_object_of(a_list_of_texts)(value) if isinstance(value, Mapping) else a_list_of_texts(value)
    ),
    "noise": an_object_of(a_share),
}
