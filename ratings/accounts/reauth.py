"""Signing in again before what cannot be undone."""

import time
from datetime import timedelta

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest

from ratings.accounts import throttling

FRESH = timedelta(minutes=15)
_SESSION_KEY = "came_by_link_at"
_CONFIRMED = "confirmed_at"


def came_by_link(request: HttpRequest) -> None:
    """This session was signed in by a link just now."""
    request.session[_SESSION_KEY] = int(time.time())
    stamp(request)


def stamp(request: HttpRequest) -> None:
    """They have shown just now who they are."""
    request.session[_CONFIRMED] = int(time.time())


def unstamp(request: HttpRequest) -> None:
    """What opened this session could have been opened by somebody else: it says nothing about who sits there."""
    request.session.pop(_CONFIRMED, None)


def is_fresh(request: HttpRequest) -> bool:
    """Have they shown who they are in the last 15 minutes?"""
    return _recent(request.session.get(_CONFIRMED))


def needs_password(request: HttpRequest) -> bool:
    """False for those who have none: they open a new sign-in link instead."""
    return isinstance(request.user, User) and request.user.has_usable_password()


def confirmed(request: HttpRequest, password: str) -> bool:
    """Is it still the same person? By password; who has none must have come by a link in the last 15 minutes.

    Wrong passwords count as they do on the sign-in page.
    """
    user = request.user
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.has_usable_password():
        known = authenticate(request, username=user.get_username(), password=password)
        if known is None or known.pk != user.pk:
            return False
        throttling.forget(request, user.get_username())
        return True
    return _recent(request.session.get(_SESSION_KEY))


def _recent(at: object) -> bool:
    return isinstance(at, int) and 0 <= time.time() - at < FRESH.total_seconds()
