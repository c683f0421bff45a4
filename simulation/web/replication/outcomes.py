"""A grading for a page: reported, measured and reference values beside each other, findings, probes and the agent's code."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simulation.models import Grading, SandboxRun
from simulation.replication.grading import OUTCOME_TEXTS
from simulation.replication.grading.grades import Grade
from simulation.replication.values import MetricValue, Task
from simulation.web.calls import VisibleText
from simulation.web.replication.text_previews import preview_text

_MAX_ELEMENTS = 4  # of a list of numbers
_MAX_FINDINGS, _MAX_FINDING_LENGTH = 20, 400
_MAX_BODY_LENGTH = 1500  # bytes of each graded body; the workspace has all of it
STAGE_NAMES = {
    "extract": "Extract function bodies",
    "measure": "Run on the public data",
    "perturb": "Run on secret data",
    "probe": "Compare single functions",
}


class ValueCell(NamedTuple):
    """A value, and whether it is near the reference value. `near` is None where nothing was compared."""

    text: str
    near: bool | None
    problem: str = ""


class MetricRow(NamedTuple):
    """One metric of an experiment. `secret` has one cell for each secret data set, without values."""

    case: str
    name: str
    unit: str
    gold: str
    reported: ValueCell
    measured: ValueCell
    secret: Sequence[ValueCell]


class PatchedFunction(NamedTuple):
    """A hidden function with the body that grading extracted, None if there is none."""

    id: str
    name: str
    body: VisibleText | None
    probe: str


class StageRow(NamedTuple):
    """A stage of the grading with its sandboxes. `state`: done, running, waiting or not needed."""

    name: str
    state: str
    tone: str
    seconds: float
    sandboxes: int


class FindingRow(NamedTuple):
    """A finding. `is_secret`: its text may have values of secret data."""

    kind: str
    text: VisibleText
    is_secret: bool


class OutcomeView(NamedTuple):
    """Everything that a page shows of a grading."""

    grading: Grading
    outcome: str
    text: str
    metrics: Sequence[MetricRow]
    secret_names: Sequence[str]
    findings: Sequence[FindingRow]
    more_findings: int
    outside: Sequence[str]
    functions: Sequence[PatchedFunction]
    helpers: int
    probe_problem: str


def build_outcome(grading: Grading, task: Task | None, functions: Sequence[str]) -> OutcomeView:
    """Return a stored grading for a page, without a query. `task` is None if it was changed since; units and names are then missing."""
    data = grading.grade
    grade = Grade.from_json(data) if "compared" in data else None
    names = {function.id: function.name for function in task.functions} if task else {}
    findings = grade.findings if grade else ()
    shown = [
        FindingRow(finding.kind, preview_text(finding.text, _MAX_FINDING_LENGTH), finding.is_secret)
        for finding in findings[:_MAX_FINDINGS]
    ]
    patch: Mapping[str, Any] = grade.patch if grade else {}
    secret_names = [name for name in grade.compared if name.startswith("secret")] if grade else []
    return OutcomeView(
        grading=grading,
        outcome=grading.outcome.replace("_", " "),
        text=OUTCOME_TEXTS.get(grading.outcome, ""),  # type: ignore[call-overload]  # a stored text
        metrics=_list_metrics(grade, task, secret_names) if grade else [],
        secret_names=secret_names,
        findings=shown,
        more_findings=max(0, len(findings) - _MAX_FINDINGS),
        outside=grade.outside if grade else (),
        functions=[_build_function(name, names.get(name, ""), patch, grade) for name in functions],
        helpers=sum(map(len, patch.get("helpers", {}).values())),
        probe_problem=grade.probes.problem if grade and grade.probes else "",
    )


def _list_metrics(grade: Grade, task: Task | None, secret_names: Sequence[str]) -> list[MetricRow]:
    units = {(case.id, metric.name): metric.unit for case in task.test_cases for metric in case.metrics} if task else {}
    by_source = {
        source: {(row.case, row.metric): row for row in rows} for source, rows in grade.compared.items()
    }  # fmt: skip
    keys = dict.fromkeys(key for rows in by_source.values() for key in rows)

    def build_cell(source: str, key: tuple[str, str], with_value: bool = True) -> ValueCell:
        row = by_source.get(source, {}).get(key)
        if row is None:
            return ValueCell("not run" if source != "reported" else "–", None)
        if not with_value:
            # The values would show what the secret data contain.
            return ValueCell("near" if row.near else "not near", row.near)
        return ValueCell(format_value(row.value) if row.value is not None else "missing", row.near, row.problem[:200])

    rows = []
    for key in keys:
        sources = [by_source[name] for name in ("reported", "measured") if key in by_source.get(name, {})]
        gold = "–" if not sources else format_value(sources[0][key].gold)
        rows_secret = [build_cell(name, key, with_value=False) for name in secret_names]
        rows.append(
            MetricRow(
                key[0],
                key[1],
                units.get(key, ""),
                gold,
                build_cell("reported", key),
                build_cell("measured", key),
                rows_secret,
            )
        )
    return rows


def _build_function(identifier: str, name: str, patch: Mapping[str, Any], grade: Grade | None) -> PatchedFunction:
    body = patch.get("bodies", {}).get(identifier)
    entry = grade.probes.functions.get(identifier) if grade and grade.probes else None
    probe = ""
    if entry:
        probe = f"{entry.matched} of {entry.calls} recorded calls return the same" + (
            f"; {entry.note}" if entry.note else ""
        )
    return PatchedFunction(
        identifier, name, None if body is None else preview_text(body, _MAX_BODY_LENGTH), probe[:400]
    )


def format_value(value: MetricValue) -> str:
    """Return a value with six significant digits; of a list, the first elements and their number."""
    if isinstance(value, str):
        return value if len(value) <= 80 else value[:80] + "…"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**9 else f"{value:.6g}"
    if isinstance(value, float):
        return f"{value:.6g}"
    numbers = [format_value(number) for number in value[:_MAX_ELEMENTS]]
    rest = f", … ({len(value)} numbers)" if len(value) > _MAX_ELEMENTS else ""
    return ", ".join(numbers) + rest


def list_stages(phase: str, has_ended: bool, runs: Sequence[SandboxRun]) -> list[StageRow]:
    """Return the four stages of a grading. A stage without a sandbox after the end was not needed."""
    names, rows = list(STAGE_NAMES), []
    present = names.index(phase) if phase in names and not has_ended else -1
    for number, name in enumerate(names):
        own = [run for run in runs if run.purpose == name]
        if number == present:
            state, tone = "running", "info"
        elif own:
            state, tone = "done", "ok"
        else:
            state, tone = ("not needed", "") if has_ended or number < present else ("waiting", "")
        rows.append(StageRow(STAGE_NAMES[name], state, tone, sum(run.seconds or 0 for run in own), len(own)))
    return rows
