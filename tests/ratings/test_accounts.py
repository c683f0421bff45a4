"""Signing in: passwords, too many of them, the second step, sessions and how they end."""

import io
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import job_factories
import pytest
import seats
from axes.models import AccessAttempt
from django.contrib.auth.hashers import identify_hasher, make_password
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone
from django_otp.models import Device
from django_otp.oath import TOTP
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice
from tests_support import race

from ratings import access, erasing, inviting, second_step, serving, sessions, throttling
from ratings.models import BrowserSession
from simulation import tidying
from simulation.models import Job
from wetbench_site import settings as site_settings
from wetbench_site.client_address import client_address
from wetbench_site.write_limit import Buckets

pytestmark = pytest.mark.django_db
PASSWORD = "seven grey pipettes"


@pytest.fixture
def kim() -> User:
    return User.objects.create_user("kim", "kim@example.org", PASSWORD)


def try_(client: Client, name: str, password: str, **more: Any) -> Any:
    return client.post("/login/", {"username": name, "password": password}, **more)


def code_of(device: TOTPDevice, steps: int = 0) -> str:
    """What the app shows now, or so many half minutes from now."""
    totp = TOTP(device.bin_key)
    totp.time = time.time() + 30 * steps
    return f"{totp.token():06}"


def with_app(user: User) -> TOTPDevice:
    return TOTPDevice.objects.create(user=user, name="app", confirmed=True)


# Passwords


def test_new_passwords_are_kept_by_argon2_and_old_ones_are_still_read(settings: Any) -> None:
    settings.PASSWORD_HASHERS = site_settings.PASSWORD_HASHERS
    old = make_password(PASSWORD, hasher="pbkdf2_sha256")
    kim = User.objects.create(username="kim", password=old)
    assert kim.check_password(PASSWORD)
    kim.refresh_from_db()
    assert identify_hasher(kim.password).algorithm == "argon2" and "m=19456,t=2,p=1" in kim.password


@pytest.mark.parametrize("wrong", ["eleven char", "password1234", "x" * 129])
def test_a_password_is_refused_that_is_short_common_or_endless(wrong: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(wrong)
    validate_password("twelve chars" + "x" * 116)  # 128


# Too many tries


@pytest.mark.both_databases
def test_eight_wrong_passwords_lock_the_pair_of_name_and_address_and_nothing_else(client: Client, kim: User) -> None:
    User.objects.create_user("lee", password=PASSWORD)
    answers = [try_(client, "kim", "wrong").status_code for _ in range(8)]
    assert answers == [*[200] * 7, 429]
    locked = try_(client, "kim", PASSWORD)
    assert locked.status_code == 429 and 890 <= int(locked["Retry-After"]) <= 900
    assert "Come back in 15 minutes" in locked.content.decode()
    assert try_(client, "lee", PASSWORD).status_code == 302
    assert try_(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.7").status_code == 302


def test_an_unknown_name_a_closed_account_and_a_known_one_are_answered_alike(client: Client, kim: User) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    pages = {}
    for name in ("kim", "gone", "nobody"):
        said = [try_(client, name, "wrong") for _ in range(9)]
        pages[name] = [(one.status_code, _without_token(one, name)) for one in said]
    assert pages["kim"] == pages["gone"] == pages["nobody"]


def _without_token(response: Any, name: str) -> str:
    lines = response.content.decode().replace(name, "NAME").splitlines()
    return "\n".join(line for line in lines if "csrf" not in line.lower())


def test_one_hash_is_made_whoever_is_named(client: Client, kim: User) -> None:
    """The time is that of one hash: of a wrong password, of nobody, of a closed account, of one that is locked."""
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    User.objects.create_user("link")  # has no password
    AccessAttempt.objects.create(
        username="lee", ip_address="127.0.0.1", user_agent="", failures_since_start=8, attempt_time=timezone.now()
    )
    made = {}
    for name in ("kim", "kim@example.org", "gone", "link", "nobody", "nobody@example.org", "lee"):
        with _Hashes() as hashes:
            try_(client, name, "wrong")
        made[name] = hashes.count
    assert set(made.values()) == {1}, made


class _Hashes:
    """Counts what the hasher of the tests does, by Python's own hook for calls."""

    def __enter__(self) -> "_Hashes":
        self.count = 0
        sys.setprofile(self._called)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)

    def _called(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == "encode" and code.co_filename.endswith("auth/hashers.py"):
            self.count += 1


@pytest.mark.both_databases
def test_name_and_address_of_one_account_share_their_count(client: Client, kim: User) -> None:
    names = ["kim", "kim@example.org", "KIM@example.org", "kim"] * 2
    assert [try_(client, name, "wrong").status_code for name in names][-1] == 429
    assert AccessAttempt.objects.get().username == "kim"


def test_the_right_password_wipes_the_count_and_a_quarter_of_an_hour_lifts_the_lock(client: Client, kim: User) -> None:
    for _ in range(7):
        try_(client, "kim", "wrong")
    assert try_(client, "kim", PASSWORD).status_code == 302
    assert not AccessAttempt.objects.exists()
    for _ in range(8):
        try_(Client(), "kim", "wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=15, seconds=1))
    assert try_(Client(), "kim", PASSWORD).status_code == 302


def test_who_goes_on_guessing_does_not_keep_the_owner_out(client: Client, kim: User) -> None:
    for _ in range(8):
        try_(client, "kim", "wrong")
    early = timezone.now() - timedelta(minutes=14)
    AccessAttempt.objects.update(attempt_time=early)
    try_(client, "kim", "wrong")
    assert AccessAttempt.objects.get().attempt_time == early


def test_a_stolen_session_cannot_guess_the_password_where_it_is_asked_again(client: Client, kim: User) -> None:
    client.force_login(kim)
    wrong = {"old_password": "wrong", "new_password1": "nine red funnels", "new_password2": "nine red funnels"}
    answers = [client.post("/account/", wrong).status_code for _ in range(8)]
    assert answers == [*[422] * 7, 429]
    assert (
        "wrong" not in AccessAttempt.objects.get().post_data and "funnels" not in AccessAttempt.objects.get().post_data
    )


def test_no_page_but_signing_in_looks_at_the_counts(
    client: Client, kim: User, django_assert_max_num_queries: Any
) -> None:
    client.force_login(seats.taken(seats.seat()).user)
    with django_assert_max_num_queries(20) as asked:
        client.get("/rate/")
        client.get("/rate/profile/")
    told = [query["sql"] for query in asked.captured_queries]
    assert not [sql for sql in told if "axes" in sql or "otp_" in sql or sql.startswith(("INSERT", "UPDATE", "DELETE"))]


@pytest.mark.parametrize(
    ("proxies", "heard", "address"),
    [
        (0, "203.0.113.9", "127.0.0.1"),  # nobody's word is taken
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what the caller wrote himself stands before
        (2, "198.51.100.1, 203.0.113.9", "198.51.100.1"),
        (2, "203.0.113.9", "127.0.0.1"),
        (1, "rubbish", None),
    ],
)
def test_the_address_counted_is_the_one_our_own_proxy_saw(
    rf: Any, settings: Any, proxies: int, heard: str, address: str
) -> None:
    settings.PROXIES = proxies
    assert client_address(rf.get("/", headers={"X-Forwarded-For": heard})) == address


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),  # the same household
        ("::ffff:203.0.113.9", "203.0.113.9"),  # IPv4, as a socket for both tells it
    ],
)
def test_of_an_ipv6_address_its_network_is_counted(rf: Any, address: str, counted: str) -> None:
    assert throttling.counted_address(rf.get("/", REMOTE_ADDR=address)) == counted


# Sessions


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


# The second step


def test_setting_up_the_second_step_shows_secret_picture_and_codes_once(client: Client, kim: User) -> None:
    client.force_login(kim)
    assert client.get("/account/second-step/qr.svg").status_code == 404
    client.post("/account/second-step/", {"do": "begin"})
    device = TOTPDevice.objects.get(user=kim)
    page = client.get("/account/second-step/").content.decode()
    assert second_step.secret_of(device) in page and not device.confirmed
    picture = client.get("/account/second-step/qr.svg")
    assert picture["Content-Type"] == "image/svg+xml" and b"style" not in picture.content
    wrong = client.post("/account/second-step/", {"do": "turn on", "code": "000000"})
    assert wrong.status_code == 422 and second_step.device_of(kim) is None
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    done = client.post("/account/second-step/", {"do": "turn on", "code": code_of(device)})
    assert done.status_code == 200 and len(done.context["codes"]) == 10 and second_step.device_of(kim)
    assert client.get("/account/second-step/qr.svg").status_code == 404
    codes = client.post("/account/backup-codes/file/", {"codes": done.context["text"] + "\n<b>x</b>"})
    assert codes.content.decode().split() == done.context["codes"]
    kept = {row["token"] for row in kim.staticdevice_set.get().token_set.values("token")}
    assert not kept & {code.replace("-", "") for code in done.context["codes"]}


def test_with_a_second_step_the_password_alone_opens_nothing(client: Client, kim: User) -> None:
    device = with_app(kim)
    assert try_(client, "kim", PASSWORD)["Location"] == "/login/code/"
    assert "_auth_user_id" not in client.session and client.get("/account/").status_code == 302
    before = client.session.session_key
    assert client.post("/login/code/", {"code": code_of(device)}).status_code == 302
    assert client.session["_auth_user_id"] == str(kim.pk) and client.session.session_key != before


def test_a_code_works_once_and_a_backup_code_too(kim: User) -> None:
    device = with_app(kim)
    code, backup = code_of(device), second_step.new_backup_codes(kim)[0]
    assert second_step.check(kim, code).device and not second_step.check(kim, code).device
    assert second_step.check(kim, backup.upper()).device and not second_step.check(kim, backup).device
    assert second_step.backup_codes_left(kim) == 9


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_six_who_use_one_code_at_once_one_is_let_in(kim: User) -> None:
    device = with_app(kim)
    for code in (code_of(device), second_step.new_backup_codes(kim)[0]):
        let_in = race(lambda code=code: second_step.check(kim, code).device, 6)
        assert sum(isinstance(one, Device) for one in let_in) == 1, let_in
        TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_without_the_lock_one_code_lets_in_several(kim: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same six, when all have read the device before any has used the code."""
    code, read, first = code_of(with_app(kim)), threading.Barrier(6), QuerySet.first

    def together(rows: Any) -> Any:
        found = first(rows)
        read.wait(timeout=30)
        return found

    monkeypatch.setattr(QuerySet, "first", together)
    monkeypatch.setattr(QuerySet, "select_for_update", lambda rows, **how: rows.all())
    monkeypatch.setattr(second_step.transaction, "atomic", nullcontext)
    let_in = race(lambda: second_step.check(kim, code).device, 6)
    assert sum(isinstance(one, Device) for one in let_in) > 1, let_in


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_a_button_pressed_twice_leaves_one_app_and_codes_that_work(kim: User) -> None:
    race(lambda: second_step.begin(kim), 4)
    race(lambda: second_step.new_backup_codes(kim), 4)
    assert TOTPDevice.objects.count() == StaticDevice.objects.count() == 1
    assert second_step.backup_codes_left(kim) == 10


def test_guessing_codes_has_to_wait_longer_and_longer(client: Client, kim: User) -> None:
    device = with_app(kim)
    try_(client, "kim", PASSWORD)
    assert "not right" in client.post("/login/code/", {"code": "000000"}).content.decode()
    TOTPDevice.objects.update(throttling_failure_count=8)
    answer = client.post("/login/code/", {"code": code_of(device)})  # 2^7 = 128 s, even for the right one
    assert answer.status_code == 422 and "wait 128 s" in answer.content.decode()
    assert TOTPDevice.objects.get().throttling_failure_count == 8


def test_the_first_step_does_not_wait_for_ever_nor_outlive_a_new_password(client: Client, kim: User) -> None:
    device = with_app(kim)
    try_(client, "kim", PASSWORD)
    store = client.session
    store["waiting_for_code"] = {**store["waiting_for_code"], "at": int(time.time()) - 601}
    store.save()
    assert client.post("/login/code/", {"code": code_of(device)})["Location"] == "/login/"
    try_(client, "kim", PASSWORD)
    kim.set_password("nine red funnels")
    kim.save()
    assert client.post("/login/code/", {"code": code_of(device)})["Location"] == "/login/"


def test_links_and_the_dialog_ask_for_the_code_too(client: Client, kim: User) -> None:
    device = with_app(kim)
    User.objects.filter(pk=kim.pk).update(is_staff=True)
    assert client.get(f"/sign-in/{access.make_link(kim, 'admin')}/")["Location"] == "/login/code/"
    here = Client()
    first = here.post("/sign-in-here/", {"username": "kim", "password": PASSWORD})
    assert first.status_code == 422 and 'name="code"' in first.content.decode()
    assert here.post("/sign-in-here/", {"code": code_of(device)}).status_code == 204
    assert here.get("/account/").status_code == 200


def test_raters_links_ask_for_the_code_of_who_has_one(client: Client, kim: User) -> None:
    device = with_app(kim)
    seat = seats.seat()
    agreed = seats.accept(client, inviting.invite(seat, email="kim@example.org"))
    seat.refresh_from_db()
    assert seat.user == kim and agreed["Location"] == "/login/code/" and "_auth_user_id" not in client.session
    back = Client()
    assert back.post(f"/r/{access.make_link(kim, 'rater')}/")["Location"] == "/login/code/"
    assert back.get("/rate/").headers["Location"].startswith("/login/")
    assert back.post("/login/code/", {"code": code_of(device)})["Location"] == "/rate/"


def test_turning_it_off_takes_password_and_code_and_a_required_one_stays_on(
    client: Client, kim: User, settings: Any
) -> None:
    device = with_app(kim)
    client.force_login(kim)
    for sent in ({"password": "wrong", "code": code_of(device)}, {"password": PASSWORD, "code": "000000"}):
        assert client.post("/account/second-step/", {"do": "turn off", **sent}).status_code == 422
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    good = {"do": "turn off", "password": PASSWORD, "code": code_of(device)}
    User.objects.update(is_staff=True)
    settings.SECOND_STEP_REQUIRED = True
    session = client.session
    session["otp_device_id"] = device.persistent_id
    session.save()
    assert client.post("/account/second-step/", good).status_code == 422 and second_step.device_of(kim)
    settings.SECOND_STEP_REQUIRED = False
    assert client.post("/account/second-step/", good).status_code == 302 and not second_step.device_of(kim)


def test_where_a_site_is_exposed_staff_reach_nothing_before_their_second_step(client: Client, settings: Any) -> None:
    settings.SECOND_STEP_REQUIRED = True
    root = User.objects.create_superuser("root", password=PASSWORD)
    client.force_login(root)
    for address in ("/", "/studies/", "/account/", "/experiments/"):
        assert client.get(address)["Location"] == "/account/second-step/"
    assert client.get("/admin/").status_code == 404
    assert client.get("/studies/", headers={"HX-Request": "true"})["HX-Redirect"] == "/account/second-step/"
    client.post("/account/second-step/", {"do": "begin"})
    client.post("/account/second-step/", {"do": "turn on", "code": code_of(TOTPDevice.objects.get())})
    assert client.get("/studies/").status_code == 200 and client.get("/admin/").status_code == 200


def test_a_study_admin_who_is_no_staff_is_led_there_as_well_and_raters_are_not(client: Client, settings: Any) -> None:
    settings.SECOND_STEP_REQUIRED = True
    seat = seats.taken(seats.seat())
    client.force_login(seat.user)
    assert client.get("/rate/").status_code == 302 and client.get("/rate/")["Location"] != "/account/second-step/"
    lee = User.objects.create_user("lee")
    seat.study.members.create(user=lee, role="admin")
    client.force_login(lee)
    assert client.get(f"/studies/{seat.study.slug}/")["Location"] == "/account/second-step/"
    seat.study.members.update(role="analyst")
    assert client.get(f"/studies/{seat.study.slug}/").status_code == 200


def test_a_study_admin_who_is_no_staff_gets_at_nothing_of_the_study_by_other_ways(
    client: Client, settings: Any
) -> None:
    study = seats.study()
    job = job_factories.job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    lee = User.objects.create_user("lee")
    study.members.create(user=lee, role="admin")
    client.force_login(lee)
    addresses = [f"/jobs/{job.code}/", f"/jobs/{job.code}/files/{job_factories.file(job).pk}/", "/account/tokens/"]
    for address in (*addresses, "/studies/"):
        settings.SECOND_STEP_REQUIRED = True
        assert client.get(address).headers.get("Location") == "/account/second-step/", address
        settings.SECOND_STEP_REQUIRED = False
        assert client.get(address).status_code == 200, address
    settings.SECOND_STEP_REQUIRED = True
    for address in (f"/jobs/{job.code}/cancel/", f"/jobs/{job.code}/retry/", "/account/tokens/"):
        assert client.post(address).headers.get("Location") == "/account/second-step/", address
    assert Job.objects.count() == 1
    study.members.update(role="analyst")
    assert client.get("/studies/").status_code == 200


def test_a_second_step_that_was_turned_off_counts_no_more_where_it_is_required_later(
    client: Client, kim: User, settings: Any
) -> None:
    device = with_app(kim)
    try_(client, "kim", PASSWORD)
    client.post("/login/code/", {"code": code_of(device)})
    off = {"do": "turn off", "password": PASSWORD, "code": code_of(device, 1)}
    assert client.post("/account/second-step/", off).status_code == 302
    settings.SECOND_STEP_REQUIRED = True
    User.objects.update(is_staff=True)
    assert client.get("/studies/")["Location"] == "/account/second-step/"


def test_a_study_admin_cannot_turn_it_off_where_it_is_required(client: Client, kim: User, settings: Any) -> None:
    settings.SECOND_STEP_REQUIRED = True
    device = with_app(kim)
    seats.study().members.create(user=kim, role="admin")
    try_(client, "kim", PASSWORD)
    client.post("/login/code/", {"code": code_of(device)})
    off = {"do": "turn off", "password": PASSWORD, "code": code_of(device, 1)}
    assert client.post("/account/second-step/", off).status_code == 422 and second_step.device_of(kim)
    assert "Turn it off" not in client.get("/account/").content.decode()


def test_erasing_somebody_forgets_their_second_step(kim: User) -> None:
    with_app(kim)
    second_step.new_backup_codes(kim)
    erasing.erase(kim)
    assert not TOTPDevice.objects.exists() and not StaticDevice.objects.exists()


def test_a_lost_telephone_is_reset_by_command_and_by_another_superuser(client: Client, kim: User) -> None:
    hers = Client()
    with_app(kim)
    hers.force_login(kim)
    call_command("reset_second_step", "kim", stdout=io.StringIO())
    assert not second_step.device_of(kim) and hers.get("/account/").status_code == 302
    root = User.objects.create_superuser("root")
    with_app(kim)
    with_app(root)
    client.force_login(root)
    chosen = {"action": "reset_second_step", "_selected_action": [kim.pk, root.pk]}
    client.post("/admin/auth/user/", chosen)
    assert not second_step.device_of(kim) and second_step.device_of(root)


# Who they are, once more


def stale(client: Client) -> None:
    """Signed in sixteen minutes ago."""
    store = client.session
    store["confirmed_at"] = int(time.time()) - 16 * 60
    store.save()


def test_a_role_is_given_only_after_a_fresh_password_and_what_was_sent_is_kept(client: Client) -> None:
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    User.objects.create_user("lee")
    study = seats.study(by=ada)
    client.force_login(ada)
    stale(client)
    address, sent = f"/studies/{study.slug}/members/", {"who": "lee", "role": "analyst"}
    assert client.get(address).status_code == 200
    asked = client.post(address, sent)
    assert asked.status_code == 422 and dict(asked.context["kept"]) == sent and not study.members.exists()
    again = client.post(address, {**sent, "confirm_password": "wrong"})
    assert again.status_code == 422 and "not your password" in again.content.decode() and not study.members.exists()
    assert "wrong" not in AccessAttempt.objects.get().post_data
    assert client.post(address, {**sent, "confirm_password": PASSWORD}).status_code == 302
    assert study.members.get().role == "analyst"


def test_the_page_that_asks_leads_back_and_nowhere_else(client: Client, kim: User) -> None:
    client.force_login(kim)
    stale(client)
    assert client.get("/account/second-step/")["Location"] == "/account/confirm/?next=%2Faccount%2Fsecond-step%2F"
    for wanted, where in (("/account/second-step/", "/account/second-step/"), ("https://evil.example.org/", "/")):
        sent = {"next": wanted, "confirm_password": PASSWORD}
        assert client.post("/account/confirm/", sent)["Location"] == where
    assert client.get("/account/second-step/").status_code == 200


def test_the_back_office_changes_no_account_for_a_stale_session(client: Client, kim: User) -> None:
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    stale(client)
    address = f"/admin/auth/user/{kim.pk}/change/"
    assert client.get(address)["Location"].startswith("/account/confirm/")
    assert client.post(address, {"username": "mallory"}).status_code == 422
    kim.refresh_from_db()
    assert kim.username == "kim"


def test_the_archive_with_sources_is_not_given_to_a_stale_session(client: Client) -> None:
    study = seats.study()
    job = job_factories.job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    file = job_factories.file(job)
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    address = f"/jobs/{job.code}/files/{file.pk}/"
    assert client.get(address).status_code == 200
    stale(client)
    assert client.get(address)["Location"].startswith("/account/confirm/")


# Limits


def test_a_bucket_gives_a_minutes_worth_and_refills_evenly() -> None:
    buckets = Buckets()
    assert [buckets.wait("kim", 60, 0.0) for _ in range(60)] == [0.0] * 60
    assert buckets.wait("kim", 60, 0.0) == pytest.approx(1.0)  # one a second comes back
    assert buckets.wait("lee", 60, 0.0) == 0.0
    assert buckets.wait("kim", 60, 0.5) == pytest.approx(0.5)
    assert buckets.wait("kim", 60, 1.0) == 0.0


def test_who_writes_too_often_is_told_to_wait_and_keeps_the_form(client: Client, kim: User, settings: Any) -> None:
    client.force_login(kim)
    settings.WRITES_PER_MINUTE = 2
    answers = [client.post("/account/end-sessions/").status_code for _ in range(3)]
    assert answers == [302, 302, 429]
    late = client.post("/account/end-sessions/", headers={"HX-Request": "true"})
    assert late.status_code == 429 and 1 <= int(late["Retry-After"]) <= 30
    assert late["HX-Retarget"] == "#main" and late["HX-Reswap"] == "afterbegin"
    assert client.get("/account/").status_code == 200


def test_the_sixth_export_of_an_hour_waits(client: Client, settings: Any) -> None:
    settings.EXPORTS_PER_HOUR = 5
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    study = seats.study(by=ada)
    client.force_login(ada)
    address = f"/studies/{study.slug}/ratings.csv"
    assert [client.get(address).status_code for _ in range(6)] == [*[200] * 5, 429]
    assert client.post(f"/studies/{study.slug}/export/", {"variant": "blinded"}).status_code == 429
    first = study.events.filter(kind="exported").order_by("at").first()
    study.events.filter(pk=first.pk).update(at=timezone.now() - timedelta(minutes=61))
    assert client.get(address).status_code == 200


# What has run out


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


# What the log of security events tells


def test_every_way_in_and_out_is_told_with_the_callers_address_and_no_secret(
    client: Client, kim: User, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.PROXIES, told = 1, {"X-Forwarded-For": "203.0.113.9"}
    client.defaults["HTTP_X_FORWARDED_FOR"] = "203.0.113.9"
    logging.getLogger("wetbench.security").addHandler(caplog.handler)
    device, new = with_app(kim), "nine red funnels"
    try:
        try_(client, "kim", "eleven wrong mice")
        try_(client, "kim", PASSWORD)
        client.post("/login/code/", {"code": "000000"})
        TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
        client.post("/login/code/", {"code": code_of(device)})
        Client(headers=told).force_login(kim)
        client.post("/account/end-sessions/")
        client.post("/account/", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
        stale(client)
        client.post("/account/confirm/", {"confirm_password": "eleven wrong mice"})
        for _ in range(7):
            try_(Client(headers=told), "kim", "eleven wrong mice")
    finally:
        logging.getLogger("wetbench.security").removeHandler(caplog.handler)
    records = [record for record in caplog.records if record.name == "wetbench.security"]
    names = [record.getMessage() for record in records]
    assert list(dict.fromkeys(names)) == [
        *("sign-in failed", "second step failed", "signed in", "sessions ended", "password changed"),
        *("confirmation failed", "locked out"),
    ]
    where = {record.facts["address"] for record in records}  # type: ignore[attr-defined]
    assert where - {""} <= {"203.0.113.9", None}
    for secret in (PASSWORD, new, "eleven wrong mice", code_of(device), client.session.session_key):
        assert secret not in repr([record.__dict__ for record in records])
