"""Sign-in by password, with a user name or an e-mail address, and by links, of which only the hash is stored."""

import hashlib
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from axes.backends import AxesBackend
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from ratings.accounts import login_throttling
from ratings.models import SignInLink
from wetbench_site.prepared_queries import PreparedQuery

LINK_LIFETIME = timedelta(hours=24)


class NameOrEmail(AxesBackend):  # type: ignore[misc]  # untyped
    """Django's sign-in backend, extended to accept an e-mail address that exactly one person has.

    A sign-in with an unknown or locked name, or to a deactivated account, takes as long as one with a wrong password,
    because it computes one hash as well.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> Any:
        if username and "@" in username and (user := find_by_email(username)):
            username = user.get_username()
        if request is not None and username:
            login_throttling.record_attempted_name(request, username)
            if login_throttling.is_locked(request, username):
                # One hash, so that a locked name takes as long to reject as a wrong password.
                make_password(password)
                raise PermissionDenied
        # Django's own check, because that of django-axes would look up the lock once more.
        found = ModelBackend.authenticate(self, request, username, password, **kwargs)
        if found and request is not None and login_throttling.is_locked(request, found.get_username()):
            raise PermissionDenied  # other simultaneous attempts were counted as wrong while this one was hashed
        return found

    def get_user(self, user_id: Any) -> User | None:
        """Return the user with this key, or None if the account is deactivated, as Django's backend does."""
        # Runs with every request of a signed-in user, so the query is built once.
        user = _USER_BY_KEY.find_first(user_id)
        return user if user and self.user_can_authenticate(user) else None


_USER_BY_KEY = PreparedQuery(lambda key: User.objects.filter(pk=key).order_by(), "number")


def find_by_email(address: str) -> User | None:
    """Return the active user with this e-mail address; None if nobody or more than one person has it."""
    # Two rows are enough to see that the address is not unique.
    matches = User.objects.filter(email__iexact=address.strip(), is_active=True).exclude(email="")[:2]
    return matches[0] if len(matches) == 1 else None


class LinkEffect(StrEnum):
    """What a link does in the browser that opens it."""

    UNKNOWN = "unknown"  # 404: this link never existed
    GONE = "gone"  # 410: expired, revoked or used
    WELCOME = "welcome"  # sign `user` in, unless already signed in


class LinkResult(NamedTuple):
    """The effect of a link. `purpose` is "admin" or "rater"; `why` states why a link no longer works; `owner` is its
    user.

    `is_first_use`: the link was never opened before. This matters for an admin's link, which works all day and
    remains in the browser's history.
    """

    effect: LinkEffect
    user: User | None = None
    purpose: str = ""
    why: str = ""
    owner: User | None = None
    is_first_use: bool = False


def create_link(user: User, purpose: str, lifetime: timedelta = LINK_LIFETIME) -> str:
    """Create a sign-in link and return its token, of which only the hash is stored. Earlier links of this purpose
    stop working.
    """
    token, now = generate_token(), timezone.now()
    with transaction.atomic():
        # In one transaction, so that there is never a moment with two valid links.
        revoke_links(user, purpose)
        SignInLink.objects.create(
            user=user, purpose=purpose, token_sha256=hash_token(token), created_at=now, expires_at=now + lifetime
        )
    return token


def revoke_links(user: User, purpose: str) -> None:
    # Updated, not deleted, so that the page can show the holder of an old link that it was replaced.
    user.sign_in_links.filter(purpose=purpose, revoked_at__isnull=True).update(revoked_at=timezone.now())


def expire_unused_links(user: User) -> None:
    """Mark a rater's unopened links as used, because rating has begun."""
    user.sign_in_links.filter(purpose="rater", used_at__isnull=True).update(used_at=timezone.now())


def peek_link(token: str, visitor: User | AnonymousUser, purpose: str) -> LinkResult:
    """Return what `open_link` would do, without doing it."""
    return _find_link(token, visitor, purpose)[0]


def open_link(token: str, visitor: User | AnonymousUser, purpose: str) -> LinkResult:
    """Open a link and return its effect.

    A rater's link works once, but its rater may open it again while signed in. An admin's link works for a day.
    """
    result, link = _find_link(token, visitor, purpose)
    # A rater who reloads the page of their own link is not rejected because the link has been used.
    if link is None or result.effect != LinkEffect.WELCOME or (purpose == "rater" and visitor.pk == link.user_id):
        return result
    return _use_link(link)


def generate_token() -> str:
    """Return a token with 256 bits from the system's random source."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _find_link(token: str, visitor: User | AnonymousUser, purpose: str) -> tuple[LinkResult, SignInLink | None]:
    # The purpose is part of the query: a rater's link must not open an admin's page.
    link = SignInLink.objects.select_related("user").filter(token_sha256=hash_token(token), purpose=purpose).first()
    if link is None or not link.user.is_active:
        return LinkResult(LinkEffect.UNKNOWN), None
    # Only for raters: an admin's link works all day anyway.
    is_signed_in = purpose == "rater" and visitor.pk == link.user_id
    if not is_signed_in and (reason := describe_expiry(link.revoked_at, link.used_at, link.expires_at)):
        return LinkResult(LinkEffect.GONE, None, purpose, reason, link.user), link
    return LinkResult(LinkEffect.WELCOME, link.user, purpose, "", link.user), link


def _use_link(link: SignInLink) -> LinkResult:
    """Record the use of a link and return its effect. If a rater's link is used several times at once, one use
    succeeds.
    """
    now = timezone.now()
    used = {"used_at": now} if link.purpose == "rater" else {}
    # Conditional, so that of two simultaneous clicks one signs in.
    fresh = SignInLink.objects.filter(pk=link.pk, revoked_at__isnull=True, used_at__isnull=True)
    if not fresh.update(opened_at=link.opened_at or now, **used):
        return LinkResult(LinkEffect.GONE, None, link.purpose, USED, link.user)
    return LinkResult(LinkEffect.WELCOME, link.user, link.purpose, "", link.user, link.opened_at is None)


USED = "This link has been used."


def describe_expiry(revoked_at: Any, used_at: Any, expires_at: Any) -> str:
    """Return why a link no longer works; "" if it still works."""
    # "Used" comes before "revoked", because a used link may be revoked later and the user remembers having used it.
    if used_at:
        return USED
    if revoked_at:
        return "This link was revoked, or replaced by a newer one."
    return "This link has expired." if expires_at <= timezone.now() else ""
