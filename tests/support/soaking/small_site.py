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

from tests.support.services import free_port
from tests.support.soaking import confirmed, rooms
from tests.support.soaking.rater import Rater
from tests.support.soaking.web import Web
from tests.support.warm_processes import Warm

QUICK = (0.1, 0.2, 0.4, 0.8, 1.6)  # seconds between tries


@dataclass
class SmallSite:
    """`database` is the path of a SQLite file, or the name of a database whose address is `url`."""

    warm: Warm
    database: str
    folder: Path
    url: str = ""

    def manage(self, *command: str, seconds: float = 120) -> str:
        process = self.warm.start(self.database, self.folder / f"{command[0]}.log", "manage.py", *command)
        assert process.wait(seconds) == 0, process.said()
        return process.log.read_text(errors="replace")

    def rows(self, query: str) -> Sequence[Sequence[Any]]:
        if self.url:
            with psycopg.connect(self.url) as connection:
                return connection.execute(query).fetchall()
        with closing(sqlite3.connect(self.database)) as connection_to_file:
            return connection_to_file.execute(query).fetchall()

    @contextmanager
    def at_work(self, web: Web, raters: int) -> Iterator[list[Rater]]:
        """Let this many raters rate while the block lasts, and then have every sent answer confirmed."""
        stop = threading.Event()
        created = rooms.taken(self, web.site, raters, 40, (0.05, 0.3), 4, stop)
        for rater in created:
            rater.waits = QUICK
        threads = [threading.Thread(target=rater.work) for rater in created]
        for thread in threads:
            thread.start()
        try:
            yield created
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def wrong(self, raters: list[Rater]) -> dict[str, list[str]]:
        events, ratings = (confirmed.rows(self.rows, sql) for sql in (confirmed.EVENTS, confirmed.RATINGS))
        return confirmed.wrong(list(raters[0].journal.entries()), events, ratings)

    @contextmanager
    def web(self, served: str = "wetbench_site.wsgi") -> Iterator[Web]:
        web = Web(self.warm, self.database, self.folder, served)
        try:
            web.until_answers()
            yield web
        finally:
            web.stop()


@contextmanager
def made(folder: Path, url: str = "") -> Iterator[SmallSite]:
    """Create a site on the database at `url`, or on a SQLite file in the folder. Nothing listens at its broker's address."""
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "CELERY_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0",
        "WETBENCH_VAR_DIR": str(folder),
        "WETBENCH_WRITES_PER_MINUTE": "100000",  # raters here think for less time than a person
        "TMPDIR": str(folder),  # killed processes leave their temporary files
    }
    database = url.rpartition("/")[2] if url else str(folder / "site.sqlite3")
    with Warm.started(environment) as warm:
        site = SmallSite(warm, database, folder, url)
        site.manage("migrate", "--verbosity", "0", "--skip-checks")
        yield site
