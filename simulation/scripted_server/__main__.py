"""`python -m simulation.scripted_server --port 8765`: prints its URL, then serves until it is stopped."""

import argparse
import asyncio
import json
import os
import signal

from simulation.scripted_server.running import serve
from simulation.scripted_server.service import Options


def options() -> tuple[Options, int, bool]:
    parser = argparse.ArgumentParser(
        prog="simulation.scripted_server", description="A local stand-in for the model providers."
    )
    parser.add_argument("--port", type=int, default=8765, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-at-once", type=int, help="requests in flight of one model, then 429")
    parser.add_argument("--steps", type=int, help="actions of every attempt before it is submitted; else 5 to 12")
    parser.add_argument("--faults", default="[]", help='rules as JSON: [{"fault": "rate_limit", "every": 10}]')
    parser.add_argument(
        "--with-parent", action="store_true", help="end when the standard input does, as when the parent is killed"
    )
    given = parser.parse_args()
    faults = json.loads(given.faults)
    return Options(given.latency, given.seed, given.most_at_once, faults, given.steps), given.port, given.with_parent


async def main() -> None:
    chosen, port, with_parent = options()
    serving, loop = (
        asyncio.create_task(serve(chosen, port, lambda url: print(url, flush=True))),
        asyncio.get_running_loop(),
    )
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, serving.cancel)
    if with_parent:
        loop.add_reader(0, lambda: os.read(0, 4096) or serving.cancel())
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()  # what ended it before it was stopped


if __name__ == "__main__":
    asyncio.run(main())
