"""Read the parts of a task folder that only imported tasks have: the object `imported` of task.json, and data/."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from simulation.replication.comparing import find_value_problem
from simulation.replication.trees import hash_tree, take_files
from simulation.replication.values import Task
from wetbench_site.validation import (
    Allowed,
    StrictModel,
    VisibleText,
    format_file,
    format_problem,
    locate_problems,
    reject,
)

MAX_IMPORTED_FILES = 200  # modules
MAX_DATA_FILES, MAX_DATA_BYTES = 100, 8 * 2**20

SEED_ARGUMENT = "^(--[a-z][a-z0-9_-]{0,38})?$"
SeedArgument = Annotated[
    str,
    Field(pattern=SEED_ARGUMENT),
    Allowed("the argument of the commands that is a random seed, such as --seed"),
]


def _need_value(value: Any) -> Any:
    return reject() if isinstance(value, str) or find_value_problem(value) else value


ClaimedValue = Annotated[Any, AfterValidator(_need_value), Allowed("a finite number, or a list of finite numbers")]


class ImportedEntry(StrictModel):
    """`imported` in task.json, which import_tasks writes."""

    format: Literal["autoexperiment", "git"]
    source: VisibleText
    commit: Annotated[
        str, Field(pattern="^([0-9a-f]{40}|[0-9a-f]{64})?$"), Allowed("a full hash of a commit, or nothing")
    ]
    code_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$"), Allowed("64 hexadecimal digits")]
    missing: list[VisibleText] = []
    claims: dict[str, dict[str, ClaimedValue]] = {}


def hash_sources(code: Mapping[str, str], generator: str) -> str:
    """Return the digest of everything in an imported task that is parsed as Python."""
    return hash_tree({path: text.encode() for path, text in {**code, "generate.py": generator}.items()})


def find_imported_problems(folder: Path, task: Task) -> list[str]:
    """Return why an imported task must not be parsed here: its modules are not those that the import accepted."""
    if not task.origin:
        return (
            [f"{format_file(folder / 'task.json')}: seed_argument: allowed in imported tasks"]
            if task.seed_argument
            else []
        )
    digest = hash_sources(task.code, task.generator)
    problems = []
    if digest != task.origin.code_sha256:
        allowed = "the digest of code/ and generate.py as they were imported; change the source, and import it again"
        problems.append(f"imported.code_sha256: {format_problem(task.origin.code_sha256, allowed)}")
    if task.errors:
        problems.append("imported: an imported task has no mutants.json")
    if task.generator and task.seed_argument:
        problems.append("seed_argument: is allowed in tasks without generate.py")
    metrics = {case.id: {metric.name for metric in case.metrics} for case in task.test_cases}
    problems += [
        f"imported.claims.{case}: {format_problem(name, ', '.join(sorted(metrics.get(case, ()))) or 'nothing')}"
        for case, values in task.origin.claims.items()
        for name in values
        if name not in metrics.get(case, ())
    ]
    return locate_problems(folder / "task.json", problems)


def read_data(folder: Path, problems: list[str]) -> dict[str, str]:
    """Return the files below data/ in base64 by path, and add a problem for each that cannot be used. Links are never followed."""
    entries: list[tuple[str, bytes]] = []
    total = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            problems.append(f"{format_file(path)}: allowed in data/: files and folders, not links")
        elif path.is_file():
            total += path.stat().st_size
            if len(entries) >= MAX_DATA_FILES or total > MAX_DATA_BYTES:
                limit = f"{MAX_DATA_FILES} files and {MAX_DATA_BYTES // 2**20} MiB"
                problems.append(f"{format_file(folder)}: allowed: at most {limit}")
                break
            entries.append((path.relative_to(folder).as_posix(), path.read_bytes()))
    files, left_out = take_files(entries)
    problems += [f"{format_file(folder)}: {text}" for text in left_out]
    return {path: base64.b64encode(content).decode() for path, content in files.items()}
