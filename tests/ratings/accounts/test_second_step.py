"""The second step of signing in: set up, asked for at every way in, turned off, lost."""

import io
import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import QuerySet
from django.test import Client
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from ratings.accounts import second_step
from ratings.raters import erasing, inviting
from ratings.studies import access
from tests.support import seats
from tests.support.account_steps import PASSWORD, code_of, try_, with_app
from tests.support.steps import race

pytestmark = pytest.mark.django_db


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
    assert "code is incorrect" in client.post("/login/code/", {"code": "000000"}).content.decode()
    TOTPDevice.objects.update(throttling_failure_count=8)
    answer = client.post("/login/code/", {"code": code_of(device)})  # 2^7 = 128 s, even for the right one
    assert answer.status_code == 422 and "Wait 128 s" in answer.content.decode()
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
    late = Client().post("/sign-in-here/", {"code": code_of(device)})  # the first step was too long ago, or never taken
    assert late.status_code == 422 and "is incorrect" not in late.content.decode()
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
