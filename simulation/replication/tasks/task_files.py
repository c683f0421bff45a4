"""Read a task folder: task.json, paper.md, code/, generate.py and mutants.json; data/ of imported tasks. Every problem has file, line, field and what is allowed."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, model_validator

from simulation.lab.errors import LabError
from simulation.replication.tasks.imported_parts import (
    MAX_IMPORTED_FILES,
    ImportedEntry,
    SeedArgument,
    find_imported_problems,
    read_data,
)
from simulation.replication.tasks.papers import find_paper_problems
from simulation.replication.tasks.source_text import find_body_problem, find_functions, replace_bodies
from simulation.replication.values import PROFILES, Metric, Origin, PlantedError, Task, TaskFunction, TestCase
from wetbench_site.text import hash_json, is_storable
from wetbench_site.validation import (
    Allowed,
    StrictModel,
    VisibleText,
    find_problems,
    format_file,
    format_problem,
    locate_problems,
    need_unique,
    one_of,
    read_json_file,
    reject_parts,
)

PACKAGES = ("numpy", "scipy", "scikit-learn")
# Names by which the code imports the packages, where they differ from those of the distributions.
IMPORT_NAMES = {"scikit-learn": "sklearn"}
_TEXTS = ("paper.md", "generate.py")
_ENTRIES = ("task.json", "mutants.json", "code", *_TEXTS)
_OPTIONAL = ("mutants.json", "generate.py")  # in imported tasks
_MAX_TEXT, _MAX_BYTES = 200_000, 2**20  # characters and bytes of one file
_MAX_CODE_FILES = 20
_Model = TypeVar("_Model", bound=BaseModel)

Slug = Annotated[
    str, Field(pattern="^[a-z0-9]+(-[a-z0-9]+)*$"), Allowed("small letters and digits, joined by single hyphens")
]
CodePath = Annotated[
    str,
    Field(pattern=r"^code/([A-Za-z_][\w.-]*/)*[A-Za-z_][\w-]*\.py$"),
    Allowed("a path like code/package/module.py"),
]
Name = Annotated[
    str, Field(pattern="^[A-Za-z][A-Za-z0-9_]{0,39}$"), Allowed("up to 40 letters, digits and underscores")
]


class TaskFileError(LabError):
    """A task folder is not valid. `problems` lists every fault with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class MetricEntry(StrictModel):
    """A result of a test case."""

    name: Name
    unit: str = ""
    kind: Literal["number", "count", "label"] = "number"
    rel: Annotated[float, Field(ge=0.002, le=0.5)] = 0.05
    abs: Annotated[float, Field(ge=0)] = 1e-9


class TestCaseEntry(StrictModel):
    """An experiment command, with its results."""

    id: Annotated[str, Field(pattern="^e[1-9][0-9]?$"), Allowed("e1 to e99")]
    title: VisibleText
    text: VisibleText
    metrics: Annotated[list[MetricEntry], Field(min_length=1), need_unique("name")]


class FunctionEntry(StrictModel):
    """A function that a mask may hide."""

    id: Annotated[str, Field(pattern="^f[1-9][0-9]?$"), Allowed("f1 to f99")]
    path: CodePath
    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"), Allowed("a name, or Class.method")]
    passages: list[VisibleText] = []


class TaskEntry(StrictModel):
    """task.json."""

    slug: Slug
    name: VisibleText
    summary: VisibleText
    experiments: list[Slug]
    packages: list[Annotated[str, *one_of(PACKAGES)]]
    seconds: Annotated[float, Field(ge=1, le=120)]
    provenance: VisibleText
    functions: Annotated[list[FunctionEntry], Field(min_length=1), need_unique("id")]
    test_cases: Annotated[list[TestCaseEntry], Field(min_length=1), need_unique("id")]
    profiles: dict[Annotated[str, *one_of(PROFILES)], dict[Name, str]] = {}
    screen: Literal["refuse", "warn"]
    seed_argument: SeedArgument = ""
    imported: ImportedEntry | None = None

    @model_validator(mode="after")
    def _need_consistent(self) -> "TaskEntry":
        places = [(entry.path, entry.name) for entry in self.functions]
        problems = [
            (f"functions[{index}].name", f"{entry.path} {entry.name} occurs twice")
            for index, entry in enumerate(self.functions)
            if places.index((entry.path, entry.name)) < index
        ]
        if self.profiles and set(self.profiles) != set(PROFILES):
            problems.append(("profiles", format_problem(sorted(self.profiles), "none, or both full and quick")))
        elif len({frozenset(values) for values in self.profiles.values()}) > 1:
            problems.append(("profiles", "full and quick set different variables; allowed: the same ones"))
        reject_parts(problems)
        return self


class MutantEntry(StrictModel):
    """A hand-written error in mutants.json."""

    function: VisibleText
    body: VisibleText
    error_type: Literal["obvious", "subtle"]
    rule: VisibleText
    why: VisibleText


class MutantsFile(StrictModel):
    """mutants.json, whose top level is a list, as a model: its problems then have fields like `errors[2].body`."""

    errors: list[MutantEntry]


def list_task_folders(root: Path) -> list[Path]:
    """Return the folders below `root` that have a task.json, in order of name. Return none if `root` does not exist."""
    return sorted(path.parent for path in root.glob("*/task.json"))


def load_task(folder: Path, experiments: Collection[str] | None = None) -> Task:
    """Return the task in a folder. Raises TaskFileError with every problem.

    With `experiments`, the wet-lab experiments that the task names must be among these slugs.
    """
    if folder.is_dir() and (unusable := _find_unusable_files(folder)):
        raise TaskFileError(unusable)
    if not (folder / "task.json").is_file():
        raise TaskFileError([f"{format_file(folder)}: has no task.json"])
    problems: list[str] = []
    entry = _read_model(folder / "task.json", TaskEntry, problems)
    imported = entry.imported if entry else None
    absent = [name for name in _OPTIONAL if imported and not (folder / name).exists()]
    texts = {name: "" if name in absent else _read_text(folder / name, problems) for name in _TEXTS}
    code = _read_code(folder, problems, MAX_IMPORTED_FILES if imported else _MAX_CODE_FILES)
    mutants: MutantsFile | None = MutantsFile(errors=[])
    if "mutants.json" not in absent:
        mutants = _read_model(folder / "mutants.json", MutantsFile, problems, "errors")
    allowed = [*_ENTRIES, "data"] if imported and "generate.py" in absent else _ENTRIES
    data = read_data(folder / "data", problems) if "data" in allowed else {}
    problems += [
        f"{format_file(path)}: is not part of a task; allowed: {', '.join(allowed)}"
        for path in sorted(folder.iterdir())
        if path.name not in allowed and not _is_cache(path)
    ]
    if entry is None or mutants is None:
        raise TaskFileError(problems)
    task = _build_task(entry, mutants, texts, code, data)
    # Before the code is parsed: imported code is untrusted, and only what an import has already parsed in a sandbox is parsed here.
    if changed := find_imported_problems(folder, task):
        raise TaskFileError([*problems, *changed])
    if entry.slug != folder.name:
        problems += _locate(folder, "task.json", [f"slug: {format_problem(entry.slug, f'the folder: {folder.name}')}"])
    if experiments is not None:
        unknown = [
            f"experiments[{index}]: {format_problem(slug, ', '.join(sorted(experiments)))}"
            for index, slug in enumerate(entry.experiments)
            if slug not in experiments
        ]
        problems += _locate(folder, "task.json", unknown)
    problems += _find_code_problems(folder, task)
    problems += [f"{format_file(folder / 'paper.md')}:{problem}" for problem in find_paper_problems(task)]
    if problems:
        raise TaskFileError(problems)
    return task


def _find_unusable_files(folder: Path) -> list[str]:
    """Return a problem for each file that must not be read: links could show agents any file of this machine, and pipes have no end."""
    paths = sorted([*folder.iterdir(), *(folder / "code").rglob("*")])
    unusable = [
        path
        for path in paths
        if path.is_symlink() or not (path.is_dir() or path.is_file()) or path.stat().st_size > _MAX_BYTES
    ]
    allowed = f"a regular file of at most {_MAX_BYTES:,} bytes, no link"
    return [f"{format_file(folder)}/{path.relative_to(folder)}: allowed: {allowed}" for path in unusable]


def _is_cache(path: Path) -> bool:
    return path.name == "__pycache__" or path.name.startswith(".")


def _read_text(path: Path, problems: list[str]) -> str:
    """Return the text of a file, or "" and add a problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{format_file(path)}: cannot be read as UTF-8: {getattr(error, 'strerror', None) or error}")
        return ""
    if not text.strip() or len(text) > _MAX_TEXT or not is_storable(text) or "\f" in text:
        problems.append(
            f"{format_file(path)}: allowed: text of 1 to {_MAX_TEXT:,} characters, without NUL and form feed"
        )
    return text


def _read_code(folder: Path, problems: list[str], most: int) -> dict[str, str]:
    """Return the texts of all modules below code/ by path, in order."""
    root = folder / "code"
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    paths = [path for path in paths if not any(map(_is_cache, [path, *path.relative_to(root).parents, path.parent]))]
    if not paths or len(paths) > most:
        problems.append(f"{format_file(root)}: has {len(paths)} files; allowed: 1 to {most}")
    code = {}
    taken = {*sys.stdlib_module_names, *PACKAGES, *IMPORT_NAMES.values()}
    for path in paths[:most]:
        name = path.relative_to(root).parts[0].removesuffix(".py")
        if path.suffix != ".py":
            problems.append(f"{format_file(path)}: allowed in code/: Python modules")
        elif name == "generate":
            problems.append(f"{format_file(path)}: the generator must not be in code/, which agents see")
        elif name in taken:
            problems.append(f"{format_file(path)}: {name} would hide a module of Python or of a package")
        else:
            code[path.relative_to(folder).as_posix()] = _read_text(path, problems)
    return code


def _read_model(path: Path, model: type[_Model], problems: list[str], field: str = "") -> _Model | None:
    """Return a valid JSON file as a model, or None and add its problems. With `field`, the file is the value of this field."""
    data, faults = read_json_file(path)
    data = {field: data} if field else data
    # Paths of problems are those in the file, so that their lines can be found.
    faults = faults or locate_problems(path, [problem.removeprefix(field) for problem in find_problems(model, data)])
    problems += faults
    return None if faults else model.model_validate(data)


def _locate(folder: Path, name: str, faults: Sequence[str]) -> list[str]:
    return locate_problems(folder / name, faults)


def _build_task(
    entry: TaskEntry, mutants: MutantsFile, texts: Mapping[str, str], code: Mapping[str, str], data: Mapping[str, str]
) -> Task:
    parts = entry.model_dump()
    parts |= {"paper": texts["paper.md"], "generator": texts["generate.py"], "code": dict(code), "data": dict(data)}
    return task_from_json({**parts, "origin": parts.pop("imported"), "errors": mutants.model_dump()["errors"]})


def _find_code_problems(folder: Path, task: Task) -> list[str]:
    """Return the problems of code, functions, test cases, generator and planted errors."""
    problems: list[str] = []
    nodes = {}
    for path, text in {**task.code, **({"generate.py": task.generator} if task.generator else {})}.items():
        try:
            nodes[path] = find_functions(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or 1
            problems.append(f"{format_file(folder / path)}:{line}: is not Python: {getattr(error, 'msg', error)}")
    if problems:
        return problems
    for index, function in enumerate(task.functions):
        field = f"functions[{index}]"
        if function.path not in nodes:
            message = f"{field}.path: {format_problem(function.path, ', '.join(task.code))}"
            problems += _locate(folder, "task.json", [message])
        elif function.name not in nodes[function.path]:
            allowed = ", ".join(nodes[function.path]) or f"none: {function.path} has no function"
            problems += _locate(folder, "task.json", [f"{field}.name: {format_problem(function.name, allowed)}"])
        elif problem := find_body_problem(nodes[function.path][function.name]):
            line = nodes[function.path][function.name].lineno
            problems.append(f"{format_file(folder / function.path)}:{line}: {function.name}: {problem}")
    problems += _find_test_case_problems(folder, task, nodes.get("code/experiments.py"))
    generators = nodes.get("generate.py", {}).items()
    if task.generator and [len(node.args.args) for name, node in generators if name == "generate"] != [2]:
        problems.append(f"{format_file(folder / 'generate.py')}:1: allowed: a function generate(number, folder)")
    return problems or list(_iter_error_problems(folder, task))


def _find_test_case_problems(folder: Path, task: Task, experiments: Mapping[str, ast.AST] | None) -> list[str]:
    if experiments is None:
        return [f"{format_file(folder / 'code/experiments.py')}: is missing; allowed: one function for each test case"]
    missing = [
        f"test_cases[{index}].id: {format_problem(case.id, 'a function of code/experiments.py of this name')}"
        for index, case in enumerate(task.test_cases)
        if case.id not in experiments
    ]
    return _locate(folder, "task.json", missing)


def _iter_error_problems(folder: Path, task: Task) -> Iterator[str]:
    """Yield the problems of mutants.json that need the code. The line is that of the entry's field."""
    functions = {function.id: function for function in task.functions}
    path = folder / "mutants.json"
    for index, error in enumerate(task.errors):
        function = functions.get(error.function)
        if function is None:
            problem = f"[{index}].function: {format_problem(error.function, ', '.join(functions))}"
            yield from locate_problems(path, [problem])
            continue
        try:
            ast.parse(replace_bodies(task.code[function.path], {function.name: error.body}))
        except (SyntaxError, ValueError) as fault:
            message = f"[{index}].body: is not the body of a function: {getattr(fault, 'msg', fault)}"
            yield from locate_problems(path, [message])


def task_to_json(task: Task) -> dict[str, Any]:
    """Return all of a task as JSON values. `task_from_json` returns the task again."""
    # Fields that only imported tasks have are left out of other tasks, whose hashes were stored before these fields existed.
    optional = ("data", "seed_argument", "origin")
    return {name: value for name, value in asdict(task).items() if value or name not in optional}


def task_from_json(data: Mapping[str, Any]) -> Task:
    """Return the task of `task_to_json`. Raises KeyError or TypeError for other data."""
    parts = {field.name: data[field.name] for field in fields(Task) if field.name in data}
    parts["functions"] = tuple(
        TaskFunction(**{**entry, "passages": tuple(entry["passages"])}) for entry in data["functions"]
    )
    parts["test_cases"] = tuple(
        TestCase(**{**entry, "metrics": tuple(Metric(**metric) for metric in entry["metrics"])})
        for entry in data["test_cases"]
    )
    if origin := data.get("origin"):
        parts["origin"] = Origin(**{**origin, "missing": tuple(origin["missing"])})
    parts["errors"] = tuple(PlantedError(**entry) for entry in data.get("errors", ()))
    return Task(**{**parts, "experiments": tuple(data["experiments"]), "packages": tuple(data["packages"])})


def hash_task(task: Task) -> str:
    """Return the SHA-256 of everything in a task."""
    return hash_json(task_to_json(task))
