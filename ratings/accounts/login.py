"""Sign a user in after a correct password or link; users with two-factor authentication must first enter a code."""

import time
from typing import Any

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest

from ratings.accounts import reauthentication, two_factor

_WAITING = "waiting_for_code"
CODE_TIMEOUT = 10 * 60  # seconds between password and code


def sign_in(request: HttpRequest, user: User, then: str, by_link: bool = False, fresh: bool = True) -> bool:
    """Sign the user in under a new session key. Return False if a code is required first; `then` is the page to show
    afterwards.

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
