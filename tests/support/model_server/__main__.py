"""`python -m tests.support.model_server --port 8765`: print the URL, then serve until stopped."""

import argparse
import asyncio
import json
import os
import signal
from pathlib import Path

from simulation.scripted_server.code_answers import CodeScript
from tests.support.model_server.service import ServerOptions
from tests.support.model_server.start import serve_until_cancelled


def parse_options() -> tuple[ServerOptions, int, bool]:
    parser = argparse.ArgumentParser(
        prog="tests.support.model_server", description="A local stand-in for the model providers, with faults."
    )
    parser.add_argument("--port", type=int, default=8765, help="0 for any free port")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--most-at-once", type=int, help="maximum requests in flight per model; further ones return 429"
    )
    parser.add_argument("--steps", type=int, help="actions of every episode before its submission; default 5 to 12")
    parser.add_argument("--faults", default="[]", help='rules as JSON: [{"fault": "rate_limit", "every": 10}]')
    parser.add_argument("--script", type=Path, help="JSON with what agents that edit code answer, see CodeScript")
    parser.add_argument(
        "--with-parent",
        action="store_true",
        help="exit when standard input closes, for example because the parent was killed",
    )
    args = parser.parse_args()
    faults = json.loads(args.faults)
    script = CodeScript.from_json(json.loads(args.script.read_text())) if args.script else CodeScript()
    options = ServerOptions(args.latency, args.seed, args.most_at_once, faults, args.steps, script)
    return options, args.port, args.with_parent


async def serve_until_stopped() -> None:
    chosen, port, with_parent = parse_options()
    serving, loop = (
        # The URL is printed and flushed at once, because the process that started this one reads it from the pipe.
        asyncio.create_task(serve_until_cancelled(chosen, port, lambda url: print(url, flush=True))),
        asyncio.get_running_loop(),
    )
    for name in (signal.SIGTERM, signal.SIGINT):
        # The server is cancelled rather than killed, so that open connections are closed.
        loop.add_signal_handler(name, serving.cancel)
    if with_parent:
        # An empty read means that the parent's end of the pipe is closed. This also happens if the parent was killed.
        loop.add_reader(0, lambda: os.read(0, 4096) or serving.cancel())
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()  # raises the error that ended the server, if there was one


if __name__ == "__main__":
    asyncio.run(serve_until_stopped())
