"""Two-factor authentication: a code from an authenticator app, or one of ten backup codes that work once.

django-otp stores the devices and slows guessing: after the nth consecutive wrong code it waits 2^(n-1) seconds.
Backup codes are stored as digests.
"""

import math
import secrets
from base64 import b32encode
from typing import NamedTuple

import django_otp
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from ratings.models import Membership
from wetbench_site.middleware.two_factor import TwoFactorRequired
from wetbench_site.text import hash_text

BACKUP_CODES, BACKUP_LENGTH = 10, 12  # 12 characters of 31 are 59 bits
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that are easily confused


class CodeResult(NamedTuple):
    """The result of checking a code."""

    device: Device | None  # that accepted it; None: the code was wrong or came too early
    wait: int = 0  # seconds until the next attempt is allowed


def find_device(user: User) -> TOTPDevice | None:
    """Return this user's authenticator app if it has already produced a correct code, else None."""
    device: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=True).first()
    return device


def is_required(user: User | AnonymousUser, role: str = "") -> bool:
    """Return whether this user must use two-factor authentication; always False on a site that is not in production.

    `role` is the user's role in the requested study.
    """
    # A site on one computer has no other visitors; the setting is derived from how it is exposed.
    if not settings.SECOND_STEP_REQUIRED or not user.is_authenticated:
        return False
    return user.is_staff or user.is_superuser or role in ("admin", "superuser")


def is_required_anywhere(user: User) -> bool:
    """Return whether this user needs two-factor authentication for any page.

    The database is queried only if the account's staff and superuser flags do not decide this.
    """
    if not settings.SECOND_STEP_REQUIRED:
        return False
    return is_required(user) or Membership.objects.filter(user=user, role="admin").exists()


def is_verified(request: HttpRequest) -> bool:
    """Return whether this session was verified with a code."""
    return django_otp.DEVICE_ID_SESSION_KEY in request.session


def is_missing(request: HttpRequest, role: str = "") -> bool:
    """Return whether a code is required before anything else is shown."""
    # Not cached: a role can be granted during a session.
    return is_required(request.user, role) and not is_verified(request)


def require_two_factor(request: HttpRequest, role: str) -> None:
    """Raise TwoFactorRequired, which the middleware handles, if this role requires a code and the session has none."""
    if is_missing(request, role):
        raise TwoFactorRequired


def mark_verified(request: HttpRequest, device: Device) -> None:
    """Mark this signed-in session as verified."""
    django_otp.login(request, device)


def clear_verified(request: HttpRequest) -> None:
    """Remove the verification of this session, because its device was deleted."""
    request.session.pop(django_otp.DEVICE_ID_SESSION_KEY, None)


def check_code(user: User, code: str) -> CodeResult:
    """Check a code from the app, or a backup code, which then cannot be used again. Return the result."""
    # Codes are copied with spaces and hyphens, and phones capitalise the first letter.
    cleaned = "".join(code.split()).replace("-", "").lower()
    # The length distinguishes the two kinds of code, so a wrong code counts against one device only.
    is_backup = len(cleaned) == BACKUP_LENGTH
    kind = StaticDevice if is_backup else TOTPDevice
    with transaction.atomic():
        device = kind.objects.select_for_update().filter(user=user, confirmed=True).first()
        return _verify_locked(device, _hash_code(cleaned) if is_backup else cleaned)


def _verify_locked(device: Device | None, code: str) -> CodeResult:
    """Check one code on a locked row, so that simultaneous guesses are checked one at a time."""
    if device is None:
        return CodeResult(None)
    # django-otp decides about the waiting time; an attempt during it is not checked and does not prolong it.
    allowed, details = device.verify_is_allowed()
    if not allowed:
        seconds_left = (details["locked_until"] - timezone.now()).total_seconds()
        return CodeResult(None, max(1, math.ceil(seconds_left)))
    return CodeResult(device if device.verify_token(code) else None)


@transaction.atomic
def start_setup(user: User) -> TOTPDevice:
    """Create a secret for an authenticator app, inactive until the app has produced a correct code.

    An earlier secret that was not confirmed is deleted.
    """
    # Two unfinished secrets would make the displayed QR code ambiguous.
    _lock_user(user)
    TOTPDevice.objects.filter(user=user, confirmed=False).delete()
    device: TOTPDevice = TOTPDevice.objects.create(user=user, name="authenticator", confirmed=False)
    return device


def find_unconfirmed(user: User) -> TOTPDevice | None:
    """Return the app whose secret awaits its first correct code, or None."""
    device: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=False).first()
    return device


def format_secret(device: TOTPDevice) -> str:
    """Return the secret for manual entry: base 32, in groups of four."""
    # The padding is not part of what an authenticator app expects.
    text = b32encode(device.bin_key).decode().rstrip("=")
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


@transaction.atomic
def confirm_device(user: User, code: str) -> CodeResult:
    """Activate the app if the code is correct, and return the result."""
    device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).first()
    result = _verify_locked(device, "".join(code.split()))
    if result.device:
        # The secret becomes active only after the app has proved, by a correct code, that it has the secret.
        TOTPDevice.objects.filter(pk=result.device.pk).update(confirmed=True)
    return result


@transaction.atomic
def create_backup_codes(user: User) -> list[str]:
    """Create and return ten backup codes, which are shown once. Earlier backup codes stop working."""
    _lock_user(user)
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="backup codes", confirmed=True)
    # `secrets`, not `random`: the codes replace the second factor.
    codes = ["".join(secrets.choice(_LETTERS) for _ in range(BACKUP_LENGTH)) for _ in range(BACKUP_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=_hash_code(code)) for code in codes)
    return [f"{code[:4]}-{code[4:8]}-{code[8:]}" for code in codes]


def count_backup_codes(user: User) -> int:
    return int(StaticToken.objects.filter(device__user=user).count())


@transaction.atomic
def delete_devices(user: User) -> bool:
    """Delete the app and the backup codes. Return whether there were any."""
    deleted = [kind.objects.filter(user=user).delete()[0] for kind in (TOTPDevice, StaticDevice)]
    return any(deleted)


def _lock_user(user: User) -> None:
    # If a button is pressed twice, without the lock each request would create devices that the other does not see.
    User.objects.select_for_update().get(pk=user.pk)


def _hash_code(code: str) -> str:
    """Return the first 64 bits of the code's SHA-256, which fit into the column. The codes themselves have 59 bits."""
    # A fast hash is enough, because the codes are random and guesses are slowed.
    return hash_text(code)[:16]
