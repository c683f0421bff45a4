"""HTTP attempts through the SDKs' clients: a total deadline, a byte limit, no redirects, no retries, no settings from the environment."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from ssl import SSLContext
from typing import Any, cast

import httpcore2
import httpx2

from simulation.providers import anthropic, base, openai, wire

CONNECT_SECONDS = 5.0
POOL_SIZE = 1  # connections
MIN_KEY_LENGTH = 8  # a shorter text is not a real key, and removing it from replies would remove words
KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),  # models think for minutes, and firewalls drop idle connections
    *((socket.IPPROTO_TCP, getattr(socket, name), 60) for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL") if hasattr(socket, name)),
]  # fmt: skip
# The body is passed on decoded, and no server may set cookies for later requests.
_MAX_HEADER_SETS = 8  # of one client: those of each deadline and API version
DROPPED_HEADERS = {"content-encoding", "content-length", "transfer-encoding", "set-cookie"}

Post = Callable[[base.WireRequest, float], base.Reply]  # request, deadline
# By process: a lock held during a fork would never be released in the child.
_creation_locks: dict[int, threading.Lock] = {}


def send_once(
    endpoint: base.Endpoint, request: base.WireRequest, deadline: float, wires: httpx2.BaseTransport | None
) -> base.Reply:
    """Make one HTTP attempt and return the reply, whatever its status, with the key removed from it.

    Raises ProviderUnavailable if no complete reply arrived within `deadline` seconds.
    """
    # Created once per process, because a fork must not share sockets.
    with _creation_locks.setdefault(os.getpid(), threading.Lock()):
        post = _create_client(endpoint.provider, endpoint.base_url, endpoint.key, wires, os.getpid())
    try:
        reply = post(request, deadline)
    except base.ProviderError as error:
        text, identity = _remove_key(str(error), endpoint.key), _remove_key(error.request_id, endpoint.key)
        partial = _remove_key_from_reply(error.reply, endpoint.key) if error.reply else None
        raise type(error)(error.error_class, text, error.retry_after, partial, identity) from None
    return _remove_key_from_reply(reply, endpoint.key)


def _remove_key(text: str, key: str) -> str:
    return text.replace(key, "[key]") if len(key) >= MIN_KEY_LENGTH else text


def _remove_key_from_reply(reply: base.Reply, key: str) -> base.Reply:
    if len(key) < MIN_KEY_LENGTH:
        return reply
    headers = {name: _remove_key(value, key) for name, value in reply.headers.items()}
    return base.Reply(reply.status, headers, reply.body.replace(key.encode(), b"[key]"))


@lru_cache(maxsize=64)
def _create_client(provider: str, base_url: str, key: str, wires: httpx2.BaseTransport | None, process: int) -> Post:
    """Return a function that makes one attempt and returns the unparsed reply, whatever its status.

    The SDK determines address and headers. They are the same for all requests of a client, and the SDK takes longer to
    build them than the rest of the request takes (1.5 of 2.3 ms), so after an answer they are sent again with other bodies.
    """
    # `client.post`, which the SDK's typed methods use, sends our fields in our order, whatever a release adds or removes.
    sdk: Any
    client: Any
    # The deadline and the byte limit also apply to a given transport.
    inner = wires or PooledTransport()
    limited = LimitedTransport(inner)
    http = httpx2.Client(
        transport=limited,
        follow_redirects=False,
        trust_env=False,
        headers={"Accept-Encoding": "gzip, deflate"},
    )
    key = key or "none"  # local servers accept any
    headers: dict[str, Any] = {"Authorization": f"Bearer {key}"}
    if base.PROVIDERS[provider].dialect == "anthropic":
        import anthropic as sdk

        path, client = anthropic.PATH, sdk.Anthropic(api_key=key, base_url=base_url, max_retries=0, http_client=http)
    else:
        import openai as sdk

        path, client = openai.PATH, sdk.OpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http)
        if provider != "openai":  # the environment's organisation must only be sent to OpenAI
            headers |= {"OpenAI-Organization": sdk.Omit(), "OpenAI-Project": sdk.Omit()}
    # The SDKs add headers that the environment defines, and have no public way to omit them.
    client._custom_headers = headers
    answered: dict[object, httpx2.Request] = {}

    def post_once(request: base.WireRequest, deadline: float) -> base.Reply:
        key = (*request.headers.items(), deadline)
        # A given transport receives every request from the SDK.
        if isinstance(inner, PooledTransport) and key in answered:
            return limited.receive_reply(lambda: inner.repeat_request(answered[key], request.content), deadline)
        timeout = httpx2.Timeout(max(deadline, 0.001), connect=CONNECT_SECONDS)  # `LimitedTransport` reads the deadline
        try:
            options, body = {"headers": request.headers, "timeout": timeout}, dict(request.body)
            response: httpx2.Response = client.post(path, cast_to=httpx2.Response, body=body, options=options)
            if len(answered) < _MAX_HEADER_SETS:
                answered[key] = response.request
        except sdk.APIStatusError as error:
            response = error.response
        except sdk.APIConnectionError as error:
            raise _unwrap_error(error) from error
        return base.Reply(response.status_code, wire.select_headers(response.headers), response.content)

    return post_once


def _unwrap_error(error: Exception) -> base.ProviderError:
    """Return the ProviderError that an SDK's exception wraps, or else a new one for a failed connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, base.ProviderError):
            return cause
        cause = cause.__cause__
    return base.ProviderUnavailable(base.ErrorClass.CONNECTION, wire.shorten(f"the connection failed: {error}", 500))


class LimitedTransport(httpx2.BaseTransport):
    """Reads a complete reply within the deadline and the byte limit (after decompression).

    Raises ProviderUnavailable (CONNECTION, TIMEOUT or GARBLED) with the part of the reply received so far.
    """

    def __init__(self, inner: httpx2.BaseTransport) -> None:
        self.inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        seconds = float(request.extensions["timeout"]["read"])
        response, body = self._receive(lambda: self.inner.handle_request(request), seconds)
        kept = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in DROPPED_HEADERS]
        return httpx2.Response(response.status_code, headers=kept, content=body)

    def receive_reply(self, send: Callable[[], httpx2.Response], seconds: float) -> base.Reply:
        """Return the reply to a request that `send` sends."""
        response, body = self._receive(send, seconds)
        return base.Reply(response.status_code, wire.select_headers(response.headers), body)

    def _receive(self, send: Callable[[], httpx2.Response], seconds: float) -> tuple[httpx2.Response, bytes]:
        ends = time.monotonic() + seconds
        response, body = None, bytearray()
        try:
            with end_by(ends):
                response = send()
                _read_body(response, body, ends)
        except _FAILURES as problem:
            error_class, message = _describe_failure(problem, time.monotonic() >= ends)
            if _is_abandoned():
                error_class, message = base.ErrorClass.ABANDONED, "stopped before the reply was complete"
            # None: the connection failed before there was a reply.
            headers = {} if response is None else wire.select_headers(response.headers)
            partial = None if response is None else base.Reply(response.status_code, headers, bytes(body))
            identity = wire.find_request_id(headers, {})
            text = wire.shorten(wire.make_sendable(message), 500)
            raise base.ProviderUnavailable(error_class, text, None, partial, identity) from problem
        return response, bytes(body)

    def close(self) -> None:
        self.inner.close()


class _TooLong(Exception):  # noqa: N818  # a signal
    pass


_FAILURES = (
    _TooLong, OSError, httpx2.DecodingError, httpx2.TransportError, httpcore2.TimeoutException, httpcore2.NetworkError,
    httpcore2.ProtocolError, httpcore2.UnsupportedProtocol,
)  # fmt: skip


def _read_body(response: httpx2.Response, body: bytearray, ends: float) -> None:
    """Append the decoded body. Raises ReadTimeout after `ends`, _TooLong over the byte limit (and keeps the first bytes)."""
    try:
        # httpx decodes compressed bodies. It also counts and divides others, which takes longer than reading them.
        is_compressed = "content-encoding" in response.headers
        for piece in response.iter_bytes() if is_compressed else cast(httpx2.SyncByteStream, response.stream):
            body += piece
            if len(body) > wire.BYTE_CAP:
                del body[wire.BYTE_CAP :]
                raise _TooLong
            if time.monotonic() >= ends:
                raise httpcore2.ReadTimeout("the call's time is over")
    finally:
        response.close()


def _describe_failure(problem: Exception, is_late: bool) -> tuple[base.ErrorClass, str]:
    match problem:
        case _TooLong():
            return base.ErrorClass.GARBLED, f"the reply is longer than {wire.BYTE_CAP} bytes"
        case httpx2.DecodingError():
            return base.ErrorClass.GARBLED, f"the reply's compression is broken: {problem}"
        case httpcore2.ConnectTimeout() | httpx2.ConnectTimeout():
            error_class = base.ErrorClass.TIMEOUT if is_late else base.ErrorClass.CONNECTION
            return error_class, f"no connection in time: {problem}"
        case httpcore2.TimeoutException() | httpx2.TimeoutException():
            return base.ErrorClass.TIMEOUT, "the call took longer than its deadline"
    return base.ErrorClass.CONNECTION, f"the connection failed: {problem}"


class PooledTransport(httpx2.BaseTransport):
    """HTTP/1.1 over pools of timed sockets. Raises what httpcore2 raises."""

    def __init__(self) -> None:
        self._ssl = httpx2.create_ssl_context(trust_env=False)
        self._lock = threading.Lock()
        # A pool checks every one of its connections for every request. Many small pools keep hundreds of calls as
        # cheap as one: a request goes to the first pool with a free connection.
        self._pools: list[_CountedPool] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.repeat_request(request, request.read())

    def repeat_request(self, request: httpx2.Request, content: bytes) -> httpx2.Response:
        """Send a request with this body."""
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
        headers.append((b"Content-Length", str(len(content)).encode()))
        inner = httpcore2.Request(
            request.method, target, headers=headers, content=content, extensions=request.extensions
        )
        with self._lock:
            pool = next((pool for pool in self._pools if pool.under_way < POOL_SIZE), None)
            if pool is None:
                self._pools.append(pool := _CountedPool(self._ssl))
            pool.under_way += 1
        try:
            response = pool.sockets.handle_request(inner)
        except BaseException:
            self._release_pool(pool)
            raise
        stream = _Stream(response, lambda: self._release_pool(pool))
        return httpx2.Response(response.status, headers=response.headers, stream=stream)

    def close(self) -> None:
        for pool in self._pools:
            pool.sockets.close()

    def _release_pool(self, pool: "_CountedPool") -> None:
        with self._lock:
            pool.under_way -= 1


class _CountedPool:
    """A few connections, and the number of requests that use them."""

    def __init__(self, context: SSLContext) -> None:
        self.under_way = 0
        self.sockets = httpcore2.ConnectionPool(
            ssl_context=context,
            max_connections=POOL_SIZE,
            max_keepalive_connections=POOL_SIZE,
            keepalive_expiry=30.0,
            network_backend=TimedBackend(),
            socket_options=KEEPALIVE,
        )


class _Stream(httpx2.SyncByteStream):
    """A response's body; `done` is called once, when it is closed."""

    def __init__(self, response: httpcore2.Response, done: Callable[[], None]) -> None:
        self.response, self._done = response, [done]

    def __iter__(self) -> Iterator[bytes]:
        yield from self.response.iter_stream()

    def close(self) -> None:
        # Before the pool gives the connection to another call, which must not be abandoned with this one.
        _set_socket(None)
        try:
            self.response.close()
        finally:
            while self._done:
                self._done.pop()()


_call = threading.local()  # a call stays in one thread from its first byte to its last


class CallHandle:
    """A call that another thread can abandon. Its connection is then closed, and it raises ProviderUnavailable (ABANDONED)."""

    def __init__(self) -> None:
        self.is_abandoned = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def abandon(self) -> None:
        """End the call at once; while a connection is being opened, as soon as it is open or has failed."""
        with self._lock:
            self.is_abandoned = True
            if self._socket is not None:
                with suppress(OSError):  # the provider may have closed it
                    # It wakes the thread that reads, which `close` would not. The method of the class, because that of a
                    # TLS socket changes state that the other thread uses.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def set_socket(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._socket = sock


@contextmanager
def make_abandonable() -> Iterator[CallHandle]:
    """Yield the handle of the call that this thread makes in the block."""
    _call.handle = handle = CallHandle()
    try:
        yield handle
    finally:
        handle.set_socket(None)
        del _call.handle


def _set_socket(sock: socket.socket | None) -> None:
    handle: CallHandle | None = getattr(_call, "handle", None)
    if handle is not None:
        handle.set_socket(sock)


def _is_abandoned() -> bool:
    handle: CallHandle | None = getattr(_call, "handle", None)
    return handle is not None and handle.is_abandoned


@contextmanager
def end_by(moment: float) -> Iterator[None]:
    """End all socket operations of this thread by `moment` of the monotonic clock."""
    _call.ends = moment
    try:
        yield
    finally:
        del _call.ends


def _remaining_seconds(late: type[Exception] = httpcore2.ReadTimeout) -> float:
    """Return the seconds left for this thread's call. Raises `late` if there are none, or the call is abandoned."""
    if _is_abandoned():
        raise late("the call is abandoned")
    seconds: float = getattr(_call, "ends", float("inf")) - time.monotonic()
    if seconds <= 0:
        raise late("the call's time is over")
    return min(seconds, 3600.0)


class TimedStream(httpcore2.NetworkStream):
    """A stream that uses the call's remaining time at every read and write, ignoring other timeouts."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self.inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # Before the check in _remaining_seconds: a call that is abandoned from here on finds its socket.
        _set_socket(self.inner.get_extra_info("socket"))
        return self.inner.read(max_bytes, _remaining_seconds())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        sock: socket.socket = self.inner.get_extra_info("socket")
        _set_socket(sock)
        while view:
            # Set for every part: the inner stream would give each of them the whole time.
            sock.settimeout(_remaining_seconds(httpcore2.WriteTimeout))
            try:
                view = view[sock.send(view) :]
            except TimeoutError as problem:
                raise httpcore2.WriteTimeout(str(problem)) from problem
            except OSError as problem:
                raise httpcore2.WriteError(str(problem)) from problem

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        _set_socket(self.inner.get_extra_info("socket"))
        seconds = min(_remaining_seconds(httpcore2.ConnectTimeout), CONNECT_SECONDS)
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
        ends = time.monotonic() + min(_remaining_seconds(httpcore2.ConnectTimeout), CONNECT_SECONDS)
        fault: Exception = httpcore2.ConnectError(f"no address for {host}")
        for address in _resolve_in_thread(host, port, ends - time.monotonic()):
            if (seconds := ends - time.monotonic()) <= 0:
                break
            try:
                return TimedStream(self.inner.connect_tcp(address, port, seconds, local_address, socket_options))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
                fault = problem
        raise fault


def _resolve_in_thread(host: str, port: int, seconds: float) -> list[str]:
    """Return the host's addresses, resolved in a thread because the system's resolver has no timeout."""
    addresses: dict[str, None] = {}

    def resolve() -> None:
        with suppress(OSError):
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses.update(dict.fromkeys(str(row[4][0]) for row in rows))

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time")
    return list(addresses)
