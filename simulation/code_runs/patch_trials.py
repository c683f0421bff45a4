"""Grade a patch as if an agent had left these files and submitted what they print. Nothing is stored."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from simulation.code_runs import gold, tasks
from simulation.lab.errors import LabError
from simulation.models import ReplicationTask
from simulation.replication.grading import Grade, GradingWork, grade_work
from simulation.replication.sandbox.base import INPUT, Limits, Sandbox
from simulation.replication.tasks.call_graph import list_reaching_cases, trace_cases
from simulation.replication.tasks.running import generate_variants
from simulation.replication.tasks.workspaces import DRIVER, build_workspace, read_printed_results
from simulation.replication.trees import MAX_FILE_BYTES, Files
from simulation.replication.values import BASE_VARIANT, MaskDraw, Task
from wetbench_site.text import is_storable

_DIFF_SUFFIXES = (".diff", ".patch")
_DIFF = re.compile(rb"^(diff --git |--- .*\n\+\+\+ )", re.MULTILINE)
_DIFF_NAME = "patch.diff"
_GIT = "git"
_NOT_FOUND = 127  # exit status of a program that is not installed


class PatchError(LabError):
    """A file cannot be used as a patch."""


class PatchTrial(NamedTuple):
    """A graded patch, and what the experiments printed on the public data."""

    grade: Grade
    reported: str


def read_patch(path: Path, task: Task, draw: MaskDraw, sandbox: Sandbox) -> dict[str, bytes]:
    """Return the files of a patch: a unified diff of the masked code, a module, or a folder with modules at their paths.

    A single module can be used if all hidden functions are in one. Raises PatchError, and SandboxFault for a diff.
    """
    hidden = sorted({task.get_function(name).path for name in draw.functions})
    if not hidden:
        raise PatchError(f"{draw.key} hides nothing, so a patch has nothing to fill in")
    if path.is_dir():
        files = {name: _read_file(path / name) for name in hidden if (path / name).exists()}
        if not files:
            raise PatchError(f"{path} has none of {', '.join(hidden)}")
    else:
        content = _read_file(path)
        if path.suffix in _DIFF_SUFFIXES or _DIFF.search(content):
            return _apply_diff(path, content, build_workspace(task, draw.functions, {}), hidden, sandbox)
        if len(hidden) > 1:
            text = f"the hidden functions are in {', '.join(hidden)}: give a folder that has these files, or a diff"
            raise PatchError(text)
        files = {hidden[0]: content}
    for name, content in files.items():
        wanted = [function for function in map(task.get_function, draw.functions) if function.path == name]
        if not any(re.search(rf"\bdef\s+{function.name.split('.')[-1]}\b".encode(), content) for function in wanted):
            listed = ", ".join(function.name for function in wanted)
            raise PatchError(f"{path}: is no diff, and defines no hidden function of {name}: {listed}")
    return files


def _read_file(path: Path) -> bytes:
    """Return the bytes of a text file. Raises PatchError."""
    try:
        # A device or a pipe has no size, and could be read without end.
        if path.exists() and not path.is_file():
            raise PatchError(f"{path}: not a regular file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise PatchError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes")
        content = path.read_bytes()
        if not content.strip() or not is_storable(content.decode()):
            raise PatchError(f"{path}: is empty or not text")
    except OSError as error:
        raise PatchError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PatchError(f"{path}: is not text in UTF-8") from error
    return content


def _apply_diff(path: Path, diff: bytes, files: Files, allowed: list[str], sandbox: Sandbox) -> dict[str, bytes]:
    """Return the allowed files that a diff changes. Git applies it in a sandbox, whose other files it cannot leave changed."""
    # Paths as `git diff` writes them, a/code/..., or as they are in the workspace.
    strip = "-p0" if re.search(rb"^\+\+\+ code/", diff, re.MULTILINE) else "-p1"
    command = (_GIT, "apply", strip, "--whitespace=nowarn", f"{INPUT}/{_DIFF_NAME}")
    result = sandbox.run(command, files, {_DIFF_NAME: diff})
    if result.exit == _NOT_FOUND:
        raise PatchError(f"{path}: Git applies diffs, and it is not installed: install it, or give the changed modules")
    if result.exit != 0 or result.files is None:
        raise PatchError(f"{path}: the diff does not apply to the masked code: {result.output.strip()[:1000]}")
    changed = sorted(name for name in {*files, *result.files} if files.get(name) != result.files.get(name))
    if outside := [name for name in changed if name not in allowed or name not in result.files]:
        text = f"{path}: changes or removes {', '.join(outside[:10])}; allowed: changes of {', '.join(allowed)}, where the hidden functions are"
        raise PatchError(text)
    if result.left_out or not changed:
        raise PatchError(f"{path}: {'; '.join(result.left_out[:10]) or 'the diff changes nothing'}")
    return {name: result.files[name] for name in changed}


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
