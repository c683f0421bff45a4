"""This machine alone: what the embedded profile binds and answers. Whoever exposes a site chooses the production profile."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from wetbench_site.headers import HEADERS

REFUSAL = (
    "The embedded profile serves this machine alone and will not bind {address}. Bind 127.0.0.1, or set "
    "WETBENCH_PROFILE=production and what docs/operations.md asks for."
)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def refusal(addresses: Iterable[object]) -> str:
    """Why a server of the embedded profile may not bind these; empty if it may. A socket file is this machine's."""
    for address in addresses:
        if isinstance(address, tuple) and not is_loopback(str(address[0])):
            return REFUSAL.format(address=":".join(str(part) for part in address[:2]))
    return ""


def loopback_alone(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The last net: however the socket came to be open, nobody from elsewhere is answered."""

    def guarded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        caller = environ.get("REMOTE_ADDR", "")  # empty: through a socket file
        if not caller or is_loopback(caller):
            return application(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8"), *HEADERS])
        return [b"This site serves its own machine alone.\n"]

    return guarded
