"""Create, resend and revoke invitations. A token is shown once; only its hash is stored."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, Study
from ratings.models.study_events import Invited
from ratings.studies import StudyClosed, StudyError
from ratings.studies.lifecycle import Actor, log_event

INVITATION_LIFETIME = timedelta(days=7)


@transaction.atomic
def create_invitation(rater: Rater, by: Actor = None, email: str = "") -> str:
    """Return the token of a new link for this rater, which replaces earlier ones. If the rater has joined, it signs
    them in again.

    Pass `email` only if the link is sent to that address: opening the link then proves that the mailbox is the
    rater's. Raises StudyError if the rater cannot be invited.
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
        rater=rater, email=email, token_sha256=signing_in.hash_token(token), created_by=by, created_at=now,
        expires_at=now + INVITATION_LIFETIME,
    )  # fmt: skip
    Rater.objects.filter(pk=rater.pk).update(invited_at=now)
    log_event(rater.study, Invited(rater=rater.label), by)
    return token


def invite_by_label(study: Study, label: str, by: Actor = None) -> str:
    """Return the token of a new link for the rater with this label. Raises StudyError with the existing labels."""
    return create_invitation(get_rater(study, label), by)


def get_rater(study: Study, label: str) -> Rater:
    """Return the rater with this label. Raises StudyError with the existing labels."""
    if rater := study.raters.filter(label=label).first():
        return rater
    labels = ", ".join(study.raters.values_list("label", flat=True)) or "none before the study is opened"
    raise StudyError(f"{study.slug} has no rater {label[:40]!r}. Raters: {labels}")


@transaction.atomic
def revoke_invitation(rater: Rater, by: Actor = None) -> None:
    """Revoke every link to this rater place, which is then open again. Raises StudyError if somebody has taken the
    place.
    """
    Study.objects.select_for_update().get(pk=rater.study_id)
    rater = Rater.objects.select_related("study").get(pk=rater.pk)
    # Removing somebody who joined is a withdrawal, which decides about their ratings; revoking does not.
    if rater.user_id:
        raise StudyError(f"{rater.label} has joined; remove the rater instead")
    if not _revoke_links(rater):
        raise StudyError(f"{rater.label} has no invitation to revoke")
    Rater.objects.filter(pk=rater.pk).update(invited_at=None)
    log_event(rater.study, Invited(rater=rater.label, step="revoked"), by)


@transaction.atomic
def mark_started(rater: Rater) -> None:
    # Conditional, so that a repeated request does not change the time of the first start.
    """Record that the rater may rate the first item."""
    Rater.objects.filter(pk=rater.pk, started_at__isnull=True).update(started_at=timezone.now())


def _revoke_links(rater: Rater) -> int:
    open_invitations = rater.invitations.filter(used_at__isnull=True, revoked_at__isnull=True)
    return open_invitations.update(revoked_at=timezone.now())


def _check_sign_in_link(user: User, rater: Rater) -> None:
    """Raise StudyError if a sign-in link, which an admin sees, would give access to more than this study."""
    has_other_roles = user.raters.exclude(pk=rater.pk).exists() or user.memberships.exists()
    # Such a link signs in without a password or a second factor, so the account must not have access to anything
    # else.
    if user.is_staff or user.is_superuser or user.has_usable_password() or has_other_roles:
        advice = "the rater must sign in, or request a link by e-mail"
        raise StudyError(f"{rater.label} has an account with access to more than this study: {advice}")


def _check_can_invite(rater: Rater) -> None:
    study = rater.study
    if not rater.is_person:
        raise StudyError(
            f"{rater.label} is a {'simulated' if rater.simulated else 'imported'} rater and cannot be invited"
        )
    if rater.withdrawn_at:
        raise StudyError(f"{rater.label} has withdrawn from {study.name}")
    if study.status not in ("open", "paused"):
        raise StudyClosed(f"{study.name} is {study.status}; links can be created while a study is open")
