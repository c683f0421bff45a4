"""Who may have what: every view fetches through here. What is not yours does not exist (404)."""

import hashlib
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import Http404
from django.utils import timezone

from ratings.models import Assignment, Rater, SignInLink, Study

ADMIN_LIFETIME = timedelta(hours=24)
RATER_LIFETIME = timedelta(days=30)
Visitor = User | AnonymousUser


def role_in(user: Visitor, study: Study) -> str:
    """ "superuser", "admin" (who created it, or was made one) or "analyst" of this study; "" for everyone else."""
    if not user.is_authenticated:
        return ""
    if user.is_superuser:
        return "superuser"
    if user.is_staff and study.created_by_id == user.pk:
        return "admin"
    member = study.members.filter(user_id=user.pk).first()
    return member.role if member else ""


def study_for(user: Visitor, name: str, *roles: str) -> Study:
    """The study of that slug, for those with one of these roles in it; superusers have every one."""
    study = Study.objects.filter(slug=name).first() if user.is_authenticated else None
    if study is None or role_in(user, study) not in ("superuser", *roles):
        raise Http404
    return study


def studies_of(user: Visitor) -> QuerySet[Study]:
    """The studies this user has a role in."""
    if not user.is_authenticated:
        return Study.objects.none()
    if user.is_superuser:
        return Study.objects.all()
    own = Q(members__user_id=user.pk) | (Q(created_by_id=user.pk) if user.is_staff else Q())
    return Study.objects.filter(own).distinct()


def seats_of(user: Visitor) -> QuerySet[Rater]:
    """The seats this user holds in studies that were opened, those withdrawn from included."""
    if not user.is_authenticated:
        return Rater.objects.none()
    return Rater.objects.select_related("study").filter(user_id=user.pk, study__status__in=_RATED)


def seat_for(user: Visitor, code: UUID) -> Rater:
    """This user's own seat of that code."""
    if (seat := seats_of(user).filter(code=code).first()) is None:
        raise Http404
    return seat


def assignment_for(user: Visitor, code: UUID) -> Assignment:
    """The user's own assignment with its item, never anyone else's, and none of a study withdrawn from."""
    found = None
    if user.is_authenticated:
        own = Assignment.objects.select_related("item", "rater__study")
        own = own.filter(rater__user_id=user.pk, rater__withdrawn_at__isnull=True, rater__study__status__in=_RATED)
        found = own.filter(code=code).first()
    if found is None:
        raise Http404
    return found


class Door(StrEnum):
    """What a link does for the browser that opened it."""

    UNKNOWN = "unknown"  # answer 404: nobody ever made this link
    GONE = "gone"  # answer 410: expired, revoked, or used in another browser
    WELCOME = "welcome"  # sign `user` in, if it is not signed in already


class Opened(NamedTuple):
    """`purpose` is "admin" or "rater"; `why` says in a sentence why a link is gone."""

    door: Door
    user: User | None = None
    purpose: str = ""
    why: str = ""


def make_link(user: User, purpose: str, lifetime: timedelta | None = None) -> str:
    """A new token for this user; all earlier links of this purpose stop working. The token is kept nowhere."""
    token = secrets.token_urlsafe(32)
    now = timezone.now()
    lifetime = lifetime or (ADMIN_LIFETIME if purpose == "admin" else RATER_LIFETIME)
    with transaction.atomic():
        revoke_links(user, purpose)
        SignInLink.objects.create(
            user=user, purpose=purpose, token_sha256=_digest(token), created_at=now, expires_at=now + lifetime
        )
    return token


def revoke_links(user: User, purpose: str) -> None:
    user.sign_in_links.filter(purpose=purpose, revoked_at__isnull=True).update(revoked_at=timezone.now())


def open_link(token: str, visitor: Visitor, purpose: str) -> Opened:
    """Try a link. A rater's works in any browser until rating has started, then only in the one signed in."""
    seen, link = _look(token, visitor, purpose)
    already = seen.user is not None and visitor.pk == seen.user.pk and purpose == "rater"
    return seen if link is None or seen.door != Door.WELCOME or already else _enter(link)


def look_at_link(token: str, visitor: Visitor, purpose: str) -> Opened:
    """What `open_link` would do, without doing it."""
    return _look(token, visitor, purpose)[0]


def _look(token: str, visitor: Visitor, purpose: str) -> tuple[Opened, SignInLink | None]:
    link = SignInLink.objects.select_related("user").filter(token_sha256=_digest(token), purpose=purpose).first()
    if link is None or not link.user.is_active:
        return Opened(Door.UNKNOWN), None
    here_already = purpose == "rater" and visitor.is_authenticated and visitor.pk == link.user_id
    if not here_already and (why := _why_gone(link)):
        return Opened(Door.GONE, None, purpose, why), link
    return Opened(Door.WELCOME, link.user, purpose), link


def mark_used(user: User) -> None:
    """Rating has started: from now on the rater's link opens in no other browser."""
    user.sign_in_links.filter(purpose="rater", used_at__isnull=True).update(used_at=timezone.now())


_RATED = ("open", "paused", "closed", "unblinded")


def _enter(link: SignInLink) -> Opened:
    """Let the visitor in; where rating had started before this link was made, the first to open it takes it."""
    now = timezone.now()
    started = Rater.objects.filter(user_id=link.user_id, started_at__isnull=False).exists()
    fresh = SignInLink.objects.filter(Q(used_at__isnull=True), pk=link.pk, revoked_at__isnull=True)
    changes = {"used_at": now} if link.purpose == "rater" and started else {}
    if not fresh.update(opened_at=link.opened_at or now, **changes):
        return Opened(Door.GONE, None, link.purpose, "This link has been used in another browser.")
    return Opened(Door.WELCOME, link.user, link.purpose)


def _why_gone(link: SignInLink) -> str:
    if link.revoked_at:
        return "A newer link has taken the place of this one."
    if link.used_at:
        return "This link has been used in another browser."
    if link.expires_at <= timezone.now():
        return "This link has expired."
    return ""


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
