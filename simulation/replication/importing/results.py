"""What an import returns, and writing it: all task folders or none."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulation.replication.importing.reading import ImportFault
from simulation.replication.tasks.task_files import TaskFileError, load_task
from wetbench_site.validation import format_file

_SLUG = re.compile("[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class ImportedTask:
    """A task folder that was not written yet, by path below the folder, with what is to be told about it."""

    slug: str
    files: Mapping[str, bytes]
    functions: int
    test_cases: int
    claims: int
    missing: tuple[str, ...] = ()  # what it needs and is not here: the task is unvalidated
    unresolved: Mapping[str, str] = field(default_factory=dict)  # function of the source -> why it is left out
    left_out: tuple[str, ...] = ()  # files
    notes: tuple[str, ...] = ()
    has_variants: bool = False  # else `robust` cannot be tested, and no episode is solved

    def to_json(self) -> dict[str, Any]:
        return {
            "slug": self.slug,
            "functions": self.functions,
            "test_cases": self.test_cases,
            "claims": self.claims,
            "missing": list(self.missing),
            "unresolved": dict(self.unresolved),
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "has_variants": self.has_variants,
        }


@dataclass(frozen=True)
class ImportResult:
    """The tasks of one source. `samples` and `listed_functions` are counts of the AutoExperiment format."""

    tasks: tuple[ImportedTask, ...]
    samples: Mapping[str, Any] = field(default_factory=dict)
    listed_functions: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": [task.to_json() for task in self.tasks],
            "samples": dict(self.samples),
            "listed_functions": self.listed_functions,
        }


def write_tasks(tasks: Sequence[ImportedTask], out: Path, *, dry_run: bool = False) -> list[Path]:
    """Write the task folders below `out` and return them. With `dry_run`, write and read them elsewhere, and return none.

    Every folder is read as `check_tasks` reads it before any is in place. Raises ImportFault with every problem; then nothing was written.
    """
    problems = [f"{task.slug!r}: is no name of a task folder" for task in tasks if not _SLUG.fullmatch(task.slug)]
    taken = [task.slug for task in tasks if (out / task.slug).exists()]
    if not dry_run:
        problems += [f"{out / slug}: exists; remove it, or choose another --out" for slug in taken]
    if problems:
        raise ImportFault(problems)
    if not dry_run:
        out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=None if dry_run else out) as staging:
        for task in tasks:
            problems += _write_task(task, Path(staging))
        if problems:
            raise ImportFault(problems)
        return [] if dry_run else [Path(shutil.move(Path(staging, task.slug), out / task.slug)) for task in tasks]


def _write_task(task: ImportedTask, staging: Path) -> list[str]:
    """Write a task folder, and return the problems of reading it."""
    folder = staging / task.slug
    for path, content in task.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    try:
        load_task(folder)
    except TaskFileError as error:
        return [
            problem.replace(f"{format_file(staging)}/", "").replace(f"{staging}/", "") for problem in error.problems
        ]
    return []
