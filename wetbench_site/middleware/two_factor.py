"""Require two-factor authentication of staff and superusers; ratings/accounts/two_factor.py explains who and why."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django_otp import DEVICE_ID_SESSION_KEY

SETUP_VIEW = "ratings:second_step"
EXEMPT_VIEWS = {SETUP_VIEW, "ratings:second_step_qr", "ratings:backup_file", "ratings:confirm", "logout", "login"}


class TwoFactorRequired(Exception):  # noqa: N818  # a state of the session, not an error
    """Raised by views that require two-factor authentication for another reason than the account: a study role."""


class TwoFactorMiddleware:
    """Redirect staff and superusers without two-factor authentication to the page that sets it up."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponseBase | None:
        if not settings.SECOND_STEP_REQUIRED:
            return None
        # Everything needed is in the account and the session: this adds no query to a request.
        user, match = request.user, request.resolver_match
        if not user.is_authenticated or not (user.is_staff or user.is_superuser):
            return None
        if DEVICE_ID_SESSION_KEY in request.session or match is None or match.view_name in EXEMPT_VIEWS:
            return None
        return redirect_to_setup(request, match.view_name)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        return redirect_to_setup(request, "") if isinstance(exception, TwoFactorRequired) else None


def redirect_to_setup(request: HttpRequest, view_name: str) -> HttpResponseBase:
    """Return the redirect to the setup page. Raises Http404 for the admin site."""
    # The admin site must not be discoverable before two-factor authentication.
    if view_name.startswith("admin:"):
        raise Http404
    # htmx would follow a redirect and put the setup page into a fragment of the page.
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(headers={"HX-Redirect": reverse(SETUP_VIEW)})
    return redirect(SETUP_VIEW)
