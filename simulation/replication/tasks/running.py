"""Run a task in sandboxes: its generator, and the test cases of a code base on the data of variants."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from simulation.lab.errors import LabError
from simulation.replication.sandbox.base import Limits, Sandbox, SandboxResult
from simulation.replication.trees import Files
from simulation.replication.values import BASE_VARIANT, Task
from wetbench_site.text import UNSTORABLE, is_storable, parse_json, reject_duplicates

SEED_FILE = "seed.txt"  # in the data of a variant of a task that has a seed argument and no generator
INSIDE = Path(__file__).with_name("inside")
# Modules that a run imports once, before its processes start, by distribution. The words are those of code that uses the module; None: always.
_IMPORTS: Mapping[str, Mapping[str, str | None]] = {
    "numpy": {
        "numpy": None,
        "numpy.ma": "ma|median|nanmedian",
        "numpy.polynomial": "polynomial",
        "numpy.random": "random",
    },
    "scipy": {"scipy.optimize": "optimize", "scipy.special": "special"},
    "scikit-learn": {"sklearn.linear_model": "linear_model", "sklearn.metrics": "metrics"},
}
_STANDARD = ("csv", "dataclasses", "functools", "itertools", "json", "math", "pathlib", "statistics", "typing")
_START_SECONDS = 10  # at most, to start a sandbox with its Python and the imports
_MAX_ERROR = 500  # characters
# Names of errors that are not Python exceptions.
NO_REPLY, BAD_REPLY, NOT_RUN = "no reply", "bad reply", "not run"


class TaskRunError(LabError):
    """A task's own generator failed, or wrote files that cannot be used. It is never the fault of an agent."""


@dataclass(frozen=True)
class CaseOutcome:
    """What a test case returned on one variant: values as the driver returned them (names are texts; values are not checked), or an error."""

    variant: int
    case: str
    values: Mapping[str, Any] | None
    error: str = ""  # class of the exception, or NO_REPLY, BAD_REPLY, NOT_RUN
    text: str = ""  # message, at most 500 characters
    seconds: float = field(default=0.0, compare=False)  # as the driver measured it, which hostile code may change


@dataclass(frozen=True)
class CaseReport:
    """The outcomes of one code base, one for each pair of variant and test case, in the order of the request.

    `tampered` are the signs that the code wrote to the result descriptor itself or ended the driver. `killed` is what stopped the
    sandbox, one of `STOPPED_BY`.
    """

    outcomes: tuple[CaseOutcome, ...]
    tampered: tuple[str, ...] = ()
    killed: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    resident_mib: int = 0
    output: str = ""

    def get(self, variant: int, case: str) -> CaseOutcome:
        """Return the outcome of a test case on a variant. Raises KeyError."""
        return {(outcome.variant, outcome.case): outcome for outcome in self.outcomes}[variant, case]

    def get_values(self, variant: int) -> dict[str, Mapping[str, Any] | None]:
        """Return the values of every test case on a variant; None for one that failed."""
        return {outcome.case: outcome.values for outcome in self.outcomes if outcome.variant == variant}


class Run(NamedTuple):
    """One test case of one of several code trees on one variant."""

    tree: int
    variant: int
    case: str


@cache
def read_script(name: str) -> bytes:
    """Return the text of a script that runs inside sandboxes."""
    return (INSIDE / name).read_bytes()


def generate_data(task: Task, number: int, sandbox: Sandbox) -> dict[str, bytes]:
    """Return the data files of a variant by name. Number 0 is the public one. Raises TaskRunError and SandboxFault."""
    return generate_variants(task, [number], sandbox)[number]


def generate_variants(task: Task, numbers: Sequence[int], sandbox: Sandbox) -> dict[int, dict[str, bytes]]:
    """Return the data files of several variants, generated in one sandbox. Raises TaskRunError and SandboxFault.

    Without a generator, no sandbox is needed: see `Task`.
    """
    if not task.generator:
        return {number: _copy_base_data(task, number) for number in numbers}
    scripts = {"generate.py": task.generator.encode(), "generate_variants.py": read_script("generate_variants.py")}
    command = ["python3", "/input/generate_variants.py", *map(str, numbers)]
    limits = Limits(seconds=min(600, task.seconds * len(numbers) + _START_SECONDS))
    result = sandbox.run(command, {}, scripts, limits, task.packages)
    if result.exit != 0 or result.files is None or result.left_out:
        reason = result.killed or "; ".join(result.left_out) or result.output[-1000:] or f"exit status {result.exit}"
        raise TaskRunError(f"{task.slug}: generate.py failed for {', '.join(map(str, numbers))}: {reason}")
    folders: dict[str, dict[str, bytes]] = {str(number): {} for number in numbers}
    for path, content in result.files.items():
        folder, _, name = path.partition("/")
        if name and folder in folders:
            folders[folder][name] = content
    data = {number: folders[str(number)] for number in numbers}
    if empty := [number for number in numbers if not data[number]]:
        raise TaskRunError(f"{task.slug}: generate.py wrote no file for {', '.join(map(str, empty))}")
    return data


def _copy_base_data(task: Task, number: int) -> dict[str, bytes]:
    """Return the data of a variant of a task without a generator. Raises TaskRunError if it has no such variant."""
    data = {path: base64.b64decode(content) for path, content in task.data.items()}
    if number == BASE_VARIANT:
        return data
    if not task.seed_argument:
        raise TaskRunError(f"{task.slug}: has neither a generator nor a seed argument, so it has only its public data")
    return {**data, SEED_FILE: f"{number}\n".encode()}


def run_cases(
    task: Task,
    code: Mapping[str, str],
    variants: Mapping[int, Files],
    sandbox: Sandbox,
    profile: str = "full",
    cases: Sequence[str] | None = None,
    stop: Event | None = None,
) -> CaseReport:
    """Return what the test cases return with this code on the data of each variant, run in one sandbox.

    `code` maps "code/..." to text and may be hostile: it is read-only in the sandbox, each test case runs in a process of its own, and at most
    `task.seconds`. All test cases of the task run by default. Another thread may set `stop` to end the sandbox. Raises SandboxFault.
    """
    chosen = [case.id for case in task.test_cases] if cases is None else list(cases)
    runs = [Run(0, variant, case) for variant in variants for case in chosen]
    # A test case that does not end may use up its own time on every variant, but not the time of the others.
    seconds = task.seconds * max(len(task.test_cases), len(variants)) + _START_SECONDS
    replies = _Job(task, code, runs, variants, profile, task.seconds, seconds).run(sandbox, stop)
    result, tampered = replies.result, replies.tampered
    outcomes = tuple(_read_outcome(run, replies.get(run)) for run in runs)
    missing = [run for run in runs if run not in replies.by_run]
    if (missing or result.exit != 0) and not result.killed:
        # The code runs as the driver's user, so it could write every line itself and then end the driver.
        tampered = [*tampered, f"the driver was ended: {len(missing)} of {len(runs)} results are missing"]
    measured = (result.killed, result.seconds, result.cpu, result.resident_mib, result.output)
    return CaseReport(outcomes, tuple(tampered), *measured)


def run_trees(
    task: Task,
    trees: Sequence[Mapping[str, str]],
    runs: Sequence[Run],
    variants: Mapping[int, Files],
    sandbox: Sandbox,
    profile: str = "full",
    seconds: float | None = None,
) -> dict[Run, CaseOutcome]:
    """Return the outcome of each run of several trees, in one sandbox. For trusted code only: the trees share a sandbox.

    A tree maps paths to texts that replace those of the task's code. `seconds` is the limit of one run.
    """
    limit = task.seconds if seconds is None else seconds
    total = min(600, limit * len(runs) + _START_SECONDS)
    ordered = sorted(runs, key=lambda run: run.tree)
    replies = _Job(task, task.code, ordered, variants, profile, limit, total, trees).run(sandbox)
    return {run: _read_outcome(run, replies.get(run)) for run in runs}


def trace_runs(task: Task, data: Files, sandbox: Sandbox, profile: str = "full") -> dict[str, dict[str, int]]:
    """Return for each test case how often each function of the code is called, by "module.py:qualified name", with base data.

    Raises TaskRunError if a test case fails.
    """
    runs = [Run(0, 0, case.id) for case in task.test_cases]
    total = task.seconds * len(runs) * 2 + _START_SECONDS  # tracing takes up to twice the time
    replies = _Job(task, task.code, runs, {0: data}, profile, task.seconds * 2, total, trace=True).run(sandbox)
    calls = {}
    for run in runs:
        reply = replies.get(run)
        outcome = _read_outcome(run, reply)
        if outcome.values is None or reply.text is None:
            raise TaskRunError(f"{task.slug}: {run.case} failed while it was traced: {outcome.error} {outcome.text}")
        calls[run.case] = {str(name): int(count) for name, count in parse_json(reply.text)["calls"].items()}
    return calls


def _choose_imports(packages: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return the modules that processes with this code are likely to import. A wrong choice costs time only."""
    words = set[str]().union(*(re.findall(r"\w+", text) for text in texts))
    parts = [entry for package in packages for entry in _IMPORTS.get(package, {}).items()]
    return [*_STANDARD, *(name for name, users in parts if users is None or words.intersection(users.split("|")))]


class _Reply(NamedTuple):
    text: str | None  # JSON of the process, unchecked
    ended: str  # why there is none
    error: str = NO_REPLY  # the kind of outcome if there is none
    seconds: float = 0.0


class _Replies(NamedTuple):
    """What a sandbox with test cases returned: the reply of each run, and the lines that the driver cannot have written."""

    result: SandboxResult
    by_run: dict[Run, _Reply]
    tampered: list[str]

    def get(self, run: Run) -> _Reply:
        """Return the reply of a run, or the reason why there is none."""
        if reply := self.by_run.get(run):
            return reply
        killed = self.result.killed
        return _Reply(None, f"the sandbox was stopped: {killed}" if killed else "the driver was ended", NOT_RUN)


@dataclass(frozen=True)
class _Job:
    """Test cases that one sandbox runs. Each tree has texts by path that replace those of `code`; runs name trees by position."""

    task: Task
    code: Mapping[str, str]
    runs: Sequence[Run]
    variants: Mapping[int, Files]
    profile: str
    seconds: float  # limit of one run
    total: float  # seconds of all runs
    trees: Sequence[Mapping[str, str]] = ({},)
    trace: bool = False

    def run(self, sandbox: Sandbox, stop: Event | None = None) -> _Replies:
        """Run the test cases. Raises SandboxFault."""
        # Inside, a variant is known by its position: from its number and the generator, anyone could compute its gold values.
        positions = {variant: position for position, variant in enumerate(self.variants)}
        request = {
            "trees": [dict(tree) for tree in self.trees],
            "runs": [[run.tree, positions[run.variant], run.case] for run in self.runs],
            "imports": _choose_imports(self.task.packages, self.code.values()),
            "seconds": self.seconds,
            "trace": self.trace,
        }
        files = {
            "measure.py": read_script("measure.py"),
            "run.py": read_script("run.py"),
            "job.json": json.dumps(request).encode(),
        }
        files |= {path: text.encode(errors="surrogatepass") for path, text in self.code.items()}
        files |= {
            f"data/{positions[variant]}/{name}": content
            for variant, data in self.variants.items()
            for name, content in data.items()
        }
        result = sandbox.run(
            ["python3", "/input/measure.py"],
            {},
            files,
            Limits(seconds=self.total),
            self.task.packages,
            dict(self.task.profiles.get(self.profile, {})),
            with_result=True,
            stop=stop,
        )
        return self._read_lines(result)

    def _read_lines(self, result: SandboxResult) -> _Replies:
        expected, numbers = set(self.runs), dict(enumerate(self.variants))
        replies: dict[Run, _Reply] = {}
        tampered: list[str] = []
        lines = result.result.split(b"\n")
        if lines.pop() and not result.killed:
            tampered.append("the last line of the results is not complete")
        for line in lines:
            try:
                data = parse_json(line.decode())
                run = Run(data["tree"], numbers[data["variant"]], data["case"])
                reply = _Reply(data["reply"], data["ended"], seconds=data["seconds"])
                types = (type(reply.text), type(reply.ended), type(reply.seconds))
                is_valid = run in expected and types in ((str, str, float), (type(None), str, float))
            except (ValueError, KeyError, TypeError, RecursionError):
                is_valid = False
            if not is_valid or run in replies:
                tampered.append(f"a line that the driver did not write: {line[:200].decode(errors='replace')!r}")
            else:
                replies[run] = reply
        return _Replies(result, replies, tampered[:20])


def _read_outcome(run: Run, reply: _Reply) -> CaseOutcome:
    """Return the outcome in a reply, which is hostile text."""
    values, error, text = None, reply.error, reply.ended
    if reply.text is not None:
        error, text = BAD_REPLY, "a test case returns a dict of results by name"
        try:
            # NaN and infinities are accepted here; the comparison reports them with the name of the metric.
            data = json.loads(reply.text, parse_constant=float, object_pairs_hook=reject_duplicates)
            if data["ok"] is True and isinstance(data["values"], dict) and all(map(is_storable, data["values"])):
                values, error, text = data["values"], "", ""
            elif data["ok"] is False:
                error, text = data["error"], data["text"]
        except (ValueError, KeyError, TypeError, RecursionError):
            text = "the reply is not JSON of the expected form"
    return CaseOutcome(run.variant, run.case, values, _clean(error), _clean(text), reply.seconds)


def _clean(text: Any) -> str:
    return UNSTORABLE.sub("\ufffd", str(text)[:_MAX_ERROR])
