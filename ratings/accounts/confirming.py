"""Who they are, once more: before what a found or stolen session must not do. What was sent is kept meanwhile."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ratings.accounts import reauth
from wetbench_site.observability.audit_log import security_event

PASSWORD = "confirm_password"
View = Callable[..., HttpResponseBase]


def fresh_sign_in(view: View) -> View:
    """For whoever has signed in, or given their password again, in the last 15 minutes; others are asked for it.

    A GET is sent to the page that asks and comes back. A POST is answered by that page, which sends it again unchanged,
    but for passwords, which are typed again.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return ask(request) or view(request, *args, **kwargs)

    return guarded


def fresh_to_change(view: View) -> View:
    """The same for what is sent; anybody whom the page is for may look."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return (request.method == "POST" and ask(request)) or view(request, *args, **kwargs)

    return guarded


def ask(request: HttpRequest, back: str = "") -> HttpResponseBase | None:
    """The answer that asks who they are; None if they have shown it. A file is asked for anew on the page `back`."""
    if reauth.is_fresh(request):
        return None
    if request.method == "POST" and PASSWORD in request.POST and _confirmed(request):
        return None
    if request.method != "POST" or request.FILES:
        match = request.resolver_match
        return _to_page(request, reverse(back, kwargs=match.kwargs) if back and match else request.get_full_path())
    if request.headers.get("HX-Request") == "true":
        return _to_page(request, urlsplit(request.headers.get("HX-Current-URL", "/")).path)
    kept = [(name, value) for name, values in request.POST.lists() for value in values if _is_kept(name)]
    return _page(request, {"kept": kept, "refused": PASSWORD in request.POST})


@sensitive_post_parameters(PASSWORD)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest) -> HttpResponse:
    """Asks, and leads to `next`."""
    refused = request.method == "POST" and not _confirmed(request)
    if request.method == "POST" and not refused:
        return HttpResponseRedirect(_where(request))
    return _page(request, {"next": _where(request), "refused": refused})


def _confirmed(request: HttpRequest) -> bool:
    if not reauth.confirmed(request, request.POST.get(PASSWORD, "")):
        security_event("confirmation failed", request)
        return False
    reauth.stamp(request)
    return True


def _page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    context |= {"needs_password": reauth.needs_password(request), "field": PASSWORD}
    asked = context["refused"] or request.method == "POST"
    return render(request, "ratings/confirm.html", context, status=422 if asked else 200)


def _to_page(request: HttpRequest, where: str) -> HttpResponse:
    address = f"{reverse('ratings:confirm')}?{urlencode({'next': where})}"
    return HttpResponseClientRedirect(address) if request.headers.get("HX-Request") == "true" else redirect(address)


def _where(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    return wanted if safe else reverse("home")


def _is_kept(name: str) -> bool:
    return name != "csrfmiddlewaretoken" and "password" not in name
