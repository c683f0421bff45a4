"""Which sandbox this machine can use."""

import os
import shutil
from dataclasses import dataclass, field

from simulation.replication.sandbox.base import Sandbox, SandboxUnavailable
from simulation.replication.sandbox.bubblewrap import BubblewrapSandbox

MODES = ("auto", "bubblewrap", "docker", "podman", "off")
HOW_TO_INSTALL = "install bubblewrap 0.8 or later (apt-get install bubblewrap); docs/sandbox.md lists what it needs"


@dataclass(frozen=True)
class SandboxSettings:
    """What the environment says about sandboxes."""

    mode: str = field(default_factory=lambda: os.environ.get("WETBENCH_SANDBOX") or "auto")
    program: str = field(default_factory=lambda: os.environ.get("WETBENCH_BWRAP") or "bwrap")


def open_sandbox(settings: SandboxSettings | None = None) -> Sandbox:
    """Return the sandbox of this machine. Raises SandboxUnavailable with what helps; there is no mode without one."""
    settings = settings or SandboxSettings()
    if settings.mode == "off":
        raise SandboxUnavailable(f"sandboxes are switched off (WETBENCH_SANDBOX=off); to use them, {HOW_TO_INSTALL}")
    if settings.mode not in ("auto", "bubblewrap"):
        raise SandboxUnavailable(f"WETBENCH_SANDBOX is {settings.mode!r}, allowed are {', '.join(MODES)}")
    program = shutil.which(settings.program)
    if not program:
        raise SandboxUnavailable(f"{settings.program} was not found; {HOW_TO_INSTALL}")
    return BubblewrapSandbox(program)
