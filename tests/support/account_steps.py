"""Steps that tests of accounts take."""

import time
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django_otp.oath import TOTP
from django_otp.plugins.otp_totp.models import TOTPDevice

PASSWORD = "seven grey pipettes"


def try_(client: Client, name: str, password: str, **more: Any) -> Any:
    return client.post("/login/", {"username": name, "password": password}, **more)


def code_of(device: TOTPDevice, steps: int = 0) -> str:
    """What the app shows now, or so many half minutes from now: no code works twice."""
    totp = TOTP(device.bin_key)
    totp.time = time.time() + 30 * steps
    return f"{totp.token():06}"


def with_app(user: User) -> TOTPDevice:
    return TOTPDevice.objects.create(user=user, name="app", confirmed=True)


def stale(client: Client) -> None:
    """Signed in sixteen minutes ago."""
    store = client.session
    store["confirmed_at"] = int(time.time()) - 16 * 60
    store.save()
