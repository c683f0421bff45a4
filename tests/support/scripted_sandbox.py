"""A sandbox for tests that runs nothing: it returns what the test prepared. It is never used where untrusted code would run."""

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

from simulation.replication.sandbox.base import Limits, SandboxResult


def build_result(output: str = "fine", **fields: Any) -> SandboxResult:
    values: dict[str, Any] = {
        "exit": 0, "seconds": 0.5, "cpu": 0.1, "resident_mib": 20, "output": output, "output_bytes": len(output),
        "killed": "", "files": None, "left_out": (), "result": b"",
    }  # fmt: skip
    return SandboxResult(**{**values, **fields})


class ScriptedSandbox:
    """Calls `act` instead of running a command, and keeps the limits that it was given."""

    name = "scripted"

    def __init__(self, act: Callable[[Event], SandboxResult]) -> None:
        self.act, self.limits = act, list[Limits]()

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
        self.limits.append(limits)
        return self.act(stop or Event())
