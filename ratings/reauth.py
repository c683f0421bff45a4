"""Signing in again before what cannot be undone."""

import time
from datetime import timedelta

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest

FRESH = timedelta(minutes=15)
_SESSION_KEY = "came_by_link_at"


def came_by_link(request: HttpRequest) -> None:
    """This session was signed in by a link just now."""
    request.session[_SESSION_KEY] = int(time.time())


def needs_password(request: HttpRequest) -> bool:
    """False for those who have none: they open a new sign-in link instead."""
    return isinstance(request.user, User) and request.user.has_usable_password()


def confirmed(request: HttpRequest, password: str) -> bool:
    """Is it still the same person? By password; who has none must have come by a link in the last 15 minutes."""
    user = request.user
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.has_usable_password():
        known = authenticate(request, username=user.get_username(), password=password)
        return known is not None and known.pk == user.pk
    came = request.session.get(_SESSION_KEY)
    return isinstance(came, int) and 0 <= time.time() - came < FRESH.total_seconds()
