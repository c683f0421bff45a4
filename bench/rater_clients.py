"""python -m bench.rater_clients < rounds.json: raters without think time, each a thread with one connection that stays open.

Reads {"port", "htmx", "raters": [{"cookie", "starts"}]}: a rater asks for each address of `starts`, and answers what is shown
until there is nothing more. Writes the number of ratings, seconds, the client's own CPU seconds and milliseconds of every request.
"""

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

_TOKEN = "a" * 32
_SUBMISSION = re.compile(rb'name=\\?"submission_id\\?" value=\\?"([0-9a-f-]{36})')
_LENGTH, _WHERE = (
    re.compile(rb"\r\ncontent-length: (\d+)", re.I),
    re.compile(rb"\r\n(?:location|hx-push-url): (\S+)", re.I),
)


class NotServedError(Exception):
    """A page that a rater should have been given was not."""


class Reply(NamedTuple):
    status: int
    where: str
    body: bytes


class Browser:
    """One rater's connection. `taken` are the milliseconds of each request that was answered."""

    def __init__(self, port: int, cookie: str, htmx: bool) -> None:
        self.address, self.taken, self.ratings = ("127.0.0.1", port), list[float](), 0
        self.socket = socket.create_connection(self.address)
        fetched = "HX-Request: true\r\nHX-Target: rating-card\r\n" if htmx else ""
        cookies = f"Cookie: {cookie}; wb_csrf={_TOKEN}\r\nX-CSRFToken: {_TOKEN}\r\n"
        self.always, self.fetched = f"Host: 127.0.0.1:{port}\r\n{cookies}", fetched

    def get(self, where: str) -> Reply:
        return self._ask(f"GET {where} HTTP/1.1\r\n{self.always}\r\n".encode())

    def answer(self, where: str, page: bytes) -> Reply:
        """Sends the form of this page; without htmx it follows the redirect, as browsers do."""
        found = _SUBMISSION.search(page)
        if found is None:
            raise NotServedError(f"{where} shows no form: {page[:300]!r}")
        form = "verdict=yes&confidence=4&revision=0&stage=final&interface=2&submission_id=" + found[1].decode()
        kind = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n"
        return self._ask(f"POST {where} HTTP/1.1\r\n{self.always}{self.fetched}{kind}\r\n{form}".encode())

    def _ask(self, request: bytes) -> Reply:
        began = time.perf_counter()
        self.socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        length = _LENGTH.search(data, 0, end)
        missing = int(length[1]) if length else 0
        while len(data) < end + 4 + missing:
            data += self._more()
        self.taken.append(1000 * (time.perf_counter() - began))
        where = _WHERE.search(data, 0, end + 2)
        if b"\r\nConnection: close" in data[:end]:
            self.socket = socket.create_connection(self.address)
        return Reply(int(data[9:12]), where[1].decode() if where else "", data[end + 4 :])

    def _more(self) -> bytes:
        if not (more := self.socket.recv(1 << 18)):
            raise NotServedError("the server closed the connection")
        return more


def rate(browser: Browser, start: str, most: int) -> None:
    """One study from its first item on: to its end, or so many ratings."""
    reply = Reply(302, start, b"")
    where = start
    for _ in range(most + 1):
        while reply.status in (302, 303):
            where = reply.where
            reply = browser.get(where)
        if reply.status != 200:
            raise NotServedError(f"{where} answered {reply.status}: {reply.body[:300]!r}")
        if not _SUBMISSION.search(reply.body) or _ == most:
            return
        reply = browser.answer(where, reply.body)
        browser.ratings += 1
        if reply.status == 200:
            where = reply.where
            if not where:
                return  # htmx is told to load another page: the study is done


def _all(browser: Browser, starts: Iterable[str], most: int, gate: threading.Barrier) -> None:
    gate.wait()
    for start in starts:
        rate(browser, start, most)


def main() -> int:
    plan: dict[str, Any] = json.load(sys.stdin)
    gate = threading.Barrier(len(plan["raters"]) + 1)
    browsers = [Browser(plan["port"], rater["cookie"], plan["htmx"]) for rater in plan["raters"]]
    threads = [
        threading.Thread(target=_all, args=(browser, rater["starts"], plan["most"], gate))
        for browser, rater in zip(browsers, plan["raters"], strict=True)
    ]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    wanted = plan["most"] * sum(len(rater["starts"]) for rater in plan["raters"])
    if (given := sum(browser.ratings for browser in browsers)) != wanted:
        sys.exit(f"{given} ratings were taken, and not {wanted}")
    done = {"ratings": given, "seconds": seconds, "cpu": time.process_time()}
    json.dump(done | {"taken": [taken for browser in browsers for taken in browser.taken]}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
