"""Record the arguments and results of the first calls of each function, while the reference code runs.

Runs in a sandbox of its own, without any code of an agent. Input: /input/request.json, the reference code and the base data under
/workspace. Output: recording.json in /workspace, as {function id: {"calls": [[arguments, result], ...], "left_out": reason}}.
"""

import functools
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulation.replication.grading.inside.call_values import NotRecordableError, describe_result, encode_argument

WORKSPACE = Path("/workspace")
MAX_CALLS, MAX_CALL_BYTES, MAX_RESULT_BYTES = 5, 100_000, 6_000


class CallRecorder:
    """Records the first calls of one function."""

    def __init__(self, function: Callable[..., Any], own: list[str]) -> None:
        self.function, self.own = function, own
        self.calls: list[list[Any]] = []
        self.left_out = ""

    def wrap(self) -> Callable[..., Any]:
        @functools.wraps(self.function)
        def call_and_record(*arguments: Any, **named: Any) -> Any:
            if len(self.calls) >= MAX_CALLS:
                return self.function(*arguments, **named)
            encoded = self.encode(arguments, named)  # before the call, which may change its arguments
            result = self.function(*arguments, **named)
            if encoded is not None:
                self.keep(encoded, result)
            return result

        return call_and_record

    def encode(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        try:
            encoded = encode_argument([list(arguments), named], self.own)
        except NotRecordableError as error:
            self.left_out = f"an argument is {error}"
            return None
        if len(json.dumps(encoded)) > MAX_CALL_BYTES:
            self.left_out = "the arguments are too large"
            return None
        return encoded

    def keep(self, encoded: list[Any], result: Any) -> None:
        described = describe_result(result)
        if len(json.dumps(described)) > MAX_RESULT_BYTES:
            self.left_out = "the result is too large"
        elif all(encoded != arguments for arguments, _ in self.calls) and len(self.calls) < MAX_CALLS:
            self.calls.append([encoded, described])


def replace_everywhere(original: Any, wrapper: Any, own: list[str]) -> None:
    """Replace a function by its wrapper in every module of the task that imported it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in own:
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, wrapper)


def main() -> None:
    request = json.loads(Path("/input/request.json").read_text("utf-8"))
    own = request["own"]
    sys.path.insert(0, str(WORKSPACE / "code"))
    experiments = importlib.import_module("experiments")
    recorders: dict[str, CallRecorder] = {}
    answer: dict[str, dict[str, Any]] = {}
    for function in request["functions"]:
        *classes, name = function["name"].split(".")
        owner = importlib.import_module(function["module"])
        for class_name in classes:
            owner = getattr(owner, class_name)
        original = vars(owner)[name]
        if not callable(original):
            answer[function["id"]] = {"calls": [], "left_out": "is not a plain function or method"}
            continue
        recorder = recorders[function["id"]] = CallRecorder(original, own)
        wrapper = recorder.wrap()
        if classes:
            setattr(owner, name, wrapper)
        else:
            replace_everywhere(original, wrapper, own)
    for case in request["cases"]:
        getattr(experiments, case)(WORKSPACE / "data")
    for function_id, recorder in recorders.items():
        answer[function_id] = {"calls": recorder.calls, "left_out": recorder.left_out}
    (WORKSPACE / "recording.json").write_text(json.dumps(answer))
