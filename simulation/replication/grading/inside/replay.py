"""Call an agent's functions with recorded arguments, and write what they return to the result descriptor, one line per call.

Input: /input/request.json, the code under /workspace/code, the base data under /workspace/data. The results that the reference
returned are not in this sandbox.
"""

import contextlib
import importlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from simulation.replication.grading.inside.call_values import decode_argument, describe_result, find_object

MAX_LINE_BYTES = 8_000


def replay_call(name: str, encoded: list[Any]) -> dict[str, Any]:
    """Return {"result": ...} or {"error": ...} of one call."""
    try:
        positional, named = decode_argument(encoded)
        with contextlib.redirect_stdout(io.StringIO()):
            result = describe_result(find_object(name)(*positional, **named))
        json.dumps(result, allow_nan=False)
        return {"result": result}
    except BaseException as error:
        return {"error": type(error).__name__[:100]}


def main() -> None:
    request = json.loads(Path("/input/request.json").read_text("utf-8"))
    sys.path.insert(0, "/workspace/code")
    with contextlib.suppress(BaseException):
        importlib.import_module("experiments")
    number = int(os.environ["RESULT_FD"])
    for function in request["functions"]:
        for index, encoded in enumerate(function["calls"]):
            answer = replay_call(f"{function['module']}:{function['name']}", encoded)
            line = json.dumps({"function": function["id"], "call": index, **answer})
            if len(line) > MAX_LINE_BYTES:
                line = json.dumps({"function": function["id"], "call": index, "error": "the result is too large"})
            data = line.encode() + b"\n"
            while data:
                data = data[os.write(number, data) :]
