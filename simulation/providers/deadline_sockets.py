"""Sockets with a deadline: every connect, read and write gets the remaining time of the call."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import httpcore2

CONNECT_SECONDS = 5.0
_call = threading.local()  # a call stays in one thread from its first byte to its last


@contextmanager
def end_by(moment: float) -> Iterator[None]:
    """End all socket operations of this thread by `moment` of the monotonic clock."""
    _call.ends = moment
    try:
        yield
    finally:
        del _call.ends


def remaining_seconds(late: type[Exception] = httpcore2.ReadTimeout) -> float:
    """Return the seconds left for this thread's call. Raises `late` if there are none."""
    seconds: float = getattr(_call, "ends", float("inf")) - time.monotonic()
    if seconds <= 0:
        raise late("the call's time is over")
    return min(seconds, 3600.0)


class TimedStream(httpcore2.NetworkStream):
    """A stream that uses the call's remaining time at every read and write, ignoring other timeouts."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self.inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, remaining_seconds())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        sock: socket.socket = self.inner.get_extra_info("socket")
        while view:
            sock.settimeout(remaining_seconds(httpcore2.WriteTimeout))
            view = view[_send_some(sock, view) :]

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        seconds = min(remaining_seconds(httpcore2.ConnectTimeout), CONNECT_SECONDS)
        return TimedStream(self.inner.start_tls(ssl_context, server_hostname, seconds))

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


class TimedBackend(httpcore2.NetworkBackend):
    """Opens connections within CONNECT_SECONDS for name resolution and all addresses together, and within the call's deadline."""

    def __init__(self) -> None:
        self.inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        ends = time.monotonic() + min(remaining_seconds(httpcore2.ConnectTimeout), CONNECT_SECONDS)
        fault: Exception = httpcore2.ConnectError(f"no address for {host}")
        for address in _resolve_in_thread(host, port, ends - time.monotonic()):
            if (seconds := ends - time.monotonic()) <= 0:
                break
            try:
                stream = self.inner.connect_tcp(address, port, seconds, local_address, socket_options)
                return TimedStream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
                fault = problem
        raise fault


def _resolve_in_thread(host: str, port: int, seconds: float) -> list[str]:
    """Return the host's addresses, resolved in a thread because the system's resolver has no timeout."""
    addresses: list[str] = []
    thread = _start_thread(lambda: addresses.extend(_resolve_host(host, port)))
    thread.join(seconds)
    if thread.is_alive():
        raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time")
    return addresses


def _resolve_host(host: str, port: int) -> list[str]:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _start_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _send_some(sock: socket.socket, view: memoryview) -> int:
    try:
        return sock.send(view)
    except TimeoutError as problem:
        raise httpcore2.WriteTimeout(str(problem)) from problem
    except OSError as problem:
        raise httpcore2.WriteError(str(problem)) from problem
