"""The workspace that an agent gets: paper.md, code/ with hidden functions, data/, run.py and TASK.md."""

import ast
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from simulation.replication.tasks.masking import mask_code
from simulation.replication.tasks.papers import render_paper
from simulation.replication.tasks.source_text import find_functions
from simulation.replication.trees import Files
from simulation.replication.values import DocsArm, PaperArm, Task, TaskFunction, TestCase

PAPER, BRIEF, DRIVER, DATA = "paper.md", "TASK.md", "run.py", "data"
_RESULT_LINE = re.compile(r"^RESULT (e[1-9][0-9]?) (\{.*\})$", re.MULTILINE)
_KINDS = {"number": "a number", "count": "a whole number, which must be exact", "label": "a text, which must be exact"}


@cache
def read_driver() -> str:
    """Return the text of run.py, which is the same for every task."""
    return (Path(__file__).parent / "inside" / DRIVER).read_text(encoding="utf-8")


def read_printed_results(output: str) -> dict[str, Any]:
    """Return the results that run.py printed, by experiment. A line that cannot be read is left out; of two, the last counts."""
    results = {}
    for match in _RESULT_LINE.finditer(output):
        try:
            results[match[1]] = json.loads(match[2])
        except (ValueError, RecursionError):
            continue
    return results


def build_workspace(
    task: Task, function_ids: Sequence[str], base_data: Files, docs: DocsArm = "kept", paper: PaperArm = "full"
) -> dict[str, bytes]:
    """Return the files of an agent's workspace by path. The generator, planted errors and reference bodies are not included.

    `base_data` are the files of the base variant by name. Raises KeyError for an unknown function.
    """
    texts = {
        **mask_code(task, function_ids, docs),
        DRIVER: read_driver(),
        BRIEF: render_brief(task, function_ids, paper),
    }
    if paper != "none":
        texts[PAPER] = render_paper(task, paper, function_ids)
    data = {f"{DATA}/{path}": content for path, content in base_data.items()}
    return {**{path: text.encode() for path, text in texts.items()}, **data}


def render_brief(task: Task, function_ids: Sequence[str], paper: PaperArm = "full") -> str:
    """Return TASK.md: what to do, the hidden functions, the experiments with their results, and the rules."""
    hidden = [function for function in task.functions if function.id in set(function_ids)]
    listed = [
        f"* `{function.name}` in `{function.path}`: `{format_signature(task.code[function.path], function.name)}`"
        for function in hidden
    ]
    parts = [
        f"# {task.name}",
        task.summary,
        _describe_files(paper),
        "## What to do\n\n" + _describe_work(hidden),
        *(["## Hidden functions\n\n" + "\n".join(listed)] if listed else []),
        "## Experiments\n\n" + "\n\n".join(map(_describe_case, task.test_cases)),
        "## Rules\n\n" + "\n".join(f"* {rule}" for rule in _list_rules(hidden, task.has_variants)),
    ]
    return "\n\n".join(parts) + "\n"


def _describe_files(paper: PaperArm) -> str:
    papers = {
        "full": "`paper.md` describes the study; its results are withheld. ",
        "oracle": "`paper.md` has the passages of the paper that describe the hidden functions. ",
        "none": "The paper is not available. ",
    }
    return (
        f"{papers[paper]}`code/` is its code, `data/` its data. `python run.py e1` runs the experiment e1 and prints a line "
        "`RESULT e1 {...}`; `python run.py --all` runs all experiments."
    )


def _describe_work(hidden: Sequence[TaskFunction]) -> str:
    report = "Run the experiments, and submit their results as JSON, by experiment and name of the result."
    if not hidden:
        return f"The code is complete. {report}"
    number = "One function is" if len(hidden) == 1 else f"{len(hidden)} functions are"
    return f'{number} hidden: each raises `NotImplementedError("hidden")`. Write what is missing. {report}'


def format_signature(source: str, name: str) -> str:
    """Return the header of a function of trusted source on one line, as "def f(x: int) -> str". Raises KeyError."""
    node = find_functions(source)[name]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


def _describe_case(case: TestCase) -> str:
    lines = [f"### {case.id}: {case.title}", "", case.text, ""]
    for metric in case.metrics:
        unit = f", in {metric.unit}" if metric.unit else ""
        lines.append(f"* `{metric.name}`: {_KINDS[metric.kind]}{unit}")
    return "\n".join(lines)


def _list_rules(hidden: Sequence[TaskFunction], has_variants: bool) -> list[str]:
    rules = [
        "An experiment is right if every one of its results is. A result that is missing counts as wrong.",
        "There is no network, and nothing can be installed.",
    ]
    if hidden:
        rules = [
            "Only the bodies of the hidden functions count, with new helper functions, constants and imports in the same module "
            "that they use. All other changes are ignored. Signatures must stay as they are.",
            "Your functions are run again, on `data/` and on other data of the same form, so numbers that are typed in do not count."
            if has_variants
            else "Your functions are run again on `data/`.",
            *rules,
        ]
    return rules
