"""Endpoints for machines: /healthz (the process answers), /readyz (the site can work) and /metrics.

They are answered before host names, HTTPS and sessions are checked, because probes come from inside and use IP addresses.
For other clients /readyz and /metrics do not exist without the token.
"""

import hmac
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.http.request import split_domain_port
from django.urls import resolve
from django.views.decorators.http import require_safe
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from wetbench_site import loopback_only
from wetbench_site.observability import db_metrics, readiness, request_metrics

PROXY_HEADERS = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via")


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200: the process answers. No database or other service is queried."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return the state of every part: 200 if all is well or raters are not affected, else 503."""
    if not (is_machine(request) or request.user.is_superuser):
        raise Http404
    parts = readiness.check_parts()
    states = {part.name: {"state": part.state, "said": part.message} for part in parts}
    worst = readiness.find_worst_state(parts)
    answer = JsonResponse({"state": worst, "parts": states}, status=503 if worst == "failed" else 200)
    answer._has_been_logged = True  # type: ignore[attr-defined]  # otherwise Django logs an error at every probe
    return answer


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics of Prometheus: requests of this site and numbers of the database."""
    if not is_machine(request):
        raise Http404
    text = generate_latest(request_metrics.get_registry()) + generate_latest(db_metrics.registry)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


MACHINE_VIEWS = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def machine_endpoints_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Respond to machines directly. Requests of other clients pass through all middleware."""

    def answer_machine(request: HttpRequest) -> HttpResponseBase:
        view = MACHINE_VIEWS.get(request.path_info)
        if view is None or not (view is healthz or is_machine(request)):
            return get_response(request)
        request.resolver_match, request.machine = resolve(request.path_info), True  # type: ignore[attr-defined]  # our attribute
        return view(request)

    return answer_machine


def is_machine(request: HttpRequest) -> bool:
    """Return whether the request has the token, or comes from this machine directly."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and kind == "Bearer":
        # Constant time: a comparison that stops early would reveal the token byte by byte.
        return hmac.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
    # Another host name means a proxy that adds no header of its own, or a page that was made to request this
    # address.
    host, _ = split_domain_port(request.META.get("HTTP_HOST", "localhost"))
    is_local = loopback_only.is_loopback(request.META.get("REMOTE_ADDR", "")) and loopback_only.is_loopback(host)
    return is_local and not any(name in request.headers for name in PROXY_HEADERS)
