"""E-mails to raters. No e-mail reveals anything about an item. Errors in sending are returned to the caller."""

import logging
import re
import smtplib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from email.utils import parseaddr
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.validators import validate_email
from django.db import DatabaseError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, SignInLink, Study
from ratings.models.study_events import Reminded
from ratings.protocol.study_protocol import load_protocol
from ratings.raters import invitations, rater_overview
from ratings.studies import StudyError, readable_elsewhere
from ratings.studies.lifecycle import Actor, log_event
from wetbench_site.text import describe_error, hash_text

logger = logging.getLogger("wetbench.mail")
# A shared pool of two threads: requests do not wait, and not every message starts a thread.
_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")


class Message(NamedTuple):
    """One e-mail, ready to be sent."""

    to: str
    subject: str
    body: str


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


def write_invitation(to: str, study: Study, url: str, days: int) -> Message:
    return _compose(
        to,
        f"Invitation to rate: {study.name}",
        f"you are invited to rate in a study: {study.name}",
        f"This is your personal link. It works for {days} days and for one person:\n\n{url}",
        "It explains the study and how long it takes, and asks whether you want to take part. "
        "If you do not want to, you need not do anything.",
        *_study_terms(study),
    )


def write_reminder(to: str, study: Study, url: str, n_left: int | None) -> Message:
    """Return a reminder. `n_left` is the number of items to rate; None if the rater has not joined."""
    left_text = f"you have {_format_count(n_left, 'item')} left" if n_left else "you still have items"
    invited = f"your invitation to rate in {study.name} is still open."
    opening = invited if n_left is None else f"{left_text} to rate in {study.name}."
    return _compose(to, f"Still to rate: {study.name}", opening, f"{_CONTINUE}\n\n{url}", *_study_terms(study))


def write_second_session(to: str, study: Study, url: str, left: int) -> Message:
    """Return the e-mail after the washout of a crossover; `left` is the number of items in session 2."""
    opening = f"your second session in {study.name} is open: {_format_count(left, 'item')} to rate."
    return _compose(to, f"Second session: {study.name}", opening, f"{_CONTINUE}\n\n{url}", *_study_terms(study))


def write_new_items(to: str, study: Study, url: str, left: int) -> Message:
    """Return the e-mail about items added after the rater had finished; `left` is their number, 0 in pool studies."""
    items_text = _format_count(left, "new item") if left else "new items"
    opening = f"there {'is' if left == 1 else 'are'} {items_text} to rate in {study.name}."
    link_text = f"Use this link to rate them; earlier links no longer work:\n\n{url}"
    return _compose(to, f"New items: {study.name}", opening, link_text, *_study_terms(study))


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
    for to, subject, body in messages:
        email = EmailMessage(subject, body, settings.DEFAULT_FROM_EMAIL, [to], connection=connection)
        yield connection_error or _run_safely(email.send)
    if not connection_error:
        _run_safely(connection.close)


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


def _study_terms(study: Study) -> list[str]:
    contact = load_protocol(study.protocol).contact
    lines = [f"The study runs until {study.deadline:%-d %B %Y}."] if study.deadline else []
    return lines + ([f"Questions: {contact}"] if contact else [])


def _compose(to: str, subject: str, *paragraphs: str) -> Message:
    # Line breaks in a subject would start another e-mail header.
    return Message(to, " ".join(subject.split())[:200], "\n\n".join(("Hello,", *paragraphs)) + "\n")


MAX_ADDRESSES = 200  # addresses in one request; as many as a study can have raters
REMINDER_LIFETIME = timedelta(days=7)  # lifetime of the link in a reminder


class AddressError(StudyError):
    """The list of addresses cannot be used; `problems` has every invalid line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SendResult(NamedTuple):
    """How many e-mails were sent, and the errors by rater."""

    sent: int
    failed: list[tuple[str, str]]
    without_address: list[str]  # raters without an address


class OutgoingEmail(NamedTuple):
    """A message and the label of its rater."""

    label: str
    letter: Message
    invitation: Invitation | None = None


def open_rater_places(study: Study) -> QuerySet[Rater]:
    """Return rater places that nobody has taken and that have no valid link."""
    valid = Invitation.objects.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())
    raters = study.raters.filter(user=None, simulated=False, imported_as="", withdrawn_at=None)
    return raters.exclude(pk__in=valid.values("rater")).order_by("number")


def invite_addresses(study: Study, text: str, by: Actor, address: UrlBuilder) -> SendResult:
    """Create one invitation for each pasted address and send them, or raise AddressError and create none."""
    # Links and rows are created in one transaction, and e-mails are sent after it: a message must not contain a link
    # that was rolled back.
    with transaction.atomic():
        study = Study.objects.select_for_update().get(pk=study.pk)
        addresses = _parse_addresses(study, text)
        raters = list(open_rater_places(study)[: len(addresses)])
        if len(raters) < len(addresses):
            n, places = len(addresses), _format_count(len(raters), "open rater place")
            missing = _format_count(n - len(raters), "rater")
            raise AddressError([f"{_format_count(n, 'address', 'es')} for {places}: add {missing} first"])
        emails = [_prepare_invitation(rater, to, by, address) for rater, to in zip(raters, addresses, strict=True)]
    return _send_and_record(emails)


def resend_invitation(rater: Rater, by: Actor, address: UrlBuilder) -> SendResult:
    """Send the rater's last invitation again, with a new link that replaces the old one."""
    last = rater.invitations.first()  # the newest, by the default order of the model
    if rater.user_id or last is None or not last.email:
        raise StudyError(f"{rater.label} was not invited by e-mail, or has already joined")
    return _send_and_record([_prepare_invitation(rater, last.email, by, address)])


def send_reminders(study: Study, by: Actor, address: UrlBuilder) -> SendResult:
    """Send an e-mail to every rater with unrated items, and to everyone invited who has not joined."""
    if not study.is_open:
        raise StudyError(f"{study.name} is {study.status}; reminders are sent while a study is open")
    unrated = rater_overview.count_unrated(study)
    with transaction.atomic():
        # Raters who have joined or were invited, and have not finished.
        unfinished = study.raters.filter(simulated=False, imported_as="", withdrawn_at=None, finished_at=None)
        unfinished = unfinished.filter(Q(invited_at__isnull=False) | Q(user__isnull=False)).order_by("number")
        raters = [rater for rater in unfinished.select_related("study", "user") if unrated[rater.pk] != 0]
        emails_by_label = [(rater.label, _prepare_reminder(rater, unrated[rater.pk], by, address)) for rater in raters]
        emails = [post for _, post in emails_by_label if post]
        log_event(study, Reminded(raters=len(emails)), by)
    return _send_and_record(emails)._replace(without_address=[label for label, post in emails_by_label if post is None])


def _parse_addresses(study: Study, text: str) -> list[str]:
    """Return the pasted addresses. Raises AddressError with every invalid, repeated or ineligible one."""
    addresses: dict[str, str] = {}
    line_of: dict[str, int] = {}
    problems = []
    entries = ((number, part) for number, line in enumerate(text.splitlines(), 1) for part in re.split("[,;]", line))
    for number, entry in ((number, part.strip()) for number, part in entries if part.strip()):
        # A pasted entry can be "Name <address>"; what cannot be parsed is shown as it is.
        address = parseaddr(entry)[1] or entry
        if not _is_email(address):
            problems.append(f"Line {number}: {entry[:80]!r} is not an e-mail address")
        elif address.casefold() in addresses:
            problems.append(f"Line {number}: {address} is listed twice")
        else:
            addresses[address.casefold()], line_of[address.casefold()] = address, number
    if not addresses and not problems:
        problems.append("The list contains no address")
    if len(addresses) > MAX_ADDRESSES:
        problems.append(f"{len(addresses)} addresses; the maximum is {MAX_ADDRESSES} at a time")
    # Addresses are looked up only if all are valid, so that each message is about one kind of problem.
    if problems := problems or [f"Line {line_of[at]}: {why}" for at, why in _find_ineligible(study, addresses)]:
        raise AddressError(problems)
    return list(addresses.values())


def _is_email(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return len(text) <= 254 and text.isprintable()  # a quoted name could contain control characters


def _find_ineligible(study: Study, addresses: dict[str, str]) -> list[tuple[str, str]]:
    """Return the addresses that cannot be invited, each with the reason."""
    problems: dict[str, str] = {}
    invited = Invitation.objects.filter(rater__study=study, revoked_at=None).exclude(email="")
    for email, label in invited.values_list("email", "rater__label"):
        if to := addresses.get(email.casefold()):
            problems[email.casefold()] = f"{to} is already invited, as {label}"
    staff = User.objects.filter(Q(is_staff=True) | Q(is_superuser=True))
    members = readable_elsewhere.list_unblinded_people(study)
    for people, reason in (
        (staff, "is the address of staff, who can read the sources of items and cannot rate"),
        (members, "is or was an admin or analyst of this study, who cannot rate in it"),
    ):
        for names in people.values_list("email", "username"):  # a user name may be an address
            for name in {name.casefold() for name in names} & addresses.keys():
                problems[name] = f"{addresses[name]} {reason}"
    return [(to, problems[to]) for to in addresses if to in problems]


def _format_count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending * (number != 1)}"


def _prepare_invitation(rater: Rater, to: str, by: Actor, address: UrlBuilder) -> OutgoingEmail:
    url, invitation = _create_link(rater, to, by, address)
    letter = write_invitation(to, rater.study, url, invitations.INVITATION_LIFETIME.days)
    return OutgoingEmail(rater.label, letter, invitation)


def _create_link(rater: Rater, to: str, by: Actor, address: UrlBuilder) -> tuple[str, Invitation]:
    token = invitations.create_invitation(rater, by, to)
    return build_link(token, address), Invitation.objects.get(token_sha256=hash_text(token))


def _prepare_reminder(rater: Rater, left: int | None, by: Actor, address: UrlBuilder) -> OutgoingEmail | None:
    if rater.user is None:
        last = rater.invitations.first()
        if last is None or not last.email:
            return None
        url, invitation = _create_link(rater, last.email, by, address)
        return OutgoingEmail(rater.label, write_reminder(last.email, rater.study, url, None), invitation)
    if not rater.user.email or not rater.user.is_active:
        return None
    url = build_link(signing_in.create_link(rater.user, "rater", REMINDER_LIFETIME), address)
    return OutgoingEmail(rater.label, write_reminder(rater.user.email, rater.study, url, left or 0))


def _send_and_record(emails: Sequence[OutgoingEmail]) -> SendResult:
    """Send e-mails after their rows are committed, and store the mail server's error with the invitation."""
    failed = []
    # The result of each message is stored at once; if sending is interrupted, the earlier results are there.
    for email, error in zip(emails, send_messages(email.letter for email in emails), strict=True):
        if email.invitation is not None:
            sent = None if error else timezone.now()
            Invitation.objects.filter(pk=email.invitation.pk).update(sent_at=sent, send_error=error)
        failed += [(email.label, error)] if error else []
    return SendResult(len(emails) - len(failed), failed, [])


MIN_INTERVAL = timedelta(minutes=2)  # between two e-mails to one address, so that nobody can flood it


def resend_link(token: str, request: HttpRequest) -> None:
    """Send a new link to the address that an expired link was sent to, if any."""
    if invitation := invitations.find_invitation(token):
        _resend_invitation(invitation, request)
        return
    # The same response whatever the token is: it must not show which tokens exist.
    result = signing_in.peek_link(token, request.user, "rater")
    if result.owner is not None:
        send_sign_in_link(result.owner, request)


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


def _resend_invitation(invitation: Invitation, request: HttpRequest) -> None:
    rater = invitation.rater
    if rater.user is not None:
        send_sign_in_link(rater.user, request)
        return
    last = rater.invitations.first()  # an invitation that an admin revoked stays revoked
    # Only if the address is still the current one: a link that was sent to a wrong address must not be renewed there.
    if last is None or not last.email or last.email != invitation.email or last.revoked_at:
        return
    if last.created_at > timezone.now() - MIN_INTERVAL:
        return
    try:
        token = invitations.create_invitation(rater, email=last.email)
    except StudyError:
        # The visitor sees the same page in every case; the reason would reveal the state of somebody else's invitation.
        return
    url = build_link(token, make_url_builder(request))
    send_in_background(write_invitation(last.email, rater.study, url, invitations.INVITATION_LIFETIME.days))
