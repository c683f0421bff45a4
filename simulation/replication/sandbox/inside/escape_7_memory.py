"""Take more memory than allowed: in one block, without a trace in resident memory, and in many processes."""

import ctypes
import mmap
import os
import sys
import time

from simulation.replication.sandbox.inside.attempting import attempt, call, read_target, report

SIZE = 512 * 2**20
PRIVATE_KEY, CREATE = 0, 0o1600


def map_zero() -> None:
    with open("/dev/zero", "r+b", buffering=0) as source:
        mmap.mmap(source.fileno(), 2**20)


def hold_in_processes() -> None:
    for _ in range(8):
        if not os.fork():
            block = bytearray(40 * 2**20)
            block[:: mmap.PAGESIZE] = b"1" * len(block[:: mmap.PAGESIZE])
            time.sleep(2)
            os._exit(0)
    time.sleep(1)


if sys.argv[1] == "alone":
    numbers = read_target()["calls"]
    attempt("allocate 512 MiB", lambda: bytearray(SIZE))
    attempt("share anonymous memory", lambda: mmap.mmap(-1, 2**20))
    attempt("share memory of /dev/zero", map_zero)
    attempt("share System V memory", lambda: call(numbers["shmget"], PRIVATE_KEY, ctypes.c_size_t(2**20), CREATE))
    attempt("keep a file in memory", lambda: call(numbers["memfd_create"], b"name", 0))
else:
    attempt("hold 320 MiB in 8 processes", hold_in_processes)
report("end", "")
