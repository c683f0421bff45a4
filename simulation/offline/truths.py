"""The hidden truth of an experiment file, as the rules read it, and a check of all of it before anything is played.

Every list entry but those of `bands` names its `action`, one or a list, and may hold `when`: conditions on the action's
parameters, a value, a list of values, or {"minimum", "maximum"}. Components are named as in the materials' contents.

- responses: a reading y of x. x is the concentration of `component` in its kept unit (µg/mL, µM, 1/mL, U/mL), or with
  `per` its amount for each of that component; or `components`, concentrations times weights, summed; or a `parameter`.
  y is `slope` x + `intercept`, a `hill` curve, `log10` (slope log10 x + intercept) or straight lines through a `table`.
  Without one of `requires` it is the reading of x = 0; without one of `within` there is none, nor where the material that a
  selector names does not show what `chosen` says: {"reference_electrode": {"electrode type": ...}}, or "holds": component
- fractions: the share of `of` that is `part`, as a cytometer counts it; each one component or several together
- lookups: text per key of an initial material, where all of `requires` and nothing of `without` is present; `about`: words
  of a question
- reactions: where all of `needs` is present, `makes` appears (`from` x `ratio`, with `half_time` only what has turned;
  `per_volume`; `poisson`; or `consumes`, as much as the scarcest allows), `uses` is gone, and the phase changes from
  `phase_from` to `phase_to`. The action "*": in any step, as soon as the substances meet
- growth: `components` double in `doubling_time`, up to the density `limit`
- survival: of `components` 1 / (1 + (c/half)^n) outlive the concentration c of `agent`; the rest turns `into` another
- bands: a product a gel shows; retained: size of what a filter holds back; counted: what a cell counter counts, by
  name or as {what it tells: [components together]};
  noise: relative standard deviation of an instrument's reading
"""

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.lab.materials import CONTENT_KINDS
from simulation.offline.chemistry import AT_ONCE, read_concentration
from simulation.offline.responses import CURVES
from simulation.offline.vessels import PHASES

_WAYS = ("from", "per_volume", "poisson", "consumes")  # how much of a product a reaction makes
_INPUTS = ("component", "components", "parameter")  # what a signal depends on
# Fields that name components.
_NAMING = (
    "component", "components", "per", "requires", "within", "part", "of", "needs", "uses", "from", "consumes", "agent",
    "without",
)  # fmt: skip
_LARGEST = 10**12
_AMOUNTS = ("mass", "amount", "count", "enzyme_units")
_Check = Callable[[Any], str]  # "" if the value is allowed, else what is allowed


def check(
    truth: Mapping[str, Any], catalogue: Catalogue, components: Collection[str] = (), keys: Collection[str] = ()
) -> list[str]:
    """Every problem as "truth.responses[0].slope: what is wrong and what is allowed".

    Where `components` and `keys` of the experiment's materials are given, nothing else may be named.
    """
    problems = _check_names(truth, components, keys) if components or keys else []
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


def _check_names(truth: Mapping[str, Any], components: Collection[str], keys: Collection[str]) -> list[str]:
    """Names that stand for nothing: a component no material holds and nothing makes, a key no material has."""
    entries = [(kind, at, entry) for kind in _ENTRIES if isinstance(truth.get(kind), list)
               for at, entry in enumerate(truth[kind]) if isinstance(entry, Mapping)]  # fmt: skip
    made = {entry[name] for _, _, entry in entries for name in ("makes", "into") if isinstance(entry.get(name), str)}
    there = {*components, *made}
    problems = []
    for kind, at, entry in entries:
        named = [(field, name) for field in _NAMING for name in _names_in(entry.get(field))]
        named += [("poisson", name) for name in _names_in(list((entry.get("poisson") or {}).values())[:2])]
        problems += [
            f"truth.{kind}[{at}].{field}: names {name!r}; allowed: {', '.join(sorted(there))}"
            for field, name in named
            if name not in there
        ]
        if kind == "lookups" and isinstance(entry.get("values"), Mapping):
            problems += [
                f"truth.lookups[{at}].values: names {key!r}; allowed: {', '.join(sorted(keys))}"
                for key in entry["values"]
                if key not in keys
            ]
    return problems


def _names_in(written: Any) -> list[str]:
    if isinstance(written, str):
        return [written]
    return [name for name in written if isinstance(name, str)] if isinstance(written, list | Mapping) else []


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
    problems += _check_ways(place, entry, kind)
    return problems if kind == "bands" else problems + _check_place(place, entry, kind, catalogue)


def _check_ways(place: str, entry: Mapping[str, Any], kind: str) -> list[str]:
    """Fields of which exactly one, or both, must stand."""
    problems = []
    if kind == "responses":
        for what, ways in (("signal depends on", _INPUTS), ("curve is", CURVES)):
            if sum(way in entry for way in ways) != 1:
                problems.append(f"{place}: what its {what} needs exactly one of {', '.join(ways)}")
        if "slope" in entry and "intercept" not in entry:
            problems.append(f"{place}.intercept: is missing")
        if not problems:
            problems += _check_points(place, entry)
    if "makes" in entry and sum(way in entry for way in _WAYS) != 1:
        problems.append(f"{place}.makes: needs exactly one of {', '.join(_WAYS)}")
    if "from" in entry and "ratio" not in entry:
        problems.append(f"{place}.ratio: is missing")
    if "consumes" in entry and "dimension" not in entry:
        problems.append(f"{place}.dimension: is missing; allowed: {', '.join(_AMOUNTS)}")
    return problems


def _check_points(place: str, entry: Mapping[str, Any]) -> list[str]:
    """The values of x on a curve are written as x is: a concentration, or a plain number. (Parameters: _check_place.)"""
    points = [("hill.half", entry["hill"].get("half"))] if isinstance(entry.get("hill"), Mapping) else []
    if isinstance(table := entry.get("table"), list):
        points += [("table", point[0]) for point in table if isinstance(point, list) and point]
    if "parameter" in entry:
        return []
    allowed = _number if "components" in entry or "per" in entry else _concentration
    return [problem for name, value in points for problem in _told(f"{place}.{name}", value, allowed(value))]


def _check_place(place: str, entry: Mapping[str, Any], kind: str, catalogue: Catalogue) -> list[str]:
    written = entry.get("action")
    if written == AT_ONCE and kind == "reactions":
        return [f'{place}.when: not with the action "*"'] if "when" in entry else []
    names = written if isinstance(written, list) and written else [written]
    problems = []
    for name in names:
        if (known := catalogue.types.get(str(name))) is None:
            problems.append(f"{place}.action: is {name!r}; allowed: {', '.join(sorted(catalogue.types))}")
        else:
            problems += _check_at(place, entry, known)
    return problems


def _check_at(place: str, entry: Mapping[str, Any], known: ActionType) -> list[str]:
    conditions = entry.get("when", {})
    if not isinstance(conditions, Mapping):
        return [f"{place}.when: must be an object"]
    problems = [
        p for name, value in conditions.items() for p in _check_condition(f"{place}.when.{name}", known, name, value)
    ]
    named = [entry[name] for name in ("repeats", "parameter") if name in entry]
    named += ["duration"] if "half_time" in entry or "doubling_time" in entry else []
    named += [entry["scales_with"].get("parameter")] if isinstance(entry.get("scales_with"), Mapping) else []
    if isinstance(entry.get("scales_with"), Mapping):
        problems += _check_reference(f"{place}.scales_with.reference", known, entry["scales_with"])
    parameters = [parameter.name for parameter in known.parameters]
    problems += [
        f"{place}: {name!r} is no parameter of {known.name}; allowed: {', '.join(parameters)}"
        for name in named
        if name not in parameters
    ]
    if "parameter" in entry and not problems:
        points = [entry["hill"]["half"]] if "hill" in entry else [point[0] for point in entry.get("table", [])]
        for value in points:
            problems += _check_condition(f"{place}.{entry['parameter']}", known, entry["parameter"], value)
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


def _one_or_more(value: Any) -> str:
    return _texts(value) if isinstance(value, list) else _text(value)


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


def _kind(value: Any) -> str:
    return "" if value in CONTENT_KINDS else f"one of {', '.join(CONTENT_KINDS)}"


def _above_zero(value: Any) -> str:
    return "" if not _number(value) and Decimal(value) > 0 else 'a number above zero as text, like "2"'


def _poisson(value: Any) -> str:
    fits = isinstance(value, Mapping) and {"targets", "agent"} <= set(value) <= {"targets", "agent", "efficiency"}
    fits = fits and not _text(value["targets"]) and not _text(value["agent"])
    return (
        "" if fits and not _above_zero(value.get("efficiency", "1")) else "an object with targets, agent (efficiency)"
    )


def _scale(value: Any) -> str:
    fits = isinstance(value, Mapping) and {"parameter", "reference"} <= set(value) <= {
        "parameter",
        "reference",
        "power",
    }
    fits = fits and not _text(value["parameter"]) and not _text(value["reference"])
    return "" if fits and not _number(value.get("power", "1")) else "an object with parameter, reference (and power)"


def _hill(value: Any) -> str:
    fits = isinstance(value, Mapping) and set(value) == {"bottom", "top", "half", "n"} and not _text(value["half"])
    fits = fits and not any(_number(value[name]) for name in ("bottom", "top")) and not _above_zero(value["n"])
    return "" if fits else "an object with bottom, top, half and n, as text"


def _table(value: Any) -> str:
    fits = isinstance(value, list) and len(value) > 1 and all(
        isinstance(point, list) and len(point) == 2 and not _text(point[0]) and not _number(point[1]) for point in value
    )  # fmt: skip
    return "" if fits else 'a list of at least two points, like ["2 µM", "7.1"]'


# Kind of entry -> (fields needed, fields allowed besides).
_ENTRIES: dict[str, tuple[dict[str, _Check], dict[str, _Check]]] = {
    "responses": (
        {"signal": _text, "unit": _any_text, "noise": _share},
        {
            "component": _text, "per": _one_or_more, "chosen": _mapping(_mapping(_text)), "components": _mapping(_number), "parameter": _text,
            "slope": _number, "intercept": _number, "hill": _hill, "table": _table,
            "log10": _mapping(_number, ("slope", "intercept")),
            "requires": _texts, "within": _texts, "noise_floor": _number,
            "detection_limit": _concentration, "upper_limit": _concentration, "repeats": _text, "scales_with": _scale,
        },
    ),
    "fractions": ({"signal": _text, "part": _one_or_more, "of": _one_or_more, "background": _share}, {}),
    "lookups": (
        {"signal": _text, "requires": _texts, "values": _mapping(_text)}, {"about": _texts, "without": _texts},
    ),
    "reactions": (
        {"needs": _texts},
        {
            "uses": _texts, "makes": _text, "dimension": _amount_dimension, "from": _text, "ratio": _number, "noise": _share,
            "per_volume": _concentration, "poisson": _poisson, "consumes": _mapping(_above_zero), "kind": _kind,
            "half_time": _quantity("duration"),
            "phase_from": _phase, "phase_to": _phase,
        },
    ),
    "growth": (
        {"components": _texts, "doubling_time": _quantity("duration")}, {"limit": _concentration, "needs": _texts},
    ),
    "survival": (
        {"components": _texts, "agent": _text, "half": _concentration, "n": _above_zero}, {"into": _text},
    ),
    "bands": ({"component": _text, "length": _quantity("base_pairs"), "minimum": _quantity("mass")}, {}),
}  # fmt: skip
_WHOLE: dict[str, _Check] = {
    "retained": _mapping(_quantity("length")),
    "counted": lambda value: _mapping(_texts)(value) if isinstance(value, Mapping) else _texts(value),
    "noise": _mapping(_share),
}
