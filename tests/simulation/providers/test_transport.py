"""Time and size limits of a call, tested through the real SDKs."""

import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from simulation.providers import ErrorClass, transport, wire
from simulation.providers.base import Completion, ProviderUnavailable
from tests.support.byte_server import (
    PARAMS,
    PROMPT,
    ByteServer,
    build_anthropic_message,
    build_chat_completion,
    connect_to,
    encode_json,
)

BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def send_prompt(server: ByteServer, provider: str, deadline: float = 5.0) -> Completion:
    connection = connect_to(server, provider)
    return connection.send_request(connection.prepare_request(PROMPT, PARAMS), deadline)


def send_and_catch_error(server: ByteServer, provider: str, deadline: float = 5.0) -> ProviderUnavailable:
    with pytest.raises(ProviderUnavailable) as caught:
        send_prompt(server, provider, deadline)
    return caught.value


@contextmanager
def assert_ends_within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def drip_bytes(start: bytes, drop: bytes, pause: float = 0.02) -> Callable[[socket.socket], None]:
    """Return an answer that sends `start`, then `drop` forever, each within the read timeout."""

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
        pytest.param(drip_bytes(HEAD + b"Content-Length: 99999\r\n\r\n", b" "), id="body in drops"),
        pytest.param(drip_bytes(HEAD, b"X-More: 1\r\n"), id="headers in drops"),
        pytest.param(drip_bytes(b"HTTP/1.1 2", b"0"), id="status in drops"),
        pytest.param(drip_bytes(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"), id="always continue"),
    ],
)  # fmt: skip
def test_call_ends_at_its_deadline_despite_a_slow_reply(
    server: ByteServer, provider: str, answer: Callable[[socket.socket], None]
) -> None:
    server.answer = answer
    with assert_ends_within(4):
        assert send_and_catch_error(server, provider, 0.25).error_class is ErrorClass.TIMEOUT


def test_call_ends_at_its_deadline_if_the_server_does_not_read_the_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        backend = transport.TimedBackend()
        with assert_ends_within(4), transport.end_by(time.monotonic() + 0.25):
            stream = backend.connect_tcp("127.0.0.1", deaf.getsockname()[1])
            with pytest.raises(Exception, match=r"time|timed out") as caught:
                stream.write(b"x" * 50_000_000)
            stream.close()
    assert type(caught.value).__name__ == "WriteTimeout"


def test_call_ends_at_its_deadline_if_name_resolution_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(8) and [])
    with assert_ends_within(4), transport.end_by(time.monotonic() + 0.2):
        with pytest.raises(Exception, match="was not resolved in time"):
            transport.TimedBackend().connect_tcp("model.invalid", 443)
        released.set()


@BOTH
def test_unknown_host_is_a_connection_error(provider: str, server: ByteServer) -> None:
    server.url = "http://model.invalid"
    assert send_and_catch_error(server, provider).error_class is ErrorClass.CONNECTION


@BOTH
def test_closed_port_is_a_connection_error(provider: str, server: ByteServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server.url = f"http://127.0.0.1:{other.getsockname()[1]}"
    assert send_and_catch_error(server, provider).error_class is ErrorClass.CONNECTION


@BOTH
def test_call_ends_at_its_deadline_if_the_tls_handshake_hangs(provider: str, server: ByteServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server.url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with assert_ends_within(4):
            assert send_and_catch_error(server, provider, 0.25).error_class is ErrorClass.TIMEOUT


def reset_connection(to: socket.socket) -> None:
    to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@BOTH
@pytest.mark.parametrize(
    "answer", [reset_connection, lambda to: None, lambda to: to.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")]
)
def test_reset_closed_or_non_http_connection_is_a_connection_error(
    server: ByteServer, provider: str, answer: Callable[[socket.socket], None]
) -> None:
    server.answer = answer
    assert send_and_catch_error(server, provider).error_class is ErrorClass.CONNECTION
    assert len(server.requests) == 1  # no retry at this level


@BOTH
def test_truncated_body_is_kept_with_the_connection_error(server: ByteServer, provider: str) -> None:
    server.answer = lambda to: to.sendall(HEAD + b'X-Request-Id: req_9\r\nContent-Length: 500\r\n\r\n{"id": "half')
    found = send_and_catch_error(server, provider)
    assert found.error_class is ErrorClass.CONNECTION and found.request_id == "req_9"
    assert found.reply is not None and found.reply.body == b'{"id": "half' and found.reply.status == 200


@BOTH
def test_reply_of_two_megabytes_is_read_and_one_of_five_is_refused(server: ByteServer, provider: str) -> None:
    def build_reply(length: int) -> dict[str, object]:
        return (
            build_anthropic_message({"type": "text", "text": "x" * length})
            if provider == "anthropic"
            else build_chat_completion("x" * length)
        )

    server.respond_with(200, build_reply(2_000_000))
    assert len(send_prompt(server, provider).text) == 2_000_000
    server.respond_with(200, build_reply(5_000_000))
    found = send_and_catch_error(server, provider)
    assert found.error_class is ErrorClass.GARBLED and "4194304 bytes" in str(found)
    assert found.reply is not None and len(found.reply.body) == wire.BYTE_CAP


@BOTH
def test_gzip_bomb_is_stopped_at_the_size_limit_and_a_small_gzip_reply_is_read(
    server: ByteServer, provider: str
) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    server.respond_with(200, bomb, {"Content-Encoding": "gzip"})
    with assert_ends_within(6):
        assert send_and_catch_error(server, provider).error_class is ErrorClass.GARBLED
    server.respond_with(200, gzip.compress(gzip.compress(bomb)), {"Content-Encoding": "gzip, gzip, gzip"})
    assert send_and_catch_error(server, provider).error_class is ErrorClass.GARBLED
    said = {"openai": build_chat_completion(), "anthropic": build_anthropic_message()}[provider]
    server.respond_with(200, gzip.compress(encode_json(said)), {"Content-Encoding": "gzip"})
    assert send_prompt(server, provider).text == "A clear liquid."


@BOTH
def test_broken_compression_is_a_garbled_reply(server: ByteServer, provider: str) -> None:
    server.respond_with(200, b"this is not gzip", {"Content-Encoding": "gzip"})
    assert send_and_catch_error(server, provider).error_class is ErrorClass.GARBLED


@BOTH
def test_html_with_status_200_is_a_garbled_reply(server: ByteServer, provider: str) -> None:
    server.respond_with(200, b"<html><h1>Welcome to the network</h1></html>", {"Content-Type": "text/html"})
    found = send_and_catch_error(server, provider)
    assert found.error_class is ErrorClass.GARBLED and "Welcome to the network" in str(found)


@BOTH
def test_proxies_from_the_environment_are_not_used(
    server: ByteServer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.respond_with(200, {"openai": build_chat_completion(), "anthropic": build_anthropic_message()}[provider])
    assert send_prompt(server, provider).text == "A clear liquid."


def test_connection_is_reused_after_a_fully_read_reply(server: ByteServer) -> None:
    said = encode_json(build_chat_completion())
    parcel = HEAD + f"Content-Length: {len(said)}\r\n\r\n".encode() + said

    def answer_twice(to: socket.socket) -> None:
        to.sendall(parcel)
        heard = b""
        while b"What is in the tube?" not in heard:
            heard += to.recv(65536)
        to.sendall(parcel)

    server.answer = answer_twice
    connection = connect_to(server)
    request = connection.prepare_request(PROMPT, PARAMS)
    assert [connection.send_request(request, 5).text for _ in range(2)] == ["A clear liquid."] * 2
    assert len(server.requests) == 1  # the server counts connections: the second call used the first one's


def test_three_hundred_calls_run_concurrently(server: ByteServer) -> None:
    said = encode_json(build_chat_completion())
    everyone = threading.Barrier(300, timeout=20)

    def answer(to: socket.socket) -> None:
        everyone.wait()  # no call is answered before all were sent
        to.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)

    server.answer = answer
    connection = connect_to(server)
    request = connection.prepare_request(PROMPT, PARAMS)
    told: list[str] = []
    threads = [
        threading.Thread(target=lambda: told.append(connection.send_request(request, 20).text)) for _ in range(300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == ["A clear liquid."] * 300
