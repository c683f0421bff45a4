"""Compare plain numbers with gold values, outside the sandbox: which values are valid, and the two rules for passing."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulation.lab.errors import LabError
from simulation.replication.values import CaseValues, Metric, MetricValue, TaskValues, TestCase
from wetbench_site.text import is_storable, join_words, reject_duplicates

PAPER_REL = 0.05  # the tolerance of the published benchmark: 5 % of the gold value, for every metric
MAX_MAGNITUDE = 1e300  # differences of two such numbers are finite
MAX_LABEL_LENGTH, MAX_LIST_LENGTH, MAX_REPORT_LENGTH = 500, 10_000, 2**17


class GoldValueError(LabError):
    """Gold values that cannot be compared with: a metric is missing or invalid. It is never the fault of an agent."""


class Report(NamedTuple):
    """What an agent reported: the values that could be read, and what could not, with the reason."""

    values: dict[str, dict[str, MetricValue]]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class ComparedValue:
    """One metric of one test case with its gold value. `value` is None if it is missing or invalid; `problem` is the reason."""

    case: str
    metric: str
    gold: MetricValue
    value: MetricValue | None
    near: bool
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "metric": self.metric,
            "gold": self.gold,
            "value": self.value,
            "near": self.near,
            "problem": self.problem,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ComparedValue":
        return cls(data["case"], data["metric"], data["gold"], data["value"], data["near"], data.get("problem", ""))


def is_number(value: object) -> bool:
    """Return whether a value is a plain int or float, finite and below 1e300. A bool and a subclass are not."""
    return type(value) in (int, float) and abs(value) < MAX_MAGNITUDE  # type: ignore[arg-type]  # NaN compares as False


def find_value_problem(value: object) -> str:
    """Return why a value cannot be a result of a test case, or "". Results are numbers, texts and lists of numbers."""
    if is_number(value):
        return ""
    if type(value) is str:
        if len(value) > MAX_LABEL_LENGTH or not is_storable(value):
            return f"a text has at most {MAX_LABEL_LENGTH} characters and neither NUL nor surrogates"
        return ""
    if isinstance(value, list | tuple):
        if len(value) > MAX_LIST_LENGTH or not all(is_number(element) for element in value):
            return f"a list has at most {MAX_LIST_LENGTH:,} elements, all of them finite numbers below 1e300"
        return ""
    return "a value is a finite number below 1e300, a text or a list of numbers"


def read_report(text: str) -> Report:
    """Read an agent's report, such as {"e1": {"slope": -3.3}}. Never raises.

    A text that is not a JSON object has no values. An invalid value is left out.
    """
    if len(text) > MAX_REPORT_LENGTH:
        return Report({}, (f"a report has at most {MAX_REPORT_LENGTH:,} characters, this one has {len(text):,}",))
    try:
        # NaN and Infinity become floats here, so that they are rejected like 1e999: each by itself, with its name.
        data = json.loads(text, parse_constant=float, object_pairs_hook=reject_duplicates)
    except (ValueError, RecursionError) as error:
        return Report({}, (f"the report is not JSON: {str(error)[:200]}",))
    return read_reported_values(data)


def read_reported_values(data: object) -> Report:
    """Read a report that has been parsed from JSON."""
    if not isinstance(data, dict):
        return Report({}, ('a report is a JSON object such as {"e1": {"slope": 1.0}}',))
    values: dict[str, dict[str, MetricValue]] = {}
    problems: list[str] = []
    for case, metrics in data.items():
        if not isinstance(metrics, dict) or not is_storable(case):
            problems.append(f"{case[:50]!r}: a test case is a JSON object of metrics and their values")
            continue
        values[case] = {}
        for name, value in metrics.items():
            problem = find_value_problem(value) if is_storable(name) else "a name has neither NUL nor surrogates"
            if problem:
                problems.append(f"{case[:50]!r}, {name[:50]!r}: {problem}")
            else:
                values[case][name] = value
    return Report(values, tuple(problems[:100]))


def is_near(metric: Metric, gold: MetricValue, value: object, rel: float | None = None) -> bool:
    """Return whether a value equals the gold value within the tolerance: |value - gold| <= max(abs, rel * |gold|).

    Lists are compared element by element and must have the same length. A count and a label must be equal. `rel` replaces the
    relative tolerance of the metric. An invalid value is never near.
    """
    if find_value_problem(value) or find_value_problem(gold):
        return False
    if metric.kind == "label" or isinstance(gold, str) or isinstance(value, str):
        return type(value) is str and value == gold
    golds, values = as_numbers(gold), as_numbers(value)
    if isinstance(gold, int | float) != isinstance(value, int | float) or len(golds) != len(values):
        return False
    if metric.kind == "count":
        return golds == values
    share = metric.rel if rel is None else rel
    return all(abs(x - g) <= max(metric.abs, share * abs(g)) for g, x in zip(golds, values, strict=True))


def as_numbers(value: object) -> list[float]:
    return list(value) if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]


def compare_case(
    case: TestCase, gold: CaseValues, values: Mapping[str, object] | None, rel: float | None = None
) -> list[ComparedValue]:
    """Return one row for each metric of a test case, in their order. Further values are ignored.

    `values` is None if the test case returned none, for example because it raised. Raises GoldValueError, which names all metrics without a usable gold value.
    """
    unusable = [metric.name for metric in case.metrics if find_gold_problem(metric, gold.get(metric.name))]
    if unusable:
        raise GoldValueError(f"test case {case.id} has no usable gold value of {join_words(unusable)}")
    rows = []
    for metric in case.metrics:
        value = (values or {}).get(metric.name)
        problem = "missing" if value is None else find_value_problem(value)
        near = not problem and is_near(metric, gold[metric.name], value, rel)
        usable: MetricValue | None = None if problem else value  # type: ignore[assignment]
        rows.append(ComparedValue(case.id, metric.name, gold[metric.name], usable, near, problem))
    return rows


def find_gold_problem(metric: Metric, gold: object) -> str:
    """Return why a gold value is unusable for its metric, or ""."""
    if gold is None:
        return "missing"
    if (metric.kind == "label") != (type(gold) is str):
        return f"a {metric.kind} cannot be {gold!r}"
    return find_value_problem(gold)


def compare_cases(
    cases: Iterable[TestCase],
    gold: TaskValues,
    values: Mapping[str, Mapping[str, object] | None],
    rel: float | None = None,
) -> list[ComparedValue]:
    """Return the rows of several test cases. Raises GoldValueError."""
    return [row for case in cases for row in compare_case(case, gold.get(case.id, {}), values.get(case.id), rel)]


def compare_reported(cases: Iterable[TestCase], gold: TaskValues, reported: TaskValues) -> list[ComparedValue]:
    """Return the rows of what an agent reported, under the rule of the published benchmark: every value is within 5 % of gold.

    Two faults of that rule are corrected: the absolute difference is compared with the magnitude of gold, so that negative and zero gold values need no special
    case, and each value is compared by itself instead of the mean of an experiment. `cases` are those that reach a hidden function. Raises GoldValueError.
    """
    return compare_cases(cases, gold, reported, PAPER_REL)


def passes(rows: Iterable[ComparedValue]) -> bool:
    """Return whether every metric is near. Raises ValueError if there is none, because nothing was compared then."""
    rows = list(rows)
    if not rows:
        raise ValueError("no value was compared")
    return all(row.near for row in rows)
