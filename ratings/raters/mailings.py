"""Invite and remind raters: by e-mail, or with links that an admin copies where the site sends no e-mail."""

import re
from collections.abc import Callable, Iterable, Sequence
from email.utils import parseaddr
from typing import NamedTuple

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, Study
from ratings.models.study_events import Reminded
from ratings.raters import email_messages, invitation_texts, invitations, rater_overview
from ratings.raters.email_messages import Message, UrlBuilder
from ratings.studies import StudyError, readable_elsewhere
from ratings.studies.lifecycle import Actor, log_event
from wetbench_site.text import UNSTORABLE, hash_text
from wetbench_site.validation import Problem

MAX_INVITED = 200  # people in one request; as many as a study can have raters
MAX_NAME_LENGTH = 120
NO_EMAIL = "E-mail is not set up on this site"


class AddressError(StudyError):
    """The list of people cannot be used; `problems` has every one, with its line and column."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = [f"Line {problem.line}: {problem.message}" if problem.line else problem.message for problem in problems]  # fmt: skip
        super().__init__("\n".join(self.problems))
        self.located = list(problems)


class Invitee(NamedTuple):
    """One person of a list. `line` is the number of their line; the address or the name can be ""."""

    line: int
    email: str
    name: str = ""


class PersonalLink(NamedTuple):
    """A new link, which is shown once. `name` and `email` are "" if they are not known, or for raters who have joined."""

    label: str
    name: str
    email: str
    url: str


class SendResult(NamedTuple):
    """How many e-mails were sent, the errors by rater, raters without an address, and the links that were not sent."""

    sent: int
    failed: list[tuple[str, str]]
    without_address: list[str]
    links: list[PersonalLink]


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


def parse_addresses(text: str) -> list[Invitee]:
    """Return the people of a pasted list: addresses, or "Name <address>", one a line or separated by commas."""
    invitees = []
    for number, line in enumerate(text.splitlines(), 1):
        for entry in (part.strip() for part in re.split("[,;]", line)):
            if entry:
                name, address = parseaddr(entry)
                # What cannot be parsed is shown as it is.
                is_parsed = _is_email(address)
                invitees.append(
                    Invitee(number, address, " ".join(name.split())) if is_parsed else Invitee(number, entry)
                )
    return invitees


def plan_invitations(study: Study, invitees: Sequence[Invitee]) -> list[tuple[Rater, Invitee]]:
    """Return the rater place that each person would get. Raises AddressError with every problem of the list."""
    if problems := _find_problems(study, invitees):
        raise AddressError(problems)
    raters = list(open_rater_places(study)[: len(invitees)])
    if len(raters) < len(invitees):
        n, places = len(invitees), _format_count(len(raters), "open rater place")
        missing, noun = _format_count(n - len(raters), "rater place"), "address" if all(one.email for one in invitees) else "row"  # fmt: skip
        people = _format_count(n, noun, "es" if noun == "address" else "s")
        raise AddressError([Problem(0, "", f"{people} for {places}: add {missing} first")])
    return list(zip(raters, invitees, strict=True))


def invite_people(study: Study, invitees: Sequence[Invitee], by: Actor, address: UrlBuilder) -> SendResult:
    """Create one invitation for each person, or raise AddressError and create none.

    They are sent by e-mail; the links of people without an address, or of all if e-mail is not set up, are returned.
    """
    emails, links = [], []
    # Links and rows are created in one transaction, and e-mails are sent after it: a message must not contain a link
    # that was rolled back.
    with transaction.atomic():
        study = Study.objects.select_for_update().get(pk=study.pk)
        for rater, invitee in plan_invitations(study, invitees):
            if invitee.email and email_messages.is_email_set_up():
                emails.append(_prepare_invitation(rater, invitee.email, invitee.name, by, address))
            else:
                links.append(_create_copied_link(rater, invitee.email, invitee.name, by, address))
    return _send_and_record(emails)._replace(links=links)


def create_links(
    raters: Iterable[Rater], by: Actor, address: UrlBuilder
) -> tuple[list[PersonalLink], list[tuple[str, str]]]:
    """Create a link to copy for each rater. Return the links, and the label and reason of raters who can have none."""
    links, refused = [], []
    for rater in raters:
        last = rater.invitations.first() if rater.user_id is None else None
        # Who was invited to the place stays known, unless that invitation was revoked.
        to = (last.email, last.name) if last and not last.revoked_at else ("", "")
        try:
            links.append(_create_copied_link(rater, *to, by, address))
        except StudyError as error:
            refused.append((rater.label, str(error)))
    return links, refused


def resend_invitation(rater: Rater, by: Actor, address: UrlBuilder) -> SendResult:
    """Send the rater's last invitation again, with a new link that replaces the old one."""
    _require_email()
    last = rater.invitations.first()  # the newest, by the default order of the model
    if rater.user_id or last is None or not last.email:
        raise StudyError(f"{rater.label} was not invited by e-mail, or has already joined")
    return _send_and_record([_prepare_invitation(rater, last.email, last.name, by, address)])


def send_reminders(study: Study, by: Actor, address: UrlBuilder, labels: Sequence[str] | None = None) -> SendResult:
    """Send an e-mail to every rater with unrated items, and to everyone invited who has not joined.

    `labels` restricts it to these raters. Raises StudyError if the study is not open, or e-mail is not set up.
    """
    if not study.is_open:
        raise StudyError(f"{study.name} is {study.status}; reminders are sent while a study is open")
    _require_email()
    unrated, sender = rater_overview.count_unrated(study), invitation_texts.load_wording(study).sender
    with transaction.atomic():
        # Raters who have joined or were invited, and have not finished.
        unfinished = study.raters.filter(simulated=False, imported_as="", withdrawn_at=None, finished_at=None)
        unfinished = unfinished.filter(Q(invited_at__isnull=False) | Q(user__isnull=False)).order_by("number")
        if labels is not None:
            unfinished = unfinished.filter(label__in=labels)
        raters = [rater for rater in unfinished.select_related("study", "user") if unrated[rater.pk] != 0]
        emails_by_label = [(rater.label, _prepare_reminder(rater, unrated[rater.pk], by, address)) for rater in raters]
        emails = [post for _, post in emails_by_label if post]
        log_event(study, Reminded(raters=len(emails)), by)
    emails = [post._replace(letter=post.letter._replace(sender=sender)) for post in emails]
    return _send_and_record(emails)._replace(without_address=[label for label, post in emails_by_label if post is None])


def resend_link(token: str, request: HttpRequest) -> None:
    """Send a new link to the address that an expired link was sent to, if any."""
    if invitation := invitations.find_invitation(token):
        _resend_expired_invitation(invitation, request)
        return
    # The same response whatever the token is: it must not show which tokens exist.
    result = signing_in.peek_link(token, request.user, "rater")
    if result.owner is not None:
        email_messages.send_sign_in_link(result.owner, request)


def _require_email() -> None:
    if not email_messages.is_email_set_up():
        raise StudyError(f"{NO_EMAIL}, so nothing was sent. Select the raters and create links instead.")


def _find_problems(study: Study, invitees: Sequence[Invitee]) -> list[Problem]:
    addresses: dict[str, str] = {}
    line_of: dict[str, int] = {}
    problems = []
    for line, email, name in invitees:
        if not email and not name:
            problems.append(Problem(line, "email", "the row has neither a name nor an e-mail address"))
        if len(name) > MAX_NAME_LENGTH:
            problems.append(Problem(line, "name", f"is longer than {MAX_NAME_LENGTH} characters"))
        elif not name.isprintable() or UNSTORABLE.search(name):
            problems.append(Problem(line, "name", f"{name[:80]!r} contains control or invisible characters"))
        if not email:
            continue
        if not _is_email(email):
            problems.append(Problem(line, "email", f"{email[:80]!r} is not an e-mail address"))
        elif email.casefold() in addresses:
            problems.append(Problem(line, "email", f"{email} is listed twice"))
        else:
            addresses[email.casefold()], line_of[email.casefold()] = email, line
    if not invitees:
        problems.append(Problem(0, "", "The list contains no address"))
    if len(invitees) > MAX_INVITED:
        problems.append(Problem(0, "", f"{len(invitees)} people; the maximum is {MAX_INVITED} at a time"))
    # Addresses are looked up only if all are valid, so that each message is about one kind of problem.
    return problems or [Problem(line_of[at], "email", why) for at, why in _find_ineligible(study, addresses)]


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
    for email, label, used_at in invited.values_list("email", "rater__label", "used_at"):
        if to := addresses.get(email.casefold()):
            # The label of somebody who has joined would connect the address with the answers.
            problems[email.casefold()] = f"{to} has already joined this study" if used_at else f"{to} is already invited, as {label}"  # fmt: skip
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


def _prepare_invitation(rater: Rater, to: str, name: str, by: Actor, address: UrlBuilder) -> OutgoingEmail:
    url, invitation = _create_sent_link(rater, to, name, by, address)
    days = invitations.INVITATION_LIFETIME.days
    return OutgoingEmail(rater.label, invitation_texts.write_invitation(to, rater.study, url, days, name), invitation)


def _create_sent_link(rater: Rater, to: str, name: str, by: Actor, address: UrlBuilder) -> tuple[str, Invitation]:
    token = invitations.create_invitation(rater, by, to, name)
    return email_messages.build_link(token, address), Invitation.objects.get(token_sha256=hash_text(token))


def _create_copied_link(rater: Rater, email: str, name: str, by: Actor, address: UrlBuilder) -> PersonalLink:
    token = invitations.create_invitation(rater, by, email, name, shown_to_admin=True)
    return PersonalLink(rater.label, name, email, email_messages.build_link(token, address))


def _prepare_reminder(rater: Rater, left: int | None, by: Actor, address: UrlBuilder) -> OutgoingEmail | None:
    write: Callable[..., Message] = email_messages.write_reminder
    if rater.user is None:
        last = rater.invitations.first()
        if last is None or not last.email:
            return None
        url, invitation = _create_sent_link(rater, last.email, last.name, by, address)
        return OutgoingEmail(rater.label, write(last.email, rater.study, url, None), invitation)
    if not rater.user.email or not rater.user.is_active:
        return None
    token = signing_in.create_link(rater.user, "rater", email_messages.REMINDER_LIFETIME)
    url = email_messages.build_link(token, address)
    return OutgoingEmail(rater.label, write(rater.user.email, rater.study, url, left or 0))


def _send_and_record(emails: Sequence[OutgoingEmail]) -> SendResult:
    """Send e-mails after their rows are committed, and store the mail server's error with the invitation."""
    failed = []
    # The result of each message is stored at once; if sending is interrupted, the earlier results are there.
    sending = email_messages.send_messages(email.letter for email in emails)
    for email, error in zip(emails, sending, strict=True):
        if email.invitation is not None:
            sent = None if error else timezone.now()
            Invitation.objects.filter(pk=email.invitation.pk).update(sent_at=sent, send_error=error)
        failed += [(email.label, error)] if error else []
    return SendResult(len(emails) - len(failed), failed, [], [])


def _resend_expired_invitation(invitation: Invitation, request: HttpRequest) -> None:
    rater = invitation.rater
    if rater.user is not None:
        email_messages.send_sign_in_link(rater.user, request)
        return
    last = rater.invitations.first()  # an invitation that an admin revoked stays revoked
    # Only if the address is still the current one: a link that was sent to a wrong address must not be renewed there.
    if last is None or not last.email or last.email != invitation.email or last.revoked_at:
        return
    if last.created_at > timezone.now() - email_messages.MIN_INTERVAL:
        return
    try:
        email = _prepare_invitation(rater, last.email, last.name, None, email_messages.make_url_builder(request))
    except StudyError:
        # The visitor sees the same page in every case; the reason would reveal the state of somebody else's invitation.
        return
    email_messages.send_in_background(email.letter)
