"""A call ends, whatever the other side does. Every call here goes through the real SDKs."""

import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from simulation.providers import ErrorClass, sockets, wire
from simulation.providers.base import Completion, ProviderUnavailable
from tests.support.wires import PARAMS, PROMPT, Bytes, chat, connected, message, plain

BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def ask(server: Bytes, provider: str, deadline: float = 5.0) -> Completion:
    connection = connected(server, provider)
    return connection.send(connection.prepare(PROMPT, PARAMS), deadline)


def fault(server: Bytes, provider: str, deadline: float = 5.0) -> ProviderUnavailable:
    with pytest.raises(ProviderUnavailable) as caught:
        ask(server, provider, deadline)
    return caught.value


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def dripping(start: bytes, drop: bytes, pause: float = 0.02) -> Callable[[socket.socket], None]:
    """Says `start`, then `drop` for ever (each within any read timeout)."""

    def answer(to: socket.socket) -> None:
        to.sendall(start)
        while True:
            to.sendall(drop)
            time.sleep(pause)

    return answer


@BOTH
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda to: time.sleep(8), id="silence"),
        pytest.param(dripping(HEAD + b"Content-Length: 99999\r\n\r\n", b" "), id="body in drops"),
        pytest.param(dripping(HEAD, b"X-More: 1\r\n"), id="headers in drops"),
        pytest.param(dripping(b"HTTP/1.1 2", b"0"), id="status in drops"),
        pytest.param(dripping(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"), id="always continue"),
    ],
)  # fmt: skip
def test_a_call_ends_by_its_deadline_however_it_is_dragged_out(
    server: Bytes, provider: str, answer: Callable[[socket.socket], None]
) -> None:
    server.answer = answer
    with within(4):
        assert fault(server, provider, 0.25).error_class is ErrorClass.TIMEOUT


def test_a_server_that_does_not_read_the_request_is_left_by_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        backend = sockets.TimedBackend()
        with within(4), sockets.ending_at(time.monotonic() + 0.25):
            stream = backend.connect_tcp("127.0.0.1", deaf.getsockname()[1])
            with pytest.raises(Exception, match=r"time|timed out") as caught:
                stream.write(b"x" * 50_000_000)
            stream.close()
    assert type(caught.value).__name__ == "WriteTimeout"


def test_a_resolver_that_hangs_does_not_hold_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(8) and [])
    with within(4), sockets.ending_at(time.monotonic() + 0.2):
        with pytest.raises(Exception, match="was not resolved in time"):
            sockets.TimedBackend().connect_tcp("model.invalid", 443)
        released.set()


@BOTH
def test_a_name_that_does_not_exist_is_a_fault_of_the_connection(provider: str, server: Bytes) -> None:
    server.url = "http://model.invalid"
    assert fault(server, provider).error_class is ErrorClass.CONNECTION


@BOTH
def test_a_closed_port_is_a_fault_of_the_connection(provider: str, server: Bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server.url = f"http://127.0.0.1:{other.getsockname()[1]}"
    assert fault(server, provider).error_class is ErrorClass.CONNECTION


@BOTH
def test_a_server_that_never_shakes_hands_is_left_by_the_deadline(provider: str, server: Bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server.url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with within(4):
            assert fault(server, provider, 0.25).error_class is ErrorClass.TIMEOUT


def reset(to: socket.socket) -> None:
    to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@BOTH
@pytest.mark.parametrize("answer", [reset, lambda to: None, lambda to: to.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")])
def test_reset_closed_and_foreign_servers_are_faults_of_the_connection(
    server: Bytes, provider: str, answer: Callable[[socket.socket], None]
) -> None:
    server.answer = answer
    assert fault(server, provider).error_class is ErrorClass.CONNECTION
    assert len(server.requests) == 1  # nothing is tried again here


@BOTH
def test_a_body_that_is_cut_short_keeps_what_came(server: Bytes, provider: str) -> None:
    server.answer = lambda to: to.sendall(HEAD + b'X-Request-Id: req_9\r\nContent-Length: 500\r\n\r\n{"id": "half')
    found = fault(server, provider)
    assert found.error_class is ErrorClass.CONNECTION and found.request_id == "req_9"
    assert found.reply is not None and found.reply.body == b'{"id": "half' and found.reply.status == 200


@BOTH
def test_two_megabytes_come_through_and_five_do_not(server: Bytes, provider: str) -> None:
    def answer(length: int) -> dict[str, object]:
        return message({"type": "text", "text": "x" * length}) if provider == "anthropic" else chat("x" * length)

    server.says(200, answer(2_000_000))
    assert len(ask(server, provider).text) == 2_000_000
    server.says(200, answer(5_000_000))
    found = fault(server, provider)
    assert found.error_class is ErrorClass.GARBLED and "4194304 bytes" in str(found)
    assert found.reply is not None and len(found.reply.body) == wire.BYTE_CAP


@BOTH
def test_a_compressed_bomb_is_stopped_at_the_cap_and_a_small_parcel_is_opened(server: Bytes, provider: str) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    server.says(200, bomb, {"Content-Encoding": "gzip"})
    with within(6):
        assert fault(server, provider).error_class is ErrorClass.GARBLED
    server.says(200, gzip.compress(gzip.compress(bomb)), {"Content-Encoding": "gzip, gzip, gzip"})
    assert fault(server, provider).error_class is ErrorClass.GARBLED
    said = {"openai": chat(), "anthropic": message()}[provider]
    server.says(200, gzip.compress(plain(said)), {"Content-Encoding": "gzip"})
    assert ask(server, provider).text == "A clear liquid."


@BOTH
def test_broken_compression_is_garbled(server: Bytes, provider: str) -> None:
    server.says(200, b"this is not gzip", {"Content-Encoding": "gzip"})
    assert fault(server, provider).error_class is ErrorClass.GARBLED


@BOTH
def test_html_with_a_good_status_is_garbled(server: Bytes, provider: str) -> None:
    server.says(200, b"<html><h1>Welcome to the network</h1></html>", {"Content-Type": "text/html"})
    found = fault(server, provider)
    assert found.error_class is ErrorClass.GARBLED and "Welcome to the network" in str(found)


@BOTH
def test_environment_proxies_are_not_used(server: Bytes, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.says(200, {"openai": chat(), "anthropic": message()}[provider])
    assert ask(server, provider).text == "A clear liquid."


def test_connections_are_kept_and_an_answered_call_leaves_none_half_read(server: Bytes) -> None:
    said = plain(chat())
    parcel = HEAD + f"Content-Length: {len(said)}\r\n\r\n".encode() + said

    def twice(to: socket.socket) -> None:
        to.sendall(parcel)
        heard = b""
        while b"What is in the tube?" not in heard:
            heard += to.recv(65536)
        to.sendall(parcel)

    server.answer = twice
    connection = connected(server)
    request = connection.prepare(PROMPT, PARAMS)
    assert [connection.send(request, 5).text for _ in range(2)] == ["A clear liquid."] * 2
    assert len(server.requests) == 1  # the server here counts connections: the second call came over the first's


def test_three_hundred_calls_fly_at_once(server: Bytes) -> None:
    said = plain(chat())
    everyone = threading.Barrier(300, timeout=20)

    def answer(to: socket.socket) -> None:
        everyone.wait()  # nobody is answered before all have asked
        to.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)

    server.answer = answer
    connection = connected(server)
    request = connection.prepare(PROMPT, PARAMS)
    told: list[str] = []
    threads = [threading.Thread(target=lambda: told.append(connection.send(request, 20).text)) for _ in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == ["A clear liquid."] * 300
