"""Import a folder in the AutoExperiment format, or a commit of a Git repository."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from simulation.replication.importing.building import build_commit_task, build_paper_task
from simulation.replication.importing.git_reading import GitCommit, open_commit
from simulation.replication.importing.reading import (
    MAX_MODULE_BYTES,
    ImportFault,
    Selection,
    decode_text,
    list_files,
    read_file,
    read_text,
    select_files,
)
from simulation.replication.importing.results import ImportedTask, ImportResult
from simulation.replication.importing.sources import SoughtFunction, check_sources
from simulation.replication.importing.tables import PaperRows, count_listed_functions, describe_samples, read_tables
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.trees import MAX_FILE_BYTES
from wetbench_site.text import parse_json

MAX_PAPER_BYTES = 400_000
EMPTY_MODULE = '"""Empty."""\n'


def import_auto_experiment(
    folder: Path, sandbox: Sandbox, seed_argument: str = "", only: Collection[str] = ()
) -> ImportResult:
    """Return the tasks of a folder in the AutoExperiment format. Raises ImportFault with every problem, and SandboxFault.

    `seed_argument` is the argument of its commands that is a random seed; without one, the tasks have only their public data.
    `only` are the ids of the papers to import; all by default.
    """
    papers = read_tables(folder)
    if unknown := sorted(set(only) - set(papers)):
        raise ImportFault([f"--only: is {unknown[0]!r}; allowed: {', '.join(papers)}"])
    papers = {identifier: paper for identifier, paper in papers.items() if not only or identifier in only}
    tasks, problems, resolved = list[ImportedTask](), list[str](), dict[str, set[str]]()
    for paper in papers.values():
        try:
            task = _import_paper(folder / paper.paper_id, paper, sandbox, seed_argument)
        except ImportFault as fault:
            problems += [f"{paper.paper_id}: {problem}" for problem in fault.problems]
            continue
        tasks.append(task)
        missing = {name.split(" ")[0] for name in task.unresolved}
        resolved[paper.paper_id] = set(paper.functions) - missing
    listed = None
    try:
        listed = count_listed_functions(folder)
    except ImportFault as fault:
        problems += fault.problems
    if problems:
        raise ImportFault(problems)
    return ImportResult(tuple(tasks), describe_samples(papers, resolved), listed)


def _import_paper(folder: Path, paper: PaperRows, sandbox: Sandbox, seed_argument: str) -> ImportedTask:
    problems = []
    for place in (folder, folder / "code"):
        if place.is_symlink() or not place.is_dir():
            raise ImportFault([f"{place.name}: is missing or a link; allowed: a folder"])
    try:
        text = read_text(folder / "paper.txt", MAX_PAPER_BYTES)
    except ImportFault as fault:
        text, problems = "", [*fault.problems]
    code = folder / "code"
    selection = select_files(list_files(code))
    problems += [f"code: {problem}" for problem in selection.problems]
    modules: dict[str, str] = {}
    for path in selection.modules if not selection.problems else ():
        try:
            modules[path] = _fill_empty(read_text(code / path, MAX_MODULE_BYTES))
        except ImportFault as fault:
            # A module that is not text is left out with its functions, like one that is not Python.
            selection.left_out += fault.problems
    if problems:
        raise ImportFault(problems)
    data = {path: read_file(code / path, MAX_FILE_BYTES) for path in selection.data}
    sought = [
        SoughtFunction(row.func_id, row.file, row.name, row.header_line, row.description)
        for row in paper.functions.values()
    ]
    checked = check_sources(modules, sought, sandbox)
    return build_paper_task(paper, text, checked, data, selection, seed_argument)


def _fill_empty(text: str) -> str:
    """Return the text of a module. An empty one, such as many an `__init__.py`, gets a docstring, because no file of a task may be empty."""
    return text if text.strip() else EMPTY_MODULE


def import_commit(
    repository: Path, commit: str, sandbox: Sandbox, folder: str = "", task_file: Path | None = None
) -> ImportResult:
    """Return the task of a folder in a commit: code/, paper.md, generate.py or data/, and task.json.

    `task_file` replaces the task.json of the commit. Raises ImportFault with every problem, and SandboxFault.
    """
    with open_commit(repository, commit, folder) as source:
        files, selection = _read_commit(source)
    entry = _read_entry(task_file, files)
    modules = {
        path: _fill_empty(decode_text(path, content))
        for path, content in files.items()
        if path == "generate.py" or (path.startswith("code/") and path.endswith(".py"))
    }
    others = {path: content for path, content in files.items() if path == "paper.md" or path.startswith("data/")}
    ignored = sorted(set(files) - set(modules) - set(others) - {"task.json"})
    selection.left_out += [f"{path}: is not part of an imported task" for path in ignored]
    checked = check_sources(modules, (), sandbox)
    return ImportResult((build_commit_task(entry, repository.resolve().name, commit, checked, others, selection),))


def _read_commit(source: GitCommit) -> tuple[dict[str, bytes], Selection]:
    """Return the contents of the files of a commit that a task may have, and what was selected. Raises ImportFault."""
    entries = {entry.path: entry for entry in source.list_entries()}
    texts = {"paper.md": MAX_PAPER_BYTES, "task.json": MAX_FILE_BYTES}
    selection = select_files((path, entry.size) for path, entry in entries.items() if path not in texts)
    problems = list(selection.problems)
    problems += ["paper.md: is missing"] if "paper.md" not in entries else []
    if problems:
        raise ImportFault(problems)
    limits = dict.fromkeys(selection.modules, MAX_MODULE_BYTES) | dict.fromkeys(selection.data, MAX_FILE_BYTES)
    limits |= {name: most for name, most in texts.items() if name in entries}
    return {path: source.read_blob(entries[path], most) for path, most in limits.items()}, selection


def _read_entry(task_file: Path | None, files: Mapping[str, bytes]) -> Mapping[str, Any]:
    """Return the object in task.json. Raises ImportFault."""
    if task_file is None and "task.json" not in files:
        raise ImportFault(["task.json: is not in the commit; allowed: the file there, or --task-file"])
    text = read_text(task_file, MAX_FILE_BYTES) if task_file else decode_text("task.json", files["task.json"])
    try:
        entry = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ImportFault([f"task.json: is not JSON: {error}"]) from error
    if not isinstance(entry, dict):
        raise ImportFault(["task.json: allowed: an object"])
    return entry
