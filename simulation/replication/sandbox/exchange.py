"""The host's side of one sandbox: sends the inputs, reads frames, watches the limits, and ends it in time."""

import os
import selectors
import time
from collections.abc import Callable
from threading import Event
from typing import IO, NamedTuple

from simulation.replication.sandbox.base import Limits, SandboxFault, SandboxResult
from simulation.replication.sandbox.frames import ExitStatus, Frame, FrameError, FrameReader, parse_exit
from simulation.replication.trees import MAX_FILES, MAX_TREE_BYTES, take_files

WATCH_SECONDS = 0.05
START_SECONDS = 30  # until the supervisor is ready; a loaded machine needs 0.3 s
# The supervisor stops the command at its limit and then returns the files. It has this long before the host ends it.
GRACE_SECONDS = 5
MAX_OUTPUT_BYTES = 64 * 2**20
MAX_RESULT_BYTES = 256 * 1024
_MAX_NAMES = 60


class Streams(NamedTuple):
    """The three streams of a started backend."""

    requests: IO[bytes]
    frames: IO[bytes]
    errors: IO[bytes]


class Watch(NamedTuple):
    """One measurement of a sandbox: a reason of STOPPED_BY to end it, or "", and its resident memory."""

    reason: str
    resident_mib: int


class Output:
    """Head and tail of an output."""

    def __init__(self, limit: int) -> None:
        self.length = 0
        self._head, self._tail, self._half = bytearray(), bytearray(), limit // 2

    def add(self, data: bytes) -> None:
        self.length += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

    def get_text(self) -> str:
        """Return head and tail as text, with the number of bytes between them that were left out."""
        tail = self._tail[-self._half :]
        left_out = self.length - len(self._head) - len(tail)
        between = f"\n[... {left_out} bytes left out ...]\n" if left_out else ""
        if not left_out:
            return (self._head + tail).decode(errors="replace")
        return self._head.decode(errors="replace") + between + tail.decode(errors="replace")


class Exchange:
    """One sandbox from its start to its end.

    `attach` is called once, when the supervisor is ready and waits; it returns the function that watches the sandbox, or None.
    `end` ends every process of the sandbox. The backend provides both. Another thread may set `stop`.
    """

    def __init__(
        self,
        streams: Streams,
        request: bytes,
        limits: Limits,
        attach: Callable[[], Callable[[], Watch] | None],
        end: Callable[[], None],
        stop: Event | None = None,
    ) -> None:
        self._streams, self._request, self._limits = streams, memoryview(request), limits
        self._attach, self._end, self._stop = attach, end, stop
        self._watch: Callable[[], Watch] | None = None
        self._reader, self._output = FrameReader(), Output(limits.output_kib * 1024)
        self._errors, self._result = bytearray(), bytearray()
        self._entries: list[tuple[str, bytes]] = []
        self._left_out: list[str] = []
        self._started = time.monotonic()
        self._begun: float | None = None
        self._exited: float | None = None
        self._status: ExitStatus | None = None
        self._resident, self._size = 0, 0
        self._killed, self._is_ready, self._ended = "", False, False

    def run(self) -> SandboxResult:
        """Return what the command did. Raises SandboxFault if it was never started."""
        with selectors.DefaultSelector() as selector:
            for stream in (self._streams.frames, self._streams.errors):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ)
            os.set_blocking(self._streams.requests.fileno(), False)
            self._follow(selector)
        if self._begun is None and self._killed != "stop":
            detail = self._errors.decode(errors="replace").strip()[-1000:]
            raise SandboxFault(f"the sandbox did not start: {detail or 'no message'}")
        return self._conclude()

    def _follow(self, selector: selectors.BaseSelector) -> None:
        next_watch = 0.0
        while not self._killed:
            for key, _ in selector.select(WATCH_SECONDS):
                if key.fileobj is self._streams.requests:
                    self._send(selector)
                elif key.fileobj is self._streams.errors:
                    self._read_errors(selector)
                elif not self._read_frames(selector):
                    return
            now = time.monotonic()
            if now >= next_watch and self._watch and self._status is None:
                watch = self._watch()
                self._resident = max(self._resident, watch.resident_mib)
                self._killed = self._killed or watch.reason
                next_watch = now + WATCH_SECONDS
            self._check_time(now)
        self._end()

    def _check_time(self, now: float) -> None:
        if self._stop is not None and self._stop.is_set():
            self._killed = self._killed or "stop"
        elif self._begun is not None and now > self._begun + self._limits.seconds + GRACE_SECONDS:
            self._killed = self._killed or ("wall" if self._status is None else "supervisor")
        elif self._begun is None and now > self._started + START_SECONDS:
            self._killed = "supervisor"

    def _send(self, selector: selectors.BaseSelector) -> None:
        try:
            sent = os.write(self._streams.requests.fileno(), self._request[: 2**20])
        except BrokenPipeError:
            sent = len(self._request)
        self._request = self._request[sent:]
        if not self._request:
            selector.unregister(self._streams.requests)

    def _read_errors(self, selector: selectors.BaseSelector) -> None:
        data = os.read(self._streams.errors.fileno(), 65536)
        if not data:
            selector.unregister(self._streams.errors)
        self._errors = (self._errors + data)[-8192:]

    def _read_frames(self, selector: selectors.BaseSelector) -> bool:
        """Handle what has arrived; return whether more can come."""
        data = os.read(self._streams.frames.fileno(), 2**20)
        try:
            for frame in self._reader.feed(data):
                self._handle(frame, selector)
        except FrameError:
            self._killed = self._killed or "supervisor"
        return bool(data)

    def _handle(self, frame: Frame, selector: selectors.BaseSelector) -> None:
        # R, then B, then the others. Frames before B are the supervisor's own: the command has not started yet.
        expected = b"R" if not self._is_ready else b"B" if self._begun is None else b"ODXFNE"
        if self._ended or frame.kind not in expected:
            raise FrameError(f"a frame {frame.kind!r} at the wrong time")
        match frame.kind:
            case b"R":
                self._is_ready = True
                self._watch = self._attach()
                selector.register(self._streams.requests, selectors.EVENT_WRITE)
            case b"B":
                self._begun = time.monotonic()
            case b"O":
                self._output.add(frame.data)
                if self._output.length > MAX_OUTPUT_BYTES:
                    self._killed = self._killed or "output"
            case b"D":
                self._result += frame.data[: MAX_RESULT_BYTES - len(self._result)]
            case b"X":
                self._status, self._exited = parse_exit(frame.data), time.monotonic()
            case b"F":
                self._entries.append((frame.name.decode(errors="surrogateescape"), frame.data))
                self._size += len(frame.data)
                if len(self._entries) > MAX_FILES or self._size > MAX_TREE_BYTES:
                    raise FrameError("too many files")
            case b"N":
                name = frame.name.decode(errors="surrogateescape")
                self._left_out.append(f"{name!r}: {frame.data.decode(errors='replace')}")
                if len(self._left_out) > _MAX_NAMES:
                    raise FrameError("too many names")
            case b"E":
                self._ended = True

    def _conclude(self) -> SandboxResult:
        ended = self._exited or time.monotonic()
        whole = self._ended and self._status is not None and self._reader.is_empty and not self._killed
        killed = self._killed or ("" if whole else "supervisor")
        taken = take_files(self._entries) if whole else None
        status = self._status or ExitStatus(None, 0.0, 0)
        if whole and status.exit is None:
            killed = "wall"
        return SandboxResult(
            exit=status.exit if not killed else None,
            seconds=round(ended - (self._begun or ended), 4),
            cpu=status.cpu,
            resident_mib=max(self._resident, status.resident_mib),
            output=self._output.get_text(),
            output_bytes=self._output.length,
            killed=killed,
            files=taken.files if taken else None,
            left_out=(*self._left_out, *taken.left_out)[:50] if taken else (),
            result=bytes(self._result),
        )
