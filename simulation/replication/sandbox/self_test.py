"""Twelve checks of a backend: whether it isolates and limits a command. `auto` uses only a backend that passes them all."""

import json
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from simulation.replication.sandbox.base import Limits, Sandbox, SandboxFault, SandboxResult
from simulation.replication.sandbox.inside import read_program

_LIMITS = Limits(seconds=20, address_mib=256, processes=20, work_mib=8, tmp_mib=2)
# Everything at the top of a sandbox. The host's /etc, /home, /root, /sys and /var are not in it.
_FOLDERS = {
    "bin", "dev", "input", "lib", "lib64", "packages", "proc", "python", "scratch", "supervisor.pyc", "tmp", "usr",
    "workspace",
}  # fmt: skip


class Check(NamedTuple):
    """One check. `detail` has the values that were found."""

    name: str
    passed: bool
    detail: str


class SelfTest(NamedTuple):
    """The checks of a backend."""

    backend: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)


def run_self_test(sandbox: Sandbox) -> SelfTest:
    """Return the twelve checks of `sandbox`. It runs two sandboxes and takes about 0.4 s."""
    try:
        result = sandbox.run(
            ["python3", "/input/report_state.py"],
            {"sent.txt": b"sent"},
            read_only={"report_state.py": read_program("report_state")},
            limits=_LIMITS,
            with_result=True,
        )
        stopped = sandbox.run(["sleep", "30"], {}, limits=_LIMITS._replace(seconds=0.15))
    except SandboxFault as fault:
        return SelfTest(sandbox.name, (Check("starts", False, str(fault)),))
    try:
        facts = json.loads(result.result)
    except ValueError:
        return SelfTest(sandbox.name, (Check("starts", False, f"no report came back: {result.output[-500:]!r}"),))
    return SelfTest(sandbox.name, tuple(_judge(facts, result, stopped)))


def _judge(facts: Mapping[str, Any], result: SandboxResult, stopped: SandboxResult) -> Iterator[Check]:
    status, files = facts["status"], result.files or {}
    returned = files == {"sent.txt": b"sent", "returned.txt": b"returned"}
    yield Check("returns files and exit status", returned and result.exit == 0, f"{sorted(files)}, exit {result.exit}")
    # Without a user namespace the map is the identity. With only a user namespace, every user inside would be root outside: the
    # sandbox could open /proc/sys/kernel/core_pattern for writing.
    inner, outer = (int(number) for number in facts["uid_map"][:2])
    user = facts["user"]
    separate = user > 0 and (os.geteuid() != 0 or outer + user - inner > 0)
    yield Check("has no privileged user", separate, f"user {user}, map of users {' '.join(facts['uid_map'])}")
    capabilities = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    powerless = status["NoNewPrivs"] == "1" and not any(int(value, 16) for value in capabilities.values())
    yield Check("has no capabilities", powerless, f"{capabilities}, NoNewPrivs {status['NoNewPrivs']}")
    filtered = status["Seccomp"] == "2" and facts["vsock"] == "OSError"
    yield Check("filters system calls", filtered, f"Seccomp {status['Seccomp']}, AF_VSOCK {facts['vsock'] or 'opened'}")
    yield Check("has no network", facts["interfaces"] == ["lo"], f"interfaces {facts['interfaces']}")
    yield Check("has no other processes", facts["processes"] <= 3, f"{facts['processes']} processes")
    yield Check("has a read-only system", not facts["writable"], f"writable: {facts['writable']}")
    foreign = set(facts["folders"]) - _FOLDERS
    yield Check("has no files of the host", not foreign, f"folders: {sorted(foreign)}")
    yield Check("limits processes", facts["forks"] <= _LIMITS.processes, f"{facts['forks']} children at once")
    yield Check("limits memory", facts["block"] == "MemoryError", f"256 MiB: {facts['block'] or 'allocated'}")
    sizes = {"/workspace": _LIMITS.work_mib, "/scratch": _LIMITS.tmp_mib, "/dev/shm": _LIMITS.tmp_mib}
    yield Check("limits files", facts["sizes"] == sizes, f"MiB: {facts['sizes']}")
    in_time = stopped.killed == "wall" and stopped.seconds < 5 and stopped.resident_mib > 0
    yield Check("limits time", in_time, f"stopped by {stopped.killed!r} after {stopped.seconds} s")


def measure_start_ms(sandbox: Sandbox, runs: int = 9) -> float:
    """Return the median time of a sandbox that runs `true`, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        sandbox.run(["true"], {})
        times.append(1000 * (time.perf_counter() - start))
    return round(statistics.median(times), 1)
