"""Slow clients cannot stop the site: 256 of them hold connections while a rater signs in and rates."""

import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from django.conf import settings as site
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from ratings.models import Rater
from tests.support import run_factory, study_factory
from tests.support.services import find_free_port
from tests.support.visitor import Visitor
from wetbench_site import gunicorn_conf
from wetbench_site.buffering_worker import BufferedSocket

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "a long password of nobody"
TOKEN = "a" * 32
ITEMS = 3


class LiveSite:
    """gunicorn with one process and the configuration of the site, on a copy of the database of the test."""

    def __init__(self, folder: Path) -> None:
        study = study_factory.create_open_study(slug="one")
        self.rater: Rater = study_factory.fill_rater_place(study)
        assert self.rater.user
        # The settings of tests have a faster algorithm, which the server does not accept.
        self.rater.user.password = Argon2PasswordHasher().encode(PASSWORD, "a salt of nobody")
        self.rater.user.save()
        client = Client()
        client.force_login(User.objects.create_superuser("root"))
        self.session = client.cookies["wb_session"].value
        with connection.cursor() as cursor:
            cursor.execute("VACUUM INTO %s", [str(folder / "wetbench.sqlite3")])
        self.folder, self.port = folder, find_free_port()

    @contextmanager
    def run_server(self, **environment: str) -> Iterator[None]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("WETBENCH_", "DATABASE_"))
        }
        own = {"WETBENCH_VAR_DIR": str(self.folder), "SECRET_KEY": site.SECRET_KEY, "TMPDIR": str(self.folder)}
        command = ["gunicorn", "wetbench_site.wsgi", "-c", "python:wetbench_site.gunicorn_conf", "-w", "1"]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command, "-b", f"127.0.0.1:{self.port}"],
                cwd=site.BASE_DIR, env=inherited | own | environment, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while not self.is_up():
                assert time.monotonic() < deadline and process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(40)

    def is_up(self) -> bool:
        try:
            return Visitor(f"http://127.0.0.1:{self.port}").get("/healthz", timeout=5).status == 200
        except OSError:
            return False

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), 30)
        client.sendall(sent)
        return client

    def build_head(self, request: str, *headers: str) -> bytes:
        return "\r\n".join([f"{request} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *headers, "", ""]).encode()

    def build_form_head(self, path: str, length: int, *headers: str) -> bytes:
        kind = "Content-Type: application/x-www-form-urlencoded"
        return self.build_head(f"POST {path}", kind, f"Content-Length: {length}", *headers)

    def build_upload_head(self, length: int, *headers: str) -> bytes:
        """Return the headers of a file that a signed-in admin sends to the page that imports items."""
        kind = "Content-Type: multipart/form-data; boundary=end"
        cookie = f"Cookie: wb_session={self.session}; wb_csrf={TOKEN}"
        length_header = f"Content-Length: {length}"
        return self.build_head(
            "POST /studies/one/import/", kind, cookie, f"X-CSRFToken: {TOKEN}", length_header, *headers
        )


@pytest.fixture
def live_site(tmp_path: Path) -> LiveSite:
    run_factory.create_pool()
    return LiveSite(tmp_path)


@contextmanager
def hold_slow_clients(open_client: Callable[[], socket.socket], count: int) -> Iterator[list[socket.socket]]:
    """Hold connections that send one byte every second, until the block ends."""
    stop = threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(open_client()) for _ in range(count)]

        def send_bytes() -> None:
            while not stop.wait(1):
                for client in clients:
                    with suppress(OSError):  # the server has closed it
                        client.send(b"a")

        thread = threading.Thread(target=send_bytes)
        thread.start()
        try:
            yield clients
        finally:
            stop.set()
            thread.join()


def sign_in_and_rate(live_site: LiveSite, items: int) -> float:
    """Sign in as the rater and rate items. Return the longest time of two pages in seconds."""
    visitor, seconds, rated = Visitor(f"http://127.0.0.1:{live_site.port}"), [], set()
    assert live_site.rater.user
    begun = time.monotonic()
    page = visitor.submit_form(visitor.get("/login/"), username=live_site.rater.user.username, password=PASSWORD)
    assert "/login/" not in page.url, page.text
    seconds.append(time.monotonic() - begun)
    for _ in range(items):
        begun = time.monotonic()
        page = visitor.get(f"/rate/study/{live_site.rater.code}/")
        rated.add(page.url)
        page = visitor.submit_form(page, verdict="yes", confidence="4")
        assert page.status == 200, page.text
        seconds.append(time.monotonic() - begun)
    assert len(rated) == items, "every answer was saved and followed by another item"
    return max(seconds)


def read_response(client: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    received = b""
    while data := client.recv(1 << 16):
        received += data
    return received


def test_slow_clients_do_not_delay_a_rater(live_site: LiveSite) -> None:
    openers = {
        "headers": lambda: live_site.connect(b"GET /login/ HTTP/1.1\r\nX-Slow: "),
        "body of a form": lambda: live_site.connect(live_site.build_form_head("/login/", 1_000)),
        "body of an upload": lambda: live_site.connect(live_site.build_upload_head(1_000_000)),
        "idle": lambda: live_site.connect(),
    }
    with live_site.run_server(WETBENCH_REQUEST_SECONDS="120"), ExitStack() as stack:
        held = {name: stack.enter_context(hold_slow_clients(opened, 64)) for name, opened in openers.items()}

        assert sign_in_and_rate(live_site, ITEMS) < 10

        for name, clients in held.items():
            assert not select.select(clients, [], [], 0)[0], f"the server closed a connection: {name}"


def test_slow_clients_are_disconnected_at_their_deadline(live_site: LiveSite) -> None:
    sent = (
        b"GET /login/ HTTP/1.1\r\nX-Slow: ",
        live_site.build_form_head("/login/", 1_000),
        live_site.build_upload_head(1_000_000),
    )
    with live_site.run_server(WETBENCH_REQUEST_SECONDS="2"), ExitStack() as stack:
        idle, begun = stack.enter_context(live_site.connect()), time.monotonic()
        for start in sent:
            (slow,) = stack.enter_context(hold_slow_clients(lambda start=start: live_site.connect(start), 1))
            response = read_response(slow)
            assert response.startswith(b"HTTP/1.1 408 ") and b"nosniff" in response, start
        assert 6 <= time.monotonic() - begun < 20
        assert read_response(idle) == b"", "browsers open connections in advance, and would show a response"


def build_upload_body(lines: int) -> bytes:
    """Return a form with a file of items that are not valid, each of 100 kB."""
    file = (b'{"id": "' + b"x" * 100_000 + b'"}\n') * lines
    field = b'Content-Disposition: form-data; name="file"; filename="items.jsonl"'
    return b"--end\r\n" + field + b"\r\n\r\n" + file + b"\r\n--end--\r\n"


def test_upload_that_is_slow_but_steady_arrives(live_site: LiveSite) -> None:
    """At 100 kB per second it takes three times as long as a client gets that sends nothing."""
    body = build_upload_body(lines=3)
    head = live_site.build_upload_head(len(body), "Connection: close")
    with live_site.run_server(WETBENCH_REQUEST_SECONDS="1"), live_site.connect(head) as client:
        clock = threading.Event()
        for begin in range(0, len(body), 10_000):
            client.sendall(body[begin : begin + 10_000])
            clock.wait(0.1)
        response = read_response(client)
    assert response.startswith(b"HTTP/1.1 422 ") and b"3 problems in" in response, response


def test_large_body_is_received_only_if_the_sender_may_send_it(live_site: LiveSite) -> None:
    stranger = live_site.build_form_head("/studies/one/import/", 1_000_000, "Expect: 100-continue")
    too_large = live_site.build_upload_head(100 << 30, "Expect: 100-continue")
    with live_site.run_server():
        for head, status in ((stranger, b"302"), (too_large, b"413")):
            with live_site.connect(head) as client:
                assert read_response(client).startswith(b"HTTP/1.1 %s " % status)
        body = build_upload_body(lines=1)
        with live_site.connect(live_site.build_upload_head(len(body), "Expect: 100-continue")) as client:
            assert client.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(body)
            assert client.recv(12) == b"HTTP/1.1 422"


def test_requests_in_pieces_and_several_at_once_are_answered_in_order(live_site: LiveSite) -> None:
    form = live_site.build_form_head("/login/", 3) + b"a=b"
    requests = live_site.build_head("GET /healthz") + form + live_site.build_head("GET /nowhere/", "Connection: close")
    with live_site.run_server(), live_site.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin in range(0, len(requests), 7):
            client.sendall(requests[begin : begin + 7])
        assert re.findall(rb"HTTP/1.1 (\d+)", read_response(client)) == [b"200", b"403", b"404"]


def test_request_that_is_not_http_and_headers_without_end_are_rejected(live_site: LiveSite) -> None:
    with live_site.run_server():
        for sent, status in ((b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, b"431")):
            with live_site.connect(sent) as client:
                assert read_response(client).startswith(b"HTTP/1.1 %s " % status)


def test_ambiguous_length_of_a_body_ends_the_connection(live_site: LiveSite) -> None:
    """Otherwise a part of the body could be taken for another request."""
    inner = live_site.build_head("GET /healthz")
    lengths = (
        ("Transfer-Encoding: chunked",), (f"Content-Length: {len(inner)}", "Content-Length: 0"),
        ("Content-Length: 0", f"Content-Length: {len(inner)}"), ("Content-Length: 0", "Transfer-Encoding: chunked"),
        (f"Content-Length : {len(inner)}",), (f"Content-Length:\t+{len(inner)}",),
    )  # fmt: skip
    with live_site.run_server():
        for headers in lengths:
            with live_site.connect(live_site.build_head("POST /login/", *headers) + inner) as client:
                assert len(re.findall(rb"HTTP/1.1 \d+", read_response(client))) == 1, headers


def test_connections_that_clients_do_not_close_delay_nobody(live_site: LiveSite) -> None:
    request = live_site.build_head("GET /healthz", "Connection: close")
    with live_site.run_server(), ExitStack() as stack:
        clients = [stack.enter_context(live_site.connect(request)) for _ in range(64)]
        assert sign_in_and_rate(live_site, 1) < 10
        assert all(client.recv(12) == b"HTTP/1.1 200" for client in clients)


def test_clients_beyond_the_limit_of_connections_replace_the_slowest(live_site: LiveSite) -> None:
    with live_site.run_server(), ExitStack() as stack:
        for _ in range(gunicorn_conf.worker_connections + 50):
            stack.enter_context(live_site.connect(b"GET /login/ HTTP/1.1\r\nX-Slow: "))
        assert sign_in_and_rate(live_site, 1) < 10


def test_server_stops_although_slow_clients_are_connected(live_site: LiveSite) -> None:
    with ExitStack() as stack:
        with live_site.run_server(WETBENCH_REQUEST_SECONDS="120"):
            for sent in (b"", b"GET /login/ HTTP/1.1\r\nX-Slow: "):
                stack.enter_context(live_site.connect(sent))
            begun = time.monotonic()
        assert time.monotonic() - begun < 15


def test_client_that_reads_nothing_does_not_delay_the_thread_that_writes(tmp_path: Path) -> None:
    accepted, client = socket.socketpair()
    with BufferedSocket(fileno=accepted.detach()) as server, client, (tmp_path / "file").open("w+b") as file:
        server.folder = str(tmp_path)
        pieces = [bytes([number]) * 100_000 for number in range(100)]
        for piece in pieces:
            server.sendall(piece)
        file.write(pieces[7])
        server.sendfile(file, offset=1_000, count=50_000)
        assert server.has_unsent()

        expected, received = b"".join(pieces) + pieces[7][1_000:51_000], b""
        while server.has_unsent():
            server.send_unsent()
            received += client.recv(1 << 22)
        server.sendall(b"end")
        server.shutdown(socket.SHUT_WR)
        assert received + read_response(client) == expected + b"end"
