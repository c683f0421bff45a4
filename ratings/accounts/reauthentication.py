"""Record and check recent sign-ins, which irreversible actions require."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial, wraps
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ratings.accounts import login_throttling
from wetbench_site import client_address
from wetbench_site.observability.logs import log_security_event

MAX_AGE = timedelta(minutes=15)  # for irreversible actions
_SESSION_KEY = "came_by_link_at"
_CONFIRMED = "confirmed_at"


def record_link_sign_in(request: HttpRequest) -> None:
    """Record that this session was just signed in by a link."""
    request.session[_SESSION_KEY] = int(time.time())
    record_reauthentication(request)


def record_reauthentication(request: HttpRequest) -> None:
    """Record that the user has just proved their identity."""
    request.session[_CONFIRMED] = int(time.time())


def clear_reauthentication(request: HttpRequest) -> None:
    """Delete the record of a recent sign-in, because somebody else could have opened this session."""
    request.session.pop(_CONFIRMED, None)


def is_recent(request: HttpRequest) -> bool:
    """Return whether the user has proved their identity within the last 15 minutes."""
    return _is_within_max_age(request.session.get(_CONFIRMED))


def needs_no_proof(request: HttpRequest) -> bool:
    """Return whether one click is enough: the user has no password, and only this machine is served and has the data.

    Anybody who uses this machine can create sign-in links for every account, so a new link would prove nothing more.
    """
    is_one_machine = not (settings.PRODUCTION or settings.CELERY_BROKER_URL) and connection.vendor == "sqlite"
    is_local = is_one_machine and client_address.is_this_machine(request)
    return is_local and isinstance(request.user, User) and not request.user.has_usable_password()


def describe_proof(request: HttpRequest) -> dict[str, Any]:
    """Return what pages that ask for a proof show: `proof` is "password", "link" or "click"."""
    user = request.user
    if not isinstance(user, User) or user.has_usable_password():
        return {"proof": "password"}
    return {"proof": "click" if needs_no_proof(request) else "link", "account": user.get_username()}


def verify_identity(request: HttpRequest, password: str) -> bool:
    """Return whether the given password is correct; for users without a password, whether a link was opened recently.

    A wrong password is counted as on the sign-in page. A link must have been opened within the last 15 minutes, unless
    the request itself is enough (`needs_no_proof`).
    """
    user = request.user
    # The account may have been deactivated while the page was open.
    if not isinstance(user, User) or not user.is_active:
        return False
    if user.has_usable_password():
        # Through Django's backends, so that wrong guesses here are counted and locked as on the sign-in page.
        authenticated = authenticate(request, username=user.get_username(), password=password)
        if authenticated is None or authenticated.pk != user.pk:
            return False
        login_throttling.clear_attempts(request, user.get_username())
        return True
    return needs_no_proof(request) or _is_within_max_age(request.session.get(_SESSION_KEY))


def _is_within_max_age(at: object) -> bool:
    # A time in the future comes from a clock that was changed, and is not trusted.
    return isinstance(at, int) and 0 <= time.time() - at < MAX_AGE.total_seconds()


PASSWORD = "confirm_password"
View = Callable[..., HttpResponseBase]


def require_recent_sign_in(view: View, only_post: bool = False) -> View:
    """Wrap a view so that it asks for the password unless the user signed in or gave it within the last 15 minutes.

    A GET request is redirected to the page that asks for the password, which leads back to the view. A POST request
    is answered with that page, which then submits the same data again, without passwords.
    """

    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_guarded = request.method == "POST" or not only_post
        return (is_guarded and ask_to_sign_in(request)) or view(request, *args, **kwargs)

    return guarded_view


require_recent_for_post = partial(require_recent_sign_in, only_post=True)


def ask_to_sign_in(request: HttpRequest, back: str = "") -> HttpResponseBase | None:
    """Return the response that asks for the password, or None if the last sign-in is recent.

    `back` is the name of the URL to return to, where a file of a POST request must be selected again.
    """
    if is_recent(request):
        return None
    # The page that asks submits the original data together with the password, to the original URL.
    if request.method == "POST" and PASSWORD in request.POST and _check_password(request):
        return None
    # A browser cannot fill in a file again, so with a file the user returns to the page and selects it there.
    if request.method != "POST" or request.FILES:
        match = request.resolver_match
        next_url = reverse(back, kwargs=match.kwargs) if back and match else request.get_full_path()
        return _redirect_to_page(request, next_url)
    # htmx would place the page into a fragment; this response makes it open the whole page instead.
    if request.headers.get("HX-Request") == "true":
        return _redirect_to_page(request, urlsplit(request.headers.get("HX-Current-URL", "/")).path)
    # Passwords are left out: they must not be written into the HTML of a page.
    names = [name for name in request.POST if name != "csrfmiddlewaretoken" and "password" not in name]
    submitted = [(name, value) for name in names for value in request.POST.getlist(name)]
    return _render_page(request, {"kept": submitted, "refused": PASSWORD in request.POST})


@sensitive_post_parameters(PASSWORD)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_password(request: HttpRequest) -> HttpResponse:
    """Show the page that asks for the password, and redirect to `next` after a correct one."""
    is_wrong = request.method == "POST" and not _check_password(request)
    if request.method == "POST" and not is_wrong:
        return HttpResponseRedirect(_next_url(request))
    return _render_page(request, {"next": _next_url(request), "refused": is_wrong})


def _check_password(request: HttpRequest) -> bool:
    if not verify_identity(request, request.POST.get(PASSWORD, "")):
        log_security_event("confirmation failed", request)
        return False
    # From here the action and others may run without asking again, until the 15 minutes have passed.
    record_reauthentication(request)
    return True


def _render_page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    context |= {**describe_proof(request), "field": PASSWORD}
    has_error = context["refused"] or request.method == "POST"
    # 422, because browsers and htmx treat it as a form with an error; the submitted data is still in the page.
    return render(request, "ratings/confirm.html", context, status=422 if has_error else 200)


def _redirect_to_page(request: HttpRequest, next_url: str) -> HttpResponse:
    address = f"{reverse('ratings:confirm')}?{urlencode({'next': next_url})}"
    return HttpResponseClientRedirect(address) if request.headers.get("HX-Request") == "true" else redirect(address)


def _next_url(request: HttpRequest) -> str:
    next_url = request.POST.get("next") or request.GET.get("next") or ""
    # A redirect target from the request could lead to another site.
    safe = url_has_allowed_host_and_scheme(next_url, {request.get_host()}, request.is_secure())
    return next_url if safe else reverse("home")
