"""Tokens: made, found again by their hash, withdrawn. Who may read nothing now has no token that works."""

import hashlib
import secrets
from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from ratings.api.scopes import LABORATORY, SCOPES
from ratings.models import ApiToken, Membership, Study
from ratings.studies import access

PREFIX = "wb_"
DAYS, MOST_DAYS, MOST_LIVE = 90, 365, 20
_MARKED_EVERY = timedelta(minutes=1)


class TokenError(ValueError):
    """A token cannot be made like that; the message says why, for people."""


def may_have(user: User) -> bool:
    """Staff, and whoever has a role in some study. Raters have no API."""
    return user.is_active and (user.is_staff or access.studies_of(user).exists())


def make(
    user: User,
    name: str,
    scopes: Collection[str],
    days: int = DAYS,
    studies: Collection[Study] | None = None,
    code: UUID | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its text, which is kept nowhere. `studies` None: all its user may read. TokenError otherwise.

    `code`, drawn with a form, keeps the same form from making two.
    """
    _refuse(user, name, scopes, days, studies)
    text, now = PREFIX + secrets.token_urlsafe(32), timezone.now()
    values = {"code": code} if code else {}
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                user=user, name=name.strip(), token_sha256=digest(text), scopes=sorted(scopes), limited=studies is not None,
                created_at=now, expires_at=now + timedelta(days=days), **values,
            )  # fmt: skip
            token.studies.set(studies or ())
    except IntegrityError as error:
        raise TokenError(
            "This form has made its token already, and a token is shown once. Make another one."
        ) from error
    return token, text


def revoke(token: ApiToken) -> bool:
    """False if somebody had withdrawn it before."""
    return bool(ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()))


def of(user: User) -> QuerySet[ApiToken]:
    """All of a person's tokens, newest first, with what a list shows of them."""
    return ApiToken.objects.filter(user=user).prefetch_related("studies")


def live(text: str) -> ApiToken | None:
    """The token with its user, if it works now; one query."""
    found = ApiToken.objects.select_related("user").filter(token_sha256=digest(text), revoked_at=None)
    has_role = Exists(Membership.objects.filter(user=OuterRef("user")))
    entitled = Q(user__is_staff=True) | Q(user__is_superuser=True) | has_role
    return found.filter(entitled, expires_at__gt=timezone.now(), user__is_active=True).first()


def mark_used(token: ApiToken) -> None:
    """Written at most once a minute, by one of the requests that come at once."""
    before = timezone.now() - _MARKED_EVERY
    if token.last_used_at is None or token.last_used_at < before:
        unmarked = Q(last_used_at=None) | Q(last_used_at__lt=before)
        ApiToken.objects.filter(unmarked, pk=token.pk).update(last_used_at=timezone.now())


def studies(token: ApiToken) -> QuerySet[Study]:
    """What its user has a role in now, as far as the token goes."""
    own = access.studies_of(token.user)
    return own.filter(pk__in=token.studies.values("pk")) if token.limited else own


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _refuse(user: User, name: str, scopes: Collection[str], days: int, studies: Collection[Study] | None) -> None:
    strange = sorted(set(scopes) - set(SCOPES))
    of_laboratory = sorted(set(scopes) & LABORATORY)
    told = (
        (not may_have(user), f"{user.get_username()} may read no study and no episode, so a token would open nothing"),
        (not name.strip() or len(name) > 60, "Give the token a name of at most 60 characters"),
        (bool(strange), f"There is no scope {', '.join(strange)}; there are {', '.join(SCOPES)}"),
        (not scopes, "Choose at least one scope"),
        (bool(of_laboratory) and not user.is_staff, f"Only staff can have {' and '.join(of_laboratory)}"),
        (bool(of_laboratory) and studies is not None, "The laboratory belongs to no study: a token limited to studies cannot have "
                                                      f"{' and '.join(of_laboratory)}"),
        (not 1 <= days <= MOST_DAYS, f"A token lasts 1 to {MOST_DAYS} days"),
        (studies is not None and not studies, "Choose the studies the token is limited to, or do not limit it"),
        (bool(studies) and not _all_readable(user, studies or ()), f"{user.get_username()} has no role in one of these studies"),
        (_live_tokens(user) >= MOST_LIVE, f"{MOST_LIVE} tokens are in use already; revoke one first"),
    )  # fmt: skip
    if problems := [said for wrong, said in told if wrong]:
        raise TokenError(f"{'. '.join(problems)}.")


def _all_readable(user: User, studies: Collection[Study]) -> bool:
    keys = {study.pk for study in studies}
    return access.studies_of(user).filter(pk__in=keys).count() == len(keys)


def _live_tokens(user: User) -> int:
    return ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=timezone.now()).count()
