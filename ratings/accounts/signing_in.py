"""Sign-in by password, with a user name or an e-mail address, and by links, of which only the hash is stored."""

import secrets
import time
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from axes.backends import AxesBackend
from django.contrib.auth import login
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import Argon2PasswordHasher, make_password
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from ratings.accounts import login_throttling, reauthentication, sessions, two_factor
from ratings.models import Invitation, SignInLink
from wetbench_site.prepared_queries import PreparedQuery
from wetbench_site.text import hash_text

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
        # Without a session that was loaded with its user, the query is built once.
        user = sessions.find_loaded_user(user_id) or _USER_BY_KEY.find_first(user_id)
        return user if user and self.user_can_authenticate(user) else None


_USER_BY_KEY = PreparedQuery(lambda key: User.objects.defer("date_joined").filter(pk=key).order_by(), "number")


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
    """The effect of a link."""

    effect: LinkEffect
    user: User | None = None  # whom it signs in
    why: str = ""  # why it no longer works
    owner: User | None = None
    # The link was never opened before. An admin's link works all day and remains in the browser's history.
    is_first_use: bool = False


def create_link(user: User, purpose: str, lifetime: timedelta = LINK_LIFETIME) -> str:
    """Create a sign-in link and return its token. Earlier links of this purpose stop working."""
    token, now = generate_token(), timezone.now()
    with transaction.atomic():
        # In one transaction, so that there is never a moment with two valid links.
        revoke_links(user, purpose)
        SignInLink.objects.create(
            user=user, purpose=purpose, token_sha256=hash_text(token), created_at=now, expires_at=now + lifetime
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
    now = timezone.now()
    used = {"used_at": now} if purpose == "rater" else {}
    # Conditional, so that of two simultaneous clicks one signs in.
    fresh = SignInLink.objects.filter(pk=link.pk, revoked_at__isnull=True, used_at__isnull=True)
    if not fresh.update(opened_at=link.opened_at or now, **used):
        return LinkResult(LinkEffect.GONE, None, USED, link.user)
    return result._replace(is_first_use=link.opened_at is None)


def generate_token() -> str:
    """Return a token with 256 bits from the system's random source."""
    return secrets.token_urlsafe(32)


def _find_link(token: str, visitor: User | AnonymousUser, purpose: str) -> tuple[LinkResult, SignInLink | None]:
    # The purpose is part of the query: a rater's link must not open an admin's page.
    link = SignInLink.objects.select_related("user").filter(token_sha256=hash_text(token), purpose=purpose).first()
    if link is None or not link.user.is_active:
        return LinkResult(LinkEffect.UNKNOWN), None
    # Only for raters: an admin's link works all day anyway.
    is_signed_in = purpose == "rater" and visitor.pk == link.user_id
    if not is_signed_in and (reason := describe_expiry(link)):
        return LinkResult(LinkEffect.GONE, None, reason, link.user), link
    return LinkResult(LinkEffect.WELCOME, link.user, "", link.user), link


USED = "This link has been used."


def describe_expiry(link: SignInLink | Invitation) -> str:
    """Return why a link no longer works; "" if it still works."""
    # "Used" comes before "revoked", because a used link may be revoked later and the user remembers having used it.
    if link.used_at:
        return USED
    if link.revoked_at:
        return "This link was revoked, or replaced by a newer one."
    return "This link has expired." if link.expires_at <= timezone.now() else ""


_WAITING = "waiting_for_code"
CODE_TIMEOUT = 10 * 60  # seconds between password and code


def sign_in(request: HttpRequest, user: User, then: str, by_link: bool = False, fresh: bool = True) -> bool:
    """Sign the user in under a new session key. Return False if a code is required first; `then` is the page after it.

    `fresh` is False for a link that was opened before, because other people may have found it in a browser's history.
    """
    # Checked before the login: with a second factor, a password alone must not create a signed-in session.
    needs_code = two_factor.find_device(user) is not None
    if by_link and request.user.pk == user.pk and (two_factor.is_verified(request) or not needs_code):
        _record_sign_in(request, by_link, fresh)
        return True
    if needs_code:
        # The hash covers the password, so a password that is changed in between ends the sign-in.
        waiting = {"user": user.pk, "mark": user.get_session_auth_hash(), "at": int(time.time())}
        request.session.cycle_key()  # somebody who knew the old key must not be partly signed in with it
        request.session[_WAITING] = {**waiting, "then": then, "by_link": by_link, "fresh": fresh}
        return False
    login(request, user)
    _record_sign_in(request, by_link, fresh)
    return True


def find_user_awaiting_code(request: HttpRequest) -> User | None:
    """Return the user who gave a correct password or link in this browser within the last 10 minutes, or None.

    Return None also if the password has changed since then or the account was deactivated.
    """
    pending: dict[str, Any] | None = request.session.get(_WAITING)
    # Not negative: a clock that was set back must not extend the time.
    if pending is None or not 0 <= time.time() - pending["at"] < CODE_TIMEOUT:
        return None
    user = User.objects.filter(pk=pending["user"], is_active=True).first()
    return user if user and user.get_session_auth_hash() == pending["mark"] else None


def finish_sign_in(request: HttpRequest, user: User, device: Any) -> str:
    """Sign the user in after a correct code, and return the page to show."""
    pending: dict[str, Any] = request.session.pop(_WAITING)
    # A new session key, so that a key known before the sign-in is worthless.
    login(request, user)
    two_factor.mark_verified(request, device)
    _record_sign_in(request, pending["by_link"], pending["fresh"])
    return str(pending["then"])


def _record_sign_in(request: HttpRequest, by_link: bool, fresh: bool) -> None:
    if not fresh:
        # Anybody who finds the link in a browser's history would otherwise count as recently signed in.
        reauthentication.clear_reauthentication(request)
    elif by_link:
        reauthentication.record_link_sign_in(request)


MAX_LENGTH = 128  # characters


class Argon2(Argon2PasswordHasher):
    """Argon2id with the minimum parameters that OWASP recommends.

    With Django's default of 100 MiB, a few simultaneous sign-ins would fill the memory of a small server.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1


class MaximumLengthValidator:
    """Limit the length of a password, because the time for hashing grows with it."""

    def validate(self, password: str, user: User | None = None) -> None:
        if len(password) > MAX_LENGTH:
            raise ValidationError(f"This password is longer than {MAX_LENGTH} characters.", "password_too_long")

    def get_help_text(self) -> str:
        return f"Your password can have at most {MAX_LENGTH} characters."
