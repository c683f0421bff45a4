"""Endpoints for machines: /healthz (the process answers), /readyz (the site can work) and /metrics.

They are answered before host names, HTTPS and sessions are checked, because probes come from inside and use IP addresses.
For other clients /readyz and /metrics do not exist without the token.
"""

import hmac
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connection
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.urls import resolve
from django.views.decorators.http import require_safe
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from wetbench_site import checks, client_address
from wetbench_site.observability import metrics as site_metrics
from wetbench_site.observability import registry
from wetbench_site.observability.registry import PartState

TIMEOUT_SECONDS = 3.0  # for a part that does not answer
# A check that hangs blocks only its own thread, so later probes are still answered.
_check_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readiness")


def check_parts() -> list[PartState]:
    """Return the state of every part, after TIMEOUT_SECONDS at most."""
    # All at once, so that the total is the time of the slowest and not the sum.
    futures = {name: _check_threads.submit(ask) for name, ask in CHECKS.items()}
    states, deadline = list[PartState](), time.monotonic() + TIMEOUT_SECONDS
    for name, future in futures.items():
        try:
            states += future.result(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            future.cancel()
            # Ratings do not need the broker, and workers poll the database without it.
            state = "degraded" if name == "broker" else "failed"
            states.append(PartState(name, state, f"no answer within {TIMEOUT_SECONDS:.0f} s"))
    return states


def _check_database() -> list[PartState]:
    """Run all checks that read the database in one thread, on one connection that is closed afterwards."""
    try:
        app_parts = list(registry.run_database_checks())
        return [PartState("database", "ok", "answers"), _check_migrations(), *app_parts]
    except (DatabaseError, InterfaceError) as error:
        return [PartState("database", "failed", f"does not answer: {type(error).__name__}")]
    finally:
        connection.close()


def _check_migrations() -> PartState:
    if missing := checks.list_missing_migrations():
        return PartState("migrations", "failed", f"{len(missing)} not applied: run `manage.py migrate`")
    return PartState("migrations", "ok", "all applied")


def _check_broker() -> list[PartState]:
    """Return the state of the broker; nothing if none is configured."""
    if not settings.CELERY_BROKER_URL:
        return []
    import redis  # 150 ms, which only sites with a broker need

    # The only place where a web process connects to the broker. No retries: a probe must be fast.
    limits = {"socket_timeout": 1, "socket_connect_timeout": 1, "retry": None}
    try:
        with redis.Redis.from_url(settings.CELERY_BROKER_URL, **limits) as broker:
            broker.ping()
    except (redis.RedisError, OSError) as error:
        return [PartState("broker", "degraded", f"does not answer: {type(error).__name__}; rating is not affected")]
    return [PartState("broker", "ok", "answers")]


def _check_disk() -> list[PartState]:
    """Return the state of the disk with WETBENCH_VAR_DIR, where the SQLite file is."""
    try:
        # The disk of a PostgreSQL server on another host has to be monitored there.
        free = shutil.disk_usage(settings.VAR_DIR).free >> 20
    except OSError as error:
        return [PartState("disk", "failed", f"{settings.VAR_DIR} cannot be read: {error.strerror}")]
    state = "ok" if free >= settings.DISK_FREE_MB else "failed"
    return [PartState("disk", state, f"{free} MB free; {settings.DISK_FREE_MB} MB required")]


CHECKS = {"disk": _check_disk, "database": _check_database, "broker": _check_broker}


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
    parts = check_parts()
    states = {part.name: {"state": part.state, "said": part.message} for part in parts}
    worst = max((part.state for part in parts), key=("ok", "degraded", "failed").index)
    answer = JsonResponse({"state": worst, "parts": states}, status=503 if worst == "failed" else 200)
    answer._has_been_logged = True  # type: ignore[attr-defined]  # otherwise Django logs an error at every probe
    return answer


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics of Prometheus: requests of this site and numbers of the database."""
    if not is_machine(request):
        raise Http404
    text = generate_latest(site_metrics.get_registry()) + generate_latest(site_metrics.registry)
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
    return client_address.is_this_machine(request)
