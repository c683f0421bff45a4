"""python -m bench.cold_start: how long `make demo` takes to its first page when it is run again, its memory, and `manage.py check`.

Baseline in the same run: a Django site with one page behind the same gunicorn with one worker. Memory is the proportional set
size (memory that several processes share is divided among them), one second after the first page was requested.

--cold measures the first `make demo` in a new clone of the last commit too: the installation from the package registry, the time
to the first page, the size of .venv, and the largest memory of all processes until the example and its figures are complete.
--quick compares only how long the code of both sites takes to load. The exit code is 1 if an aim is missed.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.services import ROOT, find_free_port, run_process

ONE_PAGE_SITE = """
import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="bench", ALLOWED_HOSTS=["127.0.0.1"], INSTALLED_APPS=[
    "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"])
urlpatterns = [path("", lambda request: HttpResponse("a page"))]
application = get_wsgi_application()
"""
LOAD_SITE = "import wetbench_site.wsgi; from django.urls import resolve; resolve('/')"
MAX_SECONDS = 120  # until the first page answers
MAX_COMPLETE_SECONDS = 900  # until the example is complete
JOBS_UNDER_WAY = "select count(*) from simulation_job where status in ('queued', 'running', 'waiting')"


class Measurement(NamedTuple):
    """A measured value and the most that is aimed at."""

    name: str
    value: float
    aim: float
    unit: str


class ProcessMemory(NamedTuple):
    """One process; `megabytes` is its proportional set size."""

    description: str
    megabytes: float


class Start(NamedTuple):
    seconds: float
    processes: list[ProcessMemory]


def measure_start(command: Sequence[str], port: int, path: str, environ: dict[str, str], folder: str) -> Start:
    """Measure the time from the start of the command to the first answer."""
    start = time.perf_counter()
    with run_process(command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        wait_for_page(f"http://127.0.0.1:{port}{path}")
        seconds = time.perf_counter() - start
        time.sleep(1)
        return Start(seconds, list(iter_processes(running.pid)))


def wait_for_page(url: str) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=30).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    sys.exit(f"{url} did not answer within {MAX_SECONDS} s")


def iter_processes(pid: int) -> Iterator[ProcessMemory]:
    """Yield the process and its descendants. Those that end in the meantime are left out."""
    with suppress(OSError, StopIteration):
        yield ProcessMemory(Path(f"/proc/{pid}/comm").read_text().strip(), read_proportional_memory(pid))
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from iter_processes(int(child))


def read_proportional_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure_processor_time(arguments: Sequence[str], environ: dict[str, str], folder: str, rounds: int) -> float:
    """Return the median processor time in seconds that Python needs for these arguments."""
    times = []
    for _ in range(rounds):
        # Processor time of the child process: other processes of the machine do not count.
        before = os.times()
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return median(times)


def measure_first_start(environ: dict[str, str], folder: Path) -> Iterator[Measurement]:
    """Run `make demo` in a new clone until the example is complete."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    quiet = {"cwd": folder, "env": environ, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = time.perf_counter()
    subprocess.run(["make", ".venv/app"], check=True, **quiet)  # type: ignore[call-overload]
    print(f"packages installed in {time.perf_counter() - start:.1f} s", flush=True)
    size = subprocess.run(["du", "-sm", folder / ".venv"], capture_output=True, text=True, check=True).stdout.split()[0]
    port, installed = find_free_port(), time.perf_counter()
    with run_process(["make", "demo", f"PORT={port}"], **quiet) as running:
        wait_for_page(f"http://127.0.0.1:{port}/login/")
        now = time.perf_counter()
        print(f"then the first page after {now - installed:.1f} s", flush=True)
        yield Measurement("first `make demo` to its first page", now - start, 30, "s")
        yield Measurement("size of .venv after the installation", float(size), 450, "MB")
        peak, deadline = 0.0, now + MAX_COMPLETE_SECONDS
        while count_jobs_under_way(folder) and time.perf_counter() < deadline:
            peak = max(peak, sum(one.megabytes for one in iter_processes(running.pid)))
            time.sleep(0.5)
        print(f"the example and its figures are complete {time.perf_counter() - now:.0f} s later", flush=True)
        yield Measurement("largest memory of the first `make demo`", peak, 450, "MB")


def count_jobs_under_way(folder: Path) -> int:
    with closing(sqlite3.connect(f"file:{folder}/var/wetbench.sqlite3?mode=ro", uri=True, timeout=20)) as database:
        return int(database.execute(JOBS_UNDER_WAY).fetchone()[0])


def start_demo(environ: dict[str, str], rounds: int) -> list[Start]:
    subprocess.run([sys.executable, "manage.py", "demo", "--make-only"], cwd=ROOT, env=environ, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    starts = []
    for _ in range(rounds):
        port = find_free_port()
        command = [sys.executable, "manage.py", "demo", "--port", str(port)]
        starts.append(measure_start(command, port, "/login/", environ, str(ROOT)))
    return starts


def start_one_page(environ: dict[str, str], folder: str, rounds: int) -> list[Start]:
    Path(folder, "one_page.py").write_text(ONE_PAGE_SITE)
    starts = []
    for _ in range(rounds):
        port = find_free_port()
        command = [sys.executable, "-m", "gunicorn", "-w", "1", "-b", f"127.0.0.1:{port}", "one_page:application"]
        starts.append(measure_start(command, port, "/", environ, folder))
    return starts


def print_starts(name: str, starts: list[Start], baseline: float) -> float:
    """Print a line for the starts and one for each process of the last start. Return the median time."""
    seconds = median(start.seconds for start in starts)
    memory = f"{sum_memory(starts):6.0f} MB"
    print(f"{name:28} {seconds:6.2f} s  {seconds / (baseline or seconds):6.2f}   {memory}")
    for one in starts[-1].processes:
        print(f"    {one.description:60} {one.megabytes:6.0f} MB")
    return seconds


def sum_memory(starts: list[Start]) -> float:
    return sum(one.megabytes for one in starts[-1].processes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cold_start", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="measure the first start in a new clone too")
    parser.add_argument("--quick", action="store_true", help="measure only how long the code takes to load")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wetbench-bench-") as folder:
        # As in the Makefile, compiled code is kept, whatever the caller's environment.
        environ = {**os.environ, "WETBENCH_VAR_DIR": folder, "PYTHONDONTWRITEBYTECODE": ""}
        # The demo uses its own SQLite file, whatever the caller's site uses.
        for name in ("DATABASE_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE"):
            environ.pop(name, None)
        Path(folder, "one_page.py").write_text(ONE_PAGE_SITE)
        rounds = 1 if args.quick else args.rounds
        baseline = measure_processor_time(["-c", "import one_page"], environ, folder, rounds)
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=environ, check=True)
        ours = measure_processor_time(["-c", LOAD_SITE], {**environ, "PYTHONPATH": str(ROOT)}, str(ROOT), rounds)
        print("Baseline: a Django site with one page behind the same server.")
        ratio = f"ratio {ours / baseline:.2f}"
        print(f"code loaded: one page {baseline:.2f} s, WetBench {ours:.2f} s of processor time, {ratio}")
        if args.quick:
            return 0
        print(f"{'':28} {'to the first page':>8}  {'ratio':>6}   {'memory':>9}")
        seconds = print_starts("one page", start_one_page(environ, folder, args.rounds), 0)
        starts = start_demo(environ, args.rounds)
        measurements = [
            Measurement("second `make demo` to its first page", print_starts("make demo, run again", starts, seconds), 3, "s"),
            Measurement("memory of the second `make demo`", sum_memory(starts), 450, "MB"),
            Measurement(
                "processor time of `manage.py check`",
                measure_processor_time(["manage.py", "check"], environ, str(ROOT), args.rounds), 1, "s",
            ),
        ]  # fmt: skip
        if args.cold:
            environ.pop("WETBENCH_VAR_DIR")
            measurements += measure_first_start(environ, Path(folder, "clone"))
    for one in measurements:
        verdict = "met" if one.value <= one.aim else "MISSED"
        print(f"{one.name:42} {one.value:7.2f} {one.unit:2}  aim {one.aim:3.0f} {one.unit:2}  {verdict}")
    return int(any(one.value > one.aim for one in measurements))


if __name__ == "__main__":
    sys.exit(main())
