"""A site of web processes alone, on either database, for short tests of raters while servers are killed."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.support import migrated_databases
from tests.support.services import find_free_port
from tests.support.soaking import answer_checks, soak_studies
from tests.support.soaking.rater import SoakRater
from tests.support.soaking.web_server import WebServer
from tests.support.warm_processes import PreloadedProcess

QUICK = (0.1, 0.2, 0.4, 0.8, 1.6)  # seconds between tries


@dataclass
class SmallSite:
    """`database` is the path of a SQLite file, or the name of a database whose address is `url`."""

    warm: PreloadedProcess
    database: str
    folder: Path
    url: str = ""

    def run_command(self, *command: str, seconds: float = 120) -> str:
        process = self.warm.fork_command(self.database, self.folder / f"{command[0]}.log", "manage.py", *command)
        assert process.wait_for_end(seconds) == 0, process.read_log()
        return process.log.read_text(errors="replace")

    def select_rows(self, query: str) -> Sequence[Sequence[Any]]:
        if self.url:
            with psycopg.connect(self.url) as connection:
                return connection.execute(query).fetchall()
        with closing(sqlite3.connect(self.database)) as connection_to_file:
            return connection_to_file.execute(query).fetchall()

    @contextmanager
    def run_raters(self, web: WebServer, raters: int) -> Iterator[list[SoakRater]]:
        """Let this many raters rate while the block lasts, and then have every sent answer confirmed."""
        stop = threading.Event()
        created = soak_studies.create_raters(self, web.base_url, raters, 40, (0.05, 0.3), 4, stop)
        for rater in created:
            rater.waits = QUICK
        threads = [threading.Thread(target=rater.rate_until_stopped) for rater in created]
        for thread in threads:
            thread.start()
        try:
            yield created
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def find_wrong_answers(self, raters: list[SoakRater]) -> dict[str, list[str]]:
        events, ratings = (
            answer_checks.select_answers(self.select_rows, sql) for sql in (answer_checks.EVENTS, answer_checks.RATINGS)
        )
        return answer_checks.find_wrong_answers(list(raters[0].journal.iter_entries()), events, ratings)

    @contextmanager
    def run_web_server(self, served: str = "wetbench_site.wsgi") -> Iterator[WebServer]:
        web = WebServer(self.warm, self.database, self.folder, served)
        try:
            web.wait_until_ready()
            yield web
        finally:
            web.stop_server()


@contextmanager
def create_site(folder: Path, url: str = "") -> Iterator[SmallSite]:
    """Create a site on the database at `url`, or on a SQLite file in the folder. Nothing listens at its broker's address."""
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "CELERY_BROKER_URL": f"redis://127.0.0.1:{find_free_port()}/0",
        "WETBENCH_VAR_DIR": str(folder),
        "WETBENCH_WRITES_PER_MINUTE": "100000",  # raters here think for less time than a person
        "TMPDIR": str(folder),  # killed processes leave their temporary files
    }
    database = url.rpartition("/")[2] if url else str(folder / "site.sqlite3")
    if not url:
        migrated_databases.copy_sqlite_database(Path(database))
    with PreloadedProcess.run_process(environment) as warm:
        site = SmallSite(warm, database, folder, url)
        site.run_command("migrate", "--verbosity", "0", "--skip-checks")
        yield site
