"""Run test cases, each in a process of its own, and write one line of JSON for each to the descriptor RESULT_FD.

/input/job.json: {"trees": [{path: text}, ...], "runs": [[tree, variant, case], ...], "imports": [names], "seconds": 20, "trace": false}.
A tree is /input/code with the given texts in place of its own. A line is {"tree", "variant", "case", "reply", "ended", "seconds"}: the reply is the
text that the process wrote, which only the reader of these lines parses; or it is null, and "ended" is the reason.
"""

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

INPUT, SCRATCH = Path("/input"), Path("/scratch")
MAX_REPLY = 64 * 2**10  # bytes
MAX_TEXT = 500  # characters of an error message


def describe_error(error: BaseException) -> str:
    """Return the message of an exception, or "" if converting it to text fails."""
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:
        return ""


def trace_calls(root: Path) -> dict[str, int]:
    """Count from now on the calls of functions below `root`, by "path:qualified name"."""
    calls: dict[str, int] = {}
    start = f"{root}/"

    def count(frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(start):
            key = f"{code.co_filename[len(start) :]}:{code.co_qualname}"
            calls[key] = calls.get(key, 0) + 1

    sys.setprofile(count)
    return calls


def run_case(root: Path, variant: str, case: str, trace: bool) -> dict[str, Any]:
    """Return the reply of one test case: its values, or its error."""
    from run import convert_value  # type: ignore[import-not-found]

    sys.path.insert(0, str(root))
    calls = trace_calls(root) if trace else {}
    try:
        values = getattr(importlib.import_module("experiments"), case)(INPUT / "data" / variant)
        reply = {"ok": True, "values": convert_value(values)}
    except BaseException as error:
        reply = {"ok": False, "error": type(error).__name__, "text": describe_error(error)}
    finally:
        sys.setprofile(None)
    return {**reply, "calls": calls} if trace else reply


def start_process(root: Path, variant: str, case: str, trace: bool, result: int) -> tuple[int, int]:
    """Start the process of a test case. Return its id and the descriptor that its reply can be read from."""
    end, start = os.pipe()
    child = os.fork()
    if child:
        os.close(start)
        return child, end
    status = 1
    try:
        os.setsid()
        os.close(end)
        os.close(result)
        text = json.dumps(run_case(root, variant, case, trace)).encode()
        sys.stdout.flush()
        while text:
            text = text[os.write(start, text) :]
        status = 0
    except BaseException as error:
        print(f"{case}: no reply: {type(error).__name__} {describe_error(error)}", flush=True)
    finally:
        os._exit(status)


def collect_reply(child: int, end: int, seconds: float) -> tuple[str | None, str]:
    """Return (reply, "") of a process, or (None, why it has none). The process and its group are gone afterwards."""
    deadline = time.monotonic() + seconds
    text, pause, is_open, status = b"", 0.001, True, None
    while status is None and time.monotonic() < deadline and len(text) <= MAX_REPLY:
        if is_open and select.select([end], [], [], 0.05)[0]:
            part = os.read(end, MAX_REPLY)
            text, is_open = text + part, bool(part)
            if part:
                continue
        elif not is_open:
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        pid, wait_status = os.waitpid(child, os.WNOHANG)
        status = wait_status if pid else None
    # What the process started and left behind; the group does not exist yet if the process has only just begun.
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reason = "too long a reply" if len(text) > MAX_REPLY else f"stopped after {seconds:g} s"
        return None, reason
    while is_open and len(text) <= MAX_REPLY and select.select([end], [], [], 0)[0]:
        part = os.read(end, MAX_REPLY)
        text, is_open = text + part, bool(part)
    if os.waitstatus_to_exitcode(status) or not text:
        return None, f"ended with status {os.waitstatus_to_exitcode(status)}"
    return (text.decode("utf-8", "replace"), "") if len(text) <= MAX_REPLY else (None, "too long a reply")


def place_tree(changes: dict[str, str]) -> Path:
    """Return the folder of a tree: /input/code, or a copy with these changes."""
    if not changes:
        return INPUT / "code"
    root = SCRATCH / "tree"
    shutil.rmtree(root, ignore_errors=True)
    for source in (INPUT / "code").rglob("*.py"):
        path = source.relative_to(INPUT)
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(changes.get(path.as_posix(), source.read_text(encoding="utf-8")), encoding="utf-8")
    return root / "code"


def main() -> None:
    job = json.loads((INPUT / "job.json").read_text(encoding="utf-8"))
    result = int(os.environ["RESULT_FD"])
    sys.dont_write_bytecode = True
    # Loaded once, before the processes: every test case would load them again.
    for name in job["imports"]:
        importlib.import_module(name)
    root, current = INPUT / "code", None
    for tree, variant, case in job["runs"]:
        if tree != current:
            root, current = place_tree(job["trees"][tree]), tree
        begin = time.monotonic()
        child, end = start_process(root, str(variant), case, job["trace"], result)
        reply, reason = collect_reply(child, end, job["seconds"])
        os.close(end)
        line = {"tree": tree, "variant": variant, "case": case, "reply": reply, "ended": reason}
        data = json.dumps({**line, "seconds": round(time.monotonic() - begin, 4)}).encode() + b"\n"
        while data:
            data = data[os.write(result, data) :]


if __name__ == "__main__":
    main()
