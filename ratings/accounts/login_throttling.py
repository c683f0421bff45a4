"""Throttle password guesses. django-axes counts them by account and address; here is what is counted and shown.

Two higher ceilings stop guesses that are spread: over many addresses for one account, or over many accounts from one address.
"""

import ipaddress
import math
import time
from datetime import datetime, timedelta
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.crypto import salted_hmac

from wetbench_site.client_address import get_client_address
from wetbench_site.middleware.write_limit import TokenBuckets
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


class CeilingHandler(AxesDatabaseHandler):  # type: ignore[misc]  # axes is not typed
    """The handler of django-axes, with a ceiling per account over all addresses and per address over all accounts."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Return the wrong passwords of this pair, or as many as lock it if a ceiling is reached."""
        failures = int(super().get_failures(request, credentials))
        if failures < settings.AXES_FAILURE_LIMIT and _find_ceiling_end(
            request, get_attempted_name(request, credentials)
        ):
            return int(settings.AXES_FAILURE_LIMIT)
        return failures


def _find_ceiling_end(request: HttpRequest, name: str) -> datetime | None:
    """Return until when a ceiling locks this account or this address; None if neither is reached."""
    now, ends = timezone.now(), list[datetime]()
    # A person who is signed in and confirms the password must not be stopped by guesses of strangers.
    user = getattr(request, "user", None)  # missing in a request that passed no middleware
    if user is None or user.get_username() != name:
        ends += _find_lock_end(
            AccessAttempt.objects.filter(username=name), settings.GUESSES_PER_ACCOUNT, settings.ACCOUNT_LOCK_TIME, now
        )
    by_address = AccessAttempt.objects.filter(ip_address=counted_address(request))
    ends += _find_lock_end(by_address, settings.GUESSES_PER_ADDRESS, settings.AXES_COOLOFF_TIME, now)
    return max(ends, default=None)


def _find_lock_end(attempts: QuerySet[Any], limit: int, lock_time: timedelta, now: datetime) -> list[datetime]:
    """Return the end of the lock, if at least `limit` wrong passwords were given within its duration. Later guesses do not prolong it."""
    recent = attempts.filter(attempt_time__gt=now - lock_time).order_by("-attempt_time")
    if (recent.aggregate(n=Sum("failures_since_start"))["n"] or 0) < limit:
        return []
    # The lock ends when so many of the latest attempts are too old that fewer than `limit` remain.
    total = 0
    for attempt_time, failures in recent.values_list("attempt_time", "failures_since_start"):
        total += failures
        if total >= limit:
            return [attempt_time + lock_time]
    return []


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
    name, ends = get_attempted_name(request, credentials), list[datetime]()
    tries = AccessAttempt.objects.filter(username=name, ip_address=counted_address(request))
    counts = tries.aggregate(failures=Sum("failures_since_start"), last=Max("attempt_time"))
    if (counts["failures"] or 0) >= settings.AXES_FAILURE_LIMIT:
        ends.append(counts["last"] + settings.AXES_COOLOFF_TIME)
    if ceiling_end := _find_ceiling_end(request, name):
        ends.append(ceiling_end)
    seconds = max(0.0, max((end - timezone.now()).total_seconds() for end in ends)) if ends else 0.0
    log_security_event("locked out", request, name=name)
    fragment = request.headers.get("HX-Request") == "true"
    template = "registration/_locked_out.html" if fragment else "registration/locked_out.html"
    answer = render(request, template, {"minutes": max(1, math.ceil(seconds / 60))}, status=429)
    # In seconds, as HTTP requires for this header.
    answer["Retry-After"] = str(max(1, math.ceil(seconds)))
    return answer


_link_requests = TokenBuckets()


def count_link_request(request: HttpRequest) -> float:
    """Count a request for a sign-in link. Return 0, or the seconds to wait if this address has made too many."""
    address = counted_address(request)
    # None: a socket file without a proxy, where all visitors would share one limit.
    if address is None:
        return 0.0
    seconds = _link_requests.take_token(address, settings.LINK_REQUESTS_PER_MINUTE, time.monotonic())
    if seconds:
        log_security_event("link requests limited", request)
    return seconds


def delete_expired() -> int:
    """Delete the expired records of wrong passwords and return how many there were."""
    # Expired counts lock nobody; deleting them removes the addresses from the database.
    deleted, _ = AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - settings.AXES_COOLOFF_TIME).delete()
    return int(deleted)
