"""Letters to raters. None says anything about an item, and what cannot be sent is said where it was asked for."""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.http import HttpRequest
from django.urls import reverse

from ratings.models import Study
from ratings.protocol.protocols import stored

logger = logging.getLogger("wetbench.mail")
_later = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")


class Letter(NamedTuple):
    """One e-mail, ready to be sent."""

    to: str
    subject: str
    body: str


Address = Callable[[str], str]  # from a path to the whole address


def address_of(request: HttpRequest | None = None, site: str = "") -> Address:
    """Whole addresses of this site: as it is configured, else as this request came in."""
    base = (settings.SITE_URL or site).rstrip("/")
    if base or request is None:
        return lambda path: f"{base}{path}"
    return request.build_absolute_uri


def link(token: str, address: Address) -> str:
    return address(reverse("ratings:rater_link", args=[token]))


def invitation(to: str, study: Study, url: str, days: int) -> Letter:
    return _letter(
        to,
        f"Invitation to rate: {study.name}",
        f"you are invited to rate in a study: {study.name}",
        f"This is your personal link. It is good for {days} days and for one person:",
        url,
        "It shows what the study is about and how long it takes, and asks whether you want to take part. "
        "If you do not, do nothing.",
        *_terms(study),
    )


def reminder(to: str, study: Study, url: str, left: int | None) -> Letter:
    """`left` is how many items are to rate; None for those who have not taken their seat."""
    things = f"you have {left} item{'s' * (left != 1)} left to rate" if left else "you still have items to rate"
    first = f"your invitation to rate in {study.name} still stands." if left is None else f"{things} in {study.name}."
    return _letter(
        to, f"Still to rate: {study.name}", first, "This link opens it; links sent earlier no longer work:", url,
        *_terms(study),
    )  # fmt: skip


def second_session(to: str, study: Study, url: str, left: int) -> Letter:
    """The washout of a crossover is over; `left` is how many items the second session has."""
    return _letter(
        to, f"Second session: {study.name}",
        f"your second session in {study.name} is open: {left} item{'s' * (left != 1)} to rate.",
        "This link opens it; links sent earlier no longer work:", url, *_terms(study),
    )  # fmt: skip


def new_items(to: str, study: Study, url: str, left: int) -> Letter:
    """Items came after the rater had rated all they had; `left` is how many there are, 0 where they are claimed one by one."""
    there = f"{left} new item{'s' * (left != 1)} to rate" if left else "new items to rate"
    return _letter(
        to, f"New items: {study.name}", f"there {'is' if left == 1 else 'are'} {there} in {study.name}.",
        "This link opens them; links sent earlier no longer work:", url, *_terms(study),
    )  # fmt: skip


def way_back(to: str, url: str) -> Letter:
    return _letter(
        to, "Your link to WetBench", "you asked for a link to go on rating. It works once, within a day:", url,
        "If it was not you who asked, do nothing: nobody else can see this link.",
    )  # fmt: skip


def send(letters: Iterable[Letter]) -> Iterator[str]:
    """Send them now over one connection; for each "" if it went out, else what went wrong, in a line.

    A server that cannot be reached is asked once: two hundred timeouts one after the other would outlast any browser.
    """
    connection = get_connection()
    refused = _attempt(connection.open)
    for letter in letters:
        yield refused or _attempt(_message(letter, connection).send)
    if not refused:
        _attempt(connection.close)


def send_later(letter: Letter) -> Future[str]:
    """Send it off the request: how long an answer takes must not tell whether somebody is known."""
    return _later.submit(lambda: next(send([letter])))


def _attempt(act: Callable[[], object]) -> str:
    """ "" if it went well. Whatever the mail server says, the page goes on."""
    try:
        act()
    except Exception as error:
        logger.warning("a letter could not be sent: %s", type(error).__name__)
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def _message(letter: Letter, connection: Any) -> EmailMessage:
    return EmailMessage(letter.subject, letter.body, settings.DEFAULT_FROM_EMAIL, [letter.to], connection=connection)


def _terms(study: Study) -> list[str]:
    contact = stored(study.protocol).contact
    lines = [f"The study runs until {study.deadline:%-d %B %Y}."] if study.deadline else []
    return lines + ([f"Questions: {contact}"] if contact else [])


def _letter(to: str, subject: str, *paragraphs: str) -> Letter:
    """Plain text. A subject is one line whatever a study is called: a line break in it would begin a header."""
    return Letter(to, " ".join(subject.split())[:200], "\n\n".join(("Hello,", *paragraphs)) + "\n")
