"""Recordings of calls in a file, and a connection that replays them: the same bytes, without a network.

The file is JSONL: first {"recording": 1, ...fields of the writer}, then one object per call, in the order of the calls.
"""

import base64
import binascii
import json
import os
import tempfile
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from simulation.providers import base, connections, errors, wire

VERSION = 1


class RecordingError(ValueError):
    """An invalid recording; the text names file, line and field."""


@dataclass(frozen=True)
class RecordedCall:
    """One HTTP attempt: the reply as received, or (without a reply) the error. The writer's `key` identifies the call."""

    key: Mapping[str, Any]
    request_sha256: str
    reply: base.Reply | None = None
    error_class: str = ""
    error: str = ""

    def replay(self, endpoint: base.Endpoint) -> base.Completion:
        """Return the completion of the call, parsed again, or raise its error."""
        if self.reply is not None and not self.error_class:
            return connections.parse_reply(endpoint, self.reply)
        wait = wire.parse_retry_after(self.reply.headers) if self.reply else None
        raise errors.build_error(base.ErrorClass(self.error_class), self.error, wait, self.reply)


@dataclass(frozen=True)
class Recording:
    header: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[RecordedCall, ...] = ()

    def select_calls(self, **key: Any) -> tuple[RecordedCall, ...]:
        """Return the calls whose key has these values."""
        return tuple(call for call in self.calls if all(call.key.get(name) == value for name, value in key.items()))


def write_recording(path: Path, header: Mapping[str, Any], calls: Iterable[RecordedCall]) -> int:
    """Write the complete recording or nothing, and return the number of calls. An existing file is replaced."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        try:
            n_calls = 0
            _write_line(file, {"recording": VERSION, **header})
            for call in calls:
                reply = call.reply or base.Reply(0, {}, b"")
                body = base64.b64encode(reply.body).decode()
                sent = {"key": dict(call.key), "request_sha256": call.request_sha256}
                received = {"status": reply.status, "headers": dict(reply.headers), "body": body}
                _write_line(file, {**sent, **received, "error_class": call.error_class, "error": call.error})
                n_calls += 1
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
    return n_calls


def load_recording(path: Path) -> Recording:
    """Return the recording in a file. Raises RecordingError with line and field."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = enumerate(file, start=1)
        header = _parse_object(path, *next(lines, (1, "")))
        if header.pop("recording", None) != VERSION:
            raise RecordingError(f"{path}: line 1: recording: must be {VERSION}")
        calls = tuple(
            _parse_call(path, number, _parse_object(path, number, line)) for number, line in lines if line.strip()
        )
    return Recording(header, calls)


class ReplayConnection:
    """Answers each request with the recorded calls of the same hash, in order, once each."""

    def __init__(self, endpoint: base.Endpoint, calls: Iterable[RecordedCall]) -> None:
        self.endpoint = endpoint
        self._left: defaultdict[str, deque[RecordedCall]] = defaultdict(deque)
        for call in calls:
            self._left[call.request_sha256].append(call)
        self._lock = threading.Lock()

    def prepare_request(self, prompt: base.Prompt, params: base.Params) -> base.WireRequest:
        return connections.prepare_request(self.endpoint, prompt, params)

    def send_request(self, request: base.WireRequest, deadline: float) -> base.Completion:
        """Return the next recorded answer to this request. Raises ProviderRefused(BAD_REQUEST) if none is left."""
        with self._lock:
            left = self._left.get(request.sha256)
            call = left.popleft() if left else None
        if call is None:
            raise base.ProviderRefused(
                base.ErrorClass.BAD_REQUEST, f"not in the recording: request {request.sha256[:12]}"
            )
        return call.replay(self.endpoint)


def _write_line(file: IO[str], value: Mapping[str, Any]) -> None:
    file.write(json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n")


def _parse_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise RecordingError(f"{path}: line {number}: no JSON ({problem})") from None
    if not isinstance(value, dict):
        raise RecordingError(f"{path}: line {number}: must be a JSON object")
    return value


_KIND_NAMES = {dict: "an object", str: "a text", int: "a whole number"}
_KINDS: Mapping[str, type] = {
    "key": dict, "request_sha256": str, "status": int, "headers": dict, "body": str, "error_class": str, "error": str,
}  # fmt: skip


def _parse_call(path: Path, number: int, row: dict[str, Any]) -> RecordedCall:
    location = f"{path}: line {number}"
    for name, kind in _KINDS.items():
        if not isinstance(row.get(name), kind) or isinstance(row[name], bool):
            raise RecordingError(f"{location}: {name}: must be {_KIND_NAMES[kind]}")
    if row["error_class"] not in {"", *base.ErrorClass}:
        raise RecordingError(f"{location}: error_class: must be empty or one of {', '.join(base.ErrorClass)}")
    if not row["status"] and not row["error_class"]:
        raise RecordingError(f"{location}: status: must not be 0 if error_class is empty")
    if not all(isinstance(value, str) for value in row["headers"].values()):
        raise RecordingError(f"{location}: headers: every value must be a text")
    try:
        body = base64.b64decode(row["body"], validate=True)
    except (binascii.Error, ValueError):
        raise RecordingError(f"{location}: body: must be base64") from None
    reply = base.Reply(row["status"], row["headers"], body) if row["status"] else None
    return RecordedCall(row["key"], row["request_sha256"], reply, row["error_class"], row["error"])
