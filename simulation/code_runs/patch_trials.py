"""Grade a patch as if an agent had left these files and submitted what they print. Nothing is stored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from simulation.code_runs import gold, tasks
from simulation.lab.errors import LabError
from simulation.models import ReplicationTask
from simulation.replication.grading import Grade, GradingWork, grade_work
from simulation.replication.sandbox.base import Limits, Sandbox
from simulation.replication.tasks.call_graph import list_reaching_cases, trace_cases
from simulation.replication.tasks.running import generate_variants
from simulation.replication.tasks.workspaces import DRIVER, build_workspace, read_printed_results
from simulation.replication.trees import MAX_FILE_BYTES
from simulation.replication.values import BASE_VARIANT, MaskDraw, Task


class PatchError(LabError):
    """A file cannot be used as a patch."""


class PatchTrial(NamedTuple):
    """A graded patch, and what the experiments printed on the public data."""

    grade: Grade
    reported: str


def read_patch(path: Path, task: Task, draw: MaskDraw) -> dict[str, bytes]:
    """Return the files of a patch: a folder with modules at their paths, or one module if all hidden functions are in one.

    Raises PatchError.
    """
    hidden = sorted({task.get_function(name).path for name in draw.functions})
    try:
        if path.is_dir():
            files = {name: path / name for name in hidden if (path / name).is_file()}
        elif len(hidden) == 1:
            files = {hidden[0]: path}
        else:
            raise PatchError(f"the hidden functions are in {', '.join(hidden)}: give a folder that has these files")
        if not files:
            raise PatchError(f"{path} has none of {', '.join(hidden)}")
        # A device or a pipe has no size, and could be read without end.
        if irregular := [str(file) for file in files.values() if file.exists() and not file.is_file()]:
            raise PatchError(f"{', '.join(irregular)}: not a regular file")
        if large := [str(file) for file in files.values() if file.stat().st_size > MAX_FILE_BYTES]:
            raise PatchError(f"{', '.join(large)}: larger than {MAX_FILE_BYTES:,} bytes")
        return {name: file.read_bytes() for name, file in files.items()}
    except OSError as error:
        raise PatchError(f"{path}: {error.strerror}") from error


def list_reference_files(task: Task) -> dict[str, bytes]:
    """Return the unmasked code as a patch."""
    return {path: text.encode() for path, text in task.code.items()}


def try_patch(
    row: ReplicationTask, draw: MaskDraw, patch: Mapping[str, bytes], sandbox: Sandbox, profile: str = "full"
) -> PatchTrial:
    """Grade a workspace with these files in place of the masked ones. The printed results of its experiments are the submission.

    No row is written. Raises GoldError, TaskRunError and SandboxFault.
    """
    task = tasks.get_task(row)
    numbers = [BASE_VARIANT, *gold.choose_variants(row, f"patch/{draw.key}")]
    data = generate_variants(task, numbers, sandbox)
    values = gold.compute_gold(task, data, profile, sandbox)
    base = data[BASE_VARIANT]
    initial = build_workspace(task, draw.functions, base)
    files = {**initial, **patch}
    printed = sandbox.run(
        ("python3", DRIVER, "--all"), files, None, Limits(), task.packages, dict(task.profiles.get(profile, {}))
    )
    reported = json.dumps(read_printed_results(printed.output))
    cases = list_reaching_cases(task, draw.functions, trace_cases(task, base, sandbox))
    work = GradingWork(
        task, draw.functions, files, data, values, cases, reported=reported, profile=profile, initial=initial
    )
    return PatchTrial(grade_work(work, sandbox), reported)
