"""Choose the sandbox of this machine."""

import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from simulation.replication.sandbox.base import Sandbox, SandboxUnavailable
from simulation.replication.sandbox.bubblewrap import BubblewrapSandbox
from simulation.replication.sandbox.containers import ContainerSandbox
from simulation.replication.sandbox.inputs import Ceiling
from simulation.replication.sandbox.self_test import run_self_test

MODES = ("auto", "bubblewrap", "docker", "podman", "off")
HOW_TO_INSTALL = "install bubblewrap 0.8 or later (apt-get install bubblewrap); docs/sandbox.md lists what it needs"


class SandboxSettings(NamedTuple):
    """How this machine runs sandboxes. The variables of the environment are described in docs/operations.md."""

    mode: str = "auto"  # one of MODES
    program: str = "bwrap"  # WETBENCH_BWRAP
    image: str = ""  # of containers
    cgroup: str = ""  # folder of a delegated control group
    ceiling: Ceiling = Ceiling()
    slots: int = min(4, os.cpu_count() or 1)  # sandboxes at once

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "SandboxSettings":
        """Return the settings of WETBENCH_SANDBOX and its companion variables. Raises SandboxUnavailable for a malformed number."""
        usual = cls()
        try:
            return cls(
                environ.get("WETBENCH_SANDBOX") or usual.mode,
                environ.get("WETBENCH_BWRAP") or usual.program,
                environ.get("WETBENCH_SANDBOX_IMAGE", ""),
                environ.get("WETBENCH_SANDBOX_CGROUP", ""),
                Ceiling(
                    float(environ.get("WETBENCH_SANDBOX_SECONDS") or usual.ceiling.seconds),
                    int(environ.get("WETBENCH_SANDBOX_MEMORY_MB") or usual.ceiling.resident_mib),
                ),
                int(environ.get("WETBENCH_SANDBOXES") or usual.slots),
            )
        except ValueError as error:
            raise SandboxUnavailable(f"a WETBENCH_SANDBOX variable is not a number: {error}") from error


def build_sandbox(settings: SandboxSettings) -> Sandbox:
    """Return the backend that the settings name, untested. Raises SandboxUnavailable, whose message states what to do."""
    if settings.mode == "off":
        raise SandboxUnavailable(
            f"sandboxes are switched off (WETBENCH_SANDBOX=off). To use them, set it to auto and {HOW_TO_INSTALL}"
        )
    if settings.mode not in MODES:
        raise SandboxUnavailable(f"WETBENCH_SANDBOX is {settings.mode!r}; allowed are {', '.join(MODES)}")
    if settings.mode in ("docker", "podman"):
        program = shutil.which(settings.mode)
        if not program or not settings.image:
            raise SandboxUnavailable(f"{settings.mode} needs its program, and an image in WETBENCH_SANDBOX_IMAGE")
        return ContainerSandbox(program, settings.image, settings.ceiling)
    program = shutil.which(settings.program)
    if not program:
        raise SandboxUnavailable(f"{settings.program} was not found; {HOW_TO_INSTALL}")
    if settings.cgroup and not Path(settings.cgroup, "cgroup.procs").is_file():
        raise SandboxUnavailable(f"WETBENCH_SANDBOX_CGROUP is {settings.cgroup!r}, which is not a control group")
    return BubblewrapSandbox(program, settings.ceiling, settings.cgroup)


def open_sandbox(settings: SandboxSettings | None = None) -> Sandbox:
    """Return the sandbox of this machine, after its self-test has passed once in this process.

    Raises SandboxUnavailable, whose message states what to do. Nothing is ever run without a sandbox.
    """
    return _open_tested(settings or SandboxSettings.from_environment())


@functools.cache
def _open_tested(settings: SandboxSettings) -> Sandbox:
    # An exception is not cached: the next call tests again.
    sandbox = build_sandbox(settings)
    failed = run_self_test(sandbox).failed
    if failed:
        problems = "; ".join(f"{check.name}: {check.detail}" for check in failed)
        raise SandboxUnavailable(f"{sandbox.name} does not pass its self-test: {problems}. See docs/sandbox.md")
    return sandbox
