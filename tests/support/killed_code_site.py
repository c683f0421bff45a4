"""A site that plays code episodes while its workers are killed, on either database: Celery on PostgreSQL, the embedded worker on SQLite."""

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from tests.support import code_worlds
from tests.support.killed_site import CELERY, MAX_LOST_LEASES
from tests.support.warm_processes import ForkedProcess, PreloadedProcess

SLOTS = 4  # a worker that is stopped for a while keeps its slots
UNFINISHED = "select count(*) from simulation_codeepisode where ended_at is null"
SANDBOXES = "select count(*) from simulation_sandboxrun"
UNDER_WAY = """
    select e.lease_owner, s.id from simulation_sandboxrun s
    join simulation_codeepisode e on e.id = s.episode_id and e.fence = s.fence where s.state = 'started'"""


class KillCounts(NamedTuple):
    """The effect of killing workers. `processes` are those of their sandboxes, with the time at which each was started."""

    workers: int = 0
    sandboxes: frozenset[int] = frozenset()  # keys of the sandboxes that were under way
    processes: frozenset[tuple[int, str]] = frozenset()


@dataclass
class CodeSite:
    """`database` is the path of a SQLite file, or the name of a database whose address is `url`."""

    warm: PreloadedProcess
    database: str
    folder: Path
    url: str = ""
    processes: list[ForkedProcess] = field(default_factory=list)

    def start_process(self, *command: str, log: str = "log") -> ForkedProcess:
        process = self.warm.fork_command(self.database, self.folder / f"{Path(self.database).stem}.{log}", *command)
        self.processes.append(process)
        return process

    def run_command(self, *command: str, seconds: float = 120) -> str:
        """Run a management command, which must succeed, and return its output."""
        process = self.start_process("manage.py", *command, log=f"command{len(self.processes)}")
        assert process.wait_for_end(seconds) == 0, process.read_log()
        return process.log.read_text(errors="replace")

    def start_workers(self, number: int) -> list[ForkedProcess]:
        """Start workers, and with Celery also the dispatcher, which is not among those that are returned."""
        if self.url:
            self.start_process("manage.py", "dispatch", "--skip-checks")
        return [self.start_worker() for _ in range(number)]

    def start_worker(self) -> ForkedProcess:
        if self.url:
            return self.start_process(*CELERY, "--concurrency", "4")
        return self.start_process("manage.py", "work", "--threads", "3", "--skip-checks")

    def stop_processes(self, number: int = signal.SIGKILL) -> None:
        for process in self.processes:
            process.send_signal(number)
        for process in self.processes:
            process.wait_for_end(30)

    def select_rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.url:
            with psycopg.connect(self.url, autocommit=True) as connection:
                return connection.execute(query.encode()).fetchall()
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)) as file:
            return file.execute(query).fetchall()

    def select_number(self, query: str) -> int:
        return int(self.select_rows(query)[0][0])

    def wait_until(self, condition: Callable[[], object], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not reached within {seconds} s: {self.describe_state()}"
            time.sleep(0.02)

    def wait_until_finished(self, seconds: float = 240) -> None:
        self.wait_until(lambda: not self.select_number(UNFINISHED), seconds)
        # The sweep marks the sandboxes of killed workers as lost.
        self.wait_until(lambda: not self.select_number(f"{SANDBOXES} where state = 'started'"), 20)

    def describe_state(self) -> str:
        columns = "status, phase, reason, error, lost_leases, lease_owner"
        rows = Counter(self.select_rows(f"select {columns} from simulation_codeepisode where ended_at is null"))
        logs = [path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log")]
        return "\n".join([str(rows), str(self.count_sandboxes_by_state()), *logs])

    def count_sandboxes_by_state(self) -> Counter[str]:
        return Counter(dict(self.select_rows("select state, count(*) from simulation_sandboxrun group by state")))

    def order_episodes(self, attempts: int, casts: tuple[str, ...] = code_worlds.CASTS) -> None:
        """Order code episodes of two masks, so `attempts` times two for each cast."""
        for cast in casts:
            limits = () if cast.startswith("offline") else ("--cost", "none", "--max-cost", "1000")
            self.run_command(
                "run_code", "--task", code_worlds.TASK, "--n", "1,2", "--cast", cast, "--attempts", str(attempts),
                "--seed", "7", "--validate", "--skip-checks", *limits,
            )  # fmt: skip

    def copy_to(self, name: str) -> "CodeSite":
        """Return a site on a copy of this database, which no process may be using."""
        if self.url:
            address = self.url.rpartition("/")[0]
            with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
                connection.execute(f"create database {name} template {self.database}".encode())
            return CodeSite(self.warm, name, self.folder, f"{address}/{name}")
        path = Path(self.database).with_stem(name)
        with closing(sqlite3.connect(self.database)) as source, closing(sqlite3.connect(path)) as copy:
            source.backup(copy)
        return CodeSite(self.warm, str(path), self.folder)


def build_variables(
    folder: Path, program: Path, database: str, url: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a site's processes; its data are stored in `folder`."""
    for name in ("var", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    return {
        **os.environ,
        "DATABASE_URL": url or f"sqlite:///{database}",
        "WETBENCH_VAR_DIR": str(folder / "var"),
        "TMPDIR": str(folder / "tmp"),
        "WETBENCH_PACE": "0.05",
        "WETBENCH_LOG_LEVEL": "ERROR",
        "WETBENCH_BWRAP": str(program),
        "WETBENCH_SANDBOXES": str(SLOTS),
        **environment,
    }


@contextmanager
def run_code_site(
    folder: Path, program: Path, database: str, url: str, environment: Mapping[str, str]
) -> Iterator[CodeSite]:
    """Yield a site on a migrated database, with the small task and its cast. `program` is the bwrap of this site alone."""
    with PreloadedProcess.run_process(build_variables(folder, program, database, url, environment)) as warm:
        site = CodeSite(warm, database, folder, url)
        site.run_command("shell", "--no-imports", "-c", code_worlds.CREATE_WORLD)
        yield site


def run_with_kills(site: CodeSite, workers: list[ForkedProcess], rng: random.Random, most: int) -> KillCounts:
    """Kill a worker up to `most` times: each time after one to three further sandboxes and a random pause."""
    killed = KillCounts()
    while killed.workers < most and site.select_number(UNFINISHED):
        threshold = site.select_number(SANDBOXES) + rng.randint(1, 3)
        site.wait_until(
            lambda threshold=threshold: site.select_number(SANDBOXES) >= threshold or not site.select_number(UNFINISHED)
        )
        time.sleep(rng.uniform(0, 0.1))
        killed = kill_busy_worker(site, workers, rng, killed)
    return killed


def kill_busy_worker(
    site: CodeSite, workers: list[ForkedProcess], rng: random.Random, before: KillCounts
) -> KillCounts:
    """Send SIGKILL to a worker that has work, and start another at once.

    Never kill the third worker in a row at the same step: that would end the episode as "worker lost", which is another rule.
    """
    if not (victims := [worker for worker in workers if can_be_killed(site, worker)]):
        return before
    victim = rng.choice(victims)
    victim.send_signal(signal.SIGSTOP)
    time.sleep(0.02)  # its last statement reaches the database
    if not can_be_killed(site, victim):  # it has just claimed a step at which two others were killed
        victim.send_signal(signal.SIGCONT)
        return before
    processes = frozenset(list_descendants(victim.pid))
    victim.send_signal(signal.SIGKILL)
    assert victim.wait_for_end(20) == -signal.SIGKILL
    sandboxes = {key for owner, key in site.select_rows(UNDER_WAY) if read_pid(owner) == victim.pid}
    workers[workers.index(victim)] = site.start_worker()
    return KillCounts(before.workers + 1, before.sandboxes | sandboxes, before.processes | processes)


def can_be_killed(site: CodeSite, worker: ForkedProcess) -> bool:
    """Return whether the worker has work, and each of its episodes may lose one more worker."""
    rows = site.select_rows("select lease_owner, lost_leases from simulation_codeepisode where lease_until is not null")
    lost = [lost for owner, lost in rows if read_pid(owner) == worker.pid]
    return bool(lost) and max(lost) < MAX_LOST_LEASES - 1


def read_pid(owner: str) -> int:
    """Return the process id in a lease's owner, host:pid:token."""
    return int(owner.split(":")[1])


def list_descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Yield process id and start time of all processes below a process."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            yield int(child), read_start_time(int(child))
            yield from list_descendants(int(child))


def read_start_time(pid: int) -> str:
    """Return when a process was started, in ticks since the machine was, or "" if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
