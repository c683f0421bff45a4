"""Tests of re-authentication before irreversible actions, by password or by a link opened recently."""

import time
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.test import RequestFactory

from ratings.accounts import reauthentication

pytestmark = pytest.mark.django_db

QUARTER = 15 * 60  # seconds


def make_request(user: User | AnonymousUser, came: object = None) -> HttpRequest:
    """Return a request of a signed-in user who opened their link at the time `came`."""
    request = RequestFactory().post("/")
    request.user = user
    request.session = {} if came is None else {"came_by_link_at": came}  # type: ignore[assignment]  # the code only reads it
    return request


def test_reauthentication_of_a_user_with_a_password_requires_it() -> None:
    ada = User.objects.create_user("ada", password="enough-of-ada")
    assert reauthentication.verify_identity(make_request(ada), "enough-of-ada")
    for wrong in ("", "enough of ada"):
        assert not reauthentication.verify_identity(make_request(ada, came=int(time.time())), wrong)


def test_reauthentication_without_a_password_requires_a_link_opened_within_15_minutes(settings: Any) -> None:
    settings.PRODUCTION = True
    ada = User.objects.create_user("ada")
    now = int(time.time())
    assert reauthentication.verify_identity(make_request(ada, came=now - QUARTER + 60), "")
    for came in (None, now - QUARTER - 1, now + 60, str(now)):
        assert not reauthentication.verify_identity(make_request(ada, came), "")


def test_reauthentication_without_a_password_is_one_click_only_on_a_site_of_one_machine(settings: Any) -> None:
    ada = User.objects.create_user("ada")
    assert reauthentication.verify_identity(make_request(ada), "")
    for changed in ({"HTTP_X_FORWARDED_FOR": "10.0.0.9"}, {"REMOTE_ADDR": "10.0.0.9"}, {"HTTP_HOST": "lab.example"}):
        request = make_request(ada)
        request.META.update(changed)
        assert not reauthentication.verify_identity(request, ""), changed
    settings.CELERY_BROKER_URL = "redis://127.0.0.1"
    assert not reauthentication.verify_identity(make_request(ada), "")
    settings.CELERY_BROKER_URL, settings.PRODUCTION = "", True
    assert not reauthentication.verify_identity(make_request(ada), "")


def test_reauthentication_rejects_anonymous_and_deactivated_users() -> None:
    now = int(time.time())
    gone = User.objects.create_user("gone", password="enough-of-gone", is_active=False)
    assert not reauthentication.verify_identity(make_request(AnonymousUser(), now), "")
    assert not reauthentication.verify_identity(make_request(gone, now), "enough-of-gone")
