"""The format of the hidden truth in an experiment file, and a check of all of it before an episode starts.

Every list entry except those of `bands` names its `action` (one or a list) and may have `when`: conditions on the action's
parameters, each a value, a list of values, or {"minimum", "maximum"}. Components are named as in the materials' contents.

- responses: a reading y that is a function of x. x is the concentration of `component` in its base unit (µg/mL, µM,
  1/mL, U/mL). With `per`, x is the amount of `component` divided by the amount of the component (or components) in
  `per`. With `components`, x is a weighted sum of concentrations; with `parameter`, it is the parameter's value. y is
  `slope` x + `intercept`, a `hill` curve, `log10` (slope log10 x + intercept), or linear interpolation in a `table`. If
  a component in `requires` is missing, the reading is that of x = 0. If a component in `within` is missing, there is no
  reading. There is also no reading unless the material that each selector in `chosen` names has the given property, as
  in {"reference_electrode": {"electrode type": ...}}, or contains the component given under "holds"
- fractions: the share of positive events in cytometry, `part` over `of`; each is one component or several together
- lookups: a text for each key of an initial material, if all components in `requires` and none in `without` are
  present. `about` lists words; a visual inspection gives the text only if its question contains one of them
- reactions: if all components in `needs` are present, `makes` is formed, the components in `uses` are removed, and the
  phase changes from `phase_from` to `phase_to`. The amount formed is `from` times `ratio` (with `half_time`, only for
  the part converted during the action), or follows from `per_volume`, `poisson` or `consumes` (as much as the scarcest
  substance allows). With the action "*" the reaction occurs in any step, as soon as the substances meet
- growth: `components` double in every `doubling_time`, up to the density `limit`
- survival: the share 1 / (1 + (c/half)^n) of `components` survives the concentration c of `agent`; the rest becomes the
  component `into`
- bands: a component that a gel shows as a band, its length, and the smallest visible mass
- retained: the size of each component, by name; a filter retains those that are not smaller than its pores
- counted: the components that a counter counts, as a list or as {label: [components counted together]}
- noise: the relative standard deviation of an instrument's reading, by action
"""

from collections.abc import Collection, Mapping
from typing import Any

from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.offline.chemistry import ANY_ACTION
from simulation.offline.hidden_truth_schema import AMOUNTS, ENTRIES, WHOLE_FIELDS, a_concentration, a_number
from simulation.offline.responses import CURVES

_PRODUCT_FIELDS = ("from", "per_volume", "poisson", "consumes")  # each sets how much of a product a reaction makes
_INPUTS = ("component", "components", "parameter")  # what a signal depends on
# Fields that name components.
_COMPONENT_FIELDS = (
    "component", "components", "per", "requires", "within", "part", "of", "needs", "uses", "from", "consumes", "agent",
    "without",
)  # fmt: skip


def check_truth(
    truth: Mapping[str, Any], catalogue: Catalogue, components: Collection[str] = (), keys: Collection[str] = ()
) -> list[str]:
    """Return every problem in the form "truth.responses[0].slope: what is wrong and what is allowed".

    If `components` and `keys` of the experiment's materials are given, no other names are allowed.
    """
    problems = _check_references(truth, components, keys) if components or keys else []
    for kind, value in truth.items():
        path = f"truth.{kind}"
        if kind in WHOLE_FIELDS:
            problems += _format_problem(path, value, WHOLE_FIELDS[kind](value))
        elif kind not in ENTRIES:
            problems.append(f"{path}: unknown field; allowed: {', '.join(sorted({*ENTRIES, *WHOLE_FIELDS}))}")
        elif not isinstance(value, list):
            problems.append(f"{path}: must be a list")
        else:
            for index, entry in enumerate(value):
                problems += _check_entry(f"{path}[{index}]", entry, kind, catalogue)
    return problems


def _check_references(truth: Mapping[str, Any], components: Collection[str], keys: Collection[str]) -> list[str]:
    """Return a problem for each component that no material contains and nothing makes, and each key of no material."""
    entries = [(kind, index, entry) for kind in ENTRIES if isinstance(truth.get(kind), list)
               for index, entry in enumerate(truth[kind]) if isinstance(entry, Mapping)]  # fmt: skip
    products = {
        entry[name] for _, _, entry in entries for name in ("makes", "into") if isinstance(entry.get(name), str)
    }
    known_components = {*components, *products}
    problems = []
    for kind, index, entry in entries:
        references = [(field, name) for field in _COMPONENT_FIELDS for name in _list_names(entry.get(field))]
        references += [("poisson", name) for name in _list_names(list((entry.get("poisson") or {}).values())[:2])]
        problems += [
            f"truth.{kind}[{index}].{field}: unknown component {name!r}; allowed: {', '.join(sorted(known_components))}"
            for field, name in references
            if name not in known_components
        ]
        if kind == "lookups" and isinstance(entry.get("values"), Mapping):
            problems += [
                f"truth.lookups[{index}].values: unknown key {key!r}; allowed: {', '.join(sorted(keys))}"
                for key in entry["values"]
                if key not in keys
            ]
    return problems


def _list_names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | Mapping) else []


def _check_entry(path: str, entry: Any, kind: str, catalogue: Catalogue) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"{path}: must be an object"]
    needed, optional = ENTRIES[kind]
    problems = [f"{path}.{name}: is missing" for name in needed if name not in entry]
    for name, value in entry.items():
        if name in ("action", "when") and kind != "bands":
            continue
        allowed = {**needed, **optional}.get(name)
        problems += (
            [f"{path}.{name}: unknown field; allowed: {', '.join(sorted({*needed, *optional, 'action', 'when'}))}"]
            if allowed is None
            else _format_problem(f"{path}.{name}", value, allowed(value))
        )
    problems += _check_alternatives(path, entry, kind)
    return problems if kind == "bands" else problems + _check_actions(path, entry, kind, catalogue)


def _check_alternatives(path: str, entry: Mapping[str, Any], kind: str) -> list[str]:
    """Return problems with fields of which exactly one is needed, and with fields that require another field."""
    problems = []
    if kind == "responses":
        for what, ways in (("what the signal depends on", _INPUTS), ("its curve", CURVES)):
            if sum(way in entry for way in ways) != 1:
                problems.append(f"{path}: needs exactly one of {', '.join(ways)} ({what})")
        if "slope" in entry and "intercept" not in entry:
            problems.append(f"{path}.intercept: is missing")
        if not problems:
            # Only if exactly one curve and one input are given: how a point is written depends on them.
            problems += _check_curve_points(path, entry)
    if "makes" in entry and sum(way in entry for way in _PRODUCT_FIELDS) != 1:
        problems.append(f"{path}.makes: needs exactly one of {', '.join(_PRODUCT_FIELDS)}")
    if "from" in entry and "ratio" not in entry:
        problems.append(f"{path}.ratio: is missing")
    if "consumes" in entry and "dimension" not in entry:
        problems.append(f"{path}.dimension: is missing; allowed: {', '.join(AMOUNTS)}")
    return problems


def _check_curve_points(path: str, entry: Mapping[str, Any]) -> list[str]:
    """Return a problem for each x of a curve that is not written like its input: a concentration or a plain number.

    If the input is a parameter, `_check_action_fields` checks the values, because they depend on the action.
    """
    points = [("hill.half", entry["hill"].get("half"))] if isinstance(entry.get("hill"), Mapping) else []
    if isinstance(table := entry.get("table"), list):
        points += [("table", point[0]) for point in table if isinstance(point, list) and point]
    if "parameter" in entry:
        return []
    allowed = a_number if "components" in entry or "per" in entry else a_concentration
    return [problem for name, value in points for problem in _format_problem(f"{path}.{name}", value, allowed(value))]


def _check_actions(path: str, entry: Mapping[str, Any], kind: str, catalogue: Catalogue) -> list[str]:
    action = entry.get("action")
    if action == ANY_ACTION and kind == "reactions":
        return [f'{path}.when: not allowed with the action "*"'] if "when" in entry else []
    names = action if isinstance(action, list) and action else [action]
    problems = []
    for name in names:
        if (action_type := catalogue.types.get(str(name))) is None:
            problems.append(f"{path}.action: is {name!r}; allowed: {', '.join(sorted(catalogue.types))}")
        else:
            problems += _check_action_fields(path, entry, action_type)
    return problems


def _check_action_fields(path: str, entry: Mapping[str, Any], action_type: ActionType) -> list[str]:
    conditions = entry.get("when", {})
    if not isinstance(conditions, Mapping):
        return [f"{path}.when: must be an object"]
    problems = [
        problem
        for name, value in conditions.items()
        for problem in _check_condition(f"{path}.when.{name}", action_type, name, value)
    ]
    # If an entry names several actions, those without the parameter in `repeats` give one reading.
    parameter_names = [entry["repeats"]] if "repeats" in entry and not isinstance(entry["action"], list) else []
    parameter_names += [entry["parameter"]] if "parameter" in entry else []
    # Half-times and doubling times are compared with the duration of the action, so it must have one.
    parameter_names += ["duration"] if "half_time" in entry or "doubling_time" in entry else []
    parameter_names += [entry["scales_with"].get("parameter")] if isinstance(entry.get("scales_with"), Mapping) else []
    if isinstance(entry.get("scales_with"), Mapping):
        problems += _check_reference(f"{path}.scales_with.reference", action_type, entry["scales_with"])
    parameters = [parameter.name for parameter in action_type.parameters]
    problems += [
        f"{path}: {name!r} is not a parameter of {action_type.name}; allowed: {', '.join(parameters)}"
        for name in parameter_names
        if name not in parameters
    ]
    if "parameter" in entry and not problems:
        points = [entry["hill"]["half"]] if "hill" in entry else [point[0] for point in entry.get("table", [])]
        for value in points:
            problems += _check_condition(f"{path}.{entry['parameter']}", action_type, entry["parameter"], value)
    return problems


def _check_condition(path: str, action_type: ActionType, name: str, condition: Any) -> list[str]:
    parameter = next((candidate for candidate in action_type.parameters if candidate.name == name), None)
    if parameter is None:
        return [
            f"{path}: not a parameter of {action_type.name}; allowed: {', '.join(candidate.name for candidate in action_type.parameters)}"
        ]
    if isinstance(condition, Mapping):
        values = list(condition.values())
        wrong = not condition or set(condition) - {"minimum", "maximum"} or not parameter.type.startswith("range")
        if wrong:
            return [f'{path}: is {condition!r}; allowed: "minimum" and "maximum" of a range, or values']
    else:
        values = condition if isinstance(condition, list) else [condition]
        if not values:
            return [f"{path}: is {condition!r}; allowed: {parameter.describe_allowed()}"]
    try:
        for value in values:
            parameter.parse_value(value)
    except LabError as error:
        return [f"{path}: {error}"]
    return []


def _check_reference(path: str, action_type: ActionType, scale: Mapping[str, Any]) -> list[str]:
    parameter = next(
        (candidate for candidate in action_type.parameters if candidate.name == scale.get("parameter")), None
    )
    problems = [] if parameter is None else _check_condition(path, action_type, parameter.name, scale.get("reference"))
    if parameter and not problems and not parameter.parse_value(scale["reference"]):
        problems = [f"{path}: is {scale['reference']!r}; allowed: more than zero"]
    return problems


def _format_problem(path: str, value: Any, allowed: str) -> list[str]:
    """Return a list with the problem, or an empty list if the value is allowed (`allowed` is then an empty text)."""
    return [f"{path}: is {value!r}; allowed: {allowed}"] if allowed else []
