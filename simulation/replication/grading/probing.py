"""Probe functions one by one: call them with arguments recorded from the reference code, and compare what they return.

A probe is information, not a criterion. It shows errors of two functions that cancel each other, and correct functions that depend on a wrong one.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from simulation.lab.errors import LabError
from simulation.replication.comparing import MAX_MAGNITUDE
from simulation.replication.grading.extracting import (
    Extraction,
    build_checkout,
    describe_end,
    find_own_packages,
    read_scripts,
    run_script,
)
from simulation.replication.grading.work import GradingWork
from simulation.replication.sandbox.base import Limits, Sandbox
from simulation.replication.tasks.task_files import hash_task
from simulation.replication.trees import Files, hash_tree
from simulation.replication.values import BASE_VARIANT, Task
from wetbench_site.text import parse_json

# Relative to the largest number of a list, so that values near zero in a signal do not count for more than its peak.
PROBE_REL, PROBE_ABS = 1e-3, 1e-9
MAX_CALLS = 5
MAX_KEPT_RECORDINGS = 32


class RecordingError(LabError):
    """The reference code could not be recorded. It is never the fault of an agent."""


class RecordedCall(NamedTuple):
    """Arguments as `encode_argument` writes them, and what the reference returned, which never enters a sandbox of an agent's code."""

    arguments: Any
    result: Any


class RecordedFunction(NamedTuple):
    """The recorded calls of a function; `left_out` is the reason why others, or all, could not be recorded."""

    calls: tuple[RecordedCall, ...]
    left_out: str = ""


class ProbedFunction(NamedTuple):
    """How many of the recorded calls returned what the reference returns. `note` names errors, or why nothing was recorded."""

    matched: int
    calls: int
    note: str = ""


@dataclass(frozen=True)
class Probes:
    """The probes of the hidden functions, by id. `problem` is the reason if there are none."""

    functions: Mapping[str, ProbedFunction] = field(default_factory=dict)
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"functions": {name: entry._asdict() for name, entry in self.functions.items()}, "problem": self.problem}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Probes":
        return cls({name: ProbedFunction(**entry) for name, entry in data["functions"].items()}, data["problem"])


Recording = Mapping[str, RecordedFunction]  # by function id
_recordings: OrderedDict[tuple[str, str, str], Recording] = OrderedDict()
_lock = Lock()


def record_calls(task: Task, base_data: Files, sandbox: Sandbox, profile: str = "full") -> Recording:
    """Return the first calls of each function of a task, recorded while the reference code ran on the base data.

    The result is kept for the process, because many episodes of a task are graded one after the other. Raises RecordingError and SandboxFault.
    """
    key = (hash_task(task), hash_tree(base_data), profile)
    with _lock:
        if key in _recordings:
            _recordings.move_to_end(key)
            return _recordings[key]
    recording = _record(task, base_data, sandbox, profile)
    with _lock:
        _recordings[key] = recording
        while len(_recordings) > MAX_KEPT_RECORDINGS:
            _recordings.popitem(last=False)
    return recording


def _record(task: Task, base_data: Files, sandbox: Sandbox, profile: str) -> Recording:
    request = {
        "functions": [_describe_function(task, function.id) for function in task.functions],
        "own": [*find_own_packages(task), "experiments"],
        "cases": [case.id for case in task.test_cases],
    }
    files = _place_files(task.code, base_data)
    limits = Limits(seconds=task.seconds * len(task.test_cases) + 10)
    environment = task.profiles.get(profile, {})
    result = run_script("record", files, _build_inputs(request), sandbox, limits, task.packages, environment)
    content = (result.files or {}).get("recording.json")
    if result.exit != 0 or content is None:
        raise RecordingError(
            f"the calls of {task.slug} could not be recorded: {describe_end(result)} {result.output[-500:]}"
        )
    data = json.loads(content)
    return {
        function.id: RecordedFunction(
            tuple(RecordedCall(*call) for call in data[function.id]["calls"]), data[function.id]["left_out"]
        )
        for function in task.functions
    }


def probe(work: GradingWork, extraction: Extraction, sandbox: Sandbox, recording: Recording | None = None) -> Probes:
    """Call the extracted functions with recorded arguments in a sandbox, and compare what they return outside it.

    Arguments may contain what other hidden functions of the reference returned. They come in after every criterion was measured, and nothing
    that this sandbox returns changes an outcome. Raises SandboxFault and GradingStopped.
    """
    task, base_data = work.task, work.data[BASE_VARIANT]
    try:
        recorded = record_calls(task, base_data, sandbox, work.profile) if recording is None else recording
    except RecordingError as error:
        return Probes(problem=str(error)[:500])
    chosen = {name: recorded[name] for name in work.function_ids if name in recorded}
    request = {
        "functions": [
            {**_describe_function(task, name), "calls": [call.arguments for call in entry.calls[:MAX_CALLS]]}
            for name, entry in chosen.items()
        ]
    }
    files = _place_files(build_checkout(task, work.function_ids, extraction), base_data)
    limits = Limits(seconds=task.seconds + 10)
    environment = task.profiles.get(work.profile, {})
    result = run_script("replay", files, _build_inputs(request), sandbox, limits, task.packages, environment)
    answers = _read_lines(result.result)
    return Probes({name: _compare_calls(name, entry, answers) for name, entry in chosen.items()})


def _describe_function(task: Task, function_id: str) -> dict[str, str]:
    function = task.get_function(function_id)
    module = function.path.removeprefix("code/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return {"id": function.id, "module": module, "name": function.name}


def _place_files(code: Mapping[str, str], base_data: Files) -> dict[str, bytes]:
    files = {path: text.encode() for path, text in code.items()}
    return files | {f"data/{name}": content for name, content in base_data.items()}


def _build_inputs(request: Mapping[str, Any]) -> dict[str, bytes]:
    return {**read_scripts(), "request.json": json.dumps(request).encode()}


def _read_lines(content: bytes) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Return the answers by function and call. They are hostile; the first for each call counts."""
    answers: dict[tuple[str, int], Mapping[str, Any]] = {}
    for line in content.split(b"\n"):
        try:
            data = parse_json(line.decode())
            answers.setdefault((str(data["function"]), int(data["call"])), data)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return answers


def _compare_calls(
    name: str, recorded: RecordedFunction, answers: Mapping[tuple[str, int], Mapping[str, Any]]
) -> ProbedFunction:
    calls = recorded.calls[:MAX_CALLS]
    if not calls:
        return ProbedFunction(0, 0, recorded.left_out or "is not called")
    matched, notes = 0, set[str]()
    for index, call in enumerate(calls):
        answer = answers.get((name, index), {})
        if "result" in answer:
            matched += is_same_result(call.result, answer["result"])
        else:
            notes.add(str(answer.get("error", "no answer"))[:100])
    return ProbedFunction(matched, len(calls), ", ".join(sorted(notes)))


def is_same_result(gold: Any, value: Any) -> bool:
    """Return whether two results of `describe_result` are equal: numbers within 0.1 %, in an array of its largest number; all else exactly.

    A list may stand for an array, and an array for a list.
    """
    if isinstance(gold, dict) and "array" in gold:
        scale = max((abs(number) for number in gold["array"] if _is_number(number)), default=0.0)
        return _are_same_elements(gold["array"], value, scale)
    if isinstance(gold, list):
        return _are_same_elements(gold, value, 0.0)
    if isinstance(gold, dict):
        same_keys = isinstance(value, dict) and gold.keys() == value.keys()
        return same_keys and all(is_same_result(gold[key], value[key]) for key in gold)
    return _is_same_element(gold, value, 0.0)


def _are_same_elements(golds: list[Any], value: Any, scale: float) -> bool:
    values = value.get("array") if isinstance(value, dict) else value
    if not isinstance(values, list) or len(values) != len(golds):
        return False
    return all(_is_same_element(gold, element, scale) for gold, element in zip(golds, values, strict=True))


def _is_same_element(gold: Any, value: Any, scale: float) -> bool:
    if _is_number(gold) and _is_number(value):
        return bool(abs(gold - value) <= max(PROBE_ABS, PROBE_REL * max(scale, abs(gold))))
    if isinstance(gold, list | dict):
        return is_same_result(gold, value)
    return type(gold) is type(value) and bool(gold == value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_MAGNITUDE
