"""Return entries that the host must not accept, and attack the supervisor that sends them."""

import contextlib
import os
import signal
import socket
import struct
import sys

from simulation.replication.sandbox.inside.attempting import attempt, report


def forge_frame() -> None:
    """Write a file outside of the workspace into the supervisor's stream."""
    name = b"../forged"
    with open(f"/proc/{os.getppid()}/fd/1", "wb", buffering=0) as stream:
        stream.write(b"F" + struct.pack(">II", len(name), 1) + name + b"x")


def prepare_entries() -> None:
    os.symlink("/etc/passwd", "link")
    os.symlink("/", "folder-link")
    os.mkfifo("pipe")
    socket.socket(socket.AF_UNIX).bind("socket")
    for name in (b"control\x1b[2Jname", b"line\nbreak", b"not-utf8-\xff", b"back\\slash", b".hidden", b"e\xcc\x81"):
        with contextlib.suppress(OSError), open(name, "w") as target:
            target.write("x")
    os.makedirs("/".join(["deep"] * 20))
    with open("/".join(["deep"] * 20) + "/file", "w") as target:
        target.write("x")
    with open("large", "wb") as large:
        large.truncate(2 * 2**20)
    os.mkdir("many")
    for number in range(600):
        with open(f"many/{number:03}", "w") as target:
            target.write("x")


if sys.argv[1] == "entries":
    prepare_entries()
    attempt("write into the stream of the supervisor", forge_frame)
    report("end", "")
else:
    os.kill(os.getppid(), signal.SIGKILL)
