"""python -m bench.export: rows a second of the ratings' CSV file, against the database writing the same query as CSV itself.

The file is that of `manage.py export_ratings`, the same lines as the page streams, of a study of 100,000 unblinded ratings.
Baseline in the same run: PostgreSQL's `COPY (query) TO STDOUT (FORMAT csv)`; on SQLite the program `sqlite3 -csv`, or where it
is missing Python's own csv over the same query. A study of 10,000 ratings is written beside it: what the process grows by
shall not depend on how many rows there are.
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

from bench.services import postgres

SMALL, LARGE = 10_000, 100_000


class Written(NamedTuple):
    """`grown`: megabytes the process had at most while it wrote, beyond what it had before."""

    rows: int
    seconds: float
    grown: float


class Sink:
    """Takes what is written, and keeps nothing but how many lines there were."""

    rows = -1  # the header

    def write(self, text: str | bytes) -> int:
        self.rows += text.count("\n" if isinstance(text, str) else b"\n")
        return len(text)


def begin(url: str, small: int, large: int, folder: str) -> None:
    """Two studies, unblinded, in the database of this process."""
    _set_up(url, folder)
    from django.core.management import call_command

    from bench import bulk_site
    from ratings.models import Study

    call_command("migrate", verbosity=0)
    bulk_site.make([bulk_site.Plan("small", small, 20), bulk_site.Plan("large", large, 20)])
    Study.objects.update(status="unblinded")


def ours(url: str, slug: str, folder: str) -> Written:
    """The command, in a process that has written nothing before."""
    _set_up(url, folder)
    from django.core.management import call_command

    from ratings.exchange.exports import csv_lines
    from ratings.models import Study

    next(csv_lines(Study.objects.get(slug=slug), False))  # what is loaded once counts for nobody
    sink, before = Sink(), _peak()
    started = time.perf_counter()
    call_command("export_ratings", slug, stdout=sink)
    return Written(sink.rows, time.perf_counter() - started, _peak() - before)


def theirs(url: str, slug: str, folder: str) -> Written:
    """The database writes the query that our file is made from."""
    _set_up(url, folder)
    from django.db import connection

    query, parameters = _query(slug)
    sink, before = Sink(), _peak()
    started = time.perf_counter()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            import psycopg

            text = psycopg.ClientCursor(cursor.connection).mogrify(query, parameters)
            started = time.perf_counter()
            with cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT csv, HEADER)") as copy:
                for block in copy:
                    sink.write(bytes(block))
    elif program := shutil.which("sqlite3"):
        path = url.removeprefix("sqlite:///")
        done = subprocess.run([program, "-readonly", "-header", "-csv", path, _filled(query, parameters)],
                              capture_output=True, check=True)  # fmt: skip
        sink.write(done.stdout)
    else:
        csv.writer(sink).writerows(connection.connection.execute(_filled(query, parameters)))
        sink.rows += 1
    return Written(sink.rows, time.perf_counter() - started, _peak() - before)


def _query(slug: str) -> tuple[str, Any]:
    """The statement that the export sends, as it is sent."""
    from django.db import connection

    from ratings.models import Study
    from ratings.results import rating_rows

    seen: list[tuple[str, Any]] = []

    def watch(execute: Callable[..., Any], sql: str, parameters: Any, *more: Any) -> Any:
        seen.append((sql, parameters))
        return execute(sql, parameters, *more)

    study = Study.objects.get(slug=slug)
    with connection.execute_wrapper(watch):
        next(rating_rows(study))
    return seen[-1]


def _filled(query: str, parameters: Any) -> str:
    """For SQLite's own program, which is given text: our parameters are numbers, and names of our own columns."""
    for value in parameters:
        query = query.replace("%s", str(int(value)) if isinstance(value, int) else f"'{value}'", 1)
    return query


def _set_up(url: str, folder: str) -> None:
    os.environ.update(DATABASE_URL=url, DJANGO_SETTINGS_MODULE="wetbench_site.settings", WETBENCH_VAR_DIR=folder)
    import django

    django.setup()


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def measure(vendor: str, small: int, large: int, rounds: int) -> float:
    """Prints the table of one database; the ratio of our rows a second to the database's own."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-bench-"))
        sqlite = f"sqlite:///{Path(folder) / 'export.sqlite3'}"
        url = stack.enter_context(postgres("export")).url if vendor == "postgresql" else sqlite
        _apart(begin, url, small, large, folder)
        name = "COPY" if vendor == "postgresql" else "sqlite3 -csv" if shutil.which("sqlite3") else "Python's csv"
        found = [(_apart(theirs, url, "large", folder), _apart(ours, url, "large", folder)) for _ in range(rounds)]
        few = _apart(ours, url, "small", folder)
    base, own = (median(one.rows / one.seconds for one in column) for column in zip(*found, strict=True))
    many = found[-1][1]
    print(f"{vendor:12} {name:14} {base:10,.0f}  {own:9,.0f}  {own / base:6.3f}   "
          f"{few.grown:6.1f} MB of {few.rows:,}, {many.grown:6.1f} MB of {many.rows:,}", flush=True)  # fmt: skip
    return own / base


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.export", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the ratings: only that it runs")
    args = parser.parse_args()
    part = 100 if args.quick else 1
    print("Rows a second of a study's ratings as CSV. Baseline: the database writes the same query itself.")
    print(f"{'database':12} {'baseline':14} {'baseline/s':>10}  {'ours/s':>9}  {'ratio':>6}   memory grown by")
    for vendor in ["sqlite", "postgresql"] if args.database == "both" else [args.database]:
        measure(vendor, SMALL // part, LARGE // part, 1 if args.quick else args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
