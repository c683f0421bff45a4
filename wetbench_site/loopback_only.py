"""The embedded profile binds and serves loopback addresses only. A public site needs the production profile."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from wetbench_site.headers import HEADERS

BIND_ERROR = (
    "The embedded profile serves only this machine and cannot bind {address}. Bind 127.0.0.1, or set "
    "WETBENCH_PROFILE=production and the settings that docs/operations.md requires."
)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    # ::ffff:127.0.0.1 is how a dual-stack socket reports a loopback client.
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def explain_bind_refusal(addresses: Iterable[object]) -> str:
    """Return why a server of the embedded profile may not bind these addresses, or "" if it may."""
    for address in addresses:
        # A socket file is a text, not a tuple: only this machine can reach it.
        if isinstance(address, tuple) and not is_loopback(str(address[0])):
            return BIND_ERROR.format(address=":".join(str(part) for part in address[:2]))
    return ""


def serve_loopback_only(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Return the application wrapped so that it rejects clients of other machines, whatever address was bound."""

    def guarded_application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        caller = environ.get("REMOTE_ADDR", "")  # empty: through a socket file
        if not caller or is_loopback(caller):
            return application(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8"), *HEADERS])
        return [b"This site serves only its own machine.\n"]

    return guarded_application
