"""python -m bench.sandbox: what a sandbox costs, as ratios to bwrap alone with the same options, in one run.

Each round runs every case once, in turn, so that load on the machine meets all of them. Shown are medians. A median more than the
aim is marked *missed*, and the exit code is 1. Grading, whole episodes (bench/code_episodes.py) and the page of an
episode (bench/code_pages.py) are measured after the rounds.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import NamedTuple

from bench import code_episodes, code_pages
from simulation.replication.sandbox.base import Limits
from simulation.replication.sandbox.bubblewrap import BubblewrapSandbox
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.sandbox.exchange import WATCH_SECONDS
from simulation.replication.sandbox.watching import attach_watch

FILES = {f"folder-{number % 8}/file-{number}.txt": bytes([65 + number % 26]) * 16_384 for number in range(64)}
IMPORT = "import numpy"
BUSY = ["python3", "-c", "sum(range(2_000_000))"]


class Row(NamedTuple):
    """A measured value; `aim` is the most that is aimed at, or None."""

    name: str
    value: float
    unit: str
    aim: float | None = None

    @property
    def missed(self) -> bool:
        return self.aim is not None and self.value > self.aim


def measure_ms(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def run_bare(sandbox: BubblewrapSandbox, command: list[str]) -> None:
    """Run a command in bwrap with the options of a sandbox, but without supervisor, files and watcher."""
    with contextlib.ExitStack() as stack:
        user = 2**20 if os.geteuid() == 0 else None
        options, descriptors = sandbox._build_arguments(stack, {}, Limits(), (), user)
        subprocess.run(
            ["bwrap", *options, "--", *command], pass_fds=descriptors, env={}, check=True, stdout=subprocess.DEVNULL
        )


def measure_watch_share(sandbox: BubblewrapSandbox) -> float:
    """Return the share of a core that watching one sandbox of four processes takes, in percent."""
    shares = []

    def watch(pid: int) -> None:
        with contextlib.ExitStack() as stack:
            look = attach_watch(stack, pid, Limits())
            start = time.process_time()
            for _ in range(200):
                look()
            shares.append(100 * (time.process_time() - start) / 200 / WATCH_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        script = "sleep 3 & sleep 3 & sleep 3 & echo ready; wait"
        running = pool.submit(sandbox.run, ["sh", "-c", script], {}, limits=Limits(seconds=2))
        time.sleep(0.5)
        watch(find_inner_process())
        running.result()
    return median(shares)


def find_inner_process() -> int:
    """Return a process of the sandbox that this process runs: its youngest descendant."""
    pid = os.getpid()
    while True:
        children = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as source:
                children += source.read().split()
        if not children:
            return pid
        pid = int(children[-1])


def measure_rows(sandbox: BubblewrapSandbox, rounds: int) -> list[Row]:
    """Return the rows that need only a sandbox."""
    cases: dict[str, Callable[[], object]] = {
        "bare": lambda: run_bare(sandbox, ["true"]),
        "true": lambda: sandbox.run(["true"], {}),
        "files": lambda: sandbox.run(["true"], FILES),
        "numpy": lambda: sandbox.run(["python3", "-c", IMPORT], {}, packages=["numpy"]),
        "one": lambda: sandbox.run(BUSY, {}),
    }
    times: dict[str, list[float]] = {name: [] for name in (*cases, "two")}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            for name, action in cases.items():
                times[name].append(measure_ms(action))
            times["two"] += pool.map(lambda _: measure_ms(lambda: sandbox.run(BUSY, {})), range(2))
    medians = {name: median(values) for name, values in times.items()}
    return [
        Row("bwrap alone with the same options, `true`", medians["bare"], "ms"),
        Row("sandbox, `true`", medians["true"], "ms"),
        Row("sandbox over bwrap alone", medians["true"] / medians["bare"], "times", 5),
        Row("sandbox, more than bwrap alone", medians["true"] - medians["bare"], "ms", 30),
        Row(
            "sandbox with 64 files of 1 MiB in all, more than bwrap alone", medians["files"] - medians["bare"], "ms", 45
        ),
        Row("sandbox that imports numpy", medians["numpy"], "ms"),
        Row("each of two sandboxes at once, over one", medians["two"] / medians["one"], "times", 1.3),
        Row("watcher, share of a core", measure_watch_share(sandbox), "%", 1),
    ]


def measure_episode_rows(sandbox: BubblewrapSandbox) -> list[Row]:
    """Return the rows that need tasks and grading."""
    grading = code_episodes.measure_grading(sandbox)
    seconds = code_episodes.measure_episodes(sandbox)
    return [
        Row("grading, numpy task", grading["numpy"], "s", 0.8),
        Row("grading, scipy task", grading["scipy"], "s", 3),
        Row("oracle episodes with grading, two at a time, of all tasks", 60 / seconds, "a minute"),
        Row("one of these episodes", seconds, "s", 1.5),  # 40 a minute
    ]


def measure_page_rows() -> list[Row]:
    """Return the rows of the page of a code episode."""
    pages = code_pages.measure_pages()
    few, many = (pages[steps] for steps in code_pages.STEPS)
    return [
        Row("page of an episode with 50 steps of 64 KiB, first answer", many.kilobytes, "KB", 150),
        Row("its queries, more than with 5 steps", many.queries - few.queries, "queries", 0),
        Row("time of its answer", 1000 * many.seconds, "ms"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sandbox", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    sandbox = open_sandbox()
    if not isinstance(sandbox, BubblewrapSandbox):
        sys.exit("the baseline is bwrap: set WETBENCH_SANDBOX=bubblewrap")
    rows = [*measure_rows(sandbox, rounds), *measure_episode_rows(sandbox), *measure_page_rows()]
    print(f"{sandbox.name}, {rounds} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| | median | aim |\n|---|---|---|")
    for row in rows:
        aim = "" if row.aim is None else f"{row.aim:g} {row.unit}{': missed' if row.missed else ''}"
        print(f"| {row.name} | {row.value:.2f} {row.unit} | {aim} |")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
