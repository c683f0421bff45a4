"""python -m bench.rater_clients < rounds.json: raters without think time, each a thread with one persistent connection.

Reads {"port", "htmx", "most", "raters": [{"cookie", "starts"}]}: a rater opens each address of `starts` and submits answers until
the study ends or `most` ratings are given. Writes the number of ratings, the seconds, the client's own CPU seconds and the
milliseconds of every request.
"""

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

# Cookie and header agree, which is all that the CSRF check compares.
_TOKEN = "a" * 32
_SUBMISSION = re.compile(rb'name=\\?"submission_id\\?" value=\\?"([0-9a-f-]{36})')
_LENGTH, _WHERE = (
    re.compile(rb"\r\ncontent-length: (\d+)", re.I),
    re.compile(rb"\r\n(?:location|hx-push-url): (\S+)", re.I),
)


class NotServedError(Exception):
    """The server did not return the page that a rater should get."""


class Reply(NamedTuple):
    status: int
    where: str
    body: bytes


# A minimal HTTP client: a library would use more processor time than the server under test, on the same cores.
class Browser:
    """One rater's connection. `taken` has the milliseconds of each answered request."""

    def __init__(self, port: int, cookie: str, htmx: bool) -> None:
        self.address, self.taken, self.ratings = ("127.0.0.1", port), list[float](), 0
        self.socket = socket.create_connection(self.address)
        htmx_headers = "HX-Request: true\r\nHX-Target: rating-card\r\n" if htmx else ""
        cookies = f"Cookie: {cookie}; wb_csrf={_TOKEN}\r\nX-CSRFToken: {_TOKEN}\r\n"
        self.always, self.fetched = f"Host: 127.0.0.1:{port}\r\n{cookies}", htmx_headers

    def get(self, where: str) -> Reply:
        return self._ask(f"GET {where} HTTP/1.1\r\n{self.always}\r\n".encode())

    def answer(self, where: str, page: bytes) -> Reply:
        """Submit the form of this page and return the reply."""
        match = _SUBMISSION.search(page)
        if match is None:
            raise NotServedError(f"{where} shows no form: {page[:300]!r}")
        form = "verdict=yes&confidence=4&revision=0&stage=final&interface=2&submission_id=" + match[1].decode()
        content_headers = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n"
        return self._ask(f"POST {where} HTTP/1.1\r\n{self.always}{self.fetched}{content_headers}\r\n{form}".encode())

    def _ask(self, request: bytes) -> Reply:
        start = time.perf_counter()
        self.socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        length = _LENGTH.search(data, 0, end)
        missing = int(length[1]) if length else 0
        while len(data) < end + 4 + missing:
            data += self._more()
        self.taken.append(1000 * (time.perf_counter() - start))
        location = _WHERE.search(data, 0, end + 2)
        # gunicorn closes a connection after some requests; the next request needs a new one.
        if b"\r\nConnection: close" in data[:end]:
            self.socket = socket.create_connection(self.address)
        return Reply(int(data[9:12]), location[1].decode() if location else "", data[end + 4 :])

    def _more(self) -> bytes:
        if not (received := self.socket.recv(1 << 18)):
            raise NotServedError("the server closed the connection")
        return received


def rate(browser: Browser, start: str, most: int) -> None:
    """Rate one study from its first item to its end, or until `most` ratings are given."""
    reply = Reply(302, start, b"")
    path = start
    for _ in range(most + 1):
        while reply.status in (302, 303):
            path = reply.where
            reply = browser.get(path)
        if reply.status != 200:
            raise NotServedError(f"{path} answered {reply.status}: {reply.body[:300]!r}")
        if not _SUBMISSION.search(reply.body) or _ == most:
            return
        reply = browser.answer(path, reply.body)
        browser.ratings += 1
        if reply.status == 200:
            path = reply.where
            if not path:
                return  # htmx redirects to another page: the study is complete


def _all(browser: Browser, starts: Iterable[str], most: int, gate: threading.Barrier) -> None:
    gate.wait()
    for start in starts:
        rate(browser, start, most)


def main() -> int:
    plan: dict[str, Any] = json.load(sys.stdin)
    barrier = threading.Barrier(len(plan["raters"]) + 1)
    browsers = [Browser(plan["port"], rater["cookie"], plan["htmx"]) for rater in plan["raters"]]
    threads = [
        threading.Thread(target=_all, args=(browser, rater["starts"], plan["most"], barrier))
        for browser, rater in zip(browsers, plan["raters"], strict=True)
    ]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    expected = plan["most"] * sum(len(rater["starts"]) for rater in plan["raters"])
    if (ratings := sum(browser.ratings for browser in browsers)) != expected:
        sys.exit(f"{ratings} ratings were submitted instead of {expected}")
    result = {"ratings": ratings, "seconds": seconds, "cpu": time.process_time()}
    json.dump(result | {"taken": [taken for browser in browsers for taken in browser.taken]}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
