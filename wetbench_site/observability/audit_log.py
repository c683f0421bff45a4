"""Security events: one line each in the log `wetbench.security`, whoever asked and from where."""

import logging

from django.http import HttpRequest

from wetbench_site.client_address import client_address
from wetbench_site.observability.request_facts import REHEARSED

log = logging.getLogger("wetbench.security")


def security_event(name: str, request: HttpRequest | None, /, **facts: str | int | bool | None) -> None:
    """Says that it happened. `name` is a fixed word such as "signed in"; facts are names and numbers, never secrets."""
    if request is not None and REHEARSED in request.META:
        return
    told = {"event": name, **facts}
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        told.setdefault("by", user.pk)
    if request is not None:
        told.setdefault("address", client_address(request))
    log.info("%s", name, extra={"facts": told})
