"""Rows of replication tasks for tests: a small task, masks, code episodes, steps and gradings, without a sandbox."""

from typing import Any

from django.utils import timezone

from simulation.code_runs import digests, stored_trees
from simulation.code_runs.conditions import Conditions
from simulation.models import CodeEpisode, CodeStep, Grading, Mask, ReplicationTask, Run, SandboxRun, Tree
from simulation.replication.tasks.task_files import hash_task, task_to_json
from simulation.replication.values import Metric, Task, TaskFunction, TestCase, ToolCall

CODE = '''"""Sums."""


def add(a: float, b: float) -> float:
    """Return the sum."""
    return a + b


def scale(a: float) -> float:
    """Return ten times the value."""
    return 10 * a
'''
EXPERIMENTS = '''"""The experiments."""

import os
from pathlib import Path

from small import sums


def e1(folder: Path) -> dict[str, float]:
    """The sum of the data."""
    a, b = (float(line) for line in (folder / "numbers.txt").read_text().split())
    return {"total": sums.add(a, b)}


def e2(folder: Path) -> dict[str, float]:
    """The sum, scaled."""
    a, b = (float(line) for line in (folder / "numbers.txt").read_text().split())
    return {"scaled": sums.scale(a) + int(os.environ.get("draws", "0"))}
'''
GENERATOR = '''"""Data of a variant."""

from pathlib import Path


def generate(number: int, folder: Path) -> None:
    """Write two numbers that differ in every variant."""
    (folder / "numbers.txt").write_text(f"{3 + number * 7}\\n{4 + number * number}\\n")
'''
PAPER = "# Sums\n\n## Methods {#methods}\n\nWe add and scale. The sum is {{e1.total}}.\n"


def build_task(slug: str = "small-sums", **changes: Any) -> Task:
    """Return a task of two functions that needs no package, so that its sandboxes start quickly."""
    values: dict[str, Any] = {
        "slug": slug,
        "name": "Small sums",
        "summary": "Adds two numbers.",
        "experiments": (),
        "packages": (),
        "seconds": 10.0,
        "provenance": "Ours, for tests.",
        "functions": (
            TaskFunction("f1", "code/small/sums.py", "add", ("methods",)),
            TaskFunction("f2", "code/small/sums.py", "scale", ("methods",)),
        ),
        "test_cases": (
            TestCase("e1", "Sum", "The sum of the data.", (Metric("total"),)),
            TestCase("e2", "Scaled", "The sum, scaled.", (Metric("scaled"),)),
        ),
        "profiles": {"full": {"draws": "0"}, "quick": {"draws": "0"}},
        "screen": "refuse",
        "paper": PAPER,
        "code": {"code/small/__init__.py": "", "code/small/sums.py": CODE, "code/experiments.py": EXPERIMENTS},
        "generator": GENERATOR,
    }
    return Task(**{**values, **changes})


def create_task(task: Task | None = None) -> ReplicationTask:
    task = task or build_task()
    columns = {
        "name": task.name,
        "data": task_to_json(task),
        "sha256": hash_task(task),
        "packages": list(task.packages),
    }
    return ReplicationTask.objects.get_or_create(slug=task.slug, defaults=columns)[0]


def create_mask(row: ReplicationTask | None = None, functions: tuple[str, ...] = ("f1",), index: int = 0) -> Mask:
    """Create a mask that counts as validated nowhere."""
    row = row or create_task()
    key = f"u{len(functions)}-{index:03}"
    columns = {"n": len(functions), "mode": "uniform", "index": index, "seed": 1, "functions": list(functions)}
    columns["test_cases"] = ["e1", "e2"][: len(functions)]
    return Mask.objects.get_or_create(task=row, task_sha256=row.sha256, key=key, defaults=columns)[0]


def create_code_run(cast: str = "offline-oracle") -> Run:
    values = {"kind": "code", "cast": cast, "seed": 1, "conditions": Conditions().to_json()}
    return Run.objects.get_or_create(submission_id=f"test-code-{cast}", defaults=values)[0]


def create_workspace(**files: bytes) -> Tree:
    contents = {"code/small/sums.py": b'raise NotImplementedError("hidden")\n', "TASK.md": b"# Task\n", **files}
    return stored_trees.store_tree(contents)


def create_code_episode(
    mask: Mask | None = None, cast: str = "offline-oracle", replicate: int = 1, **fields: Any
) -> CodeEpisode:
    mask, tree, conditions = mask or create_mask(), create_workspace(), Conditions()
    values: dict[str, Any] = {
        "run": create_code_run(cast),
        "mask": mask,
        "task_sha256": mask.task_sha256,
        "cast": cast,
        "conditions": conditions.to_json(),
        "conditions_key": conditions.key,
        "replicate": replicate,
        "seed": replicate,
        "initial": tree,
        "present": tree,
    }
    if fields.get("status") in CodeEpisode.ENDED:
        values["ended_at"] = timezone.now()
    return CodeEpisode.objects.create(**{**values, **fields})


def create_step(
    episode: CodeEpisode, number: int, call: ToolCall | None = None, after: Tree | None = None, **fields: Any
) -> CodeStep:
    """Create a step that leaves the workspace `after`, by default the one before it, and move the episode on."""
    call, after = call or ToolCall("list_files", {}, "look at the files"), after or episode.present
    values: dict[str, Any] = {"tool": call.tool, "request": call.to_json(), "observation": "TASK.md"}
    step = CodeStep(
        episode=episode, number=number, tree_before=episode.present, tree_after=after, **{**values, **fields}
    )
    step.content_sha256 = digests.compute_step_digest(step)
    step.save()
    episode.present, episode.next_number = after, number + 1
    episode.save(update_fields=["present", "next_number"])
    return step


def create_grading(episode: CodeEpisode, outcome: str = "solved", **fields: Any) -> Grading:
    """Create a grading whose grade has no more than its outcome."""
    is_solved = outcome == "solved"
    values: dict[str, Any] = {"solved": is_solved, "paper_pass": is_solved, "measured": is_solved, "robust": is_solved}
    values |= {"grade": {"outcome": outcome}, **fields}
    grading = Grading(episode=episode, version="1", outcome=outcome, **values)
    grading.sha256 = digests.compute_grading_digest(grading)
    grading.save()
    return grading


def create_graded_episode(mask: Mask | None = None, **fields: Any) -> CodeEpisode:
    """Create a submitted episode of two steps, the second in a sandbox, with a grading."""
    episode = create_code_episode(
        mask, status="submitted", ending="submitted", phase="probe", fence=3, sandbox_seconds=0.2, **fields
    )
    create_step(episode, 1, after=create_workspace(**{"notes.txt": b"add a and b"}))
    create_step(
        episode, 2, ToolCall("run_command", {"command": "python run.py e1"}), observation="exit status 0 after 0.2 s"
    )
    SandboxRun.objects.create(
        episode=episode, number=2, purpose="tool", fence=2, state="done", backend="test", tree_in=episode.present,
        command="python run.py e1", command_sha256="0" * 64, ended_at=timezone.now(), exit=0, seconds=0.2,
    )  # fmt: skip
    create_grading(episode)
    return episode
