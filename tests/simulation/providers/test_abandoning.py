"""A call that another thread abandons ends at once, over HTTP and TLS, and closes its connection."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from simulation.providers import ErrorClass, transport
from simulation.providers.base import ProviderUnavailable
from tests.support.byte_server import PARAMS, PROMPT, ByteServer, build_chat_completion, connect_to
from tests.support.services import require_program


@pytest.fixture
def closed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def tls_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: threading.Event) -> Iterator[str]:
    """The address of a TLS server that reads a request, never answers, and sets `closed` when the client has gone."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [require_program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(transport.httpx2, "create_ssl_context", lambda trust_env: client)
    transport._create_client.cache_clear()

    def serve() -> None:
        raw, _ = listener.accept()
        with closing(server.wrap_socket(raw, server_side=True)) as wire:
            try:
                while wire.recv(65536):
                    pass
            except OSError:
                pass
            closed.set()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    transport._create_client.cache_clear()


def call_and_abandon(url: str, after: float = 0.5) -> tuple[ProviderUnavailable, float]:
    """Make a call, abandon it after some seconds, and return its error and how long it took from then on."""
    server = ByteServer()
    server.url = url
    connection = connect_to(server, "openai")
    with transport.make_abandonable() as handle:
        timer = threading.Timer(after, handle.abandon)
        timer.start()
        began = time.monotonic()
        with pytest.raises(ProviderUnavailable) as caught:
            connection.send_request(connection.prepare_request(PROMPT, PARAMS), 30.0)
        timer.join()
        server.listener.close()
        return caught.value, time.monotonic() - began - after


def test_abandoned_tls_call_ends_at_once_and_closes_its_connection(tls_url: str, closed: threading.Event) -> None:
    error, seconds = call_and_abandon(tls_url)
    assert (error.error_class, str(error)) == (ErrorClass.ABANDONED, "stopped before the reply was complete")
    assert seconds < 1 and closed.wait(5)


def test_abandoned_call_keeps_the_part_of_the_reply_that_arrived(server: ByteServer) -> None:
    head = b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"id"'
    server.answer = lambda wire: (wire.sendall(head), time.sleep(5))[0]
    error, seconds = call_and_abandon(server.url)
    assert error.error_class is ErrorClass.ABANDONED and seconds < 1
    assert error.reply is not None and (error.reply.status, error.reply.body) == (200, b'{"id"')


def test_call_that_is_abandoned_before_it_begins_sends_nothing(server: ByteServer) -> None:
    server.respond_with(200, build_chat_completion())
    connection = connect_to(server, "openai")
    with transport.make_abandonable() as handle:
        handle.abandon()
        with pytest.raises(ProviderUnavailable) as caught:
            connection.send_request(connection.prepare_request(PROMPT, PARAMS), 5.0)
    assert caught.value.error_class is ErrorClass.ABANDONED and server.requests == []


def test_abandoning_a_finished_call_does_not_close_the_connection_of_the_next_one(server: ByteServer) -> None:
    handles = []
    for _ in range(2):
        server.respond_with(200, build_chat_completion())
        connection = connect_to(server, "openai")
        with transport.make_abandonable() as handle:
            for finished in handles:
                finished.abandon()
            assert connection.send_request(connection.prepare_request(PROMPT, PARAMS), 5.0).text
            # The pool may give the socket to another call from here on.
            assert handle._socket is None
            handles.append(handle)
    assert len(server.requests) == 2
