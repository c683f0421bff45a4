"""PostgreSQL, Redis and the model server for benchmarks: each runs in its own process on a free port and is stopped at the end."""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# pg_stat_statements counts the statements of each database user.
COUNT_STATEMENTS = "-c shared_preload_libraries=pg_stat_statements -c pg_stat_statements.track=top"
PROVIDER_PATHS = {"ANTHROPIC": "", "OPENAI": "/v1", "GEMINI": "/v1beta/openai/", "OPENROUTER": "/api/v1"}


class Database(NamedTuple):
    """A PostgreSQL database, the only one of its cluster."""

    url: str
    pid: int

    def get_url_for(self, name: str) -> str:
        return self.url.replace("postgres://postgres@", f"postgres://{name}@")


class Broker(NamedTuple):
    url: str
    pid: int


class ModelServer(NamedTuple):
    """The local substitute for the providers (tests/support/model_server), accessed over HTTP."""

    url: str
    pid: int

    def build_environ(self) -> dict[str, str]:
        """Return base URLs and dummy keys for every provider."""
        urls = {f"{name}_BASE_URL": self.url + path for name, path in PROVIDER_PATHS.items()}
        return urls | {f"{name}_API_KEY": f"dummy-{name.lower()}" for name in PROVIDER_PATHS}

    def fetch_counters(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/counters", timeout=30) as reply:
            counts: dict[str, Any] = json.load(reply)
        return counts

    def reset_server(self) -> None:
        urllib.request.urlopen(f"{self.url}/reset", data=b"", timeout=30).close()


def find_program(name: str) -> str:
    """Return the program's path, on PATH or in Debian's folder of PostgreSQL. Exits if it is missing."""
    debian_paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    path = str(debian_paths[-1]) if debian_paths else shutil.which(name)
    if path is None:
        sys.exit(
            f"{name} is missing: this benchmark needs PostgreSQL and Redis (apt-get install postgresql redis-server)"
        )
    return path


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def start_postgres(database: str) -> Iterator[Database]:
    """Start an empty database in a cluster that counts its statements. It syncs its log to disk, as in production."""
    folder, port = Path(tempfile.mkdtemp(prefix="wetbench-bench-")), find_free_port()
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        shutil.chown(folder, "postgres", pwd.getpwnam("postgres").pw_gid)
    data = str(folder / "data")
    run_as_postgres(folder, "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
    settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 {COUNT_STATEMENTS}"
    run_as_postgres(folder, "pg_ctl", "-D", data, "-o", settings, "-l", str(folder / "log"), "-w", "start")
    try:
        run_as_postgres(folder, "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", database)
        pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        yield Database(f"postgres://postgres@127.0.0.1:{port}/{database}", pid)
    finally:
        run_as_postgres(folder, "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def start_redis() -> Iterator[Broker]:
    """Start a Redis server that stores nothing on disk."""
    port = find_free_port()
    command = [
        find_program("redis-server"),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    with run_process(command, cwd=tempfile.gettempdir(), stdout=subprocess.DEVNULL) as server:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield Broker(f"redis://127.0.0.1:{port}/0", server.pid)


@contextmanager
def start_model_server(*options: str) -> Iterator[ModelServer]:
    command = [sys.executable, "-m", "tests.support.model_server", "--port", "0", *options]
    with run_process(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        # With port 0 the server chooses a free port and prints its address.
        url = server.stdout.readline().strip()
        if not url:
            sys.exit("the model server did not start")
        yield ModelServer(url, server.pid)


@contextmanager
def run_process(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Run a process; terminate it at the end of the block, and kill it if it has not ended after 30 seconds."""
    child = subprocess.Popen(command, **options)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def run_as_postgres(folder: Path, name: str, *arguments: str) -> None:
    command = [*(["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []), find_program(name), *arguments]
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        sys.exit(f"{name} failed: {completed.stdout}{completed.stderr}")
