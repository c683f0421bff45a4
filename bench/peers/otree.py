"""oTree as a peer of the rating loop. `python -m bench.peers.otree --install` installs it in an environment of its own.

The environment is var/otree-venv, or the folder in OTREE_VENV (WetBench refuses unknown variables named WETBENCH_*). The oTree
project beside this module has one app: a round per item, and per round one page with the item, a verdict and a confidence.
oTree selects no item, since all are in memory, and similar materials are already grouped as on WetBench's page. Its page is
smaller: 7 kB instead of 18.

It is served as oTree's documentation describes for production: `otree prodserver`, OTREE_PRODUCTION=1, no debug
information. That command starts one uvicorn process (workers=1; no uvloop and no httptools, since oTree does not install
them) and one process for page timeouts, which no page of ours has. What limits its speed is oTree's own:

* One asynchronous lock around each whole request: they are answered one after the other, with one database connection, so a
  second core is of no use and more raters only wait longer. The lock allows no second process either: it is in memory.
* An answer is a POST with a redirect and a GET. Both write to the participant's row, so a rating has two commits.
* SQLAlchemy 1.3, which oTree requires, builds and compiles each query again: 40% of the processor time. Rendering takes 15%.
* On SQLite, oTree keeps SQLite's default journal; each commit syncs several files. WetBench uses a write-ahead log.
"""

import argparse
import html
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGTERM
from typing import Any, NamedTuple

from bench.processors import read_tree_seconds
from bench.services import ROOT, find_free_port, run_process
from ratings.blinding.material_rows import NAME, PropertyRow, group_materials

PACKAGES = ("otree==6.0.15", "psycopg2-binary==2.9.13")  # Python 3.11
INSTALL_COMMAND = "python -m bench.peers.otree --install"
PROJECT = Path(__file__).with_name("otree_project")
SESSION = "rate_items"  # the project's only session configuration
_SECRETS = dict.fromkeys(("OTREE_ADMIN_PASSWORD", "OTREE_SECRET_KEY", "OTREE_REST_KEY"), "benchmark")


class OtreeServer(NamedTuple):
    """A running server. `starts` has an address for each participant; later visits continue where the last one ended."""

    pid: int
    port: int
    starts: list[str]

    def read_cpu_seconds(self) -> float:
        """Return the processor time of both processes in seconds."""
        return read_tree_seconds(self.pid)


def get_environment_folder() -> Path:
    return Path(os.environ.get("OTREE_VENV") or ROOT / "var" / "otree-venv")


def find_otree() -> Path:
    """Return oTree's program. Exits with the command that installs it if it is missing."""
    program = get_environment_folder() / "bin" / "otree"
    if not program.exists():
        sys.exit(f"{program} is missing. Install oTree in an environment of its own: {INSTALL_COMMAND}")
    return program


def install_otree() -> None:
    folder = get_environment_folder()
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*pip, *PACKAGES], check=True)


def build_item(payload: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of an item: action, parameters, tables with rows (label, before, after), lines of text."""
    groups, single_materials = group_materials(payload)
    tables: list[dict[str, Any]] = []
    for group in groups:
        rows = [
            build_row(f"{lane.name_in_table} {lane.ref}: {row.label}", row)
            for lane in group.lanes
            for row in lane.rows
            if row.key != NAME
        ]
        tables.append({"caption": f"{len(group.lanes)} materials of one kind", "rows": rows})
    for material in single_materials:
        rows = [build_row(row.label, row) for row in material.rows]
        tables.append({"caption": f"{material.name} {material.ref}", "rows": rows})
    lines = [f"Action rejected: {payload['rejected']}"] if payload["rejected"] else []
    lines += [f"{seen['type']}: {seen['description']} {seen['value']}" for seen in payload["observations"]]
    action = payload["action"]
    return {"action": action["name"], "parameters": action["parameters"], "tables": tables, "lines": lines}


def build_row(label: str, row: PropertyRow) -> tuple[str, str, str]:
    return (label, row.before, f"{row.after} {row.difference}".rstrip()) if row.changed else (label, row.before, "same")


@contextmanager
def start_otree(database_url: str, items: Sequence[dict[str, Any]], raters: int) -> Iterator[OtreeServer]:
    """Start oTree with one session: a round for each item (a payload), a participant for each rater.

    Without a database URL it uses an SQLite file. Creating the session takes some seconds.
    """
    program, port = find_otree(), find_free_port()
    with tempfile.TemporaryDirectory(prefix="wetbench-otree-") as folder, open(f"{folder}/log", "w+") as log:
        project = Path(shutil.copytree(PROJECT, f"{folder}/project"))
        (project / "_static").mkdir()  # oTree does not start without it
        # oTree's templates do not escape texts, so that is done here.
        texts = html.escape(json.dumps([build_item(payload) for payload in items]), quote=False)
        (project / SESSION / "items.json").write_text(texts)
        environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        environ |= {"OTREE_PRODUCTION": "1", "OTREE_AUTH_LEVEL": "STUDY", **_SECRETS}
        environ["PATH"] = f"{program.parent}:{environ['PATH']}"  # the server starts its second process as `otree`
        if database_url:
            environ["DATABASE_URL"] = database_url
        options = {"cwd": project, "env": environ, "stdout": log, "stderr": log, "start_new_session": True}
        with run_process([str(program), "prodserver", f"127.0.0.1:{port}"], **options) as process:
            try:
                wait_for_port(process, port, Path(log.name))
                yield OtreeServer(process.pid, port, create_participants(port, raters))
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, SIGTERM)  # its second process does not end with the first


def wait_for_port(process: "subprocess.Popen[Any]", port: int, log: Path) -> None:
    """Wait until the server accepts connections. Exits with its output if it ends instead."""
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"oTree did not start:\n{log.read_text()}")


def create_participants(port: int, raters: int) -> list[str]:
    """Create a session and return each participant's first address. Uses oTree's REST API."""
    created = post_to_otree(port, "sessions", {"session_config_name": SESSION, "num_participants": raters})
    session = post_to_otree(port, f"get_session/{created['code']}", {})
    return [f"/InitializeParticipant/{participant['code']}" for participant in session["participants"]]


def post_to_otree(port: int, path: str, document: dict[str, Any]) -> dict[str, Any]:
    headers = {"otree-rest-key": _SECRETS["OTREE_REST_KEY"]}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{path}", json.dumps(document).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        result: dict[str, Any] = json.load(response)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.otree", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--install", action="store_true", required=True, help=f"install {' and '.join(PACKAGES)}")
    parser.parse_args()
    install_otree()
    return 0


if __name__ == "__main__":
    sys.exit(main())
