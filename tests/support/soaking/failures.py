"""Inject failures into a soak test at random moments, each kind equally often."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import redis

from tests.support import killed_site
from tests.support.killed_site import KillCounts, RunningSite
from tests.support.services import PostgresCluster, RedisServer
from tests.support.soaking.web_server import WebServer
from tests.support.warm_processes import ForkedProcess

CALLS_IN_STATE = "select id from simulation_modelcall where state = %(state)s"
MAX_WAIT_FOR_VICTIM = 5.0  # seconds to wait for a worker with work in progress


@dataclass
class FailureInjector:
    """One site, and the failures injected into it. `killed` names the calls that must be lost, `unsure` those that may be:
    a reply that came while the database was down is stored if its worker outlives the outage, otherwise it is lost.
    """

    house: RunningSite
    web: WebServer
    cluster: PostgresCluster
    broker: RedisServer
    workers: list[ForkedProcess]
    dispatcher: ForkedProcess
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    killed: KillCounts = field(default_factory=KillCounts)
    possibly_lost: set[int] = field(default_factory=set)
    _remaining: list[str] = field(default_factory=list)

    @property
    def failures_by_kind(self) -> dict[str, Callable[[], bool]]:
        return {
            "web process killed": lambda: self.web.kill_worker(self.chance.randrange(8)),
            "web server killed": self.web.kill_master,
            "web restarted rolling": self.web.restart_rolling,
            "Celery worker killed": self.kill_worker,
            "dispatcher killed": self.kill_dispatcher,
            "PostgreSQL restarted": self.restart_database,
            "Redis killed": self.restart_broker,
            "Redis emptied": self.empty_broker,
        }

    def inject_next(self) -> None:
        """Inject the next failure. Every kind comes once, in random order, before any comes again; one without a victim is tried again last."""
        self._remaining = self._remaining or self.chance.sample(
            sorted(self.failures_by_kind), len(self.failures_by_kind)
        )
        name = self._remaining.pop()
        if self.failures_by_kind[name]():
            self.counts[name] += 1
        else:
            self._remaining.insert(0, name)

    def list_missing_kinds(self) -> list[str]:
        """Return the kinds that were never injected."""
        return sorted(self.failures_by_kind.keys() - self.counts.keys())

    def kill_worker(self) -> bool:
        before, deadline = self.killed, time.monotonic() + MAX_WAIT_FOR_VICTIM
        while self.killed == before and time.monotonic() < deadline:
            self.killed = killed_site.kill_busy_worker(self.house, self.workers, self.chance, before)
            time.sleep(0.05)
        return self.killed != before

    def kill_dispatcher(self) -> bool:
        self.dispatcher.send_signal(signal.SIGKILL)
        self.dispatcher.wait_for_end(20)
        time.sleep(self.chance.uniform(0, 1))
        self.dispatcher = self.house.start_dispatcher()
        return True

    def restart_database(self) -> bool:
        """Stop PostgreSQL with `-m immediate`, pause, and start it: what is not on disk is gone."""
        self.cluster.stop("immediate")
        time.sleep(self.chance.uniform(0, 2))
        self.cluster.start()
        self.possibly_lost |= self._select_calls("started")
        return True

    def restart_broker(self) -> bool:
        self.broker.stop()
        time.sleep(self.chance.uniform(0, 2))
        self.broker.start()
        return True

    def empty_broker(self) -> bool:
        return bool(redis.Redis.from_url(self.broker.url).flushall())

    def find_unexplained_calls(self) -> dict[str, list[int]]:
        """Return calls that were lost although their worker was not killed, or that were not lost although it was."""
        lost = self._select_calls("lost")
        unexplained = {
            "lost for no reason": lost - self.killed.call_ids - self.possibly_lost,
            "not lost": self.killed.call_ids - lost,
        }
        return {name: sorted(calls) for name, calls in unexplained.items() if calls}

    def _select_calls(self, state: str) -> set[int]:
        return {call for (call,) in self.house.select_rows(CALLS_IN_STATE, state=state)}
