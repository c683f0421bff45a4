"""A replication task for pages: its paper with slots, functions, call graph, experiments, and what was measured about it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet

from simulation.models import Grading, Mask, ReplicationTask
from simulation.replication.tasks.call_graph import Place, find_reached, find_static_calls, list_places
from simulation.replication.tasks.checking.proof_files import find_newest_proof
from simulation.replication.tasks.checking.proofs import TaskProof
from simulation.replication.tasks.papers import WITHHELD, fill_paper, split_sections
from simulation.replication.tasks.source_text import find_functions, locate_body
from simulation.replication.values import Metric, Task, TaskValues
from simulation.web.replication.outcomes import format_value

_MARK = "\x02"  # surrounds a slot while the paper is split; no paper can contain it (it is not storable)
_LIST = re.compile(r"[-*] |\d+\. ")
_HEADING = re.compile(r"^(#{1,4}) +(.*)$")


class PaperPart(NamedTuple):
    """A heading or a paragraph. `kind`: title, heading, code, lines (a list) or text. `pieces`: texts, each with whether it is a slot."""

    kind: str
    pieces: Sequence[tuple[str, bool]]


class FunctionRow(NamedTuple):
    """A function that a mask may hide. `calls` and `depth` are None if they were not measured here."""

    id: str
    name: str
    path: str
    lines: int
    calls: int | None
    depth: int | None
    cases: Sequence[str]
    essential: bool | None


class CallRow(NamedTuple):
    """A function in the call graph, with what it calls and what calls it, by the syntax tree."""

    name: str
    path: str
    id: str
    callees: Sequence[str]
    callers: Sequence[str]


class MetricRow(NamedTuple):
    """A result of an experiment. `strength`: strong, weak, or "" if it was not measured here. `gold` is "" unless it is shown."""

    name: str
    unit: str
    kind: str
    tolerance: str
    strength: str
    share: str
    gold: str


class ExperimentRow(NamedTuple):
    """A test case, which pages call an experiment."""

    id: str
    title: str
    text: str
    metrics: Sequence[MetricRow]


class CurvePoint(NamedTuple):
    """Of code episodes with n hidden functions, how many were solved. `x` and `y` are places in a drawing of 100 by 30."""

    n: int
    solved: int
    total: int
    x: float
    y: float


class Curve(NamedTuple):
    """Shares of solved code episodes by the number of hidden functions."""

    points: Sequence[CurvePoint]

    @property
    def line(self) -> str:
        """The points for an SVG polyline."""
        return " ".join(f"{point.x:g},{point.y:g}" for point in self.points)

    @property
    def text(self) -> str:
        return "; ".join(f"n = {point.n}: {point.solved} of {point.total} solved" for point in self.points)


def find_proof(row: ReplicationTask) -> TaskProof | None:
    """Return what check_tasks measured of the task's present version on this machine, or None."""
    return find_newest_proof(settings.VAR_DIR / "task_proofs", row.slug, row.sha256)


def split_paper(task: Task, gold: TaskValues | None) -> list[PaperPart]:
    """Return the paper in parts. Slots have their values with `gold`, otherwise "[withheld]"."""
    marked = {
        case.id: {metric.name: f"{_MARK}{_format_slot(gold, case.id, metric.name)}{_MARK}" for metric in case.metrics}
        for case in task.test_cases
    }
    parts: list[PaperPart] = []
    for section in split_sections(fill_paper(task, marked)):
        for number, block in enumerate(re.split(r"\n\s*\n", section.text)):
            heading = _HEADING.match(block) if not number else None
            if heading and "\n" not in block:
                parts.append(PaperPart("title" if len(heading[1]) == 1 else "heading", _split_slots(heading[2])))
            elif block.strip():
                kind = "code" if block.startswith(("    ", "\t", "|")) else "lines" if _LIST.match(block) else "text"
                parts.append(PaperPart(kind, _split_slots(block)))
    return parts


def _format_slot(gold: TaskValues | None, case: str, name: str) -> str:
    value = gold.get(case, {}).get(name) if gold else None
    return WITHHELD if value is None else format_value(value)


def _split_slots(text: str) -> list[tuple[str, bool]]:
    return [(piece, bool(index % 2)) for index, piece in enumerate(text.split(_MARK)) if piece]


def list_functions(task: Task, proof: TaskProof | None) -> list[FunctionRow]:
    """Return the functions that can be hidden. Lines and experiments are read from the code if nothing was measured."""
    proofs = {entry.id: entry for entry in proof.functions} if proof else {}
    reached = _find_static_cases(task)
    rows = []
    for function in task.functions:
        entry, source = proofs.get(function.id), task.code[function.path]
        body = locate_body(source, find_functions(source)[function.name])
        cases = entry.cases if entry else reached.get(function.id, ())
        is_essential = entry.is_essential(not proof.options.quick) if entry and proof else None
        calls, depth = (entry.calls, entry.depth) if entry else (None, None)
        rows.append(
            FunctionRow(
                function.id, function.name, function.path, body.last - body.first + 1, calls, depth, cases, is_essential
            )
        )
    return rows


def _find_static_cases(task: Task) -> dict[str, list[str]]:
    """Return by function the experiments that can reach it, by the syntax tree."""
    graph, places = find_static_calls(task), list_places(task)
    reached = {case.id: find_reached(graph, Place("code/experiments.py", case.id)) for case in task.test_cases}
    return {name: [case for case, below in reached.items() if place in below] for name, place in places.items()}


def list_calls(task: Task) -> list[CallRow]:
    """Return the call graph of the code: each function with the functions that it calls and that call it."""
    graph, ids = find_static_calls(task), {place: name for name, place in list_places(task).items()}
    callers: dict[Place, list[str]] = {}
    for place, callees in graph.items():
        for callee in callees:
            callers.setdefault(callee, []).append(place.name)
    return [
        CallRow(
            place.name,
            place.path,
            ids.get(place, ""),
            sorted(callee.name for callee in callees),
            sorted(callers.get(place, ())),
        )
        for place, callees in graph.items()
        if callees or place in callers
    ]


def list_experiments(task: Task, proof: TaskProof | None, gold: TaskValues | None) -> list[ExperimentRow]:
    """Return the experiments with their metrics; reference values only with `gold`."""
    measured = {(entry.case, entry.name): entry for entry in proof.metrics} if proof else {}
    rows = []
    for case in task.test_cases:
        metrics = []
        for metric in case.metrics:
            entry = measured.get((case.id, metric.name))
            strength = "" if entry is None else "strong" if entry.is_strong else "weak"
            share = "" if entry is None else f"{entry.share:.0%}".replace("%", " %")
            value = gold.get(case.id, {}).get(metric.name) if gold else None
            shown = "" if value is None else format_value(value)
            metrics.append(
                MetricRow(metric.name, metric.unit, metric.kind, _describe_tolerance(metric), strength, share, shown)
            )
        rows.append(ExperimentRow(case.id, case.title, case.text, metrics))
    return rows


def _describe_tolerance(metric: Metric) -> str:
    if metric.kind != "number":
        return "exact"
    absolute = f", at least {metric.abs:g}" if metric.abs > 1e-9 else ""
    return f"{metric.rel * 100:g} %{absolute}"


def count_masks(rows: Iterable[ReplicationTask]) -> dict[int, tuple[int, int]]:
    """Return by task how many masks of its present version exist, and how many of them are validated, with one query."""
    current = Q()
    for row in rows:
        current |= Q(task=row.pk, task_sha256=row.sha256)
    is_valid = Q(validation__problem="") & ~Q(validated_with="")
    counts = Mask.objects.filter(current).order_by().values_list("task")
    return {task: (n, valid) for task, n, valid in counts.annotate(n=Count("pk"), valid=Count("pk", filter=is_valid))}


def find_cast_with_outcomes() -> list[str]:
    """Return the casts that have graded code episodes, by name."""
    names = Grading.objects.order_by().values_list("episode__cast", flat=True).distinct()
    return sorted(names)


def build_curves(gradings: QuerySet[Grading]) -> dict[int, Curve]:
    """Return by task the share of solved code episodes for each number of hidden functions, with one query.

    Code episodes of earlier versions of a task, and those that a retry replaced, are left out. So are faults of a
    grading, which are not the agent's.
    """
    present = gradings.filter(episode__counts=True, episode__task_sha256=F("episode__mask__task__sha256"))
    counted = present.exclude(outcome="fault").order_by()
    rows = counted.values_list("episode__mask__task", "episode__mask__n").annotate(
        total=Count("pk"), solved=Count("pk", filter=Q(solved=True))
    )
    by_task: dict[int, dict[int, tuple[int, int]]] = {}
    for task, n, total, solved in rows:
        by_task.setdefault(task, {})[n] = (solved, total)
    return {task: _build_curve(counts) for task, counts in by_task.items()}


def _build_curve(counts: Mapping[int, tuple[int, int]]) -> Curve:
    widest = max(8, *counts) if counts else 8
    points: list[Any] = []
    for n, (solved, total) in sorted(counts.items()):
        points.append(CurvePoint(n, solved, total, round(3 + 94 * n / widest, 1), round(27 - 24 * solved / total, 1)))
    return Curve(points)
