"""From a right password or link to a session: at once, or by way of the second step for who has one."""

import time
from typing import Any

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest

from ratings.accounts import reauth, second_step

_WAITING = "waiting_for_code"
PATIENCE = 10 * 60  # seconds between the first step and the second


def enter(request: HttpRequest, user: User, then: str, by_link: bool = False, fresh: bool = True) -> bool:
    """Sign in under a new session key; False if a code is asked for first, and `then` is where it leads.

    `fresh` is False for a link that others may have found where it was opened before.
    """
    needs_code = second_step.device_of(user) is not None
    if by_link and request.user.pk == user.pk and (second_step.is_taken(request) or not needs_code):
        _mark(request, by_link, fresh)
        return True
    if needs_code:
        waiting = {"user": user.pk, "mark": user.get_session_auth_hash(), "at": int(time.time())}
        request.session.cycle_key()  # whoever knew the key before must not be half signed in with it
        request.session[_WAITING] = {**waiting, "then": then, "by_link": by_link, "fresh": fresh}
        return False
    login(request, user)
    _mark(request, by_link, fresh)
    return True


def waiting(request: HttpRequest) -> User | None:
    """Who has taken the first step in this browser, not long ago, and whose account is as it was."""
    told: dict[str, Any] | None = request.session.get(_WAITING)
    if told is None or not 0 <= time.time() - told["at"] < PATIENCE:
        return None
    user = User.objects.filter(pk=told["user"], is_active=True).first()
    return user if user and user.get_session_auth_hash() == told["mark"] else None


def finish(request: HttpRequest, user: User, device: Any) -> str:
    """The code was right: sign in. Where they wanted to go."""
    told: dict[str, Any] = request.session.pop(_WAITING)
    login(request, user)
    second_step.take(request, device)
    _mark(request, told["by_link"], told["fresh"])
    return str(told["then"])


def _mark(request: HttpRequest, by_link: bool, fresh: bool) -> None:
    if not fresh:
        reauth.unstamp(request)
    elif by_link:
        reauth.came_by_link(request)
