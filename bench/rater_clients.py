"""python -m bench.rater_clients < rounds.json: raters without think time, each a thread with one persistent connection.

Reads {"port", "htmx", "raters": [{"cookie", "starts", "ratings"}]}: a rater opens each address of `starts` and submits as many
answers as `ratings` has at the same position. Writes the number of ratings, the seconds, the client's own CPU seconds and the
milliseconds of every request. The server is WetBench, a floor or oTree (bench.peers.otree), which needs no cookie.
"""

import json
import re
import socket
import sys
import threading
import time
from typing import Any, NamedTuple

# Cookie and header agree, which is all that the CSRF check compares.
_TOKEN = "a" * 32
_SUBMISSION = re.compile(rb'name=\\?"submission_id\\?" value=\\?"([0-9a-f-]{36})')
_OTREE_FORM = b'<form class="otree-form"'
_LENGTH, _WHERE = (
    re.compile(rb"\r\ncontent-length: (\d+)", re.I),
    re.compile(rb"\r\n(?:location|hx-push-url): (\S+)", re.I),
)


class NotServedError(Exception):
    """The server did not return the page that a rater should get."""


class HttpReply(NamedTuple):
    status: int
    location: str
    body: bytes


def build_answer(page: bytes) -> str | None:
    """Return the answer to the form of this page, or None if the page shows no form."""
    if match := _SUBMISSION.search(page):
        return "verdict=yes&confidence=4&revision=0&stage=final&interface=2&submission_id=" + match[1].decode()
    return "verdict=yes&confidence=4" if _OTREE_FORM in page else None


# A minimal HTTP client: a library would use more processor time than the server under test, on the same cores.
class BrowserConnection:
    """One rater's connection. `taken` has the milliseconds of each answered request."""

    def __init__(self, port: int, cookie: str, htmx: bool) -> None:
        self.address, self.taken, self.ratings = ("127.0.0.1", port), list[float](), 0
        self.socket = socket.create_connection(self.address)
        htmx_headers = "HX-Request: true\r\nHX-Target: rating-card\r\n" if htmx else ""
        cookies = f"Cookie: {cookie}; wb_csrf={_TOKEN}\r\nX-CSRFToken: {_TOKEN}\r\n" if cookie else ""
        self.always, self.fetched = f"Host: 127.0.0.1:{port}\r\n{cookies}", htmx_headers

    def get_page(self, path: str) -> HttpReply:
        return self.send_request(f"GET {path} HTTP/1.1\r\n{self.always}\r\n".encode())

    def submit_form(self, path: str, form: str) -> HttpReply:
        content_headers = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n"
        return self.send_request(
            f"POST {path} HTTP/1.1\r\n{self.always}{self.fetched}{content_headers}\r\n{form}".encode()
        )

    def send_request(self, request: bytes) -> HttpReply:
        start = time.perf_counter()
        self.socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self.receive_bytes()
        length = _LENGTH.search(data, 0, end)
        missing = int(length[1]) if length else 0
        is_chunked = length is None and b"chunked" in data[:end]  # oTree's redirects, whose body is empty
        while len(data) < end + 4 + missing or (is_chunked and not data.endswith(b"\r\n0\r\n\r\n")):
            data += self.receive_bytes()
        self.taken.append(1000 * (time.perf_counter() - start))
        location = _WHERE.search(data, 0, end + 2)
        # gunicorn closes a connection after some requests; the next request needs a new one.
        if b"\r\nConnection: close" in data[:end]:
            self.socket = socket.create_connection(self.address)
        return HttpReply(int(data[9:12]), location[1].decode() if location else "", data[end + 4 :])

    def receive_bytes(self) -> bytes:
        if not (received := self.socket.recv(1 << 18)):
            raise NotServedError("the server closed the connection")
        return received


def rate_study(browser: BrowserConnection, start: str, max_ratings: int) -> None:
    """Rate one study from its first item to its end, or until `max_ratings` are given."""
    reply = HttpReply(302, start, b"")
    path = start
    for _ in range(max_ratings + 1):
        while reply.status in (302, 303, 307):
            path = reply.location
            reply = browser.get_page(path)
        if reply.status != 200:
            raise NotServedError(f"{path} answered {reply.status}: {reply.body[:300]!r}")
        form = build_answer(reply.body)
        if form is None or _ == max_ratings:
            return
        reply = browser.submit_form(path, form)
        browser.ratings += 1
        if reply.status == 200:
            path = reply.location
            if not path:
                return  # htmx redirects to another page: the study is complete


def run_rater(browser: BrowserConnection, rater: dict[str, Any], barrier: threading.Barrier) -> None:
    barrier.wait()
    for start, ratings in zip(rater["starts"], rater["ratings"], strict=True):
        rate_study(browser, start, ratings)


def main() -> int:
    plan: dict[str, Any] = json.load(sys.stdin)
    barrier = threading.Barrier(len(plan["raters"]) + 1)
    browsers = [BrowserConnection(plan["port"], rater["cookie"], plan["htmx"]) for rater in plan["raters"]]
    threads = [
        threading.Thread(target=run_rater, args=(browser, rater, barrier))
        for browser, rater in zip(browsers, plan["raters"], strict=True)
    ]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    expected = sum(sum(rater["ratings"]) for rater in plan["raters"])
    if (ratings := sum(browser.ratings for browser in browsers)) != expected:
        sys.exit(f"{ratings} ratings were submitted instead of {expected}")
    result = {"ratings": ratings, "seconds": seconds, "cpu": time.process_time()}
    json.dump(result | {"taken": [taken for browser in browsers for taken in browser.taken]}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
