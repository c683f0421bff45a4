"""PostgreSQL and Redis for tests: started for one test run on free ports, and stopped after it."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.system import PACKAGES, find_program


def require_program(name: str) -> str:
    """Return the path of the program. If it is missing, skip the test (fail it under CI) and name the package to install."""
    path = find_program(name)
    if path is None:
        pytest.skip(f"{name} is missing: sudo apt-get install {PACKAGES.get(name, name)}")
    return path


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class PostgresCluster:
    """A cluster for this test run. As root, run it as user postgres: PostgreSQL refuses to run as root."""

    folder: Path
    port: int
    fsync: str = "off"
    templates: set[str] = field(default_factory=set)

    @classmethod
    @contextmanager
    def run_cluster(cls, fsync: str = "off") -> Iterator["PostgresCluster"]:
        initdb = require_program("initdb")
        folder = Path(tempfile.mkdtemp(prefix="wetbench-pg-"))
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        cluster = cls(folder, find_free_port(), fsync)
        cluster._run_as_owner(
            initdb, "-D", str(folder / "data"), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"
        )
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop("immediate")
            shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync={self.fsync}"
        self._run_as_owner(
            require_program("pg_ctl"),
            "-D",
            str(self.folder / "data"),
            "-o",
            options,
            "-l",
            str(self.folder / "log"),
            "-w",
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        self._run_as_owner(require_program("pg_ctl"), "-D", str(self.folder / "data"), "-m", mode, "-w", "stop")

    def create_database(self, name: str, template: str = "template1") -> str:
        """Create an empty database, or a copy of one that nobody is using, and return its DATABASE_URL."""
        options = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")
        self._run_as_owner(require_program("createdb"), *options, "--template", template, name)
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"

    def _run_as_owner(self, *command: str) -> None:
        as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        process = subprocess.run([*as_owner, *command], cwd=self.folder, capture_output=True, text=True, check=False)
        assert process.returncode == 0, f"{command[0]} failed: {process.stdout}{process.stderr}"


@dataclass
class RedisServer:
    """A Redis that stores nothing on disk."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @classmethod
    @contextmanager
    def run_server(cls) -> Iterator["RedisServer"]:
        server = cls(find_free_port())
        server.start()
        try:
            yield server
        finally:
            server.stop()

    def start(self) -> None:
        command = [
            require_program("redis-server"),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("Redis did not start within 20 s")

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
