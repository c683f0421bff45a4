"""See, signal or trace processes of the host."""

import os
import signal

from simulation.replication.sandbox.inside.attempting import (
    NotPossible,
    attempt,
    call,
    open_memory,
    read_target,
    report,
)

PTRACE_ATTACH = 16


def find_process(secret: bytes) -> None:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{name}/cmdline", "rb") as source:
            if secret in source.read():
                return
    raise NotPossible("no visible process has it")


target = read_target()
pid = target["pid"]
attempt("see a process of the host", lambda: find_process(target["name"].encode()))
attempt("signal a process of the host", lambda: os.kill(pid, signal.SIGUSR1))
attempt("signal the worker", lambda: os.kill(target["worker"], 0))
attempt("trace a process of the host", lambda: call(target["calls"]["ptrace"], PTRACE_ATTACH, pid, 0, 0))
attempt("open the memory of a process of the host", lambda: open_memory(pid))
report("end", "")
