"""A simulated rater that behaves like the scripts of the rating page (static/saving.js): one answer at a time, sent again
with the same submission id until the server has confirmed it.
"""

import http.client
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.support.soaking.journal import CONFIRMED, SENT, Entry, Journal
from tests.support.visitor import FormReader, Page, Visitor

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # seconds between tries, as in static/saving.js
TIMEOUT = 15.0
MOST_TRIES = 12  # four minutes; a browser would continue for ever
AGAIN = (429, 500, 502, 503, 504)


class GaveUp(RuntimeError):  # noqa: N818  # states an outcome, like StopIteration
    """The server rejected what a rater may do: their users would have seen an error."""


@dataclass
class Counts:
    """What happened to one rater. `faults` were tried again; `errors` would have been visible."""

    confirmed: int = 0
    corrected: int = 0
    pressed_twice: int = 0
    retries: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    # Per answer, from sending to the confirmation, all tries included.
    seconds: list[float] = field(default_factory=list)


@dataclass
class Rater:
    """One rater with their own browser, who has already consented and read the guide."""

    visitor: Visitor
    seat: str
    journal: Journal
    think: tuple[float, float]
    rng: random.Random
    stop: threading.Event
    waits: Sequence[float] = WAITS
    counts: Counts = field(default_factory=Counts)
    said: dict[str, tuple[bool, int]] = field(default_factory=dict)

    def work(self) -> None:
        """Rate item after item until stopped; an answer in progress is confirmed first."""
        try:
            page = self._next()
            while not self.stop.is_set():
                try:
                    page = self._turn(page)
                except GaveUp as error:
                    self.counts.errors[str(error)] += 1
                    page = self._next()
        except Exception as error:  # else a rater whose thread died would look like one without errors
            self.counts.errors[repr(error)] += 1
            raise

    def _turn(self, page: Page | None) -> Page | None:
        self.stop.wait(self.rng.uniform(*self.think))
        if self.stop.is_set():
            return page
        form = _form(page)
        if form is None:  # done for now, or the rest is reserved by others
            self._correct()
            return self._next()
        response = self._answer(form, self.rng.random() < 0.6, self.rng.randint(1, 5))
        if self.rng.random() < 0.05:
            self._correct()
            return self._next()
        return self._after(response)

    def _next(self) -> Page | None:
        try:
            return self._try("GET", f"/rate/study/{self.seat}/")
        except GaveUp as error:
            self.counts.errors[str(error)] += 1
            return None

    def _after(self, answer: Page) -> Page | None:
        """Return the next page: htmx receives the next card with the response, or the address of a page."""
        address = answer.headers.get("HX-Redirect")
        return self._try("GET", address) if address else answer

    def _correct(self) -> None:
        """Open the last answer again and change its confidence."""
        if not self.said:
            return
        code = list(self.said)[-1]
        verdict, confidence = self.said[code]
        page = self._try("GET", f"/rate/{code}/")
        form = _form(page)
        if form and form["fields"].get("revision", ["0"]) != ["0"]:
            self._answer(form, verdict, confidence % 5 + 1)
            self.counts.corrected += 1

    def _answer(self, form: dict[str, Any], verdict: bool, confidence: int) -> Page:
        """Log, send until confirmed, and log again; sometimes click the button once more."""
        fields = {name: values[-1] for name, values in form["fields"].items()}
        place, submission = form["action"].strip("/").split("/")[-1], fields["submission_id"]
        answer = (place, str(uuid.UUID(submission)), verdict, confidence)
        self.journal.write(Entry(SENT, *answer))
        form_fields = {**fields, "verdict": "yes" if verdict else "no", "confidence": str(confidence)}
        start = time.monotonic()
        response = self._try("POST", form["action"], form_fields)
        self.counts.seconds.append(time.monotonic() - start)
        self.journal.write(Entry(CONFIRMED, *answer))
        self.counts.confirmed += 1
        self.said[place] = (verdict, confidence)
        if self.rng.random() < 0.05:
            self._try("POST", form["action"], form_fields)
            self.counts.pressed_twice += 1
        return response

    def _try(self, method: str, path: str, fields: dict[str, str] | None = None) -> Page:
        """Retry until a response settles the request. RequestRejected names the status of one that rejects it."""
        tries = 0
        while True:
            fault, retry_after = "", 0.0
            try:
                page = self._ask(method, path, fields)
            except (OSError, http.client.HTTPException) as error:
                fault = f"no answer ({type(getattr(error, 'reason', error)).__name__})"
            else:
                if page.status < 400:
                    return page
                if page.status not in AGAIN:
                    raise GaveUp(f"{method} {page.status}")
                fault, retry_after = f"{page.status}", float(page.headers.get("Retry-After") or 0)
            self.counts.faults[fault] += 1
            if tries == MOST_TRIES:
                raise GaveUp(f"{method}: {fault} {tries} times")
            self.counts.retries += 1
            time.sleep(max(self.waits[min(tries, len(self.waits) - 1)], retry_after))
            tries += 1

    def _ask(self, method: str, path: str, fields: dict[str, str] | None) -> Page:
        if method == "GET":
            return self.visitor.get(path, timeout=TIMEOUT)
        token = next((c.value for c in self.visitor.cookies if "csrf" in c.name), "") or ""
        headers = {"HX-Request": "true", "X-CSRFToken": token, "Origin": self.visitor.site}
        return self.visitor.post(path, fields or {}, headers, TIMEOUT)


def _form(page: Page | None) -> dict[str, Any] | None:
    """Return the form of an item that is shown to be answered."""
    if page is None:
        return None
    reader = FormReader()
    reader.feed(page.text)
    match = next((form for form in reader.forms if "submission_id" in form["fields"]), None)
    return {**match, "action": match["action"] or urlsplit(page.url).path} if match else None
