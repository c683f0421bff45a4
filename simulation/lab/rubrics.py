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
- `signal`: bounds of the first number in the observations, with its unit ("0.1 AU").
- `elapsed`: bounds of the time since an earlier line first counted the material or one of its ancestors.
- `shares`: the v/v share of an initial material, or of a material that an earlier line counted, in the material. It is
  computed from the amounts taken in each step. `known` requires a known share; `different` is the required number of
  different shares; with `at`, the share is that in the material or its closest ancestor when that line counted it;
  `within` is the largest ratio of the known shares in two materials; of several in one material, the smallest counts.
- `direct`: initial materials of which the step itself must have taken one; a portion of a portion does not count.
- `follows`: earlier lines: the material was read after every material that they counted, whatever it is made of.
- `again`: for earlier lines, the properties or parameters in which an earlier reading of the same material, or of an
  ancestor, that the line counted agrees with this one.
- `agrees_with`: for earlier lines, the largest difference between the mean of the reading and that of the last reading of the
  same material that the line counted ("0.0005 g").
- `never`: steps that exclude a material if it, or an ancestor, went through one of them before.
- `same`: visible properties or parameters in which the materials must agree: only the largest group that agrees counts.
- `same_as`: for earlier lines, the properties or parameters in which a material must agree with one that the line counted.
- `span`: for a visible property or parameter, the least ratio of its highest to its lowest value.

Omitted parameters count with their defaults; `absent` in a condition accepts an omitted parameter without a default. Of
the lines with the same `one_of` name, one is enough, and other lines refer by that name to what any of them counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from simulation.lab.actions import ActionType
from simulation.lab.catalogue import parse_amount
from simulation.lab.errors import LabError
from wetbench_site.validation import (
    Allowed,
    StrictModel,
    Text,
    find_field_problems,
    format_problem,
    reject,
    reject_parts,
)

CONDITIONS = ("equals", "at_least", "at_most", "mentions", "mentions_all", "absent")


def _need_duration(text: str) -> str:
    parse_amount(text, "duration")
    return text


def _need_conditions(data: dict[str, Any]) -> dict[str, Any]:
    return data if data and set(data) <= set(CONDITIONS) else reject()


def _matches(model: type[StrictModel]) -> tuple[AfterValidator, Allowed]:
    """Return the metadata of a dict that stays a dict: its problems are those of the model; an empty dict is valid."""

    def validate(data: dict[str, Any]) -> dict[str, Any]:
        problems = find_field_problems(model, data) if data else []
        reject_parts([(problem.field, problem.message) for problem in problems])
        return data

    return AfterValidator(validate), Allowed(f"an object with {', '.join(model.model_fields)}")


# Bounded, because a number of this form is searched in texts of models.
ReadingText = Annotated[
    str,
    Field(pattern=r"^-?[0-9]{1,9}(\.[0-9]{1,9})?( [^\s0-9][^\x00-\x1f]{0,19})?$"),
    Allowed('a number as text with the unit that the instrument displays, like "0.1 AU", or "7.3" for a pH'),
]
FactorText = Annotated[
    str, Field(pattern=r"^[1-9][0-9]{0,5}(\.[0-9]{1,3})?$"), Allowed('a number of 1 or more as text, like "10"')
]
DurationText = Annotated[str, AfterValidator(_need_duration)]
Condition = Annotated[
    dict[str, Any], AfterValidator(_need_conditions), Allowed(f"an object with any of {', '.join(CONDITIONS)}")
]


class SignalEntry(StrictModel):
    """Bounds of the first number in the observations."""

    at_least: ReadingText | None = None
    at_most: ReadingText | None = None


class ElapsedEntry(StrictModel):
    """Bounds of the time since the line `since`."""

    since: str
    at_least: DurationText | None = None
    at_most: DurationText | None = None

    @model_validator(mode="after")
    def _need_bound(self) -> Self:
        # A reference alone, without a bound, is no condition.
        if self.at_least is None and self.at_most is None:
            raise ValueError("allowed: since, with at_least or at_most")
        return self


class SharesEntry(StrictModel):
    """Conditions on the v/v share of `of` in a material."""

    of: str
    different: Annotated[int, Field(ge=1)] = 1
    known: bool = True
    at: str = ""
    within: FactorText | None = None


def _need_known_actions(names: list[str], info: ValidationInfo) -> list[str]:
    if info.context and (unknown := [name for name in names if name not in info.context.types]):
        raise ValueError(f"contains {unknown[0]!r}; allowed: {', '.join(sorted(info.context.types))}")
    return names


def _need_possible_conditions(parameters: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    types = info.context.types if info.context else {}
    actions = [types[name] for name in info.data.get("actions", ()) if name in types]
    problems = [(name, _check_condition(name, condition, actions)) for name, condition in parameters.items()]
    reject_parts([(name, message) for name, messages in problems for message in messages])
    return parameters


ActionNames = Annotated[
    list[str], Field(min_length=1), AfterValidator(_need_known_actions), Allowed("a list of at least one action")
]
ParameterConditions = Annotated[dict[str, Condition], AfterValidator(_need_possible_conditions)]


class NeverEntry(StrictModel):
    """A step that excludes a material: the same conditions as those of a line."""

    actions: ActionNames
    of: list[str] = []
    not_of: list[str] = []
    parameters: ParameterConditions = {}
    properties: dict[str, Condition] = {}


class RubricLine(StrictModel):
    """One line. It names materials as on the initial bench; `brackets` names other lines, `after` earlier lines."""

    line: Text
    text: Text
    actions: ActionNames
    of: list[str] = []
    not_of: list[str] = []
    each: list[str] = []
    at_least: Annotated[int, Field(ge=1)] = 1
    parameters: ParameterConditions = {}
    value: Literal["", "text", "numeric"] = ""
    distinct: str = ""  # the visible property or parameter whose different values are counted
    brackets: list[str] = []  # lines whose signals must be between this line's lowest and highest
    after: list[str] = []  # a material counts only if it descends from one that each of those lines counted
    # name of an earlier line -> from how many of the materials it counted those of this line must descend
    spread: dict[str, Annotated[int, Field(ge=1)]] = {}
    route: str = ""
    properties: dict[str, Condition] = {}
    about: list[Text] = []
    signal: Annotated[dict[str, Any], *_matches(SignalEntry)] = {}
    elapsed: Annotated[dict[str, Any], *_matches(ElapsedEntry)] = {}
    shares: Annotated[dict[str, Any], *_matches(SharesEntry)] = {}
    direct: list[str] = []
    follows: list[str] = []  # earlier lines; this reading comes after the first one of every material that they counted
    again: dict[str, list[Text]] = {}  # name of an earlier line -> properties or parameters that are as in its reading
    agrees_with: dict[str, ReadingText] = {}  # name of an earlier line -> largest difference from its last reading
    never: list[NeverEntry] = []
    same: list[Text] = []  # visible properties or parameters in which the materials that count agree
    same_as: dict[str, list[Text]] = {}  # name of an earlier line -> properties or parameters in which to agree with it
    span: dict[str, FactorText] = {}  # visible property or parameter -> least ratio of its highest to its lowest value
    one_of: str = ""  # of the lines with this name one is enough; other lines refer to all of them by this name


def _check_condition(name: str, condition: Mapping[str, Any], actions: Sequence[ActionType]) -> Iterator[str]:
    """Yield what is wrong with a condition on a parameter of these actions."""
    for action in actions:
        if name not in (names := [parameter.name for parameter in action.parameters]):
            yield f"{action.name} has no such parameter; allowed: {', '.join(names)}"
    for key, value in condition.items():
        mentioned = key.startswith("mentions")
        texts = value if mentioned and isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            yield f"{key}: {format_problem(value, 'text' + ', or a list of texts' * mentioned)}"
        elif key == "absent" and value != "true":
            yield f"absent: {format_problem(value, chr(34) + 'true' + chr(34))}"
        elif not mentioned and key != "absent":
            for parameter in (p for action in actions for p in action.parameters if p.name == name):
                try:
                    # A condition must not compare a parameter with a value that it cannot have.
                    parameter.parse_value(str(value))
                except LabError as error:
                    yield f"{key}: {error}"


def find_reference_problems(rubric: Sequence[RubricLine], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return (path, message) of every reference to an unknown material or line. `names` are those of the materials."""
    lines = [line.line for line in rubric]
    before: list[str] = []
    problems: list[tuple[str, str]] = []
    for index, line in enumerate(rubric):
        # `after` may only name earlier lines: otherwise two lines could depend on each other.
        for field, values, allowed in (
            ("of", line.of, names),
            ("not_of", line.not_of, names),
            ("each", line.each, names),
            ("direct", line.direct, names),
            ("brackets", line.brackets, lines),
            ("after", line.after, before),
            ("spread", list(line.spread), before),
            ("same_as", list(line.same_as), before),
            ("again", list(line.again), before),
            ("agrees_with", list(line.agrees_with), before),
            ("follows", line.follows, before),
            *((f"never[{n}].of", entry.of, names) for n, entry in enumerate(line.never)),
            *((f"never[{n}].not_of", entry.not_of, names) for n, entry in enumerate(line.never)),
            ("elapsed.since", [line.elapsed["since"]] if line.elapsed else [], before),
            ("shares.of", [line.shares["of"]] if line.shares else [], [*names, *before]),
            ("shares.at", [line.shares["at"]] if "at" in line.shares else [], before),
        ):
            problems += [
                (f"[{index}].{field}", f"contains {value!r}; allowed: {', '.join(allowed)}")
                for value in values
                if value not in allowed
            ]
        before += [name for name in (line.line, line.one_of) if name and name not in before]
    return problems
