"""Gain rights that the sandbox does not have."""

import ctypes
import mmap
import os
import resource
import signal
import stat

from simulation.replication.sandbox.inside.attempting import attempt, call, open_memory, read_target, report

PTRACE_ATTACH, CLONE_NEWUSER, SESSION_KEYRING = 16, 0x10000000, -3
numbers = read_target()["calls"]
buffer = ctypes.create_string_buffer(4096)


def clone_into_namespace() -> None:
    pid = call(numbers["clone"], CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def raise_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (100_000, 100_000))


def own_by_root() -> None:
    with open("/scratch/program", "w") as program:
        program.write("#!/bin/sh\n")
    os.chown("/scratch/program", 0, 0)
    os.chmod("/scratch/program", 0o4755)


attempt("make a user namespace", lambda: call(numbers["unshare"], CLONE_NEWUSER))
attempt("start a process in a user namespace", clone_into_namespace)
attempt("mount a file system", lambda: call(numbers["mount"], b"none", b"/scratch", b"tmpfs", 0, 0))
attempt("trace the supervisor", lambda: call(numbers["ptrace"], PTRACE_ATTACH, os.getppid(), 0, 0))
attempt("open the memory of the supervisor", lambda: open_memory(os.getppid()))
attempt("open the memory of process 1", lambda: open_memory(1))
attempt("load a BPF map", lambda: call(numbers["bpf"], 0, buffer, 72))
attempt("use a keyring", lambda: call(numbers["keyctl"], 0, SESSION_KEYRING, 1, 0, 0))
attempt("set up io_uring", lambda: call(numbers["io_uring_setup"], 1, buffer))
attempt("make a file in memory", lambda: call(numbers["memfd_create"], b"name", 0))
attempt("make shared memory without a file", lambda: mmap.mmap(-1, 4096))
attempt("become root", lambda: os.setuid(0))
attempt("make a setuid file of root", own_by_root)
attempt("make a device", lambda: os.mknod("/scratch/device", 0o666 | stat.S_IFBLK, os.makedev(8, 0)))
attempt("change the root folder", lambda: os.chroot("/scratch"))
attempt("raise a limit", raise_limit)
report("end", "")
