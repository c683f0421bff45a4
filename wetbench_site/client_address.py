"""Where a request comes from: as the outermost of our own proxies saw it, never as the caller says."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The caller's address; None through a socket file. Each of WETBENCH_PROXIES added one entry to X-Forwarded-For."""
    heard = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if settings.PROXIES else []
    told = heard[-settings.PROXIES] if len(heard) >= settings.PROXIES > 0 else request.META.get("REMOTE_ADDR", "")
    try:
        return str(ipaddress.ip_address(told.strip()))
    except ValueError:
        return None
