"""Start and stop the server: in a thread of this process, or as a separate process."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from simulation.scripted_server import server
from simulation.scripted_server.code_answers import CodeScript
from tests.support.model_server.messages import MAX_HEAD_BYTES
from tests.support.model_server.rules import Rule, parse_rule
from tests.support.model_server.service import ServerOptions, Service

_BACKLOG = 1024  # connections waiting to be accepted
# No proxy is used, because the control requests must reach this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Server(server.Server):
    """A running server and its HTTP control interface."""

    def get_counters(self) -> dict[str, Any]:
        """Return {"total": {...}, "models": {id: {...}}}; see counting.RequestCounts."""
        counted: dict[str, Any] = self._send_control("GET", "/counters")
        return counted

    def get_requests(self) -> list[dict[str, Any]]:
        """Return the path, headers (without keys) and body of each of the latest requests."""
        stored: list[dict[str, Any]] = self._send_control("GET", "/requests")
        return stored

    def set_faults(self, *faults: Mapping[str, Any] | Rule | str) -> None:
        """Replace all rules with these. A fault's name alone matches every request. Raises ValueError if unknown."""
        rules = [{"fault": rule} if isinstance(rule, str) else rule for rule in faults]
        self._send_control("POST", "/faults", [_rule_to_json(parse_rule(rule)) for rule in rules])

    def reset_all(self) -> None:
        """Remove all rules, cache entries and stored requests, and reset the counters."""
        self._send_control("POST", "/reset")

    def _send_control(self, method: str, path: str, data: Any = None) -> Any:
        body = None if method == "GET" else json.dumps(data).encode()
        request = urllib.request.Request(self.url + path, data=body, method=method)
        with _OPENER.open(request, timeout=30) as reply:
            return json.load(reply)


def _rule_to_json(rule: Rule) -> dict[str, Any]:
    # The counters of a rule are state, not configuration.
    return {name: value for name, value in vars(rule).items() if name not in ("met", "struck")}


async def serve_until_cancelled(options: ServerOptions, port: int, ready: Any) -> None:
    """Serve until cancelled. Call `ready` with the URL as soon as the server accepts connections."""
    service = Service(options)
    tasks: set[asyncio.Task[None]] = set()

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await service.handle_connection(reader, writer)
        except asyncio.CancelledError:
            pass  # the server is stopping; asyncio would log a cancelled connection as an error
        finally:
            tasks.discard(task)

    # The server listens on the loopback address only, because it accepts any key.
    listener = await asyncio.start_server(handle_connection, "127.0.0.1", port, limit=MAX_HEAD_BYTES, backlog=_BACKLOG)
    try:
        ready(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        await asyncio.Event().wait()
    # Hanging replies would otherwise keep the server alive.
    finally:
        listener.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def run_in_thread(
    latency: float = 0.0,
    seed: int = 0,
    most_at_once: int | None = None,
    faults: Sequence[Mapping[str, Any] | Rule] = (),
    port: int = 0,
    script: CodeScript = CodeScript(),  # noqa: B008  # immutable
) -> Iterator[Server]:
    """Run the server in a thread of this process. Stop it and all its connections at the end of the `with` block."""
    loop, started, urls = asyncio.new_event_loop(), threading.Event(), list[str]()

    def on_ready(url: str) -> None:
        urls.append(url)
        started.set()

    options = ServerOptions(latency, seed, most_at_once, tuple(faults), script=script)
    main = loop.create_task(serve_until_cancelled(options, port, on_ready))
    # The event is also set if the start fails, because the waiting thread would otherwise never continue.
    main.add_done_callback(lambda _: started.set())

    def run_loop() -> None:
        loop.run_until_complete(asyncio.wait([main]))  # raises nothing: the code below checks how it ended
        loop.close()

    # A daemon, so that a failing test does not hang at exit.
    thread = threading.Thread(target=run_loop, name="model server", daemon=True)
    thread.start()
    started.wait()
    try:
        if not urls:
            thread.join()
            main.result()  # raises the error that prevented its start
        yield Server(urls[0])
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(main.cancel)
        thread.join()


@contextmanager
def run_in_process(*arguments: str) -> Iterator[Server]:
    """Run the server in a separate process, so that it does not slow this one. `arguments` are command-line options."""
    with server.run_module("tests.support.model_server", *arguments) as url:
        yield Server(url)
