"""Steps of tests of accounts."""

import time
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django_otp.oath import TOTP
from django_otp.plugins.otp_totp.models import TOTPDevice

PASSWORD = "seven grey pipettes"


def post_login(client: Client, name: str, password: str, **extra: Any) -> Any:
    return client.post("/login/", {"username": name, "password": password}, **extra)


def compute_app_code(device: TOTPDevice, steps: int = 0) -> str:
    """Return the code that the authenticator app shows now, or `steps` half minutes from now. No code is accepted twice."""
    totp = TOTP(device.bin_key)
    totp.time = time.time() + 30 * steps
    return f"{totp.token():06}"


def create_app_device(user: User) -> TOTPDevice:
    return TOTPDevice.objects.create(user=user, name="app", confirmed=True)


def make_sign_in_stale(client: Client) -> None:
    """Set the last sign-in to sixteen minutes ago, one minute more than the limit."""
    session = client.session
    session["confirmed_at"] = int(time.time()) - 16 * 60
    session.save()
