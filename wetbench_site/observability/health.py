"""What machines ask: does the process answer, can the site do its work, and its numbers.

They are answered before host names, HTTPS and sessions come into it, since they ask from inside, by address. From
elsewhere /readyz and /metrics do not exist without the token.
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

from wetbench_site import loopback
from wetbench_site.observability import readiness, request_metrics, row_metrics

PROXIED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via")


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Asks nothing of anybody."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 if all is well or raters notice nothing, else 503; every part with its word."""
    if not (is_machine(request) or request.user.is_superuser):
        raise Http404
    found = readiness.parts()
    told = {part.name: {"state": part.state, "said": part.said} for part in found}
    worst = readiness.verdict(found)
    answer = JsonResponse({"state": worst, "parts": told}, status=503 if worst == "failed" else 200)
    answer._has_been_logged = True  # type: ignore[attr-defined]  # else Django logs a fault at every question
    return answer


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """For Prometheus: this site's requests, and the rows of the database."""
    if not is_machine(request):
        raise Http404
    text = generate_latest(request_metrics.registry()) + generate_latest(row_metrics.registry)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


ADDRESSES = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def machines_first(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answers machines at once; whoever else asks for such an address goes the way of any other."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        view = ADDRESSES.get(request.path_info)
        if view is None or not (view is healthz or is_machine(request)):
            return get_response(request)
        request.resolver_match, request.machine = resolve(request.path_info), True  # type: ignore[attr-defined]  # ours
        return view(request)

    return middleware


def is_machine(request: HttpRequest) -> bool:
    """Has the token, or asks from this machine, by its own name, and through no proxy.

    By another name comes what a proxy passes on that says nothing of itself, or a page that was given this address.
    """
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and kind == "Bearer":
        return hmac.compare_digest(given.strip().encode(), settings.METRICS_TOKEN.encode())
    host, _ = split_domain_port(request.META.get("HTTP_HOST", "localhost"))
    here = loopback.is_loopback(request.META.get("REMOTE_ADDR", "")) and loopback.is_loopback(host)
    return here and not any(name in request.headers for name in PROXIED)
