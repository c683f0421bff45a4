"""Rubrics as data: what a record must show to be sufficient for an experiment's goal.

Each line counts materials. A material counts if it took part in an accepted step with one of `actions`, the parameters
of that step meet every condition, the material's lineage contains all names in `of` and none in `not_of`, and the step
has an observation of the material with the required `value`. The line is met if at least `at_least` materials count;
with `each`, that many for every name in `each`; with `distinct`, that many different values of the named visible
property or parameter. Lines without a `route` are always required. Of the lines with a route, all those of one route
must be met.

Further conditions:

- `properties`: conditions on the material's visible properties, after the step if the step changed the material.
- `about`: words of which an observation of the material must contain at least one.
- `signal`: bounds of the first number in the observations.
- `elapsed`: bounds of the time since an earlier line first counted the material or one of its ancestors.
- `shares`: the v/v share of an initial material, or of a material that an earlier line counted, in the material. It is
  computed from the amounts taken in each step. `known` requires a known share; `different` is the required number of
  different shares; with `at`, the share is that in the material or its closest ancestor when that line counted it.

Omitted parameters count with their defaults; `absent` in a condition accepts an omitted parameter without a default. Of
the lines with the same `one_of` name, one is enough, and other lines refer by that name to what any of them counted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from simulation.lab import quantities
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError

_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")  # bounded, because it is searched in texts of models
VALUES = ("", "text", "numeric")
CONDITIONS = ("equals", "at_least", "at_most", "mentions", "mentions_all", "absent")


@dataclass(frozen=True)
class RubricLine:
    """One line. It names materials as on the initial bench; `brackets` names other lines, `after` earlier lines."""

    line: str
    text: str
    actions: tuple[str, ...]
    of: tuple[str, ...] = ()
    not_of: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    at_least: int = 1
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    value: str = ""
    distinct: str = ""  # the visible property or parameter whose different values are counted
    brackets: tuple[str, ...] = ()  # lines whose signals must be between this line's lowest and highest
    after: tuple[
        str, ...
    ] = ()  # a material counts only if it descends from a material that each of those lines counted
    spread: Mapping[str, int] = field(
        default_factory=dict
    )  # name of an earlier line -> from how many of the materials it counted those of this line must descend
    route: str = ""
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    signal: Mapping[str, str] = field(default_factory=dict)
    elapsed: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, Any] = field(default_factory=dict)
    one_of: str = ""  # of the lines with this name one is enough; other lines refer to all of them by this name

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        lists = {key: tuple(data[key]) for key in _LISTS if key in data}
        return cls(**{**data, **lists})


_LISTS = ("actions", "of", "not_of", "each", "brackets", "after", "about")
_FIELDS = set(RubricLine.__dataclass_fields__)


def check_rubric(rubric: Sequence[Any], names: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Return every problem of a rubric. `names` are those of the experiment's initial materials and wells."""
    problems = [] if rubric else ["rubric: must contain at least one line"]
    # Lines refer to each other by name, so the names are collected before the lines are checked.
    lines = [line["line"] for line in rubric if isinstance(line, Mapping) and isinstance(line.get("line"), str)]
    problems += [f"rubric: the line {name!r} occurs twice" for name in sorted(set(lines)) if lines.count(name) > 1]
    for index, line in enumerate(rubric):
        before = (
            # `after` may only name earlier lines: otherwise two lines could depend on each other.
            _list_earlier_names(rubric[: lines.index(line["line"])])
            if isinstance(line, Mapping) and line.get("line") in lines
            else []
        )
        messages = (
            _check_line(line, names, lines, before, catalogue) if isinstance(line, Mapping) else ["must be an object"]
        )
        problems += [f"rubric[{index}].{problem}" for problem in messages]
    return problems


def _list_earlier_names(rubric: Sequence[Any]) -> list[str]:
    """Return the names of these lines and of their `one_of` groups, to which a later line may refer."""
    candidates = [line.get(key) for key in ("line", "one_of") for line in rubric if isinstance(line, Mapping)]
    return list(dict.fromkeys(name for name in candidates if isinstance(name, str) and name))


def _check_line(
    data: Mapping[str, Any], names: Sequence[str], lines: Sequence[str], before: Sequence[str], catalogue: Catalogue
) -> list[str]:
    problems = [f"{key}: unknown field; allowed: {', '.join(sorted(_FIELDS))}" for key in sorted(set(data) - _FIELDS)]
    for key in ("line", "text"):
        if not isinstance(data.get(key), str) or not data[key]:
            problems.append(f"{key}: is {data.get(key)!r}; allowed: text, not empty")
    problems += [
        f"{key}: is {data[key]!r}; allowed: text"
        for key in ("route", "distinct", "one_of")
        if not isinstance(data.get(key, ""), str)
    ]
    if data.get("value", "") not in VALUES:
        problems.append(f"value: is {data['value']!r}; allowed: {', '.join(value or 'empty' for value in VALUES)}")
    at_least = data.get("at_least", 1)
    if not isinstance(at_least, int) or isinstance(at_least, bool) or at_least < 1:
        problems.append(f"at_least: is {at_least!r}; allowed: a whole number from 1")
    allowed = {
        **dict.fromkeys(("of", "not_of", "each"), names),
        "actions": sorted(catalogue.types),
        "brackets": lines,
        "after": before,
    }
    for key in allowed:
        problems += _check_list(key, data.get(key, []), allowed[key])
    about = data.get("about", [])
    if not isinstance(about, list) or not all(isinstance(word, str) and word for word in about):
        problems.append(f"about: is {about!r}; allowed: a list of texts")
    problems += _check_visible(data) + _check_elapsed(data.get("elapsed", {}), before)
    problems += _check_shares(data.get("shares", {}), names, before)
    if not data.get("actions"):
        problems.append(f"actions: must name at least one; allowed: {', '.join(sorted(catalogue.types))}")
    return problems + _check_spread(data.get("spread", {}), before) + _check_conditions(data, catalogue)


def _check_visible(data: Mapping[str, Any]) -> list[str]:
    """Return the problems of a line's conditions on visible properties and of its bounds on a reading."""
    properties, signal = data.get("properties", {}), data.get("signal", {})
    if not isinstance(properties, Mapping) or not isinstance(signal, Mapping):
        return ["properties and signal: must be objects"]
    problems = []
    for name, condition in properties.items():
        if not isinstance(condition, Mapping) or not condition or set(condition) - set(CONDITIONS):
            problems.append(f"properties.{name}: is {condition!r}; allowed: any of {', '.join(CONDITIONS)}")
    for key, value in signal.items():
        if key not in ("at_least", "at_most") or not _NUMBER.fullmatch(str(value)):
            problems.append(f'signal.{key}: is {value!r}; allowed: at_least and at_most, a number as text, like "7.3"')
    return problems


def _check_elapsed(elapsed: Any, before: Sequence[str]) -> list[str]:
    if not elapsed and isinstance(elapsed, Mapping):
        return []
    # A reference alone, without a bound, is no condition.
    if not isinstance(elapsed, Mapping) or set(elapsed) - {"since", "at_least", "at_most"} or len(elapsed) < 2:
        return [f"elapsed: is {elapsed!r}; allowed: since, with at_least or at_most"]
    problems = []
    if elapsed.get("since") not in before:
        problems.append(f"elapsed.since: is {elapsed.get('since')!r}; allowed: {', '.join(before)}")
    for key in {"at_least", "at_most"} & set(elapsed):
        try:
            quantities.parse_quantity(elapsed[key], "duration")
        except LabError as error:
            problems.append(f"elapsed.{key}: {error}")
    return problems


def _check_shares(shares: Any, names: Sequence[str], before: Sequence[str]) -> list[str]:
    if not shares and isinstance(shares, Mapping):
        return []
    if not isinstance(shares, Mapping) or set(shares) - {"of", "different", "known", "at"}:
        return [f"shares: is {shares!r}; allowed: of, with known, different or at"]
    allowed = {"of": [*names, *before], "at": [*before]}
    problems = [
        f"shares.{key}: is {shares.get(key)!r}; allowed: {', '.join(known)}"
        for key, known in allowed.items()
        if shares.get(key) not in known and (key == "of" or key in shares)
    ]
    different, known = shares.get("different", 1), shares.get("known", True)
    if not isinstance(different, int) or isinstance(different, bool) or different < 1:
        problems.append(f"shares.different: is {different!r}; allowed: a whole number from 1")
    return problems if isinstance(known, bool) else [*problems, f"shares.known: is {known!r}; allowed: true, false"]


def _check_spread(spread: Any, before: Sequence[str]) -> list[str]:
    if not isinstance(spread, Mapping) or not all(
        isinstance(least, int) and not isinstance(least, bool) and least > 0 for least in spread.values()
    ):
        return [f"spread: is {spread!r}; allowed: an object of line and whole number from 1"]
    return [f"spread: contains {name!r}; allowed: {', '.join(before)}" for name in spread if name not in before]


def _check_list(key: str, values: Any, allowed: Sequence[str]) -> list[str]:
    if not isinstance(values, list):
        return [f"{key}: is {values!r}; allowed: a list of {', '.join(allowed)}"]
    return [f"{key}: contains {name!r}; allowed: {', '.join(allowed)}" for name in values if name not in allowed]


def _check_conditions(data: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    conditions = data.get("parameters", {})
    if not isinstance(conditions, Mapping):
        return [f"parameters: is {conditions!r}; allowed: an object of conditions"]
    action_names = data.get("actions")
    text_names = [name for name in action_names if isinstance(name, str)] if isinstance(action_names, list) else []
    actions = [known for name in text_names if (known := catalogue.types.get(name))]
    return [
        f"parameters.{name}: {problem}"
        for name, condition in conditions.items()
        for problem in _check_condition(name, condition, actions)
    ]


def _check_condition(name: str, condition: Any, actions: Sequence[ActionType]) -> list[str]:
    problems = []
    for action in actions:
        allowed_names = [parameter.name for parameter in action.parameters]
        if name not in allowed_names:
            problems.append(f"{action.name} has no such parameter; allowed: {', '.join(allowed_names)}")
    if not isinstance(condition, Mapping) or not condition or set(condition) - set(CONDITIONS):
        return [*problems, f"is {condition!r}; allowed: an object with any of {', '.join(CONDITIONS)}"]
    for key, value in condition.items():
        mentioned = key.startswith("mentions")
        texts = value if mentioned and isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            problems.append(f"{key}: is {value!r}; allowed: text{', or a list of texts' if mentioned else ''}")
        elif key == "absent" and value != "true":
            problems.append(f'absent: is {value!r}; allowed: "true"')
        elif not mentioned and key != "absent":
            problems += [f"{key}: {problem}" for problem in _check_amount(name, str(value), actions)]
    return problems


def _check_amount(name: str, text: str, actions: Sequence[ActionType]) -> list[str]:
    """Return the problems of a condition that compares a parameter with a value that this parameter cannot have."""
    problems = []
    for parameter in (p for action in actions for p in action.parameters if p.name == name):
        try:
            parameter.parse_value(text)
        except LabError as error:
            problems.append(str(error))
    return problems
