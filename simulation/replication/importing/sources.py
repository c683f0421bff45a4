"""Parse the modules of a source in a sandbox, and check what it returns. The host later parses only modules that could be parsed there."""

import json
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from simulation.replication.importing.reading import MAX_MODULE_BYTES, ImportFault
from simulation.replication.sandbox.base import Limits, Sandbox
from simulation.replication.tasks.task_files import IMPORT_NAMES, PACKAGES
from wetbench_site.text import parse_json

SCRIPT = Path(__file__).parent / "inside" / "check_sources.py"
MAX_DEPTH = 100  # levels of a syntax tree; the host's recursive functions stay far below Python's limit
_LIMITS = Limits(seconds=300, resident_mib=512, processes=8)


class SoughtFunction(NamedTuple):
    """A function to find by file and header line. `description` becomes its docstring if it has none."""

    id: str
    path: str
    name: str
    line: int
    description: str


@dataclass
class CheckedSources:
    """The modules that could be parsed, with the docstrings that were added, and the qualified names of the functions that were found, by id.

    `rejected` and `unresolved` have the reasons for the other modules and functions.
    """

    modules: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)  # path -> reason
    names: dict[str, str] = field(default_factory=dict)
    unresolved: dict[str, str] = field(default_factory=dict)
    imports: dict[str, list[str]] = field(default_factory=dict)
    gpu_modules: set[str] = field(default_factory=set)


def check_sources(modules: Mapping[str, str], sought: Sequence[SoughtFunction], sandbox: Sandbox) -> CheckedSources:
    """Parse modules in a sandbox and find functions. Raises ImportFault if the sandbox returned nothing usable, and SandboxFault."""
    rows = [row._asdict() for row in sought]
    job = {"paths": list(modules), "rows": rows, "depth": MAX_DEPTH}
    inputs = {f"source/{path}": text.encode() for path, text in modules.items()}
    inputs |= {"job.json": json.dumps(job).encode(), "check_sources.py": SCRIPT.read_bytes()}
    result = sandbox.run(["python3", "/input/check_sources.py"], {}, inputs, _LIMITS)
    files = result.files or {}
    if result.exit != 0 or "report.json" not in files:
        raise ImportFault([f"the modules could not be parsed: {result.killed or result.output[-300:]}"])
    checked = CheckedSources()
    try:
        report = parse_json(files["report.json"].decode())
        for path in modules:
            _add_module(checked, path, report[path], files.get(f"source/{path}"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ImportFault(
            ["the report of the parser cannot be read: it is not the JSON that this version writes"]
        ) from error
    for row in sought:
        if row.id not in checked.names:
            reason = checked.rejected.get(row.path) or f"there is no module {row.path}"
            checked.unresolved.setdefault(row.id, reason)
    return checked


def _add_module(checked: CheckedSources, path: str, report: Mapping[str, Any], content: bytes | None) -> None:
    if report["problem"] or content is None or len(content) > 2 * MAX_MODULE_BYTES:
        checked.rejected[path] = str(report["problem"] or "the sandbox did not return its text")[:300]
        return
    checked.modules[path] = content.decode()
    checked.imports[path] = [str(name) for name in report["imports"]]
    if report["uses_gpu"] is True:
        checked.gpu_modules.add(path)
    for identifier, entry in report["functions"].items():
        if entry["name"]:
            checked.names[str(identifier)] = str(entry["name"])
        else:
            checked.unresolved[str(identifier)] = str(entry["problem"])[:500]


def find_reached(checked: CheckedSources, starts: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the modules that programs import, including the programs, and the top-level names of packages that are not part of the source."""
    reached, outside = set[str](), set[str]()
    pending = deque(path for path in starts if path in checked.modules)
    while pending:
        path = pending.popleft()
        if path in reached:
            continue
        reached.add(path)
        for name in checked.imports[path]:
            inner = _find_modules(name.lstrip("."), checked.modules)
            pending.extend(inner)
            # `from package import name` also names package.name, which need not be a module.
            if not inner and not name.startswith("."):
                outside.add(name.split(".")[0])
    tops = {part.removesuffix(".py") for path in checked.modules for part in path.split("/")}
    return reached, {name for name in outside if name not in tops and name not in sys.stdlib_module_names}


def _find_modules(name: str, modules: Mapping[str, str]) -> list[str]:
    """Return the modules that an import may refer to. The root of imports is the folder of the program, which may be any folder."""
    if not name:
        return []
    place = name.replace(".", "/")
    ends = (f"{place}.py", f"{place}/__init__.py")
    return [path for path in modules if any(path == end or path.endswith(f"/{end}") for end in ends)]


def find_missing_packages(outside: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the distributions of these top-level names that tasks may use, and "the package NAME" for each other name."""
    distributions = {IMPORT_NAMES.get(package, package): package for package in PACKAGES}
    packages = sorted(distributions[name] for name in outside if name in distributions)
    return packages, [f"the package {name}" for name in sorted(outside) if name not in distributions]
