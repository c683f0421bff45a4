"""The hidden truth of an experiment file, as the rules read it, and a check of all of it before anything is played.

Every list entry but those of `bands` names its `action` and may hold `when`: conditions on the action's parameters, a
value, a list of values, or {"minimum", "maximum"}. Components are named as in the materials' contents.

- responses: a reading that is slope x concentration (in its kept unit: µg/mL, µM, 1/mL) + intercept
- fractions: the share of the component `of` that is `part`, as a cytometer counts it
- lookups: text per key of an initial material, where all of `requires` is present; `about`: words of a question
- reactions: where all of `needs` is present, `makes` appears (`from` x `ratio`, `per_volume` or `poisson`), `uses` is
  gone, and the phase changes from `phase_from` to `phase_to`
- growth: `components` double in `doubling_time`, up to the density `limit`
- bands: a product a gel shows; retained: size of what a filter holds back; counted: what a cell counter counts;
  noise: relative standard deviation of an instrument's reading
"""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.offline.chemistry import read_concentration
from simulation.offline.vessels import PHASES

_WAYS = ("from", "per_volume", "poisson")  # how much of a product a reaction makes
_LARGEST = 10**12
_AMOUNTS = ("mass", "amount", "count")
_Check = Callable[[Any], str]  # "" if the value is allowed, else what is allowed


def check(truth: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    """Every problem as "truth.responses[0].slope: what is wrong and what is allowed"."""
    problems = []
    for kind, value in truth.items():
        place = f"truth.{kind}"
        if kind in _WHOLE:
            problems += _told(place, value, _WHOLE[kind](value))
        elif kind not in _ENTRIES:
            problems.append(f"{place}: unknown field; allowed: {', '.join(sorted({*_ENTRIES, *_WHOLE}))}")
        elif not isinstance(value, list):
            problems.append(f"{place}: must be a list")
        else:
            for index, entry in enumerate(value):
                problems += _check_entry(f"{place}[{index}]", entry, kind, catalogue)
    return problems


def _check_entry(place: str, entry: Any, kind: str, catalogue: Catalogue) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"{place}: must be an object"]
    needed, optional = _ENTRIES[kind]
    problems = [f"{place}.{name}: is missing" for name in needed if name not in entry]
    for name, value in entry.items():
        if name in ("action", "when") and kind != "bands":
            continue
        allowed = {**needed, **optional}.get(name)
        problems += (
            [f"{place}.{name}: unknown field; allowed: {', '.join(sorted({*needed, *optional, 'action', 'when'}))}"]
            if allowed is None
            else _told(f"{place}.{name}", value, allowed(value))
        )
    if "makes" in entry and sum(way in entry for way in _WAYS) != 1:
        problems.append(f"{place}.makes: needs exactly one of {', '.join(_WAYS)}")
    if "from" in entry and "ratio" not in entry:
        problems.append(f"{place}.ratio: is missing")
    return problems if kind == "bands" else problems + _check_place(place, entry, catalogue)


def _check_place(place: str, entry: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    known = catalogue.types.get(str(entry.get("action")))
    if known is None:
        return [f"{place}.action: is {entry.get('action')!r}; allowed: {', '.join(sorted(catalogue.types))}"]
    conditions = entry.get("when", {})
    if not isinstance(conditions, Mapping):
        return [f"{place}.when: must be an object"]
    problems = [
        p for name, value in conditions.items() for p in _check_condition(f"{place}.when.{name}", known, name, value)
    ]
    named = [entry["repeats"]] if "repeats" in entry else []
    named += [entry["scales_with"].get("parameter")] if isinstance(entry.get("scales_with"), Mapping) else []
    if isinstance(entry.get("scales_with"), Mapping):
        problems += _check_reference(f"{place}.scales_with.reference", known, entry["scales_with"])
    parameters = [parameter.name for parameter in known.parameters]
    problems += [
        f"{place}: {name!r} is no parameter; allowed: {', '.join(parameters)}"
        for name in named
        if name not in parameters
    ]
    return problems


def _check_condition(place: str, known: ActionType, name: str, condition: Any) -> list[str]:
    parameter = next((p for p in known.parameters if p.name == name), None)
    if parameter is None:
        return [f"{place}: no parameter of {known.name}; allowed: {', '.join(p.name for p in known.parameters)}"]
    if isinstance(condition, Mapping):
        values = list(condition.values())
        wrong = not condition or set(condition) - {"minimum", "maximum"} or not parameter.type.startswith("range")
        if wrong:
            return [f'{place}: is {condition!r}; allowed: "minimum" and "maximum" of a range, or values']
    else:
        values = condition if isinstance(condition, list) else [condition]
        if not values:
            return [f"{place}: is {condition!r}; allowed: {parameter.allowed()}"]
    try:
        for value in values:
            parameter.read(value)
    except LabError as error:
        return [f"{place}: {error}"]
    return []


def _check_reference(place: str, known: ActionType, scale: Mapping[str, Any]) -> list[str]:
    parameter = next((p for p in known.parameters if p.name == scale.get("parameter")), None)
    problems = [] if parameter is None else _check_condition(place, known, parameter.name, scale.get("reference"))
    if parameter and not problems and not parameter.read(scale["reference"]):
        problems = [f"{place}: is {scale['reference']!r}; allowed: more than zero"]
    return problems


def _told(place: str, value: Any, allowed: str) -> list[str]:
    return [f"{place}: is {value!r}; allowed: {allowed}"] if allowed else []


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value else "text, not empty"


def _any_text(value: Any) -> str:
    return "" if isinstance(value, str) else "text"


def _texts(value: Any) -> str:
    return "" if isinstance(value, list) and value and not any(map(_text, value)) else "a list of texts"


def _number(value: Any) -> str:
    try:
        fits = isinstance(value, str) and Decimal(value).is_finite() and abs(Decimal(value)) <= _LARGEST
        return "" if fits else 'a number as text, like "0.05"'
    except InvalidOperation:
        return 'a number as text, like "0.05"'


def _share(value: Any) -> str:
    return "" if not _number(value) and 0 <= Decimal(value) <= 1 else 'a number from 0 to 1 as text, like "0.05"'


def _phase(value: Any) -> str:
    return "" if value in PHASES else f"one of {', '.join(PHASES)}"


def _amount_dimension(value: Any) -> str:
    return "" if value in _AMOUNTS else f"one of {', '.join(_AMOUNTS)}"


def _quantity(dimension: str) -> _Check:
    def allowed(value: Any) -> str:
        told = f"a {dimension} above zero in {', '.join(unit for unit in quantities.units(dimension) if unit)}"
        try:
            return "" if quantities.parse(value, dimension).value > 0 else told
        except quantities.QuantityError:
            return told

    return allowed


def _concentration(value: Any) -> str:
    try:
        read_concentration(value)
    except quantities.QuantityError:
        return 'a concentration, like "5 µg/mL", "3 µM" or "1e5 cells/mL"'
    return ""


def _mapping(of: _Check, keys: tuple[str, ...] = ()) -> _Check:
    def allowed(value: Any) -> str:
        fits = isinstance(value, Mapping) and value and (not keys or set(value) == set(keys))
        problem = next((told for part in value.values() if (told := of(part))), "") if fits else "an object"
        return f"{problem} {'with ' + ', '.join(keys) if keys else 'by name'}" if problem else ""

    return allowed


# Kind of entry -> (fields needed, fields allowed besides).
_ENTRIES: dict[str, tuple[dict[str, _Check], dict[str, _Check]]] = {
    "responses": (
        {
            "component": _text, "signal": _text, "unit": _any_text, "slope": _number, "intercept": _number,
            "noise": _share, "detection_limit": _concentration,
        },
        {"upper_limit": _concentration, "repeats": _text, "scales_with": _mapping(_text, ("parameter", "reference"))},
    ),
    "fractions": ({"signal": _text, "part": _text, "of": _text, "background": _share}, {}),
    "lookups": ({"signal": _text, "requires": _texts, "values": _mapping(_text)}, {"about": _texts}),
    "reactions": (
        {"needs": _texts},
        {
            "uses": _texts, "makes": _text, "dimension": _amount_dimension, "from": _text, "ratio": _number, "noise": _share,
            "per_volume": _concentration, "poisson": _mapping(_text, ("targets", "agent")),
            "phase_from": _phase, "phase_to": _phase,
        },
    ),
    "growth": ({"components": _texts, "doubling_time": _quantity("duration")}, {"limit": _concentration}),
    "bands": ({"component": _text, "length": _quantity("base_pairs"), "minimum": _quantity("mass")}, {}),
}  # fmt: skip
_WHOLE: dict[str, _Check] = {
    "retained": _mapping(_quantity("length")),
    "counted": _texts,
    "noise": _mapping(_share),
}
