"""python -m bench.audit_waiting: how long raters wait for a saved rating during a blinding audit, compared with no audit.

The demo runs on SQLite, served by gunicorn as in production (gthread, 2 processes with 8 threads) on two cores. Raters, each
a thread with one connection and a pause between ratings, rate open studies beside those of the demo. `manage.py
audit_blinding demo` runs once in full at the same time. The baseline is the same site with the same raters and without an
audit, half of it before and half after. The result is the ratio of the 95th percentiles of the response times of ratings:
at most 1.5.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median, quantiles
from typing import Any

from bench import rater_clients, rater_loop
from bench.services import ROOT, run_process

MAX_RATIO = 1.5  # times the 95th percentile without an audit
PAUSE = 0.2  # seconds between the ratings of one rater; people take longer, so this loads the site more
WITHOUT_AUDIT, DURING_AUDIT = "no audit", "audit"


class RaterThreads:
    """Threads that rate one study after another. `taken` has the milliseconds of each rating by phase."""

    def __init__(self, port: int, plan: Sequence[dict[str, Any]]) -> None:
        self.phase, self.taken = "", defaultdict[str, list[float]](list)
        self.failures: list[Exception] = []
        self._port, self._stop = port, threading.Event()
        self._threads = [threading.Thread(target=self._rate_studies, args=(rater,), daemon=True) for rater in plan]

    def __enter__(self) -> "RaterThreads":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def rate_during(self, phase: str, seconds: float) -> None:
        self.phase = phase
        self._stop.wait(seconds)
        self.phase = ""

    def _rate_studies(self, rater: dict[str, Any]) -> None:
        browser = rater_clients.BrowserConnection(self._port, f"wb_session={rater['site']}", htmx=True)
        try:
            for start in rater["starts"]:
                self._rate_study(browser, start)
                if self._stop.is_set():
                    return
            raise rater_clients.NotServedError("all studies are rated; request more with --studies")
        except Exception as error:  # raised again by the main thread in __exit__
            self.failures.append(error)
            self._stop.set()

    def _rate_study(self, browser: rater_clients.BrowserConnection, path: str) -> None:
        reply = browser.get_page(path)
        while reply.status in (302, 303):
            path = reply.location
            reply = browser.get_page(path)
        for _ in range(rater_loop.ITEMS_PER_RATER - 1):
            if self._stop.wait(PAUSE):
                return
            # The phase in which the rating begins counts, also if the next one has begun when it ends.
            phase = self.phase
            reply = browser.submit_form(path, reply.body)
            if reply.status != 200 or not reply.location:
                raise rater_clients.NotServedError(f"{path} answered {reply.status}")
            self.taken[phase].append(browser.taken[-1])
            path = reply.location


def measure_times(raters: int, studies: int, seconds_without: float) -> dict[str, list[float]]:
    """Return the milliseconds of all ratings, without an audit and during one."""
    with tempfile.TemporaryDirectory(prefix="wetbench-waiting-") as folder:
        environ = rater_loop.build_environ(folder, "")
        rater_loop.run_command(environ, [sys.executable, "manage.py", "demo", "--make-only"])
        code = "import django; django.setup(); from bench import rater_rows; rater_rows.main()"
        sizes = (str(raters), str(studies), str(rater_loop.ITEMS_PER_RATER))
        plan = json.loads(rater_loop.run_command(environ, [sys.executable, "-c", code, *sizes]))
        with (
            rater_loop.start_server(environ, "wetbench_site.wsgi") as server,
            RaterThreads(server.port, plan) as rater_threads,
        ):
            rater_threads.rate_during("", 5)  # imports and first renderings are not counted
            rater_threads.rate_during(WITHOUT_AUDIT, seconds_without / 2)
            run_audit(environ, rater_threads)
            rater_threads.rate_during(WITHOUT_AUDIT, seconds_without / 2)
        return rater_threads.taken


def run_audit(environ: dict[str, str], raters: RaterThreads) -> None:
    start = time.perf_counter()
    command = [sys.executable, "manage.py", "audit_blinding", "demo"]
    # The audit takes as long as it takes: one-second slices end soon after it does.
    with run_process(command, cwd=ROOT, env=os.environ | environ, stdout=subprocess.DEVNULL) as audit:
        while audit.poll() is None and not raters.failures:
            raters.rate_during(DURING_AUDIT, 1)
    if audit.returncode:
        sys.exit(f"the audit exited with {audit.returncode}; its output is above")
    print(f"The audit took {time.perf_counter() - start:.0f} s.", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.audit_waiting", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one rater and a short baseline, to check that it runs")
    parser.add_argument("--raters", type=int, default=4)
    parser.add_argument("--studies", type=int, default=60, help="studies of 60 items per rater")
    parser.add_argument("--quiet", type=float, default=120, help="seconds without an audit")
    args = parser.parse_args()
    if args.quick:
        args.raters, args.quiet = 1, 10
    times = measure_times(args.raters, args.studies, args.quiet)
    p95 = {phase: quantiles(times[phase], n=20)[-1] for phase in (WITHOUT_AUDIT, DURING_AUDIT)}
    print(f"{'':12}{'ratings':>9}{'p50 ms':>8}{'p95 ms':>8}{'max ms':>8}{'ratio':>7}")
    for phase in (WITHOUT_AUDIT, DURING_AUDIT):
        phase_times = times[phase]
        middle, ratio = median(phase_times), p95[phase] / p95[WITHOUT_AUDIT]
        print(f"{phase:12}{len(phase_times):9}{middle:8.1f}{p95[phase]:8.1f}{max(phase_times):8.1f}{ratio:7.2f}")
    is_too_slow = p95[DURING_AUDIT] > MAX_RATIO * p95[WITHOUT_AUDIT]
    print(f"At most {MAX_RATIO} times the p95 without an audit: {'no' if is_too_slow else 'yes'}.")
    return 0 if args.quick else int(is_too_slow)


if __name__ == "__main__":
    sys.exit(main())
