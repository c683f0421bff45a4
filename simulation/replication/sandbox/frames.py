"""Frames between the host and the supervisor of a sandbox.

A frame is: kind (1 byte), length of the name (4 bytes, big-endian), length of the data (4 bytes), name, data.

To the supervisor: L limit, A argument of the command, V variable, F file of the workspace,
I file of /input, D "make a result descriptor", G go.
From it: R ready, B begun, O output, D bytes of the result descriptor, X exit status with CPU seconds and MiB, F file,
N name of an entry that is not returned, with the reason, E end. What comes back is hostile: `FrameReader` rejects every other form.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from simulation.replication.sandbox.base import Limits

_HEAD = 9
# Greatest length of name and data of each kind that a supervisor may send.
_RETURNED = {
    b"R": (0, 0),
    b"B": (0, 0),
    b"O": (0, 65536),
    b"D": (0, 65536),
    b"X": (0, 64),
    b"F": (4096, 2**20),
    b"N": (4096, 256),
    b"E": (0, 0),
}
_EXIT = re.compile(rb"(stopped|-?[0-9]{1,3}) ([0-9]{1,9}\.[0-9]{3}) ([0-9]{1,9})")


class FrameError(Exception):
    """The supervisor sent bytes that are not a frame."""


class Frame(NamedTuple):
    """One frame."""

    kind: bytes
    name: bytes
    data: bytes


class ExitStatus(NamedTuple):
    """What the supervisor reports of the command. `exit` is None if it was stopped at its time limit."""

    exit: int | None
    cpu: float  # seconds
    resident_mib: int  # of the largest process


def format_frame(kind: bytes, name: bytes = b"", data: bytes = b"") -> bytes:
    return kind + len(name).to_bytes(4, "big") + len(data).to_bytes(4, "big") + name + data


def format_request(
    command: Sequence[str],
    files: Mapping[str, bytes],
    limits: Limits,
    environment: Mapping[str, str],
    with_result: bool,
    input_files: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return everything that the supervisor reads before it starts the command.

    `input_files` are those of /input in sandboxes whose backend cannot place them there itself.
    """
    numbers = {
        "seconds": limits.seconds,
        "address": limits.address_mib * 2**20,
        "processes": limits.processes,
        "files": limits.files,
        "file": limits.file_mib * 2**20,
    }
    frames = [format_frame(b"L", name.encode(), str(value).encode()) for name, value in numbers.items()]
    frames += [format_frame(b"A", b"", argument.encode(errors="replace")) for argument in command]
    frames += [format_frame(b"V", name.encode(), value.encode(errors="replace")) for name, value in environment.items()]
    frames += [format_frame(b"F", path.encode(), content) for path, content in files.items()]
    frames += [format_frame(b"I", path.encode(), content) for path, content in (input_files or {}).items()]
    if with_result:
        frames.append(format_frame(b"D"))
    return b"".join([*frames, format_frame(b"G")])


def parse_exit(data: bytes) -> ExitStatus:
    """Return the content of an X frame. Raises FrameError."""
    match = _EXIT.fullmatch(data)
    if not match:
        raise FrameError("the exit status is malformed")
    status, cpu, resident = match.groups()
    return ExitStatus(None if status == b"stopped" else int(status), float(cpu), int(resident))


class FrameReader:
    """Splits the bytes that a supervisor sends into frames. At most one frame is held in memory."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add bytes and yield each frame that is complete. Raises FrameError at the first byte that cannot be right."""
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            kind = bytes(self._buffer[:1])
            name_length = int.from_bytes(self._buffer[1:5], "big")
            data_length = int.from_bytes(self._buffer[5:9], "big")
            name_limit, data_limit = _RETURNED.get(kind, (-1, -1))
            if name_length > name_limit or data_length > data_limit:
                raise FrameError(f"no frame begins with {bytes(self._buffer[:_HEAD])!r}")
            end = _HEAD + name_length + data_length
            if len(self._buffer) < end:
                return
            frame = Frame(
                kind, bytes(self._buffer[_HEAD : _HEAD + name_length]), bytes(self._buffer[_HEAD + name_length : end])
            )
            del self._buffer[:end]
            yield frame

    @property
    def is_empty(self) -> bool:
        return not self._buffer
