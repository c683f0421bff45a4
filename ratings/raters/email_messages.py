"""E-mails to raters. No e-mail reveals anything about an item. Errors in sending are returned to the caller."""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.http import HttpRequest
from django.urls import reverse

from ratings.models import Study
from ratings.protocol.study_protocol import load_protocol

logger = logging.getLogger("wetbench.mail")
# A shared pool of two threads: requests do not wait, and not every message starts a thread.
_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")


class Message(NamedTuple):
    """One e-mail, ready to be sent."""

    to: str
    subject: str
    body: str


UrlBuilder = Callable[[str], str]  # from a path to an absolute URL


def make_url_builder(request: HttpRequest | None = None, site: str = "") -> UrlBuilder:
    """Return a function that makes absolute URLs of this site, from the configured address or else from the
    request's.
    """
    # A configured address comes first: the host header of a request is written by its sender.
    base = (settings.SITE_URL or site).rstrip("/")
    if base or request is None:
        return lambda path: f"{base}{path}"
    return request.build_absolute_uri


def build_link(token: str, address: UrlBuilder) -> str:
    return address(reverse("ratings:rater_link", args=[token]))


def write_invitation(to: str, study: Study, url: str, days: int) -> Message:
    return _compose(
        to,
        f"Invitation to rate: {study.name}",
        f"you are invited to rate in a study: {study.name}",
        f"This is your personal link. It works for {days} days and for one person:",
        url,
        "It explains the study and how long it takes, and asks whether you want to take part. "
        "If you do not want to, you need not do anything.",
        *_study_terms(study),
    )


def write_reminder(to: str, study: Study, url: str, n_left: int | None) -> Message:
    """Return a reminder. `n_left` is the number of items to rate; None if the rater has not joined."""
    items_text = (
        f"you have {n_left} item{'s' * (n_left != 1)} left to rate" if n_left else "you still have items to rate"
    )
    opening = (
        f"your invitation to rate in {study.name} is still open."
        if n_left is None
        else f"{items_text} in {study.name}."
    )
    return _compose(
        to, f"Still to rate: {study.name}", opening, "Use this link to continue; earlier links no longer work:", url,
        *_study_terms(study),
    )  # fmt: skip


def write_second_session(to: str, study: Study, url: str, left: int) -> Message:
    """Return the e-mail after the washout of a crossover; `left` is the number of items in session 2."""
    return _compose(
        to, f"Second session: {study.name}",
        f"your second session in {study.name} is open: {left} item{'s' * (left != 1)} to rate.",
        "Use this link to continue; earlier links no longer work:", url, *_study_terms(study),
    )  # fmt: skip


def write_new_items(to: str, study: Study, url: str, left: int) -> Message:
    """Return the e-mail about items added after the rater had finished; `left` is their number, 0 in pool studies."""
    items_text = f"{left} new item{'s' * (left != 1)} to rate" if left else "new items to rate"
    return _compose(
        to, f"New items: {study.name}", f"there {'is' if left == 1 else 'are'} {items_text} in {study.name}.",
        "Use this link to rate them; earlier links no longer work:", url, *_study_terms(study),
    )  # fmt: skip


def write_sign_in_link(to: str, url: str) -> Message:
    return _compose(
        to, "Your link to WetBench", "you requested a link to continue rating. It works once, within a day:", url,
        "If you did not request it, you can ignore this e-mail: nobody else can see this link.",
    )  # fmt: skip


def send_messages(messages: Iterable[Message]) -> Iterator[str]:
    """Send the messages over one connection; yield "" for each one sent, else the error in one line."""
    connection = get_connection()
    # The connection is opened once: two hundred timeouts in a row would outlast any browser.
    connection_error = _run_safely(connection.open)
    for message in messages:
        yield connection_error or _run_safely(_build_email(message, connection).send)
    if not connection_error:
        _run_safely(connection.close)


def send_in_background(message: Message) -> Future[str]:
    """Send the message in a background thread. Return a future of the error in one line ("" if sent)."""
    # The response time must not reveal whether an address is known.
    return _executor.submit(lambda: next(send_messages([message])))


def _run_safely(act: Callable[[], object]) -> str:
    # Any error of the mail system is reported to the admin and must not end the request, as the links exist already.
    """Return "" if the function succeeds, else its error in one line."""
    try:
        act()
    except Exception as error:
        # Only the type is logged, since the message usually contains the address.
        logger.warning("an e-mail could not be sent: %s", type(error).__name__)
        # One line of limited length: it is stored with the invitation and displayed in a table.
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def _build_email(message: Message, connection: Any) -> EmailMessage:
    return EmailMessage(message.subject, message.body, settings.DEFAULT_FROM_EMAIL, [message.to], connection=connection)


def _study_terms(study: Study) -> list[str]:
    contact = load_protocol(study.protocol).contact
    lines = [f"The study runs until {study.deadline:%-d %B %Y}."] if study.deadline else []
    return lines + ([f"Questions: {contact}"] if contact else [])


def _compose(to: str, subject: str, *paragraphs: str) -> Message:
    """Return a plain-text message. Line breaks are removed from its subject, because there they would start another
    e-mail header.
    """
    return Message(to, " ".join(subject.split())[:200], "\n\n".join(("Hello,", *paragraphs)) + "\n")
