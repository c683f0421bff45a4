"""Tests of two-factor authentication: setting it up, signing in with it, turning it off and resetting it."""

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

from ratings.accounts import signing_in, two_factor
from ratings.raters import erasure, invitations
from tests.support import invited_raters
from tests.support.account_steps import PASSWORD, compute_app_code, create_app_device, post_login
from tests.support.steps import run_concurrently

pytestmark = pytest.mark.django_db


def test_two_factor_setup_shows_secret_qr_code_and_backup_codes_once(client: Client, kim: User) -> None:
    client.force_login(kim)
    assert client.get("/account/second-step/qr.svg").status_code == 404
    client.post("/account/second-step/", {"do": "begin"})
    device = TOTPDevice.objects.get(user=kim)
    page = client.get("/account/second-step/").content.decode()
    assert two_factor.format_secret(device) in page and not device.confirmed
    picture = client.get("/account/second-step/qr.svg")
    assert picture["Content-Type"] == "image/svg+xml" and b"style" not in picture.content
    wrong = client.post("/account/second-step/", {"do": "turn on", "code": "000000"})
    assert wrong.status_code == 422 and two_factor.find_device(kim) is None
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    done = client.post("/account/second-step/", {"do": "turn on", "code": compute_app_code(device)})
    assert done.status_code == 200 and len(done.context["codes"]) == 10 and two_factor.find_device(kim)
    assert client.get("/account/second-step/qr.svg").status_code == 404
    codes = client.post("/account/backup-codes/file/", {"codes": done.context["text"] + "\n<b>x</b>"})
    assert codes.content.decode().split() == done.context["codes"]
    kept = {row["token"] for row in kim.staticdevice_set.get().token_set.values("token")}
    assert not kept & {code.replace("-", "") for code in done.context["codes"]}


def test_two_factor_sign_in_gives_no_access_with_the_password_alone(client: Client, kim: User) -> None:
    device = create_app_device(kim)
    assert post_login(client, "kim", PASSWORD)["Location"] == "/login/code/"
    assert "_auth_user_id" not in client.session and client.get("/account/").status_code == 302
    before = client.session.session_key
    assert client.post("/login/code/", {"code": compute_app_code(device)}).status_code == 302
    assert client.session["_auth_user_id"] == str(kim.pk) and client.session.session_key != before


def test_two_factor_codes_and_backup_codes_work_once(kim: User) -> None:
    device = create_app_device(kim)
    code, backup = compute_app_code(device), two_factor.create_backup_codes(kim)[0]
    assert two_factor.check_code(kim, code).device and not two_factor.check_code(kim, code).device
    assert two_factor.check_code(kim, backup.upper()).device and not two_factor.check_code(kim, backup).device
    assert two_factor.count_backup_codes(kim) == 9


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_two_factor_code_used_six_times_at_once_works_once(kim: User) -> None:
    device = create_app_device(kim)
    for code in (compute_app_code(device), two_factor.create_backup_codes(kim)[0]):
        let_in = run_concurrently(lambda code=code: two_factor.check_code(kim, code).device, 6)
        assert sum(isinstance(one, Device) for one in let_in) == 1, let_in
        TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_control_two_factor_code_works_several_times_without_the_lock(
    kim: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: all six threads read the device before the first uses the code."""
    code, read, first = compute_app_code(create_app_device(kim)), threading.Barrier(6), QuerySet.first

    def together(rows: Any) -> Any:
        found = first(rows)
        read.wait(timeout=30)
        return found

    monkeypatch.setattr(QuerySet, "first", together)
    monkeypatch.setattr(QuerySet, "select_for_update", lambda rows, **how: rows.all())
    monkeypatch.setattr(two_factor.transaction, "atomic", nullcontext)
    let_in = run_concurrently(lambda: two_factor.check_code(kim, code).device, 6)
    assert sum(isinstance(one, Device) for one in let_in) > 1, let_in


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_two_factor_setup_requested_several_times_at_once_leaves_one_device(kim: User) -> None:
    run_concurrently(lambda: two_factor.start_setup(kim), 4)
    run_concurrently(lambda: two_factor.create_backup_codes(kim), 4)
    assert TOTPDevice.objects.count() == StaticDevice.objects.count() == 1
    assert two_factor.count_backup_codes(kim) == 10


def test_two_factor_code_must_wait_longer_after_each_wrong_code(client: Client, kim: User) -> None:
    device = create_app_device(kim)
    post_login(client, "kim", PASSWORD)
    assert "code is incorrect" in client.post("/login/code/", {"code": "000000"}).content.decode()
    TOTPDevice.objects.update(throttling_failure_count=8)
    answer = client.post("/login/code/", {"code": compute_app_code(device)})  # 2^7 = 128 s, even for the right one
    assert answer.status_code == 422 and "Wait 128 s" in answer.content.decode()
    assert TOTPDevice.objects.get().throttling_failure_count == 8


def test_two_factor_password_step_becomes_invalid_after_ten_minutes_or_a_password_change(
    client: Client, kim: User
) -> None:
    device = create_app_device(kim)
    post_login(client, "kim", PASSWORD)
    store = client.session
    store["waiting_for_code"] = {**store["waiting_for_code"], "at": int(time.time()) - 601}
    store.save()
    assert client.post("/login/code/", {"code": compute_app_code(device)})["Location"] == "/login/"
    post_login(client, "kim", PASSWORD)
    kim.set_password("nine red funnels")
    kim.save()
    assert client.post("/login/code/", {"code": compute_app_code(device)})["Location"] == "/login/"


def test_two_factor_code_is_required_after_admin_links_and_the_sign_in_dialog(client: Client, kim: User) -> None:
    device = create_app_device(kim)
    User.objects.filter(pk=kim.pk).update(is_staff=True)
    assert client.get(f"/sign-in/{signing_in.create_link(kim, 'admin')}/")["Location"] == "/login/code/"
    here = Client()
    first = here.post("/sign-in-here/", {"username": "kim", "password": PASSWORD})
    assert first.status_code == 422 and 'name="code"' in first.content.decode()
    late = Client().post(
        "/sign-in-here/", {"code": compute_app_code(device)}
    )  # the first step was too long ago, or never taken
    assert late.status_code == 422 and "is incorrect" not in late.content.decode()
    assert here.post("/sign-in-here/", {"code": compute_app_code(device)}).status_code == 204
    assert here.get("/account/").status_code == 200


def test_two_factor_code_is_required_after_rater_links(client: Client, kim: User) -> None:
    device = create_app_device(kim)
    rater = invited_raters.get_rater()
    agreed = invited_raters.post_consent(client, invitations.create_invitation(rater, email="kim@example.org"))
    rater.refresh_from_db()
    assert rater.user == kim and agreed["Location"] == "/login/code/" and "_auth_user_id" not in client.session
    back = Client()
    assert back.post(f"/r/{signing_in.create_link(kim, 'rater')}/")["Location"] == "/login/code/"
    assert back.get("/rate/").headers["Location"].startswith("/login/")
    assert back.post("/login/code/", {"code": compute_app_code(device)})["Location"] == "/rate/"


def test_two_factor_is_turned_off_with_password_and_code_unless_required(
    client: Client, kim: User, settings: Any
) -> None:
    device = create_app_device(kim)
    client.force_login(kim)
    for sent in ({"password": "wrong", "code": compute_app_code(device)}, {"password": PASSWORD, "code": "000000"}):
        assert client.post("/account/second-step/", {"do": "turn off", **sent}).status_code == 422
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    good = {"do": "turn off", "password": PASSWORD, "code": compute_app_code(device)}
    User.objects.update(is_staff=True)
    settings.SECOND_STEP_REQUIRED = True
    session = client.session
    session["otp_device_id"] = device.persistent_id
    session.save()
    assert client.post("/account/second-step/", good).status_code == 422 and two_factor.find_device(kim)
    settings.SECOND_STEP_REQUIRED = False
    assert client.post("/account/second-step/", good).status_code == 302 and not two_factor.find_device(kim)


def test_erasure_removes_two_factor_devices(kim: User) -> None:
    create_app_device(kim)
    two_factor.create_backup_codes(kim)
    erasure.erase_person(kim)
    assert not TOTPDevice.objects.exists() and not StaticDevice.objects.exists()


def test_two_factor_is_reset_by_command_and_by_another_superuser(client: Client, kim: User) -> None:
    hers = Client()
    create_app_device(kim)
    hers.force_login(kim)
    call_command("reset_second_step", "kim", stdout=io.StringIO())
    assert not two_factor.find_device(kim) and hers.get("/account/").status_code == 302
    root = User.objects.create_superuser("root")
    create_app_device(kim)
    create_app_device(root)
    client.force_login(root)
    chosen = {"action": "reset_second_step", "_selected_action": [kim.pk, root.pk]}
    client.post("/admin/auth/user/", chosen)
    assert not two_factor.find_device(kim) and two_factor.find_device(root)
