"""Test of the security log of accounts."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django_otp.plugins.otp_totp.models import TOTPDevice

from tests.support.account_steps import PASSWORD, compute_app_code, create_app_device, make_sign_in_stale, post_login

pytestmark = pytest.mark.django_db


def test_security_log_has_every_sign_in_event_with_the_client_address_and_no_secret(
    client: Client, kim: User, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.PROXIES, told = 1, {"X-Forwarded-For": "203.0.113.9"}
    client.defaults["HTTP_X_FORWARDED_FOR"] = "203.0.113.9"
    device, new = create_app_device(kim), "nine red funnels"
    post_login(client, "kim", "eleven wrong mice")
    post_login(client, "kim", PASSWORD)
    client.post("/login/code/", {"code": "000000"})
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    client.post("/login/code/", {"code": compute_app_code(device)})
    Client(headers=told).force_login(kim)
    client.post("/account/end-sessions/")
    client.post("/account/", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    make_sign_in_stale(client)
    client.post("/account/confirm/", {"confirm_password": "eleven wrong mice"})
    for _ in range(7):
        post_login(Client(headers=told), "kim", "eleven wrong mice")
    records = [record for record in caplog.records if record.name == "wetbench.security"]
    names = [record.getMessage() for record in records]
    assert list(dict.fromkeys(names)) == [
        *("sign-in failed", "second step failed", "signed in", "sessions ended", "password changed"),
        *("confirmation failed", "locked out"),
    ]
    where = {record.facts["address"] for record in records}  # type: ignore[attr-defined]
    assert where - {""} <= {"203.0.113.9", None}
    for secret in (PASSWORD, new, "eleven wrong mice", compute_app_code(device), client.session.session_key):
        assert secret not in repr([record.__dict__ for record in records])
