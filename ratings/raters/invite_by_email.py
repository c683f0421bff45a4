"""Send invitations and reminders by e-mail. Rows are stored in one transaction; then the messages are sent.

The result of each message is stored.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from email.utils import parseaddr
from typing import NamedTuple

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, Study
from ratings.models.study_events import Reminded
from ratings.raters import email_messages, invitations, rater_overview
from ratings.raters.email_messages import Message, UrlBuilder
from ratings.studies import StudyError, role_history
from ratings.studies.lifecycle import Actor, log_event

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
            missing = len(addresses) - len(raters)
            summary = (
                f"{_format_count(len(addresses), 'address', 'es')} for {_format_count(len(raters), 'open rater place')}"
            )
            raise AddressError([f"{summary}: add {_format_count(missing, 'rater')} first"])
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
        raters = [rater for rater in _find_unfinished(study) if unrated[rater.pk] != 0]
        emails_by_label = [(rater.label, _prepare_reminder(rater, unrated[rater.pk], by, address)) for rater in raters]
        emails = [post for _, post in emails_by_label if post]
        log_event(study, Reminded(raters=len(emails)), by)
    return _send_and_record(emails)._replace(without_address=[label for label, post in emails_by_label if post is None])


def _parse_addresses(study: Study, text: str) -> list[str]:
    """Return the pasted addresses. Raises AddressError with every invalid, repeated or ineligible one."""
    addresses: dict[str, str] = {}
    line_of: dict[str, int] = {}
    problems = []
    for number, entry in _split_entries(text):
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
    if problems := problems or [
        f"Line {line_of[address]}: {said}" for address, said in _find_ineligible(study, addresses)
    ]:
        raise AddressError(problems)
    return list(addresses.values())


def _split_entries(text: str) -> list[tuple[int, str]]:
    lines = enumerate(text.splitlines(), 1)
    return [(number, part.strip()) for number, line in lines for part in re.split("[,;]", line) if part.strip()]


def _is_email(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return len(text) <= 254 and text.isprintable()  # a quoted name could contain control characters


def _find_ineligible(study: Study, addresses: dict[str, str]) -> list[tuple[str, str]]:
    """Return the addresses that cannot be invited, each with the reason: already invited, or the owner can see
    sources.
    """
    problems: dict[str, str] = {}
    invited = Invitation.objects.filter(rater__study=study, revoked_at=None).exclude(email="")
    for email, label in invited.values_list("email", "rater__label"):
        if to := addresses.get(email.casefold()):
            problems[email.casefold()] = f"{to} is already invited, as {label}"
    staff = User.objects.filter(Q(is_staff=True) | Q(is_superuser=True))
    for names in staff.values_list("email", "username"):
        for name in {name.casefold() for name in names} & addresses.keys():
            problems[name] = (
                f"{addresses[name]} is the address of staff, who can read the sources of items and cannot rate"
            )
    for names in role_history.list_unblinded_people(study).values_list(
        "email", "username"
    ):  # a user name may be an address
        for name in {name.casefold() for name in names} & addresses.keys():
            problems[name] = f"{addresses[name]} is or was an admin or analyst of this study, who cannot rate in it"
    return [(to, problems[to]) for to in addresses if to in problems]


def _format_count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending * (number != 1)}"


def _prepare_invitation(rater: Rater, to: str, by: Actor, address: UrlBuilder) -> OutgoingEmail:
    url, invitation = _create_link(rater, to, by, address)
    return OutgoingEmail(
        rater.label,
        email_messages.write_invitation(to, rater.study, url, invitations.INVITATION_LIFETIME.days),
        invitation,
    )


def _create_link(rater: Rater, to: str, by: Actor, address: UrlBuilder) -> tuple[str, Invitation]:
    token = invitations.create_invitation(rater, by, to)
    return email_messages.build_link(token, address), Invitation.objects.get(token_sha256=signing_in.hash_token(token))


def _find_unfinished(study: Study) -> list[Rater]:
    """Return raters who have joined or were invited, and have not finished."""
    raters = study.raters.filter(simulated=False, imported_as="", withdrawn_at=None, finished_at=None)
    raters = raters.filter(Q(invited_at__isnull=False) | Q(user__isnull=False))
    return list(raters.select_related("study", "user").order_by("number"))


def _prepare_reminder(rater: Rater, left: int | None, by: Actor, address: UrlBuilder) -> OutgoingEmail | None:
    if rater.user is None:
        last = rater.invitations.first()
        if last is None or not last.email:
            return None
        url, invitation = _create_link(rater, last.email, by, address)
        return OutgoingEmail(rater.label, email_messages.write_reminder(last.email, rater.study, url, None), invitation)
    if not rater.user.email or not rater.user.is_active:
        return None
    url = email_messages.build_link(signing_in.create_link(rater.user, "rater", REMINDER_LIFETIME), address)
    return OutgoingEmail(rater.label, email_messages.write_reminder(rater.user.email, rater.study, url, left or 0))


def _send_and_record(emails: Sequence[OutgoingEmail]) -> SendResult:
    """Send e-mails after their rows are committed, and store the mail server's error with the invitation."""
    failed = []
    # The result of each message is stored at once; if sending is interrupted, the earlier results are there.
    for email, error in zip(emails, email_messages.send_messages(email.letter for email in emails), strict=True):
        if email.invitation is not None:
            sent = None if error else timezone.now()
            Invitation.objects.filter(pk=email.invitation.pk).update(sent_at=sent, send_error=error)
        failed += [(email.label, error)] if error else []
    return SendResult(len(emails) - len(failed), failed, [])
