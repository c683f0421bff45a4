"""python tests/soak.py: language models play for as long as told, at full size, while their workers are killed.

Twenty episodes at a time on PostgreSQL and Redis of its own, models that take two seconds, leases of a minute. A line a
minute; at the end, and whenever all episodes have ended, everything that must hold is looked at. Ends with 1 if anything
does not.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import disturbed
from disturbed import CAPPED, ORDER, House, Killed
from model_server import spawned
from services import PostgresCluster, RedisServer
from warm_processes import Warm

HUNDRED = 100  # steps: the models end an attempt by themselves long before


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15, help="of killing; what is then left is played out")
    parser.add_argument("--pace", type=float, default=1.0, help="WETBENCH_PACE: 0.05 is what the tests run at")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds before each answer of a model")
    parser.add_argument("--episodes", type=int, default=20, help="at a time")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=32, help="of each worker")
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds between two kills, on average")
    parser.add_argument("--seed", type=int, default=4, help="of the moments and victims")
    return parser.parse_args()


def main() -> int:
    told = options()
    with laboratory(told) as house:
        house.dispatcher()
        workers = [house.worker(told.threads) for _ in range(told.workers)]
        killed, found = soak(house, workers, told)
        print(f"{told.minutes:g} minutes are over; playing out what is left", flush=True)
        house.until_ended(seconds=3600)
        found |= disturbed.wrong(house)
        if house.calls()["lost"] != killed.calls:
            found["lost calls are not those that were under way when a worker was killed"] = house.calls(), killed
        print(line(house, killed), flush=True)
    for name, shown in found.items():
        print(f"WRONG: {name}\n    {shown}")
    print("something is wrong" if found else "nothing lost, nothing doubled")
    return bool(found)


@contextmanager
def laboratory(told: argparse.Namespace) -> Iterator[House]:
    with (
        tempfile.TemporaryDirectory(prefix="wetbench-soak-") as folder,
        PostgresCluster.started() as cluster,
        RedisServer.started() as broker,
        spawned("--latency", str(told.latency)) as server,
    ):
        environment = {
            **os.environ,
            **server.environ(),
            "DATABASE_URL": f"postgres://postgres@127.0.0.1:{cluster.port}/soak",
            "CELERY_BROKER_URL": broker.url,
            "WETBENCH_VAR_DIR": folder,
            "WETBENCH_PACE": str(told.pace),
        }
        with (
            Warm.started(environment) as warm,
            disturbed.opened(warm, cluster, "soak", "", server, Path(folder)) as house,
        ):
            disturbed.furnish(house, HUNDRED)
            yield house


def soak(house: House, workers: list[Any], told: argparse.Namespace) -> tuple[Killed, dict[str, Any]]:
    """Order, kill and look until the time is over or something is wrong."""
    chance, killed, began, minutes = random.Random(told.seed), Killed(), time.monotonic(), 0
    while (passed := time.monotonic() - began) < told.minutes * 60:
        if not house.unended():
            house.until_ended()
            if house.steps() and (found := disturbed.wrong(house)):
                return killed, found
            house.manage(*ORDER, *CAPPED, "--attempts", str(told.episodes))
        if passed >= 60 * (minutes + 1):
            minutes += 1
            print(f"minute {minutes}: {line(house, killed)}", flush=True)
        time.sleep(chance.uniform(0, min(2 * told.kill_every, 60)))
        killed = disturbed.kill_one(house, workers, chance, killed)
    return killed, {}


def line(house: House, killed: Killed) -> str:
    steps = sum(len(steps) for steps in house.steps().values())
    calls = ", ".join(f"{number} {state}" for state, number in sorted(house.calls().items()))
    ended = house.number("select count(*) from simulation_episode where ended_at is not null")
    return f"{ended} episodes ended, {steps} steps, {killed.workers} workers killed, calls: {calls or 'none yet'}"


if __name__ == "__main__":
    sys.exit(main())
