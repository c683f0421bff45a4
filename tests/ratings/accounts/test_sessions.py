"""Sessions: how long they last, what ends them, and what their cookies say."""

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
from ratings.rating import serving
from simulation.engine import tidying
from tests.support import seats
from tests.support.account_steps import PASSWORD, try_, with_app

pytestmark = pytest.mark.django_db


def test_a_session_ends_twelve_hours_after_the_last_visit_and_seven_days_after_signing_in(kim: User) -> None:
    store = sessions.SessionStore()
    now = time.time()
    for begun, hours in ((now, 12), (now - 6.9 * 86400, 2.4), (now - 7 * 86400, 0)):
        row = store.create_model_instance({"_auth_user_id": str(kim.pk), "signed_in_at": int(begun)})
        assert abs(row.expire_date.timestamp() - now - hours * 3600) < 5 and row.user_id == kim.pk


@pytest.mark.both_databases
def test_a_visit_is_written_down_once_in_ten_minutes(client: Client, kim: User) -> None:
    client.force_login(kim)
    row = BrowserSession.objects.get()
    client.get("/account/")
    assert BrowserSession.objects.get().expire_date == row.expire_date
    BrowserSession.objects.update(expire_date=row.expire_date - timedelta(minutes=11))
    client.get("/account/")
    assert BrowserSession.objects.get().expire_date >= row.expire_date


def test_a_rater_at_work_writes_the_session_once_in_ten_minutes(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    seat = seats.taken(seats.seat())
    client.force_login(seat.user)
    own = serving.next_assignment(seat)
    assert own
    told = []
    for minutes in (0, 0, 11):
        row = BrowserSession.objects.get()
        BrowserSession.objects.update(expire_date=row.expire_date - timedelta(minutes=minutes))
        with django_assert_max_num_queries(30) as asked:
            assert client.get(f"/rate/{own.code}/").status_code in (200, 302)
        told.append([query["sql"].split()[0] for query in asked.captured_queries if "browsersession" in query["sql"]])
    assert told == [["SELECT"], ["SELECT"], ["SELECT", "UPDATE"]]


def test_near_its_last_hour_a_session_is_not_written_at_each_visit(client: Client, kim: User) -> None:
    client.force_login(kim)
    store = client.session
    store["signed_in_at"] = int(time.time() - 6.9 * 86400)
    store.save()
    row = BrowserSession.objects.get()
    client.get("/account/")
    assert BrowserSession.objects.get().expire_date == row.expire_date


def test_a_session_past_its_end_opens_nothing(client: Client, kim: User) -> None:
    client.force_login(kim)
    BrowserSession.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert client.get("/account/").status_code == 302


@pytest.mark.both_databases
def test_signing_out_everywhere_else_ends_every_other_session_of_that_user(client: Client, kim: User) -> None:
    other, stranger = Client(), Client()
    for browser, user in ((client, kim), (other, kim), (stranger, User.objects.create_user("lee"))):
        browser.force_login(user)
    assert client.post("/account/end-sessions/").status_code == 302
    assert [browser.get("/account/").status_code for browser in (client, other, stranger)] == [200, 302, 200]


@pytest.mark.both_databases
def test_a_new_password_ends_every_other_session(client: Client, kim: User) -> None:
    other = Client()
    client.force_login(kim)
    other.force_login(kim)
    new = {"old_password": PASSWORD, "new_password1": "nine red funnels", "new_password2": "nine red funnels"}
    assert client.post("/account/", new).status_code == 302
    assert [browser.get("/account/").status_code for browser in (client, other)] == [200, 302]
    assert BrowserSession.objects.filter(user=kim).count() == 1


@pytest.mark.parametrize("field", ["is_staff", "is_active"])
def test_rights_taken_in_the_back_office_end_the_sessions_at_once(client: Client, field: str) -> None:
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


def test_cookies_over_https_are_bound_to_this_very_host() -> None:
    said = "from wetbench_site import settings as s; print(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.SESSION_COOKIE_SECURE)"
    for https, names in (("true", "__Host-wb_session __Host-wb_csrf True"), ("false", "wb_session wb_csrf False")):
        environ = {**os.environ, "WETBENCH_HTTPS": https}
        told = subprocess.run([sys.executable, "-c", said], env=environ, capture_output=True, text=True, check=True)
        assert told.stdout.strip() == names


def test_the_session_cookie_is_not_for_scripts_nor_for_other_sites(client: Client, kim: User) -> None:
    cookie = try_(client, "kim", PASSWORD).cookies["wb_session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and cookie["path"] == "/" and not cookie["domain"]
    assert cookie["max-age"] == 12 * 3600


def test_the_first_step_takes_a_new_session_key_too(client: Client, kim: User) -> None:
    """Else whoever has planted a session in this browser is half signed in with it."""
    with_app(kim)
    store = client.session
    store["planted"] = True
    store.save()
    planted = Client()
    for browser in (client, planted):
        browser.cookies["wb_session"] = store.session_key
    assert try_(client, "kim", PASSWORD)["Location"] == "/login/code/"
    assert planted.get("/login/code/")["Location"] == "/login/"
    assert client.get("/login/code/").status_code == 200


def test_the_workers_remove_ended_sessions_and_old_counts(kim: User) -> None:
    for name, age in (("old", 16), ("new", 14)):
        made = AccessAttempt.objects.create(username=name, ip_address="127.0.0.1", failures_since_start=1)
        AccessAttempt.objects.filter(pk=made.pk).update(attempt_time=timezone.now() - timedelta(minutes=age))
        Client().force_login(kim)
    ended = BrowserSession.objects.first()
    BrowserSession.objects.filter(pk=ended.pk).update(expire_date=timezone.now() - timedelta(minutes=1))
    tidying._next[0] = 0.0
    assert tidying.tidy() and not tidying.tidy()  # once an hour
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
def test_a_session_survives_a_move_of_our_sign_in_backend_and_of_no_other(
    client: Client, kim: User, settings: Settings, stored: str, status: int
) -> None:
    client.force_login(kim)
    session = client.session
    session[BACKEND_SESSION_KEY] = stored
    session.save()

    settings.AUTHENTICATION_BACKENDS = [f"{MovedBackend.__module__}.{MovedBackend.__qualname__}"]

    assert client.get("/account/").status_code == status
