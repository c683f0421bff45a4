"""What is struck down in a soak, and how: each kind as often as any other, at random moments."""

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
FOR_A_VICTIM = 5.0  # seconds to wait for a worker with something in its hands


@dataclass
class Strikes:
    """One house, and what has been done to it. `killed` names the calls that must be lost, `unsure` those that may be:
    a reply that came while the database was away is written down if its worker outlives that, else it is lost."""

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
        """The next of all kinds, which come in a new order each time all have been. What found no victim comes again last."""
        self._left = self._left or self.chance.sample(sorted(self.kinds), len(self.kinds))
        name = self._left.pop()
        if self.kinds[name]():
            self.counts[name] += 1
        else:
            self._left.insert(0, name)

    def never(self) -> list[str]:
        """What has not been struck once."""
        return sorted(self.kinds.keys() - self.counts.keys())

    def worker(self) -> bool:
        before, until = self.killed, time.monotonic() + FOR_A_VICTIM
        while self.killed == before and time.monotonic() < until:
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
        """`pg_ctl restart -m immediate`, with a while between: what is not on the disk is gone."""
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
        """Calls that were lost though nobody killed who made them, or killed and not lost."""
        lost = self._calls("lost")
        apart = {"lost for no reason": lost - self.killed.which - self.unsure, "not lost": self.killed.which - lost}
        return {name: sorted(calls) for name, calls in apart.items() if calls}

    def _calls(self, state: str) -> set[int]:
        return {call for (call,) in self.house.rows(CALLS_THAT, state=state)}
