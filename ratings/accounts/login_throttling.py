"""Throttle password guesses. django-axes counts them by account and address; here is what is counted and shown."""

import ipaddress
import math
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.crypto import salted_hmac

from wetbench_site.client_address import get_client_address
from wetbench_site.observability.logs import log_security_event

_NAME_ATTRIBUTE = "signing_in_as"


def record_attempted_name(request: HttpRequest, name: str) -> None:
    """Record the user name that this request tries: guesses by user name and by e-mail address share one count.

    A name without an account may be a password typed into the wrong field. It is therefore counted and logged as a
    hash keyed with the site's secret.
    """
    if not User.objects.filter(username=name).exists():
        # Unknown names share one format, so the log does not show which names exist. The salt must not change when this
        # module moves, so that stored counts remain valid.
        digest = salted_hmac("ratings.throttling", name.encode(errors="replace"), algorithm="sha256").hexdigest()
        name = f"nobody {digest[:32]}"
    setattr(request, _NAME_ATTRIBUTE, name)


def get_attempted_name(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """Return the name that this request tries, in the form that django-axes counts and the log shows."""
    # At most 250 characters, which the column of django-axes can store.
    return str(getattr(request, _NAME_ATTRIBUTE, "") or (credentials or {}).get("username") or "")[:250]


def counted_address(request: HttpRequest) -> str | None:
    """Return the client address that django-axes counts; for IPv6 its /64 network: a household has 2^64 addresses."""
    address_text = get_client_address(request)
    if address_text is None or (address := ipaddress.ip_address(address_text)).version == 4:
        return address_text
    # An IPv4 address inside IPv6 is counted as IPv4, or one computer would have two counts.
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False).network_address)


def is_locked(request: HttpRequest, name: str) -> bool:
    """Return whether this address has given too many wrong passwords for this account.

    If so, mark the request: django-axes then does not count it again, and answers it with `locked_out_response`.
    """
    if AxesProxyHandler.is_allowed(request, {"username": name}):
        return False
    request.axes_locked_out = True  # type: ignore[attr-defined]  # read by axes, so that this attempt is not counted again
    return True


def clear_attempts(request: HttpRequest, name: str) -> None:
    """Delete the records of wrong passwords from this address for this account, after a correct one."""
    # Only of this address: attempts from elsewhere remain counted.
    AccessAttempt.objects.filter(username=name, ip_address=counted_address(request)).delete()


def locked_out_response(
    request: HttpRequest, response: object = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Return a page with status 429 and the waiting time. It is the same for every name, so it reveals no account."""
    name = get_attempted_name(request, credentials)
    tries = AccessAttempt.objects.filter(username=name, ip_address=counted_address(request))
    last = tries.order_by("-attempt_time").values_list("attempt_time", flat=True).first()
    since = (timezone.now() - last).total_seconds() if last else 0.0
    seconds = max(0.0, float(settings.AXES_COOLOFF_TIME.total_seconds()) - since)
    log_security_event("locked out", request, name=name)
    fragment = request.headers.get("HX-Request") == "true"
    template = "registration/_locked_out.html" if fragment else "registration/locked_out.html"
    answer = render(request, template, {"minutes": max(1, math.ceil(seconds / 60))}, status=429)
    # In seconds, as HTTP requires for this header.
    answer["Retry-After"] = str(max(1, math.ceil(seconds)))
    return answer


def delete_expired() -> int:
    """Delete the expired records of wrong passwords and return how many there were."""
    # Expired counts lock nobody; deleting them removes the addresses from the database.
    deleted, _ = AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - settings.AXES_COOLOFF_TIME).delete()
    return int(deleted)
