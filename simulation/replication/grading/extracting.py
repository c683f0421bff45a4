"""Extract the bodies of hidden functions from an agent's files, in a sandbox: the host parses none of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from simulation.lab.errors import LabError
from simulation.replication.sandbox.base import Limits, Sandbox, SandboxResult
from simulation.replication.tasks.masking import mask_code
from simulation.replication.trees import Files
from simulation.replication.values import Task
from wetbench_site.text import is_storable, parse_json

# filled: a body is carried over. hidden: it does nothing, or raises NotImplementedError. missing: gone, moved, async, no `def`, or with
# other parameters. unreadable: its file does not compile. too large: over the limits of size or depth.
FunctionStatus = Literal["filled", "hidden", "missing", "unreadable", "too large"]
EXTRACTION_LIMITS = Limits(seconds=20, resident_mib=512, processes=8)
MAX_OUTSIDE = 200
SCREEN_KINDS = ("import", "name", "attribute", "computed attribute", "rebinding")


class GradingStopped(LabError):  # noqa: N818  # an event, not an error
    """A person stopped the work while a sandbox of grading ran. The stage can be run again."""


class ExtractedFunction(NamedTuple):
    """A hidden function as the agent left it. `body` is in normal form, without comments and layout; `line` is in the agent's file."""

    status: FunctionStatus
    reason: str = ""
    body: str = ""
    line: int = 0


class ScreenFinding(NamedTuple):
    """Something that a hidden function must not use, such as an import of `os`."""

    kind: str  # one of SCREEN_KINDS
    path: str
    where: str  # the function, helper or constant
    what: str
    line: int

    def describe(self) -> str:
        return f"{self.path}:{self.line}: {self.where} has the {self.kind} {self.what}"


@dataclass(frozen=True)
class Extraction:
    """What grading takes from an agent's files, and what it ignores.

    `modules` are the clean modules that measuring runs: the reference with the agent's bodies and the new helpers, constants and imports of
    the same module that they use. `helpers` lists those by path. `outside` names all other changes, which have no effect.
    `literals` are the numbers written in the code that is taken.
    """

    functions: Mapping[str, ExtractedFunction] = field(default_factory=dict)  # by id
    helpers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    findings: tuple[ScreenFinding, ...] = ()
    literals: tuple[float, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every hidden function is filled in."""
        return all(function.status == "filled" for function in self.functions.values())

    def list_with_status(self, *statuses: FunctionStatus) -> list[str]:
        """Return "f2: reason" for each function with one of these statuses."""
        return [f"{name}: {entry.reason}" for name, entry in self.functions.items() if entry.status in statuses]

    def to_json(self) -> dict[str, Any]:
        return {
            "functions": {name: entry._asdict() for name, entry in self.functions.items()},
            "helpers": {path: list(texts) for path, texts in self.helpers.items()},
            "modules": dict(self.modules),
            "outside": list(self.outside),
            "findings": [finding._asdict() for finding in self.findings],
            "literals": list(self.literals),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Extraction":
        return cls(
            functions={name: ExtractedFunction(**entry) for name, entry in data["functions"].items()},
            helpers={path: tuple(texts) for path, texts in data["helpers"].items()},
            modules=dict(data["modules"]),
            outside=tuple(data["outside"]),
            findings=tuple(ScreenFinding(**finding) for finding in data["findings"]),
            literals=tuple(data["literals"]),
        )


def extract_patch(
    task: Task, function_ids: Sequence[str], files: Files, sandbox: Sandbox, initial: Files | None = None
) -> Extraction:
    """Return the bodies of the hidden functions in `files`, and all other changes.

    `initial` is the workspace that the agent got; without it, only changes of code are listed. The sandbox holds the masked code, never
    a reference body. Raises KeyError for an unknown function, SandboxFault, and GradingStopped.
    """
    masked = mask_code(task, function_ids)
    functions = [task.get_function(function_id) for function_id in function_ids]
    paths = {function.path for function in functions}
    outside = _list_changed_files(masked, paths, files, initial)
    if not functions:
        return Extraction(outside=outside)
    request = {
        "functions": [{"id": function.id, "path": function.path, "name": function.name} for function in functions],
        "own": find_own_packages(task),
    }
    inputs = {
        **read_scripts(),
        "request.json": json.dumps(request).encode(),
        **{f"reference/{path}": masked[path].encode() for path in paths},
        **{f"agent/{path}": files[path] for path in paths if path in files},
    }
    result = run_script("extract", {}, inputs, sandbox, EXTRACTION_LIMITS)
    extraction = _read_answer(result, task, function_ids)
    return replace(extraction, outside=(*extraction.outside, *outside)[:MAX_OUTSIDE])


def find_own_packages(task: Task) -> list[str]:
    """Return the packages and modules of a task that its functions may import. The module of the experiments is not among them."""
    names = {path.split("/")[1].removesuffix(".py") for path in task.code if path.startswith("code/")}
    return sorted(names - {"experiments"})


def _list_changed_files(
    masked: Mapping[str, str], paths: set[str], files: Files, initial: Files | None
) -> tuple[str, ...]:
    """Return "path: was changed" for each file that is not the module of a hidden function."""
    if initial is None:
        initial = {path: text.encode() for path, text in masked.items()}
        files = {path: content for path, content in files.items() if path.startswith("code/")}
    changes = []
    for path in sorted({*initial, *files} - paths):
        if path not in files:
            changes.append(f"{path}: was removed")
        elif path not in initial:
            changes.append(f"{path}: is new")
        elif files[path] != initial[path]:
            changes.append(f"{path}: was changed")
    return tuple(changes[:MAX_OUTSIDE])


@cache
def read_scripts() -> Mapping[str, bytes]:
    """Return the scripts of `inside/` by their paths below /input."""
    folder = Path(__file__).parent / "inside"
    package = __name__.rpartition(".")[0].replace(".", "/")
    return {f"{package}/inside/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py"))}


def run_script(
    script: str,
    files: Files,
    inputs: Files,
    sandbox: Sandbox,
    limits: Limits,
    packages: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> SandboxResult:
    """Run `main` of a script of `inside/` in a sandbox; once more if it did not end in time, because the machine may be busy.

    Raises SandboxFault and GradingStopped.
    """
    module = f"{__name__.rpartition('.')[0]}.inside.{script}"
    code = f"import sys; sys.path.insert(0, '/input'); from {module} import main; main()"
    for _ in range(2):
        result = sandbox.run(("python3", "-c", code), files, inputs, limits, packages, environment, with_result=True)
        if result.killed == "stop":
            raise GradingStopped(f"stopped while {script} ran")
        if result.killed != "wall":
            break
    return result


def describe_end(result: SandboxResult) -> str:
    """Return in words how a command without a usable result ended."""
    if result.killed:
        return f"stopped: {result.killed}"
    return "ended without an exit status" if result.exit is None else f"ended with exit status {result.exit}"


def _read_answer(result: SandboxResult, task: Task, function_ids: Sequence[str]) -> Extraction:
    """Check the answer of the script. Hostile text may have stopped it: then all functions are unreadable."""
    try:
        if result.exit != 0:
            raise ValueError("no answer")
        return _check_answer(parse_json(result.result.decode()), task, function_ids)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        reason = f"the files could not be read: the parser {describe_end(result)}"
        return Extraction({function_id: ExtractedFunction("unreadable", reason) for function_id in function_ids})


def _check_answer(answer: Any, task: Task, function_ids: Sequence[str]) -> Extraction:
    """Return an answer as a value. Raises ValueError, KeyError, TypeError or AttributeError for anything that the script cannot have written."""
    functions = {}
    for function_id in function_ids:
        entry = ExtractedFunction(**answer["functions"][function_id])
        if entry.status not in get_args(FunctionStatus) or (entry.status == "filled") != bool(entry.body):
            raise ValueError(entry.status)
        functions[function_id] = ExtractedFunction(
            entry.status, _text(entry.reason), _text(entry.body), int(entry.line)
        )
    paths = {task.get_function(function_id).path for function_id in function_ids}
    modules = {path: _text(text) for path, text in answer["modules"].items()}
    if not set(modules) | set(answer["helpers"]) <= paths:
        raise ValueError("a module without hidden functions")
    findings = tuple(
        ScreenFinding(
            _text(entry["kind"]), _text(entry["path"]), _text(entry["where"]), _text(entry["what"]), int(entry["line"])
        )
        for entry in answer["findings"]
    )
    if any(finding.kind not in SCREEN_KINDS for finding in findings):
        raise ValueError("unknown kind of finding")
    return Extraction(
        functions=functions,
        helpers={path: tuple(map(_text, texts)) for path, texts in answer["helpers"].items()},
        modules=modules,
        outside=tuple(map(_text, answer["outside"])),
        findings=findings,
        literals=tuple(float(number) for number in answer["literals"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_storable(value):
        raise ValueError("not a text")
    return value


def build_checkout(task: Task, function_ids: Sequence[str], extraction: Extraction) -> dict[str, str]:
    """Return the code that measuring runs: the reference code of all other functions with the extracted modules.

    A function that was not filled in stays hidden, so that no reference body of a hidden function is ever in a sandbox with an agent's code.
    """
    return {**mask_code(task, function_ids), **extraction.modules}
