"""python -m bench.opening: importing and opening a study of 5,000 items of 6 KB for 95 raters, while others write.

The actions run one after another, each in a new process, as `import_items`, `open_study`, `add_rater_places` and
`withdraw_rater` do them. Each item gets 5 ratings, and 5% of the items are repeated: about 26,000 assignments. A second
process writes small transactions all the time, as raters of another study do, and notes how long each took. Two baselines
come from the same run: the longest wait of that writer while nothing else runs, and the processor time of inserting the
same rows once more into an empty database (`executemany`, `COPY`), with the database's own. No write may take longer than 2 s.
"""

import argparse
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench import bulk_pages
from bench.processors import read_tree_seconds
from bench.services import start_postgres

MAX_WAIT = 2.0  # seconds that a write of another study may take
ITEMS, RATERS, RATINGS_PER_ITEM = 5_000, 95, 5
LINE_BYTES = 6_000
PAUSE = 0.01  # seconds between two writes
STUDY, OTHER_STUDY = "large", "other"
TABLES = ("ratings_item", "ratings_itemsource", "ratings_rater", "ratings_assignment")  # what opening fills


class Cost(NamedTuple):
    """What one action took: seconds, seconds of processors (Python and PostgreSQL), and growth of the peak memory in MB."""

    began: float
    seconds: float
    python: float
    postgres: float
    memory: float


class Sizes(NamedTuple):
    items: int
    raters: int
    ratings_per_item: int


def build_line(number: int) -> str:
    """Return one transition of about 6 KB; two lines that follow each other are an original and its error."""
    pair, is_error = divmod(number, 2)
    inputs = [_build_material(pair, index) for index in range(6)]
    outputs = [{**material, "replaces": material["barcode"]} for material in inputs[:5]]
    for output in outputs:
        del output["barcode"]
    outputs[0] = {**outputs[0], "properties": {**inputs[0]["properties"], "volume": f"{number + 1} uL"}}
    data = {
        "id": f"item-{number:05}", "source": f"simulator {number % 3}", "pair": f"pair-{pair:05}",
        "experiment": f"experiment {pair % 18}", "truth": ("correct", "type1", "type2")[is_error * (1 + pair % 2)],
        "input_materials": inputs,
        "action": {"name": f"Transfer {pair % 20}", "parameters": {"volume": "5 uL", "from": inputs[0]["barcode"]}},
        "outcome": {
            "success": True, "failure_reason": "", "new_materials": outputs,
            "new_observations": [
                {"description": f"The liquid in tube {index} is clear", "measurement_type": "visual", "value": ""}
                for index in range(4)
            ],
        },
    }  # fmt: skip
    if is_error:
        data["field"] = "new_materials[0].properties.volume"
    text = json.dumps(data)
    return json.dumps({**data, "remark": "x" * max(0, LINE_BYTES - len(text) - 14)})


def _build_material(pair: int, index: int) -> dict[str, Any]:
    names = ("volume", "concentration", "temperature", "buffer", "container", "cell density", "passage", "medium")
    properties = {name: f"{(pair * 7 + index * 13 + len(name)) % 997} units of the kind {index}" for name in names}
    return {
        "barcode": f"MAT-{pair % 10_000:05}{'ABCDEF'[index]}00", "name": f"Sample {index} in a tube", "properties": properties,
        "available_for_use": "available_for_further_use", "environmental_condition": "room_temp",
    }  # fmt: skip


def set_up_django(url: str, folder: str) -> None:
    os.environ.update(DATABASE_URL=url, DJANGO_SETTINGS_MODULE="wetbench_site.settings", WETBENCH_VAR_DIR=folder)
    import django

    django.setup()


def create_tables(url: str, folder: str) -> None:
    set_up_django(url, folder)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def create_drafts(url: str, folder: str, sizes: Sizes) -> None:
    """Create the draft and, as the target of the writer, another study with one rater."""
    create_tables(url, folder)
    from ratings.models import Rater, Study
    from ratings.studies import lifecycle

    document = {
        "kind": "transition_plausibility", "sources": [], "ratings_per_item": sizes.ratings_per_item, "seed": 7,
        "raters": sizes.raters, "repeats": 0.05, "display": {"layouts": ["plain", "aligned"]},
    }  # fmt: skip
    for slug in (STUDY, OTHER_STUDY):
        lifecycle.create_study(lifecycle.parse_protocol({**document, "name": slug, "slug": slug}))
    # Fixed, so that every run has the same plan.
    Study.objects.update(salt="salt")
    Rater.objects.create(study=Study.objects.get(slug=OTHER_STUDY), number=1, label="R01")


def write_all_the_time(url: str, folder: str, pipe: Connection) -> None:
    """Write small transactions until something arrives; then send (begin, seconds) of each."""
    set_up_django(url, folder)
    from django.db import OperationalError, transaction
    from django.utils import timezone

    from ratings.models import Rater

    taken: list[tuple[float, float]] = []
    pipe.send("ready")
    while not pipe.poll(PAUSE):
        began = time.monotonic()
        # A write that fails because the database was locked for 20 s counts with these 20 s.
        with suppress(OperationalError), transaction.atomic():
            Rater.objects.filter(study__slug=OTHER_STUDY).update(last_seen_at=timezone.now())
        taken.append((began, time.monotonic() - began))
    pipe.send(taken)


def import_items(file: str) -> None:
    from ratings.exchange.imports import item_imports
    from ratings.models import Study

    with Path(file).open("rb") as stream:
        item_imports.import_file(Study.objects.get(slug=STUDY), stream)


def open_study(file: str) -> None:
    from ratings.models import Study
    from ratings.studies import lifecycle

    lifecycle.open_study(Study.objects.get(slug=STUDY))


def add_raters(file: str) -> None:
    from ratings.models import Study
    from ratings.studies import running_raters

    running_raters.add_rater_places(Study.objects.get(slug=STUDY), 5)


def withdraw_rater(file: str) -> None:
    from ratings.models import Rater
    from ratings.studies import running_raters

    running_raters.withdraw_rater(Rater.objects.get(study__slug=STUDY, number=1))


ACTIONS: dict[str, Callable[[str], None]] = {
    "import items": import_items,
    "open study": open_study,
    "add 5 raters": add_raters,
    "withdraw rater": withdraw_rater,
}


def measure_action(url: str, folder: str, name: str, file: str, postgres: int) -> Cost:
    """Run one action in this process, which has done nothing before."""
    set_up_django(url, folder)
    from django.db import connection

    # What the actions import is loaded before, as in a worker.
    from ratings.exchange.imports import item_imports  # noqa: F401
    from ratings.studies import running_raters  # noqa: F401

    connection.ensure_connection()
    memory, before = read_peak_memory(), read_postgres_seconds(postgres)
    began, python = time.monotonic(), time.process_time()
    ACTIONS[name](file)
    seconds, python = time.monotonic() - began, time.process_time() - python
    return Cost(began, seconds, python, read_postgres_seconds(postgres) - before, read_peak_memory() - memory)


def measure_bare_insert(url: str, target: str, postgres: int) -> Cost:
    """Insert the rows of the opened study into an empty database with the same tables, as fast as the database allows."""
    copy = copy_with_postgres if postgres else copy_with_sqlite
    with copy(url, target) as insert:
        before = read_postgres_seconds(postgres)
        began, python = time.monotonic(), time.process_time()
        insert()
        seconds, python = time.monotonic() - began, time.process_time() - python
        return Cost(began, seconds, python, read_postgres_seconds(postgres) - before, 0)


@contextmanager
def copy_with_sqlite(url: str, target: str) -> Iterator[Callable[[], None]]:
    with (
        closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as source,
        closing(sqlite3.connect(target.removeprefix("sqlite:///"))) as bare,
    ):
        rows = {table: source.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        # As the site sets it: each commit is synced. References are not checked, because their tables are empty.
        bare.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000")

        def insert() -> None:
            with bare:
                for table in TABLES:
                    values = ", ".join("?" * len(rows[table][0]))
                    bare.executemany(f"INSERT INTO {table} VALUES ({values})", rows[table])

        yield insert


@contextmanager
def copy_with_postgres(url: str, target: str) -> Iterator[Callable[[], None]]:
    import psycopg

    with psycopg.connect(url) as source, psycopg.connect(target) as bare:
        blocks = {}
        for table in TABLES:
            with source.cursor().copy(f"COPY {table} TO STDOUT") as copy:
                blocks[table] = b"".join(map(bytes, copy))
        bare.execute("SET session_replication_role = replica")  # references are not checked

        def insert() -> None:
            for table in TABLES:
                with bare.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(blocks[table])
            bare.commit()

        yield insert


def read_postgres_seconds(postgres: int) -> float:
    return read_tree_seconds(postgres) if postgres else 0.0


def read_peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run the work in a new process: its peak memory is its own, and it has loaded and cached nothing."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


@contextmanager
def run_writer(url: str, folder: str) -> Iterator[list[tuple[float, float]]]:
    """Run the writer during the block. At its end the list has the begin and the seconds of every write."""
    here, there = get_context("spawn").Pipe()
    taken: list[tuple[float, float]] = []
    process = get_context("spawn").Process(target=write_all_the_time, args=(url, folder, there), daemon=True)
    process.start()
    there.close()  # so that `recv` fails if the writer has ended
    here.recv()
    try:
        yield taken
    finally:
        here.send("stop")
        taken += here.recv()
        process.join()


def find_longest_wait(writes: list[tuple[float, float]], began: float, seconds: float) -> float:
    """Return the longest of the writes that were under way during these seconds."""
    return max((taken for at, taken in writes if at < began + seconds and at + taken > began), default=0.0)


def measure_database(vendor: str, sizes: Sizes, names: list[str]) -> float:
    """Print the table of one database, and return the longest wait of the writer during an action."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-bench-"))
        url, target, postgres = f"sqlite:///{folder}/opening.sqlite3", f"sqlite:///{folder}/bare.sqlite3", 0
        if vendor == "postgresql":
            server = stack.enter_context(start_postgres("opening"))
            bulk_pages.create_database(server.url, "bare")
            url, target, postgres = server.url, server.url.rpartition("/")[0] + "/bare", server.pid
        file = Path(folder, "items.jsonl")
        with file.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{build_line(number)}\n" for number in range(sizes.items))
        run_in_process(create_drafts, url, folder, sizes)
        with run_writer(url, folder) as writes:
            began = time.monotonic()
            time.sleep(5)
        alone = find_longest_wait(writes, began, 5)
        print(
            f"{vendor}: a write alone takes at most {alone:.2f} s; file of {file.stat().st_size / 1e6:.0f} MB",
            flush=True,
        )
        waits, costs = [0.0], {}
        for name in names:
            with run_writer(url, folder) as writes:
                costs[name] = run_in_process(measure_action, url, folder, name, str(file), postgres)
            waits.append(find_longest_wait(writes, costs[name].began, costs[name].seconds))
            print_cost(name, costs[name], waits[-1], len(writes))
            if name == "open study":
                run_in_process(create_tables, target, folder)
                bare = run_in_process(measure_bare_insert, url, target, postgres)
                print_cost("  the same rows, bare", bare)
                ratio = (costs[name].python + costs[name].postgres) / (bare.python + bare.postgres)
                print(f"    processor time of opening: {ratio:.1f} times that of its rows", flush=True)
        return max(waits)


def print_cost(name: str, cost: Cost, wait: float | None = None, writes: int = 0) -> None:
    waited = "" if wait is None else f"{wait:12.2f} s of {writes:,} writes"
    print(
        f"  {name:22}{cost.seconds:9.2f} s{cost.python:9.2f} s{cost.postgres:9.2f} s{cost.memory:8.0f} MB{waited}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.opening", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--ratings-per-item", type=int, default=RATINGS_PER_ITEM)
    parser.add_argument("--actions", choices=list(ACTIONS), nargs="+", default=list(ACTIONS))
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the items, to check that it runs")
    args = parser.parse_args()
    sizes = Sizes(ITEMS // 50 if args.quick else ITEMS, RATERS // 5 if args.quick else RATERS, args.ratings_per_item)
    print(f"{sizes.items:,} items of 6 KB, {sizes.raters} raters, {sizes.ratings_per_item} ratings per item")
    print(f"  {'':22}{'time':>11}{'Python':>11}{'PostgreSQL':>11}{'memory':>8}{'longest wait':>15}")
    vendors = ["sqlite", "postgresql"] if args.database == "both" else [args.database]
    longest = max([measure_database(vendor, sizes, args.actions) for vendor in vendors])
    print(f"No write took longer than {MAX_WAIT:g} s: {'yes' if longest <= MAX_WAIT else 'no'}.")
    return 0 if args.quick else int(longest > MAX_WAIT)


if __name__ == "__main__":
    sys.exit(main())
