"""The HTTP client for the SDKs: a total deadline, a byte limit, no redirects, no settings from the environment."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpcore2
import httpx2

from simulation.providers import wire
from simulation.providers.base import ErrorClass, ProviderUnavailable, Reply
from simulation.providers.deadline_sockets import CONNECT_SECONDS, TimedBackend, end_by

POOL_SIZE = 16  # connections
KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),  # models think for minutes, and firewalls drop idle connections
    *((socket.IPPROTO_TCP, getattr(socket, name), 60) for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL") if hasattr(socket, name)),
]  # fmt: skip
# the body is passed on decoded, and no server may set cookies for later requests
DROPPED_HEADERS = {"content-encoding", "content-length", "transfer-encoding", "set-cookie"}


def make_timeout(deadline: float) -> httpx2.Timeout:
    """Return a call's deadline in seconds in the form that the transport expects: as its read timeout."""
    return httpx2.Timeout(max(deadline, 0.001), connect=CONNECT_SECONDS)


def create_client(transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
    """Return a client for one SDK client. The deadline and the byte limit also apply to a given transport."""
    return httpx2.Client(
        transport=LimitedTransport(transport or PooledTransport()),
        follow_redirects=False,
        trust_env=False,
        headers={"Accept-Encoding": "gzip, deflate"},
    )


class PooledTransport(httpx2.BaseTransport):
    """HTTP/1.1 over pools of timed sockets. Raises what httpcore2 raises."""

    def __init__(self) -> None:
        self._ssl = httpx2.create_ssl_context(trust_env=False)
        self._lock = threading.Lock()
        # A pool checks every one of its connections for every request. Many small pools keep hundreds of calls as
        # cheap as one: a request goes to the first pool with a free connection.
        self._pools: list[_CountedPool] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url, asked = request.url, httpcore2.Request
        where = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        whole = asked(
            request.method, where, headers=request.headers.raw, content=request.read(), extensions=request.extensions
        )
        pool = self._acquire_pool()
        try:
            response = pool.sockets.handle_request(whole)
        except BaseException:
            self._release_pool(pool)
            raise
        stream = _Stream(response, lambda: self._release_pool(pool))
        return httpx2.Response(response.status, headers=response.headers, stream=stream)

    def close(self) -> None:
        for pool in self._pools:
            pool.sockets.close()

    def _acquire_pool(self) -> "_CountedPool":
        with self._lock:
            pool = next((pool for pool in self._pools if pool.under_way < POOL_SIZE), None)
            if pool is None:
                self._pools.append(pool := _CountedPool(self._ssl))
            pool.under_way += 1
            return pool

    def _release_pool(self, pool: "_CountedPool") -> None:
        with self._lock:
            pool.under_way -= 1


class _CountedPool:
    """A few connections, and the number of requests that use them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.under_way = 0
        self.sockets = httpcore2.ConnectionPool(
            ssl_context=context,
            max_connections=POOL_SIZE,
            max_keepalive_connections=POOL_SIZE,
            keepalive_expiry=30.0,
            network_backend=TimedBackend(),
            socket_options=KEEPALIVE,
        )


class LimitedTransport(httpx2.BaseTransport):
    """Reads a complete reply within the deadline and the byte limit (after decompression).

    Raises ProviderUnavailable (CONNECTION, TIMEOUT or GARBLED) with the part of the reply received so far.
    """

    def __init__(self, inner: httpx2.BaseTransport) -> None:
        self.inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        ends = time.monotonic() + float(request.extensions["timeout"]["read"])
        came = _PartialReply()
        with end_by(ends), _translate_errors(came, lambda: time.monotonic() >= ends):
            came.response = self.inner.handle_request(request)
            came.read_body(ends)
        headers = [
            (name, value) for name, value in came.response.headers.multi_items() if name.lower() not in DROPPED_HEADERS
        ]
        return httpx2.Response(came.response.status_code, headers=headers, content=bytes(came.body))

    def close(self) -> None:
        self.inner.close()


class _PartialReply:
    """The part of a reply received so far."""

    def __init__(self) -> None:
        self.response = httpx2.Response(0)
        self.body = bytearray()

    def read_body(self, ends: float) -> None:
        """Read the decoded body. Raises ReadTimeout after `ends`, _TooLong over the byte limit (and keeps the first bytes)."""
        try:
            for piece in self.response.iter_bytes():
                self.body += piece
                if len(self.body) > wire.BYTE_CAP:
                    del self.body[wire.BYTE_CAP :]
                    raise _TooLong
                if time.monotonic() >= ends:
                    raise httpcore2.ReadTimeout("the call's time is over")
        finally:
            self.response.close()

    def to_reply(self) -> Reply | None:
        headers = wire.select_headers(self.response.headers)
        return Reply(self.response.status_code, headers, bytes(self.body)) if self.response.status_code else None


class _TooLong(Exception):  # noqa: N818  # a signal
    pass


class _Stream(httpx2.SyncByteStream):
    """A response's body; `done` is called once, when it is closed."""

    def __init__(self, response: httpcore2.Response, done: Callable[[], None]) -> None:
        self.response, self._done = response, [done]

    def __iter__(self) -> Iterator[bytes]:
        yield from self.response.iter_stream()

    def close(self) -> None:
        try:
            self.response.close()
        finally:
            while self._done:
                self._done.pop()()


@contextmanager
def _translate_errors(partial: _PartialReply, late: Callable[[], bool]) -> Iterator[None]:
    """Convert every error of a transfer to ProviderUnavailable."""
    try:
        yield
    except _TooLong:
        raise _make_error(partial, ErrorClass.GARBLED, f"the reply is longer than {wire.BYTE_CAP} bytes") from None
    except httpx2.DecodingError as problem:
        raise _make_error(partial, ErrorClass.GARBLED, f"the reply's compression is broken: {problem}") from problem
    except (httpcore2.ConnectTimeout, httpx2.ConnectTimeout) as problem:
        error_class = ErrorClass.TIMEOUT if late() else ErrorClass.CONNECTION
        raise _make_error(partial, error_class, f"no connection in time: {problem}") from problem
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as problem:
        raise _make_error(partial, ErrorClass.TIMEOUT, "the call took longer than its deadline") from problem
    except (OSError, httpx2.TransportError, *_CORE) as problem:
        raise _make_error(partial, ErrorClass.CONNECTION, f"{type(problem).__name__}: {problem}") from problem


_CORE = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol)


def _make_error(partial: _PartialReply, error_class: ErrorClass, message: str) -> ProviderUnavailable:
    reply = partial.to_reply()
    identity = wire.find_request_id(reply.headers, {}) if reply else ""
    return ProviderUnavailable(error_class, wire.shorten(wire.make_sendable(message), 500), None, reply, identity)
