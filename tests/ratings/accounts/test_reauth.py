"""Signing in again before what cannot be undone: by password, or by a link that was opened just now."""

import time

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.test import RequestFactory

from ratings.accounts import reauth

pytestmark = pytest.mark.django_db

QUARTER = 15 * 60  # seconds


def asked(user: User | AnonymousUser, came: object = None) -> HttpRequest:
    """A request of somebody signed in, who opened their link at `came`."""
    request = RequestFactory().post("/")
    request.user = user
    request.session = {} if came is None else {"came_by_link_at": came}  # type: ignore[assignment]  # read like one
    return request


def test_who_has_a_password_gives_it_however_they_came() -> None:
    ada = User.objects.create_user("ada", password="enough-of-ada")
    assert reauth.confirmed(asked(ada), "enough-of-ada")
    for wrong in ("", "enough of ada"):
        assert not reauth.confirmed(asked(ada, came=int(time.time())), wrong)


def test_who_has_none_has_opened_their_link_within_a_quarter_of_an_hour() -> None:
    ada = User.objects.create_user("ada")
    now = int(time.time())
    assert reauth.confirmed(asked(ada, came=now - QUARTER + 60), "")
    for came in (None, now - QUARTER - 1, now + 60, str(now)):
        assert not reauth.confirmed(asked(ada, came), "")


def test_a_stranger_or_a_deactivated_account_is_nobody() -> None:
    now = int(time.time())
    gone = User.objects.create_user("gone", password="enough-of-gone", is_active=False)
    assert not reauth.confirmed(asked(AnonymousUser(), now), "")
    assert not reauth.confirmed(asked(gone, now), "enough-of-gone")
