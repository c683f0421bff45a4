"""Taking a seat: what an invitation leads to, and what accepting it does."""

from typing import NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, RaterProfile, Study
from ratings.models.study_events import Joined
from ratings.studies import StudyError, access, former
from ratings.studies.lifecycle import log
from ratings.studies.seats import readable_elsewhere, taking_back


class Gone(StudyError):  # noqa: N818  # a state its holder is told about, not a fault
    """The invitation was genuine and no longer works; the message says why."""


class Joining(NamedTuple):
    """What somebody says when they take a seat. `profile` is asked once in a life, so it may be missing."""

    password: str = ""
    profile: dict[str, str | int | None] | None = None


def find(token: str) -> Invitation | None:
    """The invitation of that token, whatever has become of it."""
    found = Invitation.objects.select_related("seat__study", "seat__user")
    return found.filter(token_sha256=signing_in.digest(token)).first()


def why_gone(invitation: Invitation) -> str:
    """Why this invitation can no longer be accepted; "" if it can."""
    seat = invitation.seat
    if why := signing_in.why_gone(invitation.revoked_at, invitation.used_at, invitation.expires_at):
        return why
    if seat.withdrawn_at or seat.user_id or not seat.is_person:
        return "The place it led to has been given away."
    if seat.study.status not in ("open", "paused"):
        return "The study has ended."
    return _refuse_address(invitation)


_REFUSED = {
    "staff": "The account of this address is staff, who can read where the items of studies came from.",
    "member": "The account of this address has or had part in this study, and cannot rate in it.",
    "reader": "The account of this address can read in another study where the items of this study came from.",
}


def _refuse_address(invitation: Invitation) -> str:
    """Return why no account can take a seat by this address: one that has it must not; "" if none must not.

    Without this, whoever opens the link without signing in would get a new account, of which nobody knows what they read.
    """
    if not invitation.email:
        return ""
    owned = Q(email__iexact=invitation.email) | Q(username__iexact=invitation.email)
    reasons = [refusal(invitation, user) for user in User.objects.filter(owned)]
    return next((_REFUSED[why] for why in reasons if why in _REFUSED), "")


def who(invitation: Invitation, visitor: User | AnonymousUser) -> User | None:
    """Who would take the seat: whoever is signed in, or whose address it was sent to; None: somebody new."""
    if isinstance(visitor, User):
        return visitor
    known = signing_in.by_email(invitation.email) if invitation.email else None
    return known if known and not refusal(invitation, known) else None


def refusal(invitation: Invitation, user: User) -> str:
    """Return why this user cannot take a seat in this study; "" if they can.

    They see where items come from, could once ("staff", "member"), can read every item elsewhere ("reader"), or have a
    seat already ("seated").
    """
    study = invitation.seat.study
    if user.is_staff or user.is_superuser:
        return "staff"
    if access.role_in(user, study):
        return "member"
    if study.raters.filter(user=user).exists():
        return "seated"
    if former.had_part(study, user):
        return "member"
    return "reader" if readable_elsewhere.would_leave_nothing(study, user) else ""


def user_name(invitation: Invitation) -> str:
    """The name that a new account gets: it says nothing, and is the same each time the page is shown."""
    return f"rater-{invitation.token_sha256[:10]}"


@transaction.atomic
def accept(invitation: Invitation, visitor: User | AnonymousUser, said: Joining) -> Rater:
    """Consent given: the seat is theirs, and the link used. Of several who post at once, one; the others are Gone."""
    # The order of all who change seats: the account, the study, the seat, then its invitations. Nobody waits in a circle.
    # Who gives the account a role or a right at this moment waits, and then takes back what it can read.
    visitor = _lock_account(invitation, visitor)
    Study.objects.select_for_update().get(pk=invitation.seat.study_id)
    seat = Rater.objects.select_for_update(of=("self",)).select_related("study").get(pk=invitation.seat_id)
    now = timezone.now()
    fresh = Q(used_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now)
    if not Invitation.objects.filter(fresh, pk=invitation.pk).update(used_at=now):
        raise Gone(why_gone(Invitation.objects.get(pk=invitation.pk)) or signing_in.USED)
    if seat.user_id or seat.withdrawn_at or not seat.is_person or seat.study.status not in ("open", "paused"):
        raise Gone("The place it led to has been given away.")
    if not isinstance(visitor, User) and (refused := _refuse_address(invitation)):
        raise Gone(refused)
    user = who(invitation, visitor) or _new_user(invitation)
    if why := refusal(invitation, user):
        raise StudyError(why)
    if said.password and not user.has_usable_password():
        user.set_password(said.password)
        user.save(update_fields=["password"])
    _take(seat, user, said)
    return seat


def _lock_account(invitation: Invitation, visitor: User | AnonymousUser) -> User | AnonymousUser:
    """Lock the account that would take the seat. Return the visitor as they are now."""
    account = visitor if isinstance(visitor, User) else who(invitation, visitor)
    locked = User.objects.select_for_update(no_key=True).get(pk=account.pk) if account else None
    return locked if locked and isinstance(visitor, User) else visitor


def _take(seat: Rater, user: User, said: Joining) -> None:
    now = timezone.now()
    profile, _ = RaterProfile.objects.get_or_create(user=user)
    if said.profile is not None and profile.answered_at is None:
        RaterProfile.objects.filter(pk=profile.pk).update(**said.profile, answered_at=now)
    seat.user, seat.consented_at, seat.last_seen_at = user, now, now
    seat.save(update_fields=["user", "consented_at", "last_seen_at"])
    log(seat.study, Joined(rater=seat.label))  # by nobody: the log must not tie a name to a code
    taking_back.take_back_readable(seat.study, [seat])


def _new_user(invitation: Invitation) -> User:
    """An account without a password; it keeps the address unless somebody else has it."""
    taken = not invitation.email or User.objects.filter(email__iexact=invitation.email).exists()
    return User.objects.create_user(user_name(invitation), email="" if taken else invitation.email)
