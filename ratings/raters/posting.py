"""Invitations and reminders sent by e-mail: rows in one transaction, letters after it, and what became of each."""

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
from ratings.raters import inviting, mailing, people
from ratings.raters.mailing import Address, Letter
from ratings.studies import StudyError, former
from ratings.studies.lifecycle import Actor, log

MOST = 200
REMINDED = timedelta(days=7)  # how long the link of a reminder works


class AddressError(StudyError):
    """The list cannot be used; `problems` names every line that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Posted(NamedTuple):
    """What became of some letters: how many went out, and what went wrong with which seat's."""

    sent: int
    failed: list[tuple[str, str]]
    without: list[str]  # seats whose holder has no address


class Post(NamedTuple):
    """A letter on its way, and whose."""

    label: str
    letter: Letter
    invitation: Invitation | None = None


def free(study: Study) -> QuerySet[Rater]:
    """Seats that nobody holds and no link leads to."""
    live = Invitation.objects.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())
    seats = study.raters.filter(user=None, simulated=False, imported_as="", withdrawn_at=None)
    return seats.exclude(pk__in=live.values("seat")).order_by("number")


def invite_all(study: Study, text: str, by: Actor, address: Address) -> Posted:
    """One invitation for each pasted address, or none and an AddressError; the letters follow one by one."""
    with transaction.atomic():
        study = Study.objects.select_for_update().get(pk=study.pk)
        addresses = _read(study, text)
        seats = list(free(study)[: len(addresses)])
        if len(seats) < len(addresses):
            few = len(addresses) - len(seats)
            asked = f"{_many(len(addresses), 'address', 'es')} for {_many(len(seats), 'free seat')}"
            raise AddressError([f"{asked}: add {_many(few, 'seat')} first"])
        posts = [_invitation(seat, to, by, address) for seat, to in zip(seats, addresses, strict=True)]
    return _send(posts)


def resend(seat: Rater, by: Actor, address: Address) -> Posted:
    """The last invitation of this seat once more, with a new link in place of the old."""
    last = seat.invitations.first()
    if seat.user_id or last is None or not last.email:
        raise StudyError(f"{seat.label} was not invited by e-mail, or has been taken")
    return _send([_invitation(seat, last.email, by, address)])


def remind(study: Study, by: Actor, address: Address) -> Posted:
    """A letter to everyone with work left, and to everyone invited who has not come."""
    if not study.is_open:
        raise StudyError(f"{study.name} is {study.status}; reminders are sent while a study is open")
    left = people.left_to_rate(study)
    with transaction.atomic():
        seats = [seat for seat in _waiting_for(study) if left[seat.pk] != 0]
        written = [(seat.label, _reminder(seat, left[seat.pk], by, address)) for seat in seats]
        posts = [post for _, post in written if post]
        log(study, Reminded(raters=len(posts)), by)
    return _send(posts)._replace(without=[label for label, post in written if post is None])


def _read(study: Study, text: str) -> list[str]:
    """The addresses, each once; AddressError names every line that is wrong."""
    found: dict[str, str] = {}
    line: dict[str, int] = {}
    problems = []
    for number, entry in _entries(text):
        to = parseaddr(entry)[1] or entry
        if not _is_address(to):
            problems.append(f"Line {number}: {entry[:80]!r} is not an e-mail address")
        elif to.casefold() in found:
            problems.append(f"Line {number}: {to} stands there twice")
        else:
            found[to.casefold()], line[to.casefold()] = to, number
    if not found and not problems:
        problems.append("There is no address in this list")
    if len(found) > MOST:
        problems.append(f"{len(found)} addresses; at most {MOST} at a time")
    if problems := problems or [f"Line {line[to]}: {said}" for to, said in _known(study, found)]:
        raise AddressError(problems)
    return list(found.values())


def _entries(text: str) -> list[tuple[int, str]]:
    lines = enumerate(text.splitlines(), 1)
    return [(number, part.strip()) for number, line in lines for part in re.split("[,;]", line) if part.strip()]


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return len(text) <= 254 and text.isprintable()  # a quoted name could hold control characters


def _known(study: Study, found: dict[str, str]) -> list[tuple[str, str]]:
    """Addresses that are invited already, or whose owner sees where the items come from."""
    problems: dict[str, str] = {}
    invited = Invitation.objects.filter(seat__study=study, revoked_at=None).exclude(email="")
    for email, label in invited.values_list("email", "seat__label"):
        if to := found.get(email.casefold()):
            problems[email.casefold()] = f"{to} is invited already, as {label}"
    staff = User.objects.filter(Q(is_staff=True) | Q(is_superuser=True))
    for names in staff.values_list("email", "username"):
        for name in {name.casefold() for name in names} & found.keys():
            problems[name] = (
                f"{found[name]} is the address of staff, who can read where items come from and cannot rate"
            )
    for names in former.insiders(study).values_list("email", "username"):  # a user name may be an address
        for name in {name.casefold() for name in names} & found.keys():
            problems[name] = f"{found[name]} is or was an admin or analyst of this study, who cannot rate in it"
    return [(to, problems[to]) for to in found if to in problems]


def _many(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending * (number != 1)}"


def _invitation(seat: Rater, to: str, by: Actor, address: Address) -> Post:
    url, made = _invite(seat, to, by, address)
    return Post(seat.label, mailing.invitation(to, seat.study, url, inviting.LIFETIME.days), made)


def _invite(seat: Rater, to: str, by: Actor, address: Address) -> tuple[str, Invitation]:
    token = inviting.invite(seat, by, to)
    return mailing.link(token, address), Invitation.objects.get(token_sha256=signing_in.digest(token))


def _waiting_for(study: Study) -> list[Rater]:
    """Seats somebody holds or was invited to, with work left."""
    seats = study.raters.filter(simulated=False, imported_as="", withdrawn_at=None, finished_at=None)
    seats = seats.filter(Q(invited_at__isnull=False) | Q(user__isnull=False))
    return list(seats.select_related("study", "user").order_by("number"))


def _reminder(seat: Rater, left: int | None, by: Actor, address: Address) -> Post | None:
    if seat.user is None:
        last = seat.invitations.first()
        if last is None or not last.email:
            return None
        url, made = _invite(seat, last.email, by, address)
        return Post(seat.label, mailing.reminder(last.email, seat.study, url, None), made)
    if not seat.user.email or not seat.user.is_active:
        return None
    url = mailing.link(signing_in.make_link(seat.user, "rater", REMINDED), address)
    return Post(seat.label, mailing.reminder(seat.user.email, seat.study, url, left or 0))


def _send(posts: Sequence[Post]) -> Posted:
    """Letters go out after their rows are safe; what the mail server said stays with the invitation."""
    failed = []
    for post, error in zip(posts, mailing.send(post.letter for post in posts), strict=True):
        if post.invitation is not None:
            sent = None if error else timezone.now()
            Invitation.objects.filter(pk=post.invitation.pk).update(sent_at=sent, send_error=error)
        failed += [(post.label, error)] if error else []
    return Posted(len(posts) - len(failed), failed, [])
