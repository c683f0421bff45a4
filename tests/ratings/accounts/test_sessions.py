"""Tests of sessions: how long they last, what ends them, and their cookies."""

import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from ratings.accounts import sessions
from ratings.accounts.signing_in import NameOrEmail
from ratings.models import BrowserSession
from ratings.rating import next_item
from simulation.engine import workers
from tests.support import invited_raters
from tests.support.account_steps import PASSWORD, create_app_device, post_login

pytestmark = pytest.mark.django_db


def test_session_expires_12_hours_after_the_last_visit_and_7_days_after_signing_in(kim: User) -> None:
    store = sessions.SessionStore()
    now = time.time()
    for begun, hours in ((now, 12), (now - 6.9 * 86400, 2.4), (now - 7 * 86400, 0)):
        row = store.create_model_instance({"_auth_user_id": str(kim.pk), "signed_in_at": int(begun)})
        assert abs(row.expire_date.timestamp() - now - hours * 3600) < 5 and row.user_id == kim.pk


@pytest.mark.both_databases
def test_session_expiry_is_updated_at_most_every_ten_minutes(client: Client, kim: User) -> None:
    client.force_login(kim)
    row = BrowserSession.objects.get()
    client.get("/account/")
    assert BrowserSession.objects.get().expire_date == row.expire_date
    BrowserSession.objects.update(expire_date=row.expire_date - timedelta(minutes=11))
    client.get("/account/")
    assert BrowserSession.objects.get().expire_date >= row.expire_date


def test_session_of_a_rater_is_written_at_most_every_ten_minutes(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    client.force_login(rater.user)
    own = next_item.find_next_assignment(rater)
    assert own
    told = []
    for minutes in (0, 0, 11):
        row = BrowserSession.objects.get()
        BrowserSession.objects.update(expire_date=row.expire_date - timedelta(minutes=minutes))
        with django_assert_max_num_queries(30) as asked:
            assert client.get(f"/rate/{own.code}/").status_code in (200, 302)
        told.append([query["sql"].split()[0] for query in asked.captured_queries if "browsersession" in query["sql"]])
    assert told == [["SELECT"], ["SELECT"], ["SELECT", "UPDATE"]]


def test_session_near_its_maximum_age_is_not_written_at_each_visit(client: Client, kim: User) -> None:
    client.force_login(kim)
    store = client.session
    store["signed_in_at"] = int(time.time() - 6.9 * 86400)
    store.save()
    row = BrowserSession.objects.get()
    client.get("/account/")
    assert BrowserSession.objects.get().expire_date == row.expire_date


def test_expired_session_gives_no_access(client: Client, kim: User) -> None:
    client.force_login(kim)
    BrowserSession.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert client.get("/account/").status_code == 302


@pytest.mark.both_databases
def test_sessions_elsewhere_end_when_the_user_signs_out_everywhere_else(client: Client, kim: User) -> None:
    other, stranger = Client(), Client()
    for browser, user in ((client, kim), (other, kim), (stranger, User.objects.create_user("lee"))):
        browser.force_login(user)
    assert client.post("/account/end-sessions/").status_code == 302
    assert [browser.get("/account/").status_code for browser in (client, other, stranger)] == [200, 302, 200]


@pytest.mark.both_databases
def test_sessions_elsewhere_end_when_the_password_changes(client: Client, kim: User) -> None:
    other = Client()
    client.force_login(kim)
    other.force_login(kim)
    new = {"old_password": PASSWORD, "new_password1": "nine red funnels", "new_password2": "nine red funnels"}
    assert client.post("/account/", new).status_code == 302
    assert [browser.get("/account/").status_code for browser in (client, other)] == [200, 302]
    assert BrowserSession.objects.filter(user=kim).count() == 1


@pytest.mark.parametrize("field", ["is_staff", "is_active"])
def test_sessions_end_when_the_admin_site_removes_rights(client: Client, field: str) -> None:
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    hers = Client()
    hers.force_login(ada)
    client.force_login(User.objects.create_superuser("root"))
    form = {
        "username": "ada",
        "is_active": "on",
        "is_staff": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "10:00:00",
    }
    del form[field]
    assert client.post(f"/admin/auth/user/{ada.pk}/change/", form).status_code == 302
    assert not ada.browser_sessions.exists() and hers.get("/account/").status_code == 302


def test_cookies_over_https_have_the_host_prefix() -> None:
    said = "from wetbench_site import settings as s; print(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.SESSION_COOKIE_SECURE)"
    for https, names in (("true", "__Host-wb_session __Host-wb_csrf True"), ("false", "wb_session wb_csrf False")):
        environ = {**os.environ, "WETBENCH_HTTPS": https}
        told = subprocess.run([sys.executable, "-c", said], env=environ, capture_output=True, text=True, check=True)
        assert told.stdout.strip() == names


def test_session_cookie_is_http_only_and_same_site(client: Client, kim: User) -> None:
    cookie = post_login(client, "kim", PASSWORD).cookies["wb_session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and cookie["path"] == "/" and not cookie["domain"]
    assert cookie["max-age"] == 12 * 3600


def test_password_step_of_two_factor_sign_in_creates_a_new_session_key(client: Client, kim: User) -> None:
    """Otherwise an attacker who planted a session in this browser would have passed the first step of signing in."""
    create_app_device(kim)
    store = client.session
    store["planted"] = True
    store.save()
    planted = Client()
    for browser in (client, planted):
        browser.cookies["wb_session"] = store.session_key
    assert post_login(client, "kim", PASSWORD)["Location"] == "/login/code/"
    assert planted.get("/login/code/")["Location"] == "/login/"
    assert client.get("/login/code/").status_code == 200


def test_cleanup_removes_expired_sessions_and_old_login_attempts(kim: User) -> None:
    for name, age in (("old", 16), ("new", 14)):
        made = AccessAttempt.objects.create(username=name, ip_address="127.0.0.1", failures_since_start=1)
        AccessAttempt.objects.filter(pk=made.pk).update(attempt_time=timezone.now() - timedelta(minutes=age))
        Client().force_login(kim)
    ended = BrowserSession.objects.first()
    BrowserSession.objects.filter(pk=ended.pk).update(expire_date=timezone.now() - timedelta(minutes=1))
    workers._next_cleanup_at[0] = 0.0
    assert workers.run_due_cleanup() and not workers.run_due_cleanup()  # once an hour
    assert BrowserSession.objects.count() == 1 and AccessAttempt.objects.get().username == "new"


class MovedBackend(NameOrEmail):
    """The sign-in backend under another path."""


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        (
            "ratings." + "signing_in.NameOrEmail",
            200,
        ),  # what sessions hold since the first release, not a module of today
        ("ratings.accounts.signing_in.RemovedBackend", 302),
        ("elsewhere.signing_in.NameOrEmail", 302),
    ],
)
def test_session_survives_moving_its_sign_in_backend_only_within_wetbench(
    client: Client, kim: User, settings: Settings, stored: str, status: int
) -> None:
    client.force_login(kim)
    session = client.session
    session[BACKEND_SESSION_KEY] = stored
    session.save()

    settings.AUTHENTICATION_BACKENDS = [f"{MovedBackend.__module__}.{MovedBackend.__qualname__}"]

    assert client.get("/account/").status_code == status
