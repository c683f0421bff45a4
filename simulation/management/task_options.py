"""Command-line options of commands on replication tasks, which read the task folders."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from django.core.management.base import CommandError

from simulation.replication.tasks.task_files import TaskFileError, list_task_folders, load_task
from simulation.replication.values import Task

ALL = "all"


def add_task_options(parser: ArgumentParser, directory: Path) -> None:
    """Add --task and --directory."""
    parser.add_argument("--task", action="append", required=True, help="slugs of tasks, separated by commas, or all")
    parser.add_argument("--directory", type=Path, default=directory, help="folder of the task folders")


def read_tasks(directory: Path, names: list[str]) -> list[Task]:
    """Return the tasks of these slugs, or all. Raise CommandError, and exit with 2, for an unknown slug or an invalid folder."""
    tasks, problems = read_valid_tasks(directory, names)
    if problems:
        raise CommandError("\n".join(problems), returncode=2)
    return tasks


def read_valid_tasks(directory: Path, names: list[str]) -> tuple[list[Task], list[str]]:
    """Return the tasks of these slugs, or all, whose folders are valid, and the problems of the others.

    Raise CommandError, and exit with 2, for an unknown slug, or if there is no task.
    """
    names = [name.strip() for text in names for name in text.split(",")]
    folders = {folder.name: folder for folder in list_task_folders(directory)}
    if unknown := [name for name in names if name != ALL and name not in folders]:
        known = ", ".join(folders) or f"none in {directory}"
        raise CommandError(f"There is no task {unknown[0]!r}. Tasks: {known}", returncode=2)
    chosen = [folder for name, folder in folders.items() if ALL in names or name in names]
    if not chosen:
        raise CommandError(f"There is no task in {directory}", returncode=2)
    experiments = {path.stem for path in (directory.parent / "experiments").glob("*.json")}
    tasks, problems = [], list[str]()
    for folder in chosen:
        try:
            tasks.append(load_task(folder, experiments or None))
        except TaskFileError as error:
            problems += error.problems
    return tasks, problems


def parse_numbers(text: str) -> list[int]:
    """Return the numbers of a list such as "0-8" or "1,2,4", in order. Raise ArgumentTypeError for other text."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,2})(?:-(\d{1,2}))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise ArgumentTypeError(f"{text!r} is not a list of numbers such as 0-8 or 1,2,4")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)


def parse_limit(text: str) -> int | None:
    """Return a whole number from 0, or None for "all". Raise ArgumentTypeError for other text."""
    if text == ALL:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise ArgumentTypeError(f"{text!r} is neither a whole number from 0 to 999999 nor all")
    return int(text)
