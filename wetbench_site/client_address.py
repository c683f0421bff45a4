"""The address of the client, as the outermost of our own proxies saw it. What the client itself claims is ignored."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port

from wetbench_site import loopback_only

PROXY_HEADERS = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via")


def get_client_address(request: HttpRequest) -> str | None:
    """Return the client's IP address, or None for a request through a socket file."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if settings.PROXIES else []
    # Each of our proxies appends one entry, so only the last WETBENCH_PROXIES entries are trustworthy.
    is_forwarded = len(forwarded) >= settings.PROXIES > 0
    address = forwarded[-settings.PROXIES] if is_forwarded else request.META.get("REMOTE_ADDR", "")
    try:
        return str(ipaddress.ip_address(address.strip()))
    except ValueError:
        return None


def is_this_machine(request: HttpRequest) -> bool:
    """Return whether the request comes from this machine directly, and not through a proxy."""
    # Another host name means a proxy that adds no header of its own, or a page that was made to request this address.
    host, _ = split_domain_port(request.META.get("HTTP_HOST", "localhost"))
    is_local = loopback_only.is_loopback(request.META.get("REMOTE_ADDR", "")) and loopback_only.is_loopback(host)
    return is_local and not any(name in request.headers for name in PROXY_HEADERS)
