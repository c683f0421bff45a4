"""Write more than the file systems of a sandbox hold."""

import functools
import os
import sys

from simulation.replication.sandbox.inside.attempting import attempt, report


def fill(folder: str, mebibytes: int) -> None:
    try:
        for number in range(mebibytes):
            with open(f"{folder}/block-{number}", "wb") as target:
                target.write(bytes(2**20))
    finally:
        for name in os.listdir(folder):
            if name.startswith("block-"):
                os.remove(f"{folder}/{name}")


def make_sparse_file() -> None:
    with open("sparse", "wb") as target:
        target.truncate(64 * 2**20)


def make_files() -> None:
    for number in range(100_000):
        os.close(os.open(f"/scratch/{number}", os.O_CREAT | os.O_WRONLY))


if sys.argv[1] == "space":
    for folder in ("/workspace", "/scratch", "/dev/shm"):
        attempt(f"write 32 MiB to {folder}", functools.partial(fill, folder, 32))
    attempt("make a file of 64 MiB without content", make_sparse_file)
else:
    attempt("make 100,000 files", make_files)
report("end", "")
