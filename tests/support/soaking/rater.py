"""A simulated rater with the manners of the rating room's scripts (static/saving.js): one answer at a time, sent again under
the same submission id until the server has confirmed it."""

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
MOST_TRIES = 12  # four minutes; a browser would go on for ever
AGAIN = (429, 500, 502, 503, 504)


class GaveUp(RuntimeError):  # noqa: N818  # what became of it
    """The server refused for good what a rater may do: what its users would have seen as an error."""


@dataclass
class Counts:
    """What one rater met. `faults` were tried again; `errors` came to the rater's eyes."""

    confirmed: int = 0
    corrected: int = 0
    pressed_twice: int = 0
    retries: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    # Of each answer, from sending to the confirmation, tries included.
    seconds: list[float] = field(default_factory=list)


@dataclass
class Rater:
    """One seat, in a browser of its own, already past consent and guide."""

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
        """Item after item until told to stop; an answer that was begun is brought home first."""
        try:
            page = self._next()
            while not self.stop.is_set():
                try:
                    page = self._turn(page)
                except GaveUp as error:
                    self.counts.errors[str(error)] += 1
                    page = self._next()
        except Exception as error:  # a rater who stopped working must not look like one with nothing to say
            self.counts.errors[repr(error)] += 1
            raise

    def _turn(self, page: Page | None) -> Page | None:
        self.stop.wait(self.rng.uniform(*self.think))
        if self.stop.is_set():
            return page
        form = _form(page)
        if form is None:  # done for now, or others hold the rest
            self._correct()
            return self._next()
        answer = self._answer(form, self.rng.random() < 0.6, self.rng.randint(1, 5))
        if self.rng.random() < 0.05:
            self._correct()
            return self._next()
        return self._after(answer)

    def _next(self) -> Page | None:
        try:
            return self._try("GET", f"/rate/study/{self.seat}/")
        except GaveUp as error:
            self.counts.errors[str(error)] += 1
            return None

    def _after(self, answer: Page) -> Page | None:
        """htmx gets the next card with the answer; a whole page it is sent to."""
        where = answer.headers.get("HX-Redirect")
        return self._try("GET", where) if where else answer

    def _correct(self) -> None:
        """The last answer is opened again and its confidence changed."""
        if not self.said:
            return
        place = list(self.said)[-1]
        verdict, confidence = self.said[place]
        page = self._try("GET", f"/rate/{place}/")
        form = _form(page)
        if form and form["fields"].get("revision", ["0"]) != ["0"]:
            self._answer(form, verdict, confidence % 5 + 1)
            self.counts.corrected += 1

    def _answer(self, form: dict[str, Any], verdict: bool, confidence: int) -> Page:
        """Journal, send until confirmed, journal; now and then the button is pressed once more."""
        fields = {name: values[-1] for name, values in form["fields"].items()}
        place, submission = form["action"].strip("/").split("/")[-1], fields["submission_id"]
        said = (place, str(uuid.UUID(submission)), verdict, confidence)
        self.journal.write(Entry(SENT, *said))
        sent = {**fields, "verdict": "yes" if verdict else "no", "confidence": str(confidence)}
        began = time.monotonic()
        answer = self._try("POST", form["action"], sent)
        self.counts.seconds.append(time.monotonic() - began)
        self.journal.write(Entry(CONFIRMED, *said))
        self.counts.confirmed += 1
        self.said[place] = (verdict, confidence)
        if self.rng.random() < 0.05:
            self._try("POST", form["action"], sent)
            self.counts.pressed_twice += 1
        return answer

    def _try(self, method: str, path: str, fields: dict[str, str] | None = None) -> Page:
        """Until there is an answer that settles it. GaveUp names the status of one that refuses."""
        tries = 0
        while True:
            met, again_after = "", 0.0
            try:
                page = self._ask(method, path, fields)
            except (OSError, http.client.HTTPException) as error:
                met = f"no answer ({type(getattr(error, 'reason', error)).__name__})"
            else:
                if page.status < 400:
                    return page
                if page.status not in AGAIN:
                    raise GaveUp(f"{method} {page.status}")
                met, again_after = f"{page.status}", float(page.headers.get("Retry-After") or 0)
            self.counts.faults[met] += 1
            if tries == MOST_TRIES:
                raise GaveUp(f"{method}: {met} {tries} times")
            self.counts.retries += 1
            time.sleep(max(self.waits[min(tries, len(self.waits) - 1)], again_after))
            tries += 1

    def _ask(self, method: str, path: str, fields: dict[str, str] | None) -> Page:
        if method == "GET":
            return self.visitor.get(path, timeout=TIMEOUT)
        token = next((c.value for c in self.visitor.cookies if "csrf" in c.name), "") or ""
        headers = {"HX-Request": "true", "X-CSRFToken": token, "Origin": self.visitor.site}
        return self.visitor.post(path, fields or {}, headers, TIMEOUT)


def _form(page: Page | None) -> dict[str, Any] | None:
    """The form of an item that is shown to be answered."""
    if page is None:
        return None
    reader = FormReader()
    reader.feed(page.text)
    found = next((form for form in reader.forms if "submission_id" in form["fields"]), None)
    return {**found, "action": found["action"] or urlsplit(page.url).path} if found else None
