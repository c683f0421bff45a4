"""Two-factor authentication: a code from an authenticator app, or one of ten backup codes that work once.

django-otp stores the devices and slows guessing: after the nth consecutive wrong code it waits 2^(n-1) seconds. Backup codes are stored
as digests.
"""

import hashlib
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

BACKUP_CODES, BACKUP_LENGTH = 10, 12  # 12 characters of 31 are 59 bits
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that are easily confused


class CodeResult(NamedTuple):
    """`device` accepted the code; None if it was wrong, or sent before `wait` seconds had passed."""

    device: Device | None
    wait: int = 0


def find_device(user: User) -> TOTPDevice | None:
    """Return this user's authenticator app, once it has produced a correct code."""
    device: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=True).first()
    return device


def is_required(user: User | AnonymousUser, role: str = "") -> bool:
    """Return whether this user must use two-factor authentication. `role` is theirs in the requested study. Never on a site that is not exposed."""
    # A site on one computer has no other visitors; the setting is derived from how it is exposed.
    if not settings.SECOND_STEP_REQUIRED or not user.is_authenticated:
        return False
    return user.is_staff or user.is_superuser or role in ("admin", "superuser")


def is_required_anywhere(user: User) -> bool:
    """Return whether this user needs it for any page. Queries the database unless the account itself decides."""
    if not settings.SECOND_STEP_REQUIRED:
        return False
    return is_required(user) or Membership.objects.filter(user=user, role="admin").exists()


def is_verified(request: HttpRequest) -> bool:
    """Return whether this session was verified with a code."""
    return django_otp.DEVICE_ID_SESSION_KEY in request.session


def is_missing(request: HttpRequest, role: str = "") -> bool:
    # Not cached: a role can be granted during a session.
    """Return whether a code is required before anything else is shown."""
    return is_required(request.user, role) and not is_verified(request)


def require_two_factor(request: HttpRequest, role: str) -> None:
    """Raise SecondStepMissing, which the middleware handles, if this role requires a code and the session has none."""
    if is_missing(request, role):
        raise TwoFactorRequired


def mark_verified(request: HttpRequest, device: Device) -> None:
    """Mark this signed-in session as verified."""
    django_otp.login(request, device)


def clear_verified(request: HttpRequest) -> None:
    """Remove the verification of this session, because its device was deleted."""
    request.session.pop(django_otp.DEVICE_ID_SESSION_KEY, None)


def check_code(user: User, code: str) -> CodeResult:
    """Check a code of the app, or a backup code, which is then used up."""
    # Codes are copied with spaces and hyphens, and phones capitalise the first letter.
    cleaned = "".join(code.split()).replace("-", "").lower()
    # The length tells the two kinds apart, so a wrong code counts against one device only.
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
    """Create a new secret for an app, inactive until it has produced a correct code. An earlier unfinished one is deleted."""
    # Two unfinished secrets would make the displayed QR code ambiguous.
    _lock_user(user)
    TOTPDevice.objects.filter(user=user, confirmed=False).delete()
    device: TOTPDevice = TOTPDevice.objects.create(user=user, name="authenticator", confirmed=False)
    return device


def find_unconfirmed(user: User) -> TOTPDevice | None:
    """Return the secret that awaits its first code, or None."""
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
        # A conditional update on the locked row: the secret is active only after the app has proved that it has it.
        TOTPDevice.objects.filter(pk=result.device.pk).update(confirmed=True)
    return result


@transaction.atomic
def create_backup_codes(user: User) -> list[str]:
    """Return ten new codes, shown once; earlier ones stop working."""
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
    deleted = [rows.filter(user=user).delete()[0] for rows in (TOTPDevice.objects, StaticDevice.objects)]
    return any(deleted)


def _lock_user(user: User) -> None:
    # A button pressed twice: without the lock, each request would create devices that the other does not see.
    User.objects.select_for_update().get(pk=user.pk)


def _hash_code(code: str) -> str:
    """Return 64 bits of the SHA-256, the size of the column. The codes themselves have 59 bits."""
    # A fast hash is enough, because the codes are random and guesses are slowed.
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()[:16]
