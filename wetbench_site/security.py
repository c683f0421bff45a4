"""What holds for every response: the content security policy, and signing in first."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'"
)


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Sends the strict policy with every response: what a model or an upload says can never run."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        return response

    return middleware


class SignInRequired(LoginRequiredMiddleware):
    """Django's own, but a fragment is answered 401, and its page loads itself anew: a sign-in page belongs in no corner."""

    def handle_no_permission(  # type: ignore[override]  # the stubs promise a redirect, Django any response
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return super().handle_no_permission(request, view_func)
