"""Invitations to seats: made, sent again, taken back. A token is shown once; only its hash is kept."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, Rater, Study
from ratings.models.study_events import Invited
from ratings.studies import StudyClosed, StudyError
from ratings.studies.lifecycle import Actor, log

LIFETIME = timedelta(days=7)


@transaction.atomic
def invite(seat: Rater, by: Actor = None, email: str = "") -> str:
    """A new link to this seat in place of earlier ones; for a seat that is taken, one that signs its rater in again.

    Only what is sent by e-mail may name an address: whoever opens that link has shown that the mailbox is theirs.
    """
    Study.objects.select_for_update().get(pk=seat.study_id)  # seats may be dealt anew at the same time
    seat = Rater.objects.select_related("study", "user").get(pk=seat.pk)
    _check(seat)
    if seat.user:
        _check_way_back(seat.user, seat)
        log(seat.study, Invited(rater=seat.label, step="sign_in_again"), by)
        return signing_in.make_link(seat.user, "rater")
    _revoke(seat)
    token, now = signing_in.new_token(), timezone.now()
    Invitation.objects.create(
        seat=seat, email=email, token_sha256=signing_in.digest(token), created_by=by, created_at=now,
        expires_at=now + LIFETIME,
    )  # fmt: skip
    Rater.objects.filter(pk=seat.pk).update(invited_at=now)
    log(seat.study, Invited(rater=seat.label), by)
    return token


def invite_seat(study: Study, label: str, by: Actor = None) -> str:
    """A new link for the seat of that label; StudyError lists the labels there are."""
    return invite(seat_of(study, label), by)


def seat_of(study: Study, label: str) -> Rater:
    """The seat of that label; StudyError lists those there are."""
    if seat := study.raters.filter(label=label).first():
        return seat
    known = ", ".join(study.raters.values_list("label", flat=True)) or "none before the study is opened"
    raise StudyError(f"{study.slug} has no rater {label[:40]!r}. Raters: {known}")


@transaction.atomic
def revoke(seat: Rater, by: Actor = None) -> None:
    """No link leads to this seat any more, and it is free again; StudyError once somebody has taken it."""
    Study.objects.select_for_update().get(pk=seat.study_id)
    seat = Rater.objects.select_related("study").get(pk=seat.pk)
    if seat.user_id:
        raise StudyError(f"{seat.label} is taken; withdraw the rater instead")
    if not _revoke(seat):
        raise StudyError(f"{seat.label} has no invitation to take back")
    Rater.objects.filter(pk=seat.pk).update(invited_at=None)
    log(seat.study, Invited(rater=seat.label, step="revoked"), by)


@transaction.atomic
def start(seat: Rater) -> None:
    """The first item can be rated now."""
    Rater.objects.filter(pk=seat.pk, started_at__isnull=True).update(started_at=timezone.now())


def _revoke(seat: Rater) -> int:
    live = seat.invitations.filter(used_at__isnull=True, revoked_at__isnull=True)
    return live.update(revoked_at=timezone.now())


def _check_way_back(user: User, seat: Rater) -> None:
    """Whoever is shown this link can use it: it must open nothing but this seat."""
    elsewhere = user.seats.exclude(pk=seat.pk).exists() or user.memberships.exists()
    if user.is_staff or user.is_superuser or user.has_usable_password() or elsewhere:
        told = "its holder signs in, or asks for a link by e-mail"
        raise StudyError(f"{seat.label} has an account that opens more than this seat: {told}")


def _check(seat: Rater) -> None:
    study = seat.study
    if not seat.is_person:
        raise StudyError(f"{seat.label} is a {'simulated' if seat.simulated else 'imported'} rater; it gets no link")
    if seat.withdrawn_at:
        raise StudyError(f"{seat.label} has withdrawn from {study.name}")
    if study.status not in ("open", "paused"):
        raise StudyClosed(f"{study.name} is {study.status}; links are made while a study is open")
