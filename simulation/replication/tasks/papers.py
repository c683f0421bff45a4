"""The paper of a task: sections with ids, and slots like {{e1.slope}} for results."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from simulation.replication.values import MetricValue, PaperArm, Task, TaskValues

WITHHELD = "[withheld]"
ORACLE_PREFIX = "oracle-"
_SLOT = re.compile(r"\{\{([^{}]*)\}\}")
_HEADING = re.compile(r"^#{1,4} .*?(?:\s*\{#(?P<id>[a-z0-9-]+)\})?\s*$")


class Section(NamedTuple):
    """A part of a paper: the id of its heading ("" if it has none), its first line, and its text with the heading."""

    id: str
    line: int
    text: str


def split_sections(paper: str) -> list[Section]:
    """Return the sections of a paper in order. Text before the first heading is a section without id."""
    sections: list[Section] = []
    identifier, first, lines = "", 1, list[str]()
    for number, line in enumerate(paper.split("\n"), 1):
        if match := _HEADING.match(line):
            if any(lines):
                sections.append(Section(identifier, first, "\n".join(lines).strip("\n")))
            identifier, first, lines = match["id"] or "", number, []
            line = re.sub(r"\s*\{#[a-z0-9-]+\}\s*$", "", line)
        lines.append(line)
    return [*sections, Section(identifier, first, "\n".join(lines).strip("\n"))]


def render_paper(task: Task, arm: PaperArm = "full", function_ids: Sequence[str] = ()) -> str:
    """Return the paper as agents see it, with results withheld; "" for the arm "none".

    The arm "oracle" has only the passages that describe the functions of `function_ids`. Sections whose id begins with `ORACLE_PREFIX` are in no other
    arm: an imported task has passages that its paper does not mark.
    """
    if arm == "none":
        return ""
    sections = split_sections(task.paper)
    if arm == "oracle":
        wanted = {passage for function_id in function_ids for passage in task.get_function(function_id).passages}
        sections = [sections[0], *(section for section in sections[1:] if section.id in wanted)]
    else:
        sections = [section for section in sections if not section.id.startswith(ORACLE_PREFIX)]
    return _fill_slots("\n\n".join(section.text for section in sections) + "\n", lambda case, name: WITHHELD)


def fill_paper(task: Task, values: TaskValues) -> str:
    """Return the paper as readers see it, with results of the base variant to four digits. Unknown results are withheld."""

    def format_slot(case: str, name: str) -> str:
        value = values.get(case, {}).get(name)
        return WITHHELD if value is None else _format_value(value)

    return _fill_slots("\n\n".join(section.text for section in split_sections(task.paper)) + "\n", format_slot)


def _format_value(value: MetricValue) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.4g}" if isinstance(value, int | float) else ", ".join(f"{number:.4g}" for number in value)


def _fill_slots(text: str, format_slot: Callable[[str, str], str]) -> str:
    return _SLOT.sub(lambda match: format_slot(*match[1].split(".", 1)), text)


def find_paper_problems(task: Task) -> list[str]:
    """Return "line: problem" for slots without a metric, repeated ids, and passages of functions that are not sections."""
    metrics: Mapping[str, list[str]] = {case.id: [metric.name for metric in case.metrics] for case in task.test_cases}
    allowed = ", ".join(f"{case}.{name}" for case, names in metrics.items() for name in names)
    problems = []
    for number, line in enumerate(task.paper.split("\n"), 1):
        for match in _SLOT.finditer(line):
            case, _, name = match[1].partition(".")
            if name not in metrics.get(case, ()):
                problems.append(f"{number}: the slot {match[0]!r} does not name a metric; allowed: {allowed}")
    sections = split_sections(task.paper)
    ids = [section.id for section in sections if section.id]
    problems += [
        f"{section.line}: the section id {section.id!r} occurs twice"
        for index, section in enumerate(sections)
        if section.id and section.id in [earlier.id for earlier in sections[:index]]
    ]
    problems += [
        f"1: {function.id} {function.name} names the passage {passage!r}, which is not a section; allowed: {', '.join(ids)}"
        for function in task.functions
        for passage in function.passages
        if passage not in ids
    ]
    return problems
