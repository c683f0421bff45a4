"""Too many wrong passwords: django-axes counts them by account and address, and this says what is counted and told."""

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

from wetbench_site.client_address import client_address
from wetbench_site.observability.audit_log import security_event

_AS = "signing_in_as"


def names(request: HttpRequest, name: str) -> None:
    """This request tries this account, whether or not there is one: an address and a name share their count.

    A name of nobody's may be a password in the wrong field: it is counted and logged as a hash that the site's key makes.
    """
    known = User.objects.filter(username=name).exists()
    setattr(request, _AS, name if known else f"nobody {_hashed(name)}")


def _hashed(name: str) -> str:
    # The salt stays when this module moves: what was counted under a name must still count.
    return salted_hmac("ratings.throttling", name.encode(errors="replace"), algorithm="sha256").hexdigest()[:32]


def named(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str:
    """The account that is tried, as axes counts it and the log tells it."""
    return str(getattr(request, _AS, "") or (credentials or {}).get("username") or "")[:250]


def counted_address(request: HttpRequest) -> str | None:
    """Where the try came from, as axes counts it. Of IPv6 the network: one household has 2^64 addresses to guess from."""
    told = client_address(request)
    if told is None or (address := ipaddress.ip_address(told)).version == 4:
        return told
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False).network_address)


def is_locked(request: HttpRequest, name: str) -> bool:
    """Has this address given too many wrong passwords for this account? Then the whole answer becomes `locked_out`."""
    if AxesProxyHandler.is_allowed(request, {"username": name}):
        return False
    request.axes_locked_out = True  # type: ignore[attr-defined]  # read by axes: this try is not counted again
    return True


def forget(request: HttpRequest, name: str) -> None:
    """The right password was given: earlier wrong ones of this address count no more."""
    AccessAttempt.objects.filter(username=name, ip_address=counted_address(request)).delete()


def locked_out(
    request: HttpRequest, response: object = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """429, the same for every name: it says how long to wait, and not whether there is such an account."""
    seconds = _seconds_left(request, named(request, credentials))
    security_event("locked out", request, name=named(request, credentials))
    fragment = request.headers.get("HX-Request") == "true"
    template = "registration/_locked_out.html" if fragment else "registration/locked_out.html"
    answer = render(request, template, {"minutes": max(1, math.ceil(seconds / 60))}, status=429)
    answer["Retry-After"] = str(max(1, math.ceil(seconds)))
    return answer


def _seconds_left(request: HttpRequest, name: str) -> float:
    tries = AccessAttempt.objects.filter(username=name, ip_address=counted_address(request))
    last = tries.order_by("-attempt_time").values_list("attempt_time", flat=True).first()
    since = (timezone.now() - last).total_seconds() if last else 0.0
    return max(0.0, float(settings.AXES_COOLOFF_TIME.total_seconds()) - since)


def purge() -> int:
    """Remove the counts that have run out."""
    gone, _ = AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - settings.AXES_COOLOFF_TIME).delete()
    return int(gone)
