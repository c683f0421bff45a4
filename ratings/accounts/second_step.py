"""The second step of signing in: a code from an authenticator app, or one of ten backup codes that work once.

django-otp keeps the devices and slows guessing: after the nth wrong code in a row it waits for 2^(n-1) seconds. Of
backup codes the database has a digest alone.
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
from wetbench_site.middleware.second_step_first import SecondStepMissing

BACKUP_CODES, BACKUP_LENGTH = 10, 12
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that are read for another


class Checked(NamedTuple):
    """`device` accepted the code; None if it was wrong, or came before `wait` seconds had passed."""

    device: Device | None
    wait: int = 0


def device_of(user: User) -> TOTPDevice | None:
    """The authenticator app of this user, once it has shown a right code."""
    found: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=True).first()
    return found


def is_required(user: User | AnonymousUser, role: str = "") -> bool:
    """Must this user have one? `role` is theirs in the study they ask for; where a site is not exposed, nobody must."""
    if not settings.SECOND_STEP_REQUIRED or not user.is_authenticated:
        return False
    return user.is_staff or user.is_superuser or role in ("admin", "superuser")


def is_required_anywhere(user: User) -> bool:
    """Must this user have one for any page at all? Asks the database where the account alone does not tell."""
    if not settings.SECOND_STEP_REQUIRED:
        return False
    return is_required(user) or Membership.objects.filter(user=user, role="admin").exists()


def is_taken(request: HttpRequest) -> bool:
    """Has this session taken the second step?"""
    return django_otp.DEVICE_ID_SESSION_KEY in request.session


def is_missing(request: HttpRequest, role: str = "") -> bool:
    """Must it be taken before anything else is shown?"""
    return is_required(request.user, role) and not is_taken(request)


def require(request: HttpRequest, role: str) -> None:
    """Whoever has this role goes no further without it: the middleware answers what is raised here."""
    if is_missing(request, role):
        raise SecondStepMissing


def take(request: HttpRequest, device: Device) -> None:
    """This session, signed in by now, has taken it."""
    django_otp.login(request, device)


def untake(request: HttpRequest) -> None:
    """Its device is no more: this session has shown nothing that would count later."""
    request.session.pop(django_otp.DEVICE_ID_SESSION_KEY, None)


def check(user: User, code: str) -> Checked:
    """Try a code of the app, or a backup code, which is used up by it. Of several requests at once one is heard at a time."""
    told = "".join(code.split()).replace("-", "").lower()
    is_backup = len(told) == BACKUP_LENGTH
    kind = StaticDevice if is_backup else TOTPDevice
    with transaction.atomic():
        device = kind.objects.select_for_update().filter(user=user, confirmed=True).first()
        return _try(device, _digest(told) if is_backup else told)


def _try(device: Device | None, code: str) -> Checked:
    """One guess, on a row that is locked."""
    if device is None:
        return Checked(None)
    allowed, why = device.verify_is_allowed()
    if not allowed:
        left = (why["locked_until"] - timezone.now()).total_seconds()
        return Checked(None, max(1, math.ceil(left)))
    return Checked(device if device.verify_token(code) else None)


@transaction.atomic
def begin(user: User) -> TOTPDevice:
    """A new secret for an app, off until it has shown a right code; one begun before is forgotten."""
    _alone(user)
    TOTPDevice.objects.filter(user=user, confirmed=False).delete()
    made: TOTPDevice = TOTPDevice.objects.create(user=user, name="authenticator", confirmed=False)
    return made


def begun(user: User) -> TOTPDevice | None:
    """The secret that waits for its first code."""
    found: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=False).first()
    return found


def secret_of(device: TOTPDevice) -> str:
    """The secret as apps take it by hand: base 32, in fours."""
    text = b32encode(device.bin_key).decode().rstrip("=")
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


@transaction.atomic
def turn_on(user: User, code: str) -> Checked:
    """On, once the app that was begun shows a right code."""
    device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=False).first()
    checked = _try(device, "".join(code.split()))
    if checked.device:
        TOTPDevice.objects.filter(pk=checked.device.pk).update(confirmed=True)
    return checked


@transaction.atomic
def new_backup_codes(user: User) -> list[str]:
    """Ten codes, told once; earlier ones stop working."""
    _alone(user)
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="backup codes", confirmed=True)
    codes = ["".join(secrets.choice(_LETTERS) for _ in range(BACKUP_LENGTH)) for _ in range(BACKUP_CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=device, token=_digest(code)) for code in codes)
    return [f"{code[:4]}-{code[4:8]}-{code[8:]}" for code in codes]


def backup_codes_left(user: User) -> int:
    return int(StaticToken.objects.filter(device__user=user).count())


@transaction.atomic
def forget(user: User) -> bool:
    """Off: the app and the backup codes open nothing any more. Was there anything?"""
    gone = [rows.filter(user=user).delete()[0] for rows in (TOTPDevice.objects, StaticDevice.objects)]
    return any(gone)


def _alone(user: User) -> None:
    """A button pressed twice: the second waits, else each would leave devices that the other does not see."""
    User.objects.select_for_update().get(pk=user.pk)


def _digest(code: str) -> str:
    """64 bits of the SHA-256: what the column holds. The codes themselves have 59."""
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()[:16]
