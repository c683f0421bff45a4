"""python -m bench.export: rows per second of the ratings CSV, compared with the database writing the same query as CSV itself.

The file is that of `manage.py export_ratings`, with the same lines that the page streams, for a study of 100,000 unblinded
ratings. Baseline in the same run: PostgreSQL's `COPY (query) TO STDOUT (FORMAT csv)`; on SQLite the program `sqlite3 -csv`, or
if it is missing, Python's csv module over the same query. A study of 10,000 ratings is exported as well: the memory growth
of the process must not depend on the number of rows. Exits with 1 if the ratio is below 0.5.
"""

import argparse
import csv
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.services import start_postgres

SMALL, LARGE = 10_000, 100_000
MIN_RATIO = 0.5  # of the baseline's rows per second


class Export(NamedTuple):
    """One export; `memory_growth` is that of the process's peak, in megabytes."""

    rows: int
    seconds: float
    memory_growth: float


class LineCounter:
    """Discard what is written, and count the lines."""

    rows = -1  # the header is no row

    def write(self, text: str | bytes) -> int:
        self.rows += text.count("\n" if isinstance(text, str) else b"\n")
        return len(text)


def create_studies(url: str, small: int, large: int, folder: str) -> None:
    """Create two unblinded studies in the database of this process."""
    set_up_django(url, folder)
    from django.core.management import call_command

    from bench import bulk_site
    from ratings.models import Study

    call_command("migrate", verbosity=0)
    bulk_site.create_site([bulk_site.StudyPlan("small", small, 20), bulk_site.StudyPlan("large", large, 20)])
    Study.objects.update(status="unblinded")


def export_with_command(url: str, slug: str, folder: str) -> Export:
    """Run the command in a process that has exported nothing before."""
    set_up_django(url, folder)
    from django.core.management import call_command

    from ratings.exchange.exports import export_csv_lines
    from ratings.models import Study

    next(export_csv_lines(Study.objects.get(slug=slug), False))  # imports and prepared statements are not measured
    sink, before = LineCounter(), read_peak_memory()
    started = time.perf_counter()
    call_command("export_ratings", slug, stdout=sink)
    return Export(sink.rows, time.perf_counter() - started, read_peak_memory() - before)


def export_with_database(url: str, slug: str, folder: str) -> Export:
    """Let the database write the query of our file."""
    set_up_django(url, folder)
    from django.db import connection

    query, parameters = capture_query(slug)
    sink, before = LineCounter(), read_peak_memory()
    started = time.perf_counter()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            import psycopg

            # COPY takes no parameters, so they are inserted on the client.
            text = psycopg.ClientCursor(cursor.connection).mogrify(query, parameters)
            cursor.execute("SET statement_timeout = 0")  # the site's limit is meant for pages
            started = time.perf_counter()
            with cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT csv, HEADER)") as copy:
                for block in copy:
                    sink.write(bytes(block))
    elif program := shutil.which("sqlite3"):
        path = url.removeprefix("sqlite:///")
        done = subprocess.run([program, "-readonly", "-header", "-csv", path, fill_parameters(query, parameters)],
                              capture_output=True, check=True)  # fmt: skip
        sink.write(done.stdout)
    else:
        csv.writer(sink).writerows(connection.connection.execute(fill_parameters(query, parameters)))
        sink.rows += 1
    return Export(sink.rows, time.perf_counter() - started, read_peak_memory() - before)


def capture_query(slug: str) -> tuple[str, Any]:
    """Return the statement that the export sends, with its parameters."""
    from django.db import connection

    from ratings.models import Study
    from ratings.results.rating_rows import iter_rating_rows

    statements: list[tuple[str, Any]] = []

    def record_statement(execute: Callable[..., Any], sql: str, parameters: Any, *more: Any) -> Any:
        statements.append((sql, parameters))
        return execute(sql, parameters, *more)

    study = Study.objects.get(slug=slug)
    with connection.execute_wrapper(record_statement):
        next(iter_rating_rows(study))
    return statements[-1]


def fill_parameters(query: str, parameters: Any) -> str:
    """Insert the parameters into the query. SQLite's program takes text only; ours are numbers and names of our own columns."""
    for value in parameters:
        query = query.replace("%s", str(int(value)) if isinstance(value, int) else f"'{value}'", 1)
    return query


def set_up_django(url: str, folder: str) -> None:
    os.environ.update(DATABASE_URL=url, DJANGO_SETTINGS_MODULE="wetbench_site.settings", WETBENCH_VAR_DIR=folder)
    import django

    django.setup()


def read_peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run the work in a new process, because the peak memory of a process never falls."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def measure_database(vendor: str, small: int, large: int, rounds: int) -> float:
    """Print the table row of one database, and return the ratio of our rows per second to the database's own."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-bench-"))
        sqlite = f"sqlite:///{Path(folder) / 'export.sqlite3'}"
        url = stack.enter_context(start_postgres("export")).url if vendor == "postgresql" else sqlite
        run_in_process(create_studies, url, small, large, folder)
        name = "COPY" if vendor == "postgresql" else "sqlite3 -csv" if shutil.which("sqlite3") else "Python's csv"
        pairs = [
            (
                run_in_process(export_with_database, url, "large", folder),
                run_in_process(export_with_command, url, "large", folder),
            )
            for _ in range(rounds)
        ]
        small_export = run_in_process(export_with_command, url, "small", folder)
    baseline, our_rate = (median(one.rows / one.seconds for one in column) for column in zip(*pairs, strict=True))
    large_export = pairs[-1][1]
    print(f"{vendor:12} {name:14} {baseline:10,.0f}  {our_rate:9,.0f}  {our_rate / baseline:6.3f}   "
          f"{small_export.memory_growth:6.1f} MB of {small_export.rows:,}, {large_export.memory_growth:6.1f} MB of {large_export.rows:,}", flush=True)  # fmt: skip
    return our_rate / baseline


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.export", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the ratings, to check that it runs")
    args = parser.parse_args()
    part = 100 if args.quick else 1
    print("Rows per second of a study's ratings as CSV. Baseline: the database writes the same query itself.")
    print(f"{'database':12} {'baseline':14} {'baseline/s':>10}  {'ours/s':>9}  {'ratio':>6}   memory growth")
    vendors = ["sqlite", "postgresql"] if args.database == "both" else [args.database]
    rounds = 1 if args.quick else args.rounds
    ratios = [measure_database(vendor, SMALL // part, LARGE // part, rounds) for vendor in vendors]
    print(f"Aim: at least {MIN_RATIO} of the baseline.")
    return 1 if min(ratios) < MIN_RATIO and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
