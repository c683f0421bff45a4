"""The result of an import, and writing it: all task folders or none."""

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
    """A task folder that is not written yet: its files by path, and what `import_tasks` prints about it."""

    slug: str
    files: Mapping[str, bytes]
    functions: int
    test_cases: int
    claims: int
    missing: tuple[str, ...] = ()  # what it needs that is not available here; the task is then unvalidated
    unresolved: Mapping[str, str] = field(default_factory=dict)  # function of the source -> why it was not found
    left_out: tuple[str, ...] = ()  # files, each with the reason
    notes: tuple[str, ...] = ()
    has_variants: bool = False  # if not, code cannot be tested on other data, and no episode is solved

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
    """Write the task folders below `out` and return their paths. With `dry_run`, only check them, and return no path.

    The folders are written to a temporary folder, read as `check_tasks` reads them, and moved only if all of them are valid. Raises
    ImportFault with every problem; nothing is written then.
    """
    problems = [f"{task.slug!r}: is not the name of a task folder" for task in tasks if not _SLUG.fullmatch(task.slug)]
    taken = [task.slug for task in tasks if (out / task.slug).exists()]
    if not dry_run:
        problems += [f"--out: {out}; allowed: a folder"] * (out.exists() and not out.is_dir())
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
