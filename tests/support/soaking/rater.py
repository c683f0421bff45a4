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

from tests.support.soaking.answer_log import CONFIRMED, SENT, AnswerLog, LogEntry
from tests.support.visitor import FormParser, Page, Visitor

WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # seconds between tries, as in static/saving.js
TIMEOUT = 15.0
MAX_TRIES = 12  # four minutes; a browser would continue for ever
RETRIED_STATUSES = (429, 500, 502, 503, 504)


class RequestRejected(RuntimeError):  # noqa: N818  # states an outcome, like StopIteration
    """The server rejected what a rater may do: their users would have seen an error."""


@dataclass
class RaterCounts:
    """What happened to one rater. `faults` were tried again; `errors` would have been visible."""

    confirmed: int = 0
    corrected: int = 0
    repeated_clicks: int = 0
    retries: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    # Per answer, from sending to the confirmation, all tries included.
    seconds: list[float] = field(default_factory=list)


@dataclass
class SoakRater:
    """One rater with their own browser, who has already consented and read the guide."""

    visitor: Visitor
    rater: str
    journal: AnswerLog
    think: tuple[float, float]
    rng: random.Random
    stop: threading.Event
    waits: Sequence[float] = WAITS
    counts: RaterCounts = field(default_factory=RaterCounts)
    answers: dict[str, tuple[bool, int]] = field(default_factory=dict)

    def rate_until_stopped(self) -> None:
        """Rate item after item until stopped; an answer in progress is confirmed first."""
        try:
            page = self._open_next_item()
            while not self.stop.is_set():
                try:
                    page = self._rate_one(page)
                except RequestRejected as error:
                    self.counts.errors[str(error)] += 1
                    page = self._open_next_item()
        except Exception as error:  # else a rater whose thread died would look like one without errors
            self.counts.errors[repr(error)] += 1
            raise

    def _rate_one(self, page: Page | None) -> Page | None:
        self.stop.wait(self.rng.uniform(*self.think))
        if self.stop.is_set():
            return page
        form = _find_answer_form(page)
        if form is None:  # done for now, or the rest is reserved by others
            self._correct_last_answer()
            return self._open_next_item()
        response = self._send_answer(form, self.rng.random() < 0.6, self.rng.randint(1, 5))
        if self.rng.random() < 0.05:
            self._correct_last_answer()
            return self._open_next_item()
        return self._follow_redirect(response)

    def _open_next_item(self) -> Page | None:
        try:
            return self._send_until_settled("GET", f"/rate/study/{self.rater}/")
        except RequestRejected as error:
            self.counts.errors[str(error)] += 1
            return None

    def _follow_redirect(self, answer: Page) -> Page | None:
        """Return the next page: htmx receives the next card with the response, or the address of a page."""
        address = answer.headers.get("HX-Redirect")
        return self._send_until_settled("GET", address) if address else answer

    def _correct_last_answer(self) -> None:
        """Open the last answer again and change its confidence."""
        if not self.answers:
            return
        code = list(self.answers)[-1]
        verdict, confidence = self.answers[code]
        page = self._send_until_settled("GET", f"/rate/{code}/")
        form = _find_answer_form(page)
        if form and form["fields"].get("revision", ["0"]) != ["0"]:
            self._send_answer(form, verdict, confidence % 5 + 1)
            self.counts.corrected += 1

    def _send_answer(self, form: dict[str, Any], verdict: bool, confidence: int) -> Page:
        """Log, send until confirmed, and log again; sometimes click the button once more."""
        fields = {name: values[-1] for name, values in form["fields"].items()}
        place, submission = form["action"].strip("/").split("/")[-1], fields["submission_id"]
        answer = (place, str(uuid.UUID(submission)), verdict, confidence)
        self.journal.append_entry(LogEntry(SENT, *answer))
        form_fields = {**fields, "verdict": "yes" if verdict else "no", "confidence": str(confidence)}
        start = time.monotonic()
        response = self._send_until_settled("POST", form["action"], form_fields)
        self.counts.seconds.append(time.monotonic() - start)
        self.journal.append_entry(LogEntry(CONFIRMED, *answer))
        self.counts.confirmed += 1
        self.answers[place] = (verdict, confidence)
        if self.rng.random() < 0.05:
            self._send_until_settled("POST", form["action"], form_fields)
            self.counts.repeated_clicks += 1
        return response

    def _send_until_settled(self, method: str, path: str, fields: dict[str, str] | None = None) -> Page:
        """Retry until a response settles the request. RequestRejected names the status of one that rejects it."""
        tries = 0
        while True:
            fault, retry_after = "", 0.0
            try:
                page = self._send_once(method, path, fields)
            except (OSError, http.client.HTTPException) as error:
                fault = f"no answer ({type(getattr(error, 'reason', error)).__name__})"
            else:
                if page.status < 400:
                    return page
                if page.status not in RETRIED_STATUSES:
                    raise RequestRejected(f"{method} {page.status}")
                fault, retry_after = f"{page.status}", float(page.headers.get("Retry-After") or 0)
            self.counts.faults[fault] += 1
            if tries == MAX_TRIES:
                raise RequestRejected(f"{method}: {fault} {tries} times")
            self.counts.retries += 1
            time.sleep(max(self.waits[min(tries, len(self.waits) - 1)], retry_after))
            tries += 1

    def _send_once(self, method: str, path: str, fields: dict[str, str] | None) -> Page:
        if method == "GET":
            return self.visitor.get(path, timeout=TIMEOUT)
        token = next((c.value for c in self.visitor.cookies if "csrf" in c.name), "") or ""
        headers = {"HX-Request": "true", "X-CSRFToken": token, "Origin": self.visitor.site}
        return self.visitor.post(path, fields or {}, headers, TIMEOUT)


def _find_answer_form(page: Page | None) -> dict[str, Any] | None:
    """Return the form of an item that is shown to be answered."""
    if page is None:
        return None
    reader = FormParser()
    reader.feed(page.text)
    match = next((form for form in reader.forms if "submission_id" in form["fields"]), None)
    return {**match, "action": match["action"] or urlsplit(page.url).path} if match else None
