"""The format of the hidden truth in an experiment file, and a check of all of it before an episode starts.

Every list entry except those of `bands` and `decays` names its `action` (one or a list) and may have `when`: conditions on the action's
parameters, each a value, a list of values of which one is enough, {"minimum", "maximum"} (with "absent": true, a parameter that is not given fits too), or, where several options can
be chosen, {"all": [options that must be among them]}. Components are named as in the materials' contents.

- responses: a reading y that is a function of x. x is the concentration of `component`. With `per`, x is the amount of
  `component` divided by the amount of the component (or components) in `per`. With `components`, x is a weighted sum of
  concentrations; with `parameter`, it is the parameter's value. y is `slope` x + `intercept`, a `hill` curve, `log10`
  (slope log10(x / `at`) + intercept), or linear interpolation in a `table`. Every y has the signal's `unit` ("0.062 AU"),
  every x the unit of what it measures ("4 µM"), a slope both ("0.22 AU per µg/mL"). If a component in `requires` is
  missing, the reading is that of x = 0. If a component in `within` is missing, or one in `without` is present, there is
  no reading. There is also no reading unless the material that each selector in `chosen` names has the given property, as in
  {"reference_electrode": {"electrode type": ...}}, or contains a component given under "holds"
- fractions: the share of positive events in cytometry, `part` over `of`; each is one component or several together
- lookups: a text for each key of an initial material, if all components in `requires` and none in `without` are
  present. `about` lists words; a visual inspection gives the text only if its question contains one of them. `mixed` is
  the text for a sample whose origins have different texts. With `visible_from`, the components in `requires` and
  `without` count as present only from this concentration on
- reactions: if all components in `needs` are present, `makes` is formed, the components in `uses` are removed, and the
  phase changes from `phase_from` to `phase_to`. The amount formed is `from` times `ratio` (with `half_time`, only for
  the part converted during the action, and with `lag` only after its source has been there so long), or follows from `per_volume` (what is missing to this concentration), `poisson`
  or `consumes` (as much as the scarcest substance allows; with `per_volume`, both limit the product). A ratio of amounts of different dimensions has both units ("6.97734 mmol per g"). With the action "*" the reaction occurs in any step, as soon as the substances meet
- growth: `components` double in every `doubling_time`, up to the density `limit`. Each new cell `consumes` some of each
  substrate, and growth stops when one is used up; it `forms` products ({"gluconic acid": "7.5 mg per 1e9 cells"})
- maintenance: living `components` use up this much of each substrate `every` so long, whether they grow or not
- survival: the share 1 / (1 + (c/half)^n) of `components` survives the concentration c of `agent`; the rest becomes the
  component `into`; with `attached` ({"share": "0.1", "into": ...}), that share of the dead cells stays attached to the
  vessel and the others float. With `after`, this is the share left after that time, and cells die at a constant rate
- starvation: the `supply` in the medium is used up with its `half_time`; while less than `least` (% v/v) is left, the `components`
  die with their `half_life`, until the medium is renewed
- decays: dilutions of `components` `below` a concentration lose activity with this `half_life` when `warmer_than` a temperature
- bands: a component that a gel shows as a band, its length, and the smallest visible mass
- appearances: how a component looks, by name, as a list of [least concentration, text] in ascending order. What is dissolved
  colours the liquid; particles lie at its bottom
- on_insert: the components that are attached to the insert of a vessel, such as a chip, and move with it
- peptised: the share of a precipitate, by name, that each rinse without electrolyte carries through a filter, and the
  colloidal component `into` which it turns
- retained: the size of each component, by name; a filter retains those that are not smaller than its pores
- counted: the components that a counter counts, as a list or as {label: [components counted together]}
- noise: the relative standard deviation of an instrument's reading, by action
"""

from collections.abc import Collection, Mapping
from typing import Any

from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.lab.parameters import Parameter
from simulation.offline.declarations import ANY_ACTION
from simulation.offline.responses import CURVES, list_scalings
from simulation.offline.truth_units import (
    AMOUNTS,
    Check,
    a_concentration,
    a_hill_curve,
    a_kind,
    a_list_of_looks,
    a_list_of_texts,
    a_number,
    a_phase,
    a_poisson_hit,
    a_quantity,
    a_share,
    a_share_that_turns,
    a_table,
    a_text,
    a_yield,
    above_zero,
    an_amount_dimension,
    an_object_of,
    any_text,
    check_limit_units,
    check_reaction_units,
    check_response_units,
    is_list_of_texts,
    one_or_more,
    one_or_more_scales,
    resolve_dimensions,
)

# Kind of entry -> (required fields, optional fields). `action` and `when` are checked elsewhere, with the catalogue.
ENTRIES: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    "responses": (
        {"signal": a_text, "unit": any_text, "noise": a_share},
        {
            "component": a_text, "per": one_or_more, "chosen": an_object_of(an_object_of(one_or_more)), "components": an_object_of(a_number), "parameter": a_text,
            "slope": a_text, "intercept": a_text, "hill": a_hill_curve, "table": a_table,
            "log10": an_object_of(a_text, ("slope", "intercept", "at")),
            "requires": a_list_of_texts, "within": a_list_of_texts, "without": a_list_of_texts, "noise_floor": a_text,
            "detection_limit": a_text, "upper_limit": a_text, "repeats": a_text, "scales_with": one_or_more_scales,
        },
    ),
    "fractions": ({"signal": a_text, "part": one_or_more, "of": one_or_more, "background": a_share}, {}),
    "lookups": (
        {"signal": a_text, "requires": a_list_of_texts, "values": an_object_of(a_text)}, {"about": a_list_of_texts, "without": a_list_of_texts, "mixed": a_text, "visible_from": a_concentration, "chosen": an_object_of(an_object_of(one_or_more))},
    ),
    "reactions": (
        {"needs": a_list_of_texts},
        {
            "uses": a_list_of_texts, "makes": a_text, "dimension": an_amount_dimension, "from": a_text, "ratio": a_text, "noise": a_share,
            "per_volume": a_concentration, "poisson": a_poisson_hit, "consumes": an_object_of(a_text), "kind": a_kind,
            "half_time": a_quantity("duration"), "lag": a_quantity("duration"),
            "phase_from": a_phase, "phase_to": a_phase,
        },
    ),
    "growth": (
        {"components": a_list_of_texts, "doubling_time": a_quantity("duration")}, {
            "limit": a_concentration, "needs": a_list_of_texts, "consumes": an_object_of(a_yield), "forms": an_object_of(a_yield),
        },
    ),
    "maintenance": (
        {"components": a_list_of_texts, "consumes": an_object_of(a_yield), "every": a_quantity("duration")}, {},
    ),
    "survival": (
        {"components": a_list_of_texts, "agent": a_text, "half": a_concentration, "n": above_zero},
        {"into": a_text, "attached": a_share_that_turns, "after": a_quantity("duration"), "noise": a_share},
    ),
    "starvation": (
        {
            "components": a_list_of_texts, "supply": a_text, "half_time": a_quantity("duration"), "least": a_quantity("ratio"),
            "half_life": a_quantity("duration"),
        }, {},
    ),
    "decays": (
        {"components": a_list_of_texts, "below": a_concentration, "warmer_than": a_quantity("temperature"), "half_life": a_quantity("duration")}, {},
    ),
    "bands": ({"component": a_text, "length": a_quantity("base_pairs"), "minimum": a_quantity("mass")}, {}),
}  # fmt: skip
# Fields of the truth that are one object, not a list of entries.
WHOLE_FIELDS: dict[str, Check] = {
    "appearances": an_object_of(a_list_of_looks),
    "on_insert": a_list_of_texts,
    "peptised": an_object_of(a_share_that_turns),
    "retained": an_object_of(a_quantity("length")),
    "counted": lambda value: (
        an_object_of(a_list_of_texts)(value) if isinstance(value, Mapping) else a_list_of_texts(value)
    ),
    "noise": an_object_of(a_share),
}
_WITHOUT_ACTION = ("bands", "decays")  # entries that hold in every action
_PRODUCT_FIELDS = ("from", "per_volume", "poisson", "consumes")  # each sets how much of a product a reaction makes
_INPUTS = ("component", "components", "parameter")  # what a signal depends on
# Fields that name components.
_COMPONENT_FIELDS = (
    "component", "components", "per", "requires", "within", "part", "of", "needs", "uses", "from", "consumes", "agent",
    "without", "supply",
)  # fmt: skip


def check_truth(
    truth: Mapping[str, Any],
    catalogue: Catalogue,
    components: Mapping[str, str] | None = None,
    keys: Collection[str] = (),
) -> list[str]:
    """Return every problem in the form "truth.responses[0].slope: what is wrong and what is allowed".

    If the `components` (with the dimension of their amount) and `keys` of the experiment's materials are given, no other
    names are allowed.
    """
    problems = _check_references(truth, components or {}, keys) if components or keys else []
    dimensions = resolve_dimensions(truth, components or {})
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
                problems += _check_entry(f"{path}[{index}]", entry, kind, catalogue, dimensions)
    return problems


def _check_references(truth: Mapping[str, Any], components: Collection[str], keys: Collection[str]) -> list[str]:
    """Return a problem for each component that no material contains and nothing makes, and each key of no material."""
    lists = [(kind, truth[kind]) for kind in ENTRIES if isinstance(truth.get(kind), list)]
    entries = [
        (f"truth.{kind}[{index}]", entry)
        for kind, entries in lists
        for index, entry in enumerate(entries)
        if isinstance(entry, Mapping)
    ]
    products = [entry.get(name) for _, entry in entries for name in ("makes", "into")]
    products += [name for _, entry in entries for name in _list_names(entry.get("forms"))]
    known_components = {*components, *(product for product in products if isinstance(product, str))}
    problems = []
    for path, entry in entries:
        references = [(field, name) for field in _COMPONENT_FIELDS for name in _list_names(entry.get(field))]
        poisson = entry.get("poisson") or {}
        fields = ("targets", "agent", "hit_before")
        references += [("poisson", name) for field in fields for name in _list_names(poisson.get(field))]
        problems += [
            f"{path}.{field}: unknown component {name!r}; allowed: {', '.join(sorted(known_components))}"
            for field, name in references
            if name not in known_components
        ]
        if path.startswith("truth.lookups[") and isinstance(entry.get("values"), Mapping):
            unknown = [key for key in entry["values"] if key not in keys]
            problems += [f"{path}.values: unknown key {key!r}; allowed: {', '.join(sorted(keys))}" for key in unknown]
    return problems


def _list_names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | Mapping) else []


def _check_entry(path: str, entry: Any, kind: str, catalogue: Catalogue, dimensions: Mapping[str, str]) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"{path}: must be an object"]
    needed, optional = ENTRIES[kind]
    problems = [f"{path}.{name}: is missing" for name in needed if name not in entry]
    for name, value in entry.items():
        if name in ("action", "when") and kind not in _WITHOUT_ACTION:
            continue
        if check := (needed | optional).get(name):
            problems += _format_problem(f"{path}.{name}", value, check(value))
        else:
            names = ", ".join(sorted({*needed, *optional, *([] if kind in _WITHOUT_ACTION else ["action", "when"])}))
            problems.append(f"{path}.{name}: unknown field; allowed: {names}")
    problems += _check_alternatives(path, entry, kind)
    if not problems:
        # Only if all fields have the right form: what unit a number needs depends on the other fields.
        problems += check_response_units(path, entry, catalogue, dimensions) if kind == "responses" else []
        problems += check_reaction_units(path, entry, dimensions) if kind == "reactions" else []
        problems += check_limit_units(path, entry, dimensions) if kind in ("growth", "survival") else []
    return problems if kind in _WITHOUT_ACTION else problems + _check_actions(path, entry, kind, catalogue)


def _check_alternatives(path: str, entry: Mapping[str, Any], kind: str) -> list[str]:
    """Return problems with fields of which exactly one is needed, and with fields that require another field."""
    problems = []
    if kind == "responses":
        for what, ways in (("what the signal depends on", _INPUTS), ("its curve", CURVES)):
            if sum(way in entry for way in ways) != 1:
                problems.append(f"{path}: needs exactly one of {', '.join(ways)} ({what})")
        if "slope" in entry and "intercept" not in entry:
            problems.append(f"{path}.intercept: is missing")
        if "log10" in entry and "detection_limit" not in entry:
            problems.append(f"{path}.detection_limit: is missing; the logarithm of zero is undefined")
    given = [field for field in _PRODUCT_FIELDS if field in entry]
    if "makes" in entry and len(given) != 1 and given != ["per_volume", "consumes"]:
        problems.append(f"{path}.makes: needs exactly one of {', '.join(_PRODUCT_FIELDS)}")
    if "from" in entry and "ratio" not in entry:
        problems.append(f"{path}.ratio: is missing")
    if kind == "reactions" and "consumes" in entry and "dimension" not in entry:
        problems.append(f"{path}.dimension: is missing; allowed: {', '.join(AMOUNTS)}")
    return problems


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
    parameters = {parameter.name: parameter for parameter in action_type.parameters}
    allowed = ", ".join(parameters)
    problems = []
    for name, value in conditions.items():
        if parameter := parameters.get(name):
            problems += _check_condition(f"{path}.when.{name}", parameter, value)
        else:
            problems.append(f"{path}.when.{name}: not a parameter of {action_type.name}; allowed: {allowed}")
    # If an entry names several actions, those without the parameter in `repeats` give one reading.
    names = [entry["repeats"]] if "repeats" in entry and not isinstance(entry["action"], list) else []
    names += [entry["parameter"]] if "parameter" in entry else []
    # Half-times, doubling times and times of killing are compared with the duration of the action, so it must have one.
    names += ["duration"] if {"half_time", "doubling_time", "after", "every"} & entry.keys() else []
    for scale in [scale for scale in list_scalings(entry) if isinstance(scale, Mapping)]:
        names.append(scale.get("parameter"))
        if parameter := parameters.get(str(scale.get("parameter"))):
            place, reference = f"{path}.scales_with.reference", scale.get("reference")
            wrong = _check_condition(place, parameter, reference)
            if not wrong and not parameter.parse_value(reference):
                wrong = _format_problem(place, reference, "more than zero")
            problems += wrong
    problems += [
        f"{path}: {name!r} is not a parameter of {action_type.name}; allowed: {allowed}"
        for name in names
        if name not in list(parameters)
    ]
    if "parameter" in entry and not problems:
        points = [entry["hill"]["half"]] if "hill" in entry else [point[0] for point in entry.get("table", [])]
        for value in points:
            problems += _check_condition(f"{path}.{entry['parameter']}", parameters[entry["parameter"]], value)
    return problems


def _check_condition(path: str, parameter: Parameter, condition: Any) -> list[str]:
    if isinstance(condition, Mapping) and parameter.type == "multiselect":
        values = condition.get("all", [])
        if set(condition) != {"all"} or not is_list_of_texts(values):
            return _format_problem(path, condition, '"all" with a list of options, or values')
    elif isinstance(condition, Mapping):
        values = [bound for end, bound in condition.items() if end != "absent"]
        unknown = set(condition) - {"minimum", "maximum", "absent"}
        if not values or unknown or condition.get("absent", True) is not True or not parameter.type.startswith("range"):
            return _format_problem(path, condition, '"minimum" and "maximum" of a range, or values')
    else:
        values = condition if isinstance(condition, list) else [condition]
        if not values:
            return _format_problem(path, condition, parameter.describe_allowed())
    try:
        for value in values:
            parameter.parse_value(value)
    except LabError as error:
        return [f"{path}: {error}"]
    return []


def _format_problem(path: str, value: Any, allowed: str) -> list[str]:
    """Return a list with the problem, or an empty list if the value is allowed (`allowed` is then an empty text)."""
    return [f"{path}: is {value!r}; allowed: {allowed}"] if allowed else []
