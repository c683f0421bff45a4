"""python -m bench.cold_start: seconds from `make demo`, run again, to its first page, and the memory of its processes.

Baseline in the same run: a Django site with one page behind the same gunicorn with one worker. Memory is the proportional set size
(memory that several processes share is divided among them), one second after the first page was requested. --quick compares
only how long the code of both sites takes to load.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
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
    """Yield the process and its descendants."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    program = next((word for word in arguments[1:] if word and not word.startswith("-")), arguments[0])
    options = arguments[arguments.index(program) + 1 :] if program in arguments else []
    yield ProcessMemory(" ".join([Path(program).name, *options[:1]]).strip(), read_proportional_memory(pid))
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from iter_processes(int(child))


def read_proportional_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure_load_time(code: str, environ: dict[str, str], folder: str, rounds: int) -> float:
    """Return the median processor time in seconds that a new interpreter needs to run this code."""
    times = []
    for _ in range(rounds):
        # Processor time of the child process: other processes of the machine do not count.
        before = os.times()
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, check=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return median(times)


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
    seconds = median(start.seconds for start in starts)
    print(
        f"{name:28} {seconds:6.2f} s  {seconds / (baseline or seconds):6.2f}   {sum(one.megabytes for one in starts[-1].processes):6.0f} MB"
    )
    for one in starts[-1].processes:
        print(f"    {one.description:60} {one.megabytes:6.0f} MB")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cold_start", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="measure only how long the code takes to load")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wetbench-bench-") as folder:
        environ = {**os.environ, "WETBENCH_VAR_DIR": folder, "DJANGO_SETTINGS_MODULE": "wetbench_site.settings"}
        # The demo uses its own SQLite file, whatever the caller's site uses.
        environ.pop("DATABASE_URL", None)
        Path(folder, "one_page.py").write_text(ONE_PAGE_SITE)
        rounds = 1 if args.quick else args.rounds
        baseline = measure_load_time("import one_page", {**environ, "DJANGO_SETTINGS_MODULE": ""}, folder, rounds)
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, cwd=ROOT, env=environ, check=True)
        ours = measure_load_time(LOAD_SITE, {**environ, "PYTHONPATH": str(ROOT)}, str(ROOT), rounds)
        print("Baseline: a Django site with one page behind the same server.")
        print(
            f"code loaded: one page {baseline:.2f} s, WetBench {ours:.2f} s of processor time, ratio {ours / baseline:.2f}"
        )
        if args.quick:
            return 0
        print(f"{'':28} {'to the first page':>8}  {'ratio':>6}   {'memory':>9}")
        seconds = print_starts("one page", start_one_page(environ, folder, args.rounds), 0)
        print_starts("make demo, run again", start_demo(environ, args.rounds), seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
