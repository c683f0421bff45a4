"""What a sandbox is: values in, values out. A sandbox has no folder on the host and nothing to clean up."""

from collections.abc import Mapping, Sequence
from threading import Event
from typing import NamedTuple, Protocol

from simulation.lab.errors import LabError

# Reasons why a command was stopped before its end; "" means that it ended by itself.
STOPPED_BY = ("", "wall", "memory", "disk", "inodes", "output", "supervisor", "stop")
# Paths inside a sandbox.
WORKSPACE, SCRATCH, INPUT, PACKAGES = "/workspace", "/scratch", "/input", "/packages"
RESULT_VARIABLE = "RESULT_FD"  # number of the result descriptor, in sandboxes that have one


class SandboxUnavailable(LabError):  # noqa: N818  # a state of this machine
    """No sandbox can be used here. The message states how to get one. Nothing is ever run without a sandbox."""


class SandboxFault(LabError):  # noqa: N818  # as above
    """The sandbox itself could not start or was killed from outside. It is never the fault of the command in it."""


class Limits(NamedTuple):
    """Limits of one sandbox."""

    seconds: float = 120  # wall clock
    address_mib: int = 2048  # address space of one process
    resident_mib: int = 1536  # resident memory of all processes together
    processes: int = 64
    files: int = 256  # open files of one process
    work_mib: int = 64  # size of /workspace
    tmp_mib: int = 16  # size of /scratch and of /dev/shm, each
    file_mib: int = 32  # largest file
    inodes: int = 20_000
    output_kib: int = 64  # head and tail that are kept of standard output and error


class SandboxResult(NamedTuple):
    """What a command in a sandbox did. Only `seconds` is our own measurement; nothing else in it is trusted."""

    exit: int | None  # None: it was stopped, or no exit status came back
    seconds: float  # wall clock
    cpu: float  # seconds
    resident_mib: int  # largest sum over all processes that was seen
    output: str  # standard output and error, at most Limits.output_kib, head and tail
    output_bytes: int  # length of the whole output
    killed: str  # one of STOPPED_BY
    files: Mapping[str, bytes] | None  # the workspace afterwards, checked; None: nothing usable came back
    left_out: tuple[str, ...]  # what came back and was not accepted, each with its reason
    result: bytes  # what was written to the result descriptor, at most 256 KiB


class Sandbox(Protocol):
    """A backend. `name` is for records: "bubblewrap/root", "bubblewrap/user", "docker" or "podman"."""

    name: str

    def run(
        self,
        command: Sequence[str],
        files: Mapping[str, bytes],
        read_only: Mapping[str, bytes] | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        with_result: bool = False,
        stop: Event | None = None,
    ) -> SandboxResult:
        """Run `command` in /workspace, which holds `files`; `read_only` files are under /input.

        `packages` are the distributions that may be imported, with what they require ("numpy"); none by default.
        `environment` is added to the fixed variables. With `with_result`, the command may write to the descriptor that
        RESULT_FD names. When another thread sets `stop`, the command is killed within a second and `killed` is "stop":
        a person who stops an episode must not wait for it. Raises SandboxFault if the sandbox could not start, was killed from outside, or an input is too large.
        """
        ...
