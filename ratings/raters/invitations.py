"""Create, resend and revoke invitations. A token is shown once; only its hash is stored."""

from datetime import timedelta
from typing import NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, RaterProfile, Study
from ratings.models.study_events import Invited, Joined
from ratings.studies import StudyClosed, StudyError, access, readable_elsewhere, reassign
from ratings.studies.lifecycle import Actor, log_event
from wetbench_site.text import hash_text

INVITATION_LIFETIME = timedelta(days=7)


@transaction.atomic
def create_invitation(
    rater: Rater, by: Actor = None, email: str = "", name: str = "", *, shown_to_admin: bool = False
) -> str:
    """Return the token of a new link for this rater, which replaces earlier ones; it signs in a rater who has joined.

    Pass `shown_to_admin` unless the link is sent to `email` and shown to nobody: opening it then does not prove that the
    mailbox is the rater's. Raises StudyError if the rater cannot be invited.
    """
    Study.objects.select_for_update().get(pk=rater.study_id)  # raters may be planned again at the same time
    rater = Rater.objects.select_related("study", "user").get(pk=rater.pk)
    # Checked with values read under the lock: the rater may have joined or withdrawn since the page was shown.
    _check_can_invite(rater)
    if rater.user:
        _check_sign_in_link(rater.user, rater)
        log_event(rater.study, Invited(rater=rater.label, step="sign_in_again"), by)
        return signing_in.create_link(rater.user, "rater")
    # One valid link per rater: an old e-mail must not work beside the new one.
    _revoke_links(rater)
    token, now = signing_in.generate_token(), timezone.now()
    Invitation.objects.create(
        # Only the digest is stored, so a copy of the database opens no invitation.
        rater=rater, email=email, name=name, shown_to_admin=shown_to_admin, token_sha256=hash_text(token), created_by=by, created_at=now,
        expires_at=now + INVITATION_LIFETIME,
    )  # fmt: skip
    Rater.objects.filter(pk=rater.pk).update(invited_at=now)
    log_event(rater.study, Invited(rater=rater.label), by)
    return token


def get_rater(study: Study, label: str) -> Rater:
    """Return the rater with this label. Raises StudyError with the existing labels."""
    if rater := study.raters.filter(label=label).first():
        return rater
    labels = ", ".join(study.raters.values_list("label", flat=True)) or "none before the study is opened"
    raise StudyError(f"{study.slug} has no rater {label[:40]!r}. Raters: {labels}")


@transaction.atomic
def revoke_invitation(rater: Rater, by: Actor = None) -> None:
    """Revoke every link to this rater place, which is then open again. Raises StudyError if somebody has taken it."""
    Study.objects.select_for_update().get(pk=rater.study_id)
    rater = Rater.objects.select_related("study").get(pk=rater.pk)
    # Removing somebody who joined is a withdrawal, which decides about their ratings; revoking does not.
    if rater.user_id:
        raise StudyError(f"{rater.label} has joined; remove the rater instead")
    if not _revoke_links(rater):
        raise StudyError(f"{rater.label} has no invitation to revoke")
    Rater.objects.filter(pk=rater.pk).update(invited_at=None)
    log_event(rater.study, Invited(rater=rater.label, step="revoked"), by)


def _revoke_links(rater: Rater) -> int:
    open_invitations = rater.invitations.filter(used_at__isnull=True, revoked_at__isnull=True)
    return open_invitations.update(revoked_at=timezone.now())


def _check_sign_in_link(user: User, rater: Rater) -> None:
    """Raise StudyError if a sign-in link, which an admin sees, would give access to more than this study."""
    has_other_roles = user.raters.exclude(pk=rater.pk).exists() or user.memberships.exists()
    # Such a link signs in without a password or a second factor: the account must not have access to anything else.
    if user.is_staff or user.is_superuser or user.has_usable_password() or has_other_roles:
        advice = "the rater must sign in, or request a link by e-mail"
        raise StudyError(f"{rater.label} has an account with access to more than this study: {advice}")


def _check_can_invite(rater: Rater) -> None:
    study = rater.study
    if not rater.is_person:
        origin = "simulated" if rater.simulated else "imported"
        raise StudyError(f"{rater.label} is a {origin} rater and cannot be invited")
    if rater.withdrawn_at:
        raise StudyError(f"{rater.label} has withdrawn from {study.name}")
    if study.status not in ("open", "paused"):
        raise StudyClosed(f"{study.name} is {study.status}; links can be created while a study is open")


class InvitationExpired(StudyError):  # noqa: N818  # shown to its holder as a state, not as an error
    """The invitation was genuine and no longer works; the message states why."""


class JoinForm(NamedTuple):
    """What a rater enters when joining. `profile` is None if the rater filled it in for an earlier study."""

    password: str = ""
    profile: dict[str, str | int | None] | None = None


def find_invitation(token: str) -> Invitation | None:
    """Return the invitation with this token, whatever its state, or None."""
    invitations = Invitation.objects.select_related("rater__study", "rater__user")
    return invitations.filter(token_sha256=hash_text(token)).first()


def record_opening(invitation: Invitation) -> None:
    """Store when the page of this invitation was first shown. A mail scanner that follows the link counts as well."""
    if invitation.opened_at is None:
        Invitation.objects.filter(pk=invitation.pk, opened_at=None).update(opened_at=timezone.now())


def describe_expiry(invitation: Invitation) -> str:
    """Return why this invitation can no longer be accepted; "" if it can."""
    # The order decides what the holder reads: the link itself first, then the rater, then the study.
    rater = invitation.rater
    if reason := signing_in.describe_expiry(invitation):
        return reason
    if rater.withdrawn_at or rater.user_id or not rater.is_person:
        return "This place in the study is no longer available."
    if rater.study.status not in ("open", "paused"):
        return "The study has ended."
    return _describe_address_refusal(invitation)


_REFUSALS = {
    "staff": "The account of this address is staff, who can read the sources of items.",
    "member": "The account of this address has or had a role in this study and cannot rate in it.",
    "reader": "The account of this address can read the sources of this study's items in another study.",
}


def _describe_address_refusal(invitation: Invitation) -> str:
    """Return why an account with this address may not join; "" if none is refused, or if there is no address."""
    # Without this check, opening the link without signing in would create a new account, and nobody would know
    # what its owner has read.
    if not invitation.email:
        return ""
    # User names are compared as well, because an account may use its address as its name.
    has_address = Q(email__iexact=invitation.email) | Q(username__iexact=invitation.email)
    reasons = [refusal_reason(invitation, user) for user in User.objects.filter(has_address)]
    # An account that is already a rater of this study is refused when it joins.
    return next((_REFUSALS[why] for why in reasons if why in _REFUSALS), "")


def find_joining_user(invitation: Invitation, visitor: User | AnonymousUser) -> User | None:
    """Return the account that would join: the visitor's, else that of the invited address. None: a new account."""
    if isinstance(visitor, User):
        return visitor
    # A link that was shown to an admin must not sign anybody in to the account of the invited address.
    owner = signing_in.find_by_email(invitation.proven_email) if invitation.proven_email else None
    return owner if owner and not refusal_reason(invitation, owner) else None


def refusal_reason(invitation: Invitation, user: User) -> str:
    """Return why this user cannot join this study; "" if they can.

    The user can or could see sources ("staff", "member"), can read every item elsewhere ("reader"), or is already a
    rater ("joined").
    """
    study = invitation.rater.study
    # Staff can open the source of every item, so their ratings would not be blind.
    if user.is_staff or user.is_superuser:
        return "staff"
    if access.get_role(user, study):
        return "member"
    if study.raters.filter(user=user).exists():
        return "joined"
    # A former role counts, because its holder may have seen sources.
    if readable_elsewhere.had_role(study, user):
        return "member"
    # The most expensive check comes last; it compares the items of other studies.
    return "reader" if readable_elsewhere.can_read_every_item(study, user) else ""


def generate_user_name(invitation: Invitation) -> str:
    """Return the name of a new account: the same each time the page is shown, and no information about the person."""
    return f"rater-{invitation.token_sha256[:10]}"  # of the digest, not of the token, which must not appear in a page


@transaction.atomic
def accept_invitation(invitation: Invitation, visitor: User | AnonymousUser, form: JoinForm) -> Rater:
    """Store the consent, mark the invitation as used and return the rater. Of simultaneous requests, one succeeds.

    Raises InvitationExpired if the invitation no longer works, StudyError if the account may not join.
    """
    # Every function that changes raters locks in this order: account, study, rater, invitations. This prevents deadlocks.
    # A request that grants the account a role at this moment waits for this lock, and then reassigns what it can read.
    visitor = _lock_account(invitation, visitor)
    Study.objects.select_for_update().get(pk=invitation.rater.study_id)
    rater = Rater.objects.select_for_update(of=("self",)).select_related("study").get(pk=invitation.rater_id)
    now = timezone.now()
    is_valid = Q(used_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now)
    # The conditional UPDATE decides between simultaneous requests; the loser reads the reason from the current row.
    if not Invitation.objects.filter(is_valid, pk=invitation.pk).update(used_at=now):
        raise InvitationExpired(describe_expiry(Invitation.objects.get(pk=invitation.pk)) or signing_in.USED)
    if rater.user_id or rater.withdrawn_at or not rater.is_person or rater.study.status not in ("open", "paused"):
        raise InvitationExpired("This place in the study is no longer available.")
    # Checked again under the lock: an account with this address may have received a role since the page was shown.
    if not isinstance(visitor, User) and (refused := _describe_address_refusal(invitation)):
        raise InvitationExpired(refused)
    user = find_joining_user(invitation, visitor) or _create_user(invitation)
    if reason := refusal_reason(invitation, user):
        raise StudyError(reason)
    # An existing password is never replaced here, or the holder of a link could take over the account.
    if form.password and not user.has_usable_password():
        user.set_password(form.password)
        user.save(update_fields=["password"])
    _join_study(rater, user, form)
    return rater


def _lock_account(invitation: Invitation, visitor: User | AnonymousUser) -> User | AnonymousUser:
    """Lock the account that would join, and return the visitor with current values."""
    account = visitor if isinstance(visitor, User) else find_joining_user(invitation, visitor)
    # NO KEY: rows that refer to this account can still be inserted while it is locked.
    locked = User.objects.select_for_update(no_key=True).get(pk=account.pk) if account else None
    return locked if locked and isinstance(visitor, User) else visitor


def _join_study(rater: Rater, user: User, form: JoinForm) -> None:
    now = timezone.now()
    profile, _ = RaterProfile.objects.get_or_create(user=user)
    # A profile is answered once and then used in all studies.
    if form.profile is not None and profile.answered_at is None:
        RaterProfile.objects.filter(pk=profile.pk).update(**form.profile, answered_at=now)
    rater.user, rater.consented_at, rater.last_seen_at = user, now, now
    rater.save(update_fields=["user", "consented_at", "last_seen_at"])
    # From now on the rater is known by their label alone.
    rater.invitations.exclude(name="").update(name="")
    log_event(rater.study, Joined(rater=rater.label))  # without an actor: the log must not link a name to a code
    # What the account can already read elsewhere is reassigned before the first item is shown.
    reassign.release_readable_items(rater.study, [rater])


def _create_user(invitation: Invitation) -> User:
    """Create an account without a password. It gets the address that the link was sent to unless another account has it."""
    # Two accounts with one address could not be distinguished when a link is requested by e-mail.
    address = invitation.proven_email
    email = "" if not address or User.objects.filter(email__iexact=address).exists() else address
    return User.objects.create_user(generate_user_name(invitation), email=email)
