"""The address of the client, as the outermost of our own proxies saw it. What the client itself claims is ignored."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest


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
