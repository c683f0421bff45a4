"""Inject failures into a soak test at random moments, each kind equally often."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import redis

from tests.support import disturbed
from tests.support.disturbed import House, Killed
from tests.support.services import PostgresCluster, RedisServer
from tests.support.soaking.web import Web
from tests.support.warm_processes import Forked

CALLS_THAT = "select id from simulation_modelcall where state = %(state)s"
FOR_A_VICTIM = 5.0  # seconds to wait for a worker with work in progress


@dataclass
class Strikes:
    """One site, and the failures injected into it. `killed` names the calls that must be lost, `unsure` those that may be:
    a reply that came while the database was down is stored if its worker outlives the outage, otherwise it is lost.
    """

    house: House
    web: Web
    cluster: PostgresCluster
    broker: RedisServer
    workers: list[Forked]
    dispatcher: Forked
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    killed: Killed = field(default_factory=Killed)
    unsure: set[int] = field(default_factory=set)
    _left: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> dict[str, Callable[[], bool]]:
        return {
            "web process killed": lambda: self.web.kill_worker(self.chance.randrange(8)),
            "web server killed": self.web.kill,
            "web restarted rolling": self.web.roll,
            "Celery worker killed": self.worker,
            "dispatcher killed": self.kill_dispatcher,
            "PostgreSQL restarted": self.restart_database,
            "Redis killed": self.restart_broker,
            "Redis emptied": self.empty_broker,
        }

    def strike(self) -> None:
        """Inject the next failure. Every kind comes once, in random order, before any comes again; one without a victim is tried again last."""
        self._left = self._left or self.chance.sample(sorted(self.kinds), len(self.kinds))
        name = self._left.pop()
        if self.kinds[name]():
            self.counts[name] += 1
        else:
            self._left.insert(0, name)

    def never(self) -> list[str]:
        """Return the kinds that were never injected."""
        return sorted(self.kinds.keys() - self.counts.keys())

    def worker(self) -> bool:
        before, deadline = self.killed, time.monotonic() + FOR_A_VICTIM
        while self.killed == before and time.monotonic() < deadline:
            self.killed = disturbed.kill_one(self.house, self.workers, self.chance, before)
            time.sleep(0.05)
        return self.killed != before

    def kill_dispatcher(self) -> bool:
        self.dispatcher.signal(signal.SIGKILL)
        self.dispatcher.wait(20)
        time.sleep(self.chance.uniform(0, 1))
        self.dispatcher = self.house.dispatcher()
        return True

    def restart_database(self) -> bool:
        """Stop PostgreSQL with `-m immediate`, pause, and start it: what is not on disk is gone."""
        self.cluster.stop("immediate")
        time.sleep(self.chance.uniform(0, 2))
        self.cluster.start()
        self.unsure |= self._calls("started")
        return True

    def restart_broker(self) -> bool:
        self.broker.stop()
        time.sleep(self.chance.uniform(0, 2))
        self.broker.start()
        return True

    def empty_broker(self) -> bool:
        return bool(redis.Redis.from_url(self.broker.url).flushall())

    def calls_lost_otherwise(self) -> dict[str, list[int]]:
        """Return calls that were lost although their worker was not killed, or that were not lost although it was."""
        lost = self._calls("lost")
        unexplained = {
            "lost for no reason": lost - self.killed.which - self.unsure,
            "not lost": self.killed.which - lost,
        }
        return {name: sorted(calls) for name, calls in unexplained.items() if calls}

    def _calls(self, state: str) -> set[int]:
        return {call for (call,) in self.house.rows(CALLS_THAT, state=state)}
