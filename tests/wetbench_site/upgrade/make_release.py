"""Write the databases of a release as it made them: tests/wetbench_site/upgrade/release.sqlite.sql.gz and release.postgres.sql.gz.

    .venv/bin/python tests/wetbench_site/upgrade/make_release.py postgres://root@127.0.0.1:5432/postgres

The commit is exported and run with this virtual environment, so it needs the libraries of that commit. The files are in
the repository; they are made again only when another release becomes the one that databases are upgraded from.
"""

import gzip
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RELEASE = "d524dde"
DATABASE = "wetbench_release"


def main(server: str) -> None:
    with TemporaryDirectory() as folder:
        code, var = Path(folder) / "code", Path(folder) / "var"
        code.mkdir()
        var.mkdir()
        export_release(code)
        fill_database(code, var, "")
        write_compressed(HERE / "release.sqlite.sql.gz", dump_sqlite(var / "wetbench.sqlite3"))
        url = f"{server.rpartition('/')[0]}/{DATABASE}"
        with closing(psycopg.connect(server, autocommit=True)) as line:
            line.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
            line.execute(f"CREATE DATABASE {DATABASE}")
            try:
                fill_database(code, var, url)
                write_compressed(HERE / "release.postgres.sql.gz", dump_postgres(url))
            finally:
                line.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def export_release(folder: Path) -> None:
    """Write the files of the release's commit into the folder."""
    archive = subprocess.run(["git", "archive", RELEASE], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=archive, check=True)


def fill_database(code: Path, var: Path, url: str) -> None:
    """Migrate an empty database with the release and fill it by the release's own code."""
    environ = {**os.environ, "WETBENCH_VAR_DIR": str(var), "DATABASE_URL": url, "WETBENCH_LOG_LEVEL": "WARNING"}
    for command in (
        ["manage.py", "migrate", "-v0", "--skip-checks"],
        [str(HERE / "fill_release.py")],
        ["manage.py", "verify", "--quiet"],
    ):
        subprocess.run([sys.executable, *command], cwd=code, env=environ, check=True)


def dump_sqlite(file: Path) -> str:
    with closing(sqlite3.connect(file)) as database:
        return "\n".join(database.iterdump()) + "\n"


def dump_postgres(url: str) -> str:
    """Return the database as statements that need no psql; other versions' settings and psql's own lines are left out."""
    command = ["pg_dump", "--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=500", url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    own = ("\\restrict", "\\unrestrict", "SET transaction_timeout")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(own))


def write_compressed(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
