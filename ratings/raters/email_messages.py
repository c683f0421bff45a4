"""E-mails to raters. No e-mail reveals anything about an item. Errors in sending are returned to the caller."""

import logging
import smtplib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from email.utils import formataddr, parseaddr
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage, get_connection
from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import SignInLink, Study
from ratings.protocol.study_protocol import load_protocol
from wetbench_site.text import describe_error, format_count

logger = logging.getLogger("wetbench.mail")
# A shared pool of two threads: requests do not wait, and not every message starts a thread.
_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")


class Message(NamedTuple):
    """One e-mail, ready to be sent. `sender` is the name of the sender; "" for the name in the settings."""

    to: str
    subject: str
    body: str
    sender: str = ""


def is_email_set_up() -> bool:
    """Return whether this site can send e-mail. Without a mail server Django prints e-mails to the console."""
    return settings.EMAIL_BACKEND != "django.core.mail.backends.console.EmailBackend"


UrlBuilder = Callable[[str], str]  # from a path to an absolute URL
_CONTINUE = "Use this link to continue; earlier links no longer work:"


def make_url_builder(request: HttpRequest | None = None, site: str = "") -> UrlBuilder:
    """Return a function that makes absolute URLs, from the configured address of the site or else the request's."""
    # A configured address comes first: the host header of a request is written by its sender.
    base = (settings.SITE_URL or site).rstrip("/")
    if base or request is None:
        return lambda path: f"{base}{path}"
    return request.build_absolute_uri


def build_link(token: str, address: UrlBuilder) -> str:
    return address(reverse("ratings:rater_link", args=[token]))


def write_reminder(to: str, study: Study, url: str, n_left: int | None) -> Message:
    """Return a reminder. `n_left` is the number of items to rate; None if the rater has not joined."""
    left_text = f"You have {format_count(n_left, 'item')} left" if n_left else "You still have items"
    invited = f"Your invitation to rate in {study.name} is still open."
    opening = invited if n_left is None else f"{left_text} to rate in {study.name}."
    return _compose(to, f"Still to rate: {study.name}", opening, f"{_CONTINUE}\n\n{url}", *list_study_terms(study))


def write_second_session(to: str, study: Study, url: str, left: int) -> Message:
    """Return the e-mail after the washout of a crossover; `left` is the number of items in session 2."""
    opening = f"Your second session in {study.name} is open: {format_count(left, 'item')} to rate."
    return _compose(to, f"Second session: {study.name}", opening, f"{_CONTINUE}\n\n{url}", *list_study_terms(study))


def write_new_items(to: str, study: Study, url: str, left: int) -> Message:
    """Return the e-mail about items added after the rater had finished; `left` is their number, 0 in pool studies."""
    items_text = format_count(left, "new item") if left else "new items"
    opening = f"There {'is' if left == 1 else 'are'} {items_text} to rate in {study.name}."
    link_text = f"Use this link to rate them; earlier links no longer work:\n\n{url}"
    return _compose(to, f"New items: {study.name}", opening, link_text, *list_study_terms(study))


def write_sign_in_link(to: str, url: str) -> Message:
    return _compose(
        to, "Your link to WetBench", "You requested a link to continue rating. It works once, within a day:", url,
        "If you did not request it, you can ignore this e-mail: nobody else can see this link.",
    )  # fmt: skip


def send_messages(messages: Iterable[Message]) -> Iterator[str]:
    """Send the messages over one connection; yield "" for each one sent, else the error in one line."""
    connection = get_connection()
    # The connection is opened once: two hundred timeouts in a row would outlast any browser.
    connection_error = _run_safely(connection.open)
    for to, subject, body, sender in messages:
        email = EmailMessage(subject, body, format_sender(sender), [to], connection=connection)
        yield connection_error or _run_safely(email.send)
    if not connection_error:
        _run_safely(connection.close)


def format_sender(name: str) -> str:
    """Return the site's sender, with this name if there is one."""
    if not name:
        return settings.DEFAULT_FROM_EMAIL
    return formataddr((" ".join(name.split()), parseaddr(settings.DEFAULT_FROM_EMAIL)[1]))


def send_in_background(message: Message) -> Future[str]:
    """Send the message in a background thread. Return a future of the error in one line ("" if sent)."""
    # The response time must not reveal whether an address is known.
    return _executor.submit(lambda: next(send_messages([message])))


def _run_safely(act: Callable[[], object]) -> str:
    """Return "" if the function succeeds, else its error in one line."""
    # Any error of the mail system is reported to the admin and must not end the request, as the links exist already.
    try:
        act()
    except Exception as error:
        # Only the type is logged, since the message usually contains the address.
        logger.warning("an e-mail could not be sent: %s", type(error).__name__)
        # One line of limited length: it is stored with the invitation and displayed in a table.
        return _describe_mail_error(error)[:300]
    return ""


def _describe_mail_error(error: Exception) -> str:
    match error:
        case smtplib.SMTPRecipientsRefused(recipients=recipients) if recipients:
            # One recipient for each message, so one answer of the server.
            code, answer = next(iter(recipients.values()))
        case smtplib.SMTPResponseException(smtp_code=code, smtp_error=answer):
            pass
        case _:
            return describe_error(error)
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
    return " ".join(f"the mail server answered {code} {text}".split())


def list_study_terms(study: Study) -> list[str]:
    """Return the sentences that end every e-mail about a study: its deadline and its contact, if it has them."""
    contact = load_protocol(study.protocol).contact
    lines = [f"The study runs until {study.deadline:%-d %B %Y}."] if study.deadline else []
    return lines + ([f"Questions: {contact}"] if contact else [])


REMINDER_LIFETIME = timedelta(days=7)  # lifetime of the link in a reminder


def _compose(to: str, subject: str, *paragraphs: str) -> Message:
    # Line breaks in a subject would start another e-mail header.
    return Message(to, " ".join(subject.split())[:200], "\n\n".join(("Hello,", *paragraphs)) + "\n")


MIN_INTERVAL = timedelta(minutes=2)  # between two e-mails to one address, so that nobody can flood it


_LINK_SECONDS = 0.1  # a multiple of the time for a lookup and a new link


def send_link_to_address(address: str, request: HttpRequest) -> None:
    """Send a sign-in link to the rater with this address, if there is one. It takes the same time if there is none."""
    began = time.monotonic()
    try:
        if user := signing_in.find_by_email(address):
            send_sign_in_link(user, request)
    except DatabaseError as error:
        # The response has been sent. The rater can request another link.
        logger.warning("a sign-in link could not be created: %s", type(error).__name__)
    # The next request on the same connection waits for this one, and could measure it.
    time.sleep(max(0.0, began + _LINK_SECONDS - time.monotonic()))


def send_sign_in_link(user: User, request: HttpRequest) -> None:
    """Send a rater an e-mail with a link that signs them in again.

    Nothing is sent to staff, to accounts without an address, or within two minutes of the last link.
    """
    recent = SignInLink.objects.filter(user=user, purpose="rater", created_at__gt=timezone.now() - MIN_INTERVAL)
    # Nothing for staff: a link by e-mail would bypass their password and second factor.
    if not user.email or not user.is_active or user.is_staff or user.is_superuser or recent.exists():
        return
    token = signing_in.create_link(user, "rater")
    send_in_background(write_sign_in_link(user.email, build_link(token, make_url_builder(request))))
