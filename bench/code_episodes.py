"""What grading and whole code episodes cost, without a database: rows of `python -m bench.sandbox`."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from simulation.replication.agents import build_offline_agent
from simulation.replication.agents.playing import play_episode
from simulation.replication.grading import GradingWork, grade_work
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.masking import fill_code, read_gold_bodies
from simulation.replication.tasks.running import generate_variants, run_cases
from simulation.replication.tasks.task_files import list_task_folders, load_task
from simulation.replication.tasks.workspaces import build_workspace, render_brief
from simulation.replication.values import BASE_VARIANT, Task

TASKS = Path(__file__).resolve().parents[1] / "fixtures" / "replication"
GRADED = {"numpy": "qpcr-titre", "scipy": "enzyme-kinetics"}  # packages that a task imports -> the task
VARIANTS = (BASE_VARIANT, 101, 102)
AT_ONCE = 2


class PreparedTask(NamedTuple):
    """A task with its data and gold values, which a site has stored before an episode begins."""

    task: Task
    data: Mapping[int, Mapping[str, bytes]]
    gold: Mapping[int, Mapping[str, Mapping[str, Any]]]


def prepare_task(folder: Path, sandbox: Sandbox) -> PreparedTask:
    task = load_task(folder)
    data = generate_variants(task, VARIANTS, sandbox)
    report = run_cases(task, task.code, data, sandbox)
    return PreparedTask(task, data, {number: report.get_values(number) for number in data})


def grade(
    prepared: PreparedTask, files: Mapping[str, bytes], function_ids: Sequence[str], reported: Any, sandbox: Sandbox
) -> None:
    """Grade a workspace in all stages. Raises RuntimeError unless it is solved: another outcome would skip stages."""
    task, data, gold = prepared
    result = grade_work(GradingWork(task, tuple(function_ids), files, data, gold, reported=reported), sandbox)
    if not result.solved:
        raise RuntimeError(f"{task.slug}: the reference code is graded {result.outcome}")


def measure_grading(sandbox: Sandbox, rounds: int = 5) -> dict[str, float]:
    """Return the median seconds of grading one function of the reference code, by the package that the task imports."""
    seconds = {}
    for package, slug in GRADED.items():
        prepared = prepare_task(TASKS / slug, sandbox)
        hidden = (prepared.task.functions[0].id,)
        code = fill_code(prepared.task, read_gold_bodies(prepared.task, hidden))
        files = build_workspace(prepared.task, hidden, prepared.data[BASE_VARIANT])
        files |= {path: text.encode() for path, text in code.items()}
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            grade(prepared, files, hidden, prepared.gold[BASE_VARIANT], sandbox)
            times.append(time.perf_counter() - start)
        seconds[package] = median(times)
    return seconds


def measure_episodes(sandbox: Sandbox) -> float:
    """Return the seconds per episode of offline-oracle with its grading: one of each task with one hidden function, two at a time."""

    def play(prepared: PreparedTask) -> None:
        task, data, _ = prepared
        hidden = (task.functions[0].id,)
        agent = build_offline_agent("offline-oracle", task, hidden, seed=1)
        workspace = build_workspace(task, hidden, data[BASE_VARIANT])
        played = play_episode(agent, workspace, render_brief(task, hidden), sandbox, packages=task.packages)
        grade(prepared, played.trees[-1], hidden, played.reported, sandbox)

    tasks = [prepare_task(folder, sandbox) for folder in list_task_folders(TASKS)]
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(play, tasks))
    return (time.perf_counter() - start) / len(tasks)
