"""Record and check recent sign-ins, which irreversible actions require."""

import time
from datetime import timedelta

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest

from ratings.accounts import login_throttling

MAX_AGE = timedelta(minutes=15)  # for irreversible actions
_SESSION_KEY = "came_by_link_at"
_CONFIRMED = "confirmed_at"


def record_link_sign_in(request: HttpRequest) -> None:
    """Record that this session was just signed in by a link."""
    request.session[_SESSION_KEY] = int(time.time())
    record_reauthentication(request)


def record_reauthentication(request: HttpRequest) -> None:
    """Record that the user has just proved their identity."""
    request.session[_CONFIRMED] = int(time.time())


def clear_reauthentication(request: HttpRequest) -> None:
    """Delete the record of a recent sign-in, because somebody else could have opened this session."""
    request.session.pop(_CONFIRMED, None)


def is_recent(request: HttpRequest) -> bool:
    """Return whether the user has proved their identity within the last 15 minutes."""
    return _is_within_max_age(request.session.get(_CONFIRMED))


def has_password(request: HttpRequest) -> bool:
    """Return whether this user has a password. Users without one must open a new sign-in link instead."""
    return isinstance(request.user, User) and request.user.has_usable_password()


def verify_identity(request: HttpRequest, password: str) -> bool:
    """Return whether the given password is correct; for users without a password, whether a link was opened recently.

    A wrong password is counted as on the sign-in page. A link must have been opened within the last 15 minutes.
    """
    user = request.user
    # The account may have been deactivated while the page was open.
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.has_usable_password():
        # Through Django's backends, so that wrong guesses here are counted and locked as on the sign-in page.
        authenticated = authenticate(request, username=user.get_username(), password=password)
        if authenticated is None or authenticated.pk != user.pk:
            return False
        login_throttling.clear_attempts(request, user.get_username())
        return True
    return _is_within_max_age(request.session.get(_SESSION_KEY))


# A time in the future comes from a clock that was changed, and is not trusted.
def _is_within_max_age(at: object) -> bool:
    return isinstance(at, int) and 0 <= time.time() - at < MAX_AGE.total_seconds()
