"""Task folders as rows, and rows as tasks."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import transaction

from simulation.lab.errors import LabError, TaskChanged
from simulation.models import CodeEpisode, Experiment, ReplicationTask
from simulation.replication.tasks.task_files import (
    hash_task,
    list_task_folders,
    load_task,
    task_from_json,
    task_to_json,
)
from simulation.replication.values import Task

if TYPE_CHECKING:
    from simulation.casts.load_files import LoadCounts

FOLDER_NAME = "replication"  # of the task folders, below that of the other data files
# By hash, so that no entry can be out of date. A task is parsed once per process.
_tasks: dict[str, Task] = {}
_MAX_CACHED_TASKS = 100


class UnknownTaskError(LabError):
    """There is no replication task of that name. The message lists the known ones."""


def load_tasks(folder: Path) -> "LoadCounts":
    """Load every task folder below `folder`. Raise LabError with every problem of all folders before anything is written."""
    # Here, because it imports the agents of all casts, which pages that read tasks do not need.
    from simulation.casts.load_files import LoadCounts

    parsed, problems = [], []
    for task_folder in list_task_folders(folder):
        try:
            parsed.append(load_task(task_folder))
        except LabError as error:
            problems.append(str(error))
    if problems:
        raise LabError("\n".join(problems))
    with transaction.atomic():
        results = [_store_task(task) for task in parsed]
    return LoadCounts(results.count("new"), results.count("changed"), results.count("same"))


def _store_task(task: Task) -> str:
    """Store a task and return whether it is new, changed or the same. A changed task keeps its salt."""
    sha256 = hash_task(task)
    row = ReplicationTask.objects.filter(slug=task.slug).defer("data").first()
    experiments = set(Experiment.objects.filter(slug__in=task.experiments).values_list("pk", flat=True))
    result = "same" if row and row.sha256 == sha256 else "changed" if row else "new"
    if result != "same":
        columns = {"name": task.name, "data": task_to_json(task), "sha256": sha256, "packages": list(task.packages)}
        missing = task.origin.missing if task.origin else ()  # of an imported task
        columns["invalid_reason"] = f"unvalidated: it needs {'; '.join(missing)}" if missing else ""
        row, _ = ReplicationTask.objects.update_or_create(slug=task.slug, defaults=columns)
    assert row is not None
    if set(row.experiments.values_list("pk", flat=True)) != experiments:
        row.experiments.set(experiments)
    return result


def get_task(row: ReplicationTask) -> Task:
    """Return the task of a row. Its data are read once per process and version, even if the row was loaded without them."""
    if cached := _tasks.get(row.sha256):
        return cached
    # One query for both: data that were replaced in between must not be cached under the old hash.
    sha256, data = ReplicationTask.objects.values_list("sha256", "data").get(pk=row.pk)
    if len(_tasks) >= _MAX_CACHED_TASKS:
        _tasks.clear()
    _tasks[sha256] = task_from_json(data)
    return _tasks[sha256]


def get_episode_task(episode: CodeEpisode) -> Task:
    """Return the task of an episode. Raise TaskChanged if it was loaded in another version since the episode was created."""
    row = episode.mask.task
    if row.sha256 != episode.task_sha256:
        raise TaskChanged(f"{row.slug} was changed after the episode was created")
    return get_task(row)


def find_tasks(names: Iterable[str]) -> list[ReplicationTask]:
    """Return the tasks of these slugs, or all for "all", in the order of slugs. Raise UnknownTaskError for unknown ones."""
    wanted = set(names)
    rows = {row.slug: row for row in ReplicationTask.objects.defer("data")}
    if not rows:
        raise UnknownTaskError("There are no replication tasks yet: run `python manage.py load_lab` first")
    if unknown := sorted(wanted - {"all"} - set(rows)):
        raise UnknownTaskError(
            f"There is no task {', '.join(map(repr, unknown))}. Known tasks: {', '.join(sorted(rows))}"
        )
    return [row for slug, row in sorted(rows.items()) if "all" in wanted or slug in wanted]
