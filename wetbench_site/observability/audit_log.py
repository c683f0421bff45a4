"""Security events: one line each in the log `wetbench.security`, with the account and the address of the request."""

import logging

from django.http import HttpRequest

from wetbench_site.client_address import get_client_address
from wetbench_site.observability.request_context import AUDIT_REQUEST

log = logging.getLogger("wetbench.security")


def log_security_event(name: str, request: HttpRequest | None, /, **facts: str | int | bool | None) -> None:
    """Log the event. `name` is a fixed phrase such as "signed in"; facts are names and numbers, never secrets."""
    # A blinding audit signs in to its scratch copy only; that is no event of this site.
    if request is not None and AUDIT_REQUEST in request.META:
        return
    event_facts = {"event": name, **facts}
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        event_facts.setdefault("by", user.pk)
    if request is not None:
        event_facts.setdefault("address", get_client_address(request))
    log.info("%s", name, extra={"facts": event_facts})
