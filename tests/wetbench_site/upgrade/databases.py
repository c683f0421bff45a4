"""Databases for the tests of the upgrade, on either system: filled from a dump, read whole, and managed by commands."""

import gzip
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings

from tests.wetbench_site.upgrade import schema

HERE = Path(__file__).parent
Row = dict[str, Any]


@dataclass(frozen=True)
class Database:
    """A database of its own for one site; `url` is empty for the SQLite file in the folder."""

    folder: Path
    url: str = ""

    @property
    def file(self) -> Path:
        return self.folder / "wetbench.sqlite3"

    def load_release(self) -> None:
        """Fill this empty database from the dump that the release made."""
        name = "release.postgres.sql.gz" if self.url else "release.sqlite.sql.gz"
        self.run_script(gzip.decompress((HERE / name).read_bytes()).decode())

    def run_script(self, sql: str) -> None:
        if self.url:
            with psycopg.connect(self.url, autocommit=True, cursor_factory=psycopg.ClientCursor) as line:
                line.execute(sql)
            return
        with closing(sqlite3.connect(self.file)) as file:
            file.executescript(sql)
            file.execute("PRAGMA journal_mode=WAL")

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a script of the repository on this database."""
        environ = {**os.environ, "DATABASE_URL": self.url, "WETBENCH_VAR_DIR": str(self.folder)}
        run = [sys.executable, *command]
        return subprocess.run(run, cwd=settings.BASE_DIR, env=environ, capture_output=True, text=True, check=False)

    def run_command(self, *command: str) -> str:
        """Run a command of manage.py and return what it printed; it must succeed."""
        done = self.run("manage.py", *command)
        assert done.returncode == 0, f"{command[0]} failed: {done.stdout}{done.stderr}"
        return done.stdout

    def describe_schema(self) -> set[str]:
        if self.url:
            with psycopg.connect(self.url) as line:
                return schema.describe_postgres(line)
        with closing(sqlite3.connect(self.file)) as file:
            return schema.describe_sqlite(file)

    def read_tables(self) -> dict[str, list[Row]]:
        """Return all rows of all tables, each as a dictionary by column."""
        if self.url:
            with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as line:
                tables = line.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
                return {name: line.execute(f'SELECT * FROM public."{name}"').fetchall() for name in _names(tables)}
        with closing(sqlite3.connect(self.file)) as file:
            file.row_factory = lambda cursor, row: dict(zip([one[0] for one in cursor.description], row, strict=True))
            found = "SELECT name AS tablename FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            tables = file.execute(found).fetchall()
            return {name: file.execute(f'SELECT * FROM "{name}"').fetchall() for name in _names(tables)}


def _names(tables: list[Row]) -> list[str]:
    return sorted(row["tablename"] for row in tables)
