"""Personal links: opening one signs this browser in."""

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_GET, require_http_methods

from ratings import access
from ratings.access import Door

BACKEND = "django.contrib.auth.backends.ModelBackend"


@login_not_required
@require_http_methods(["GET", "POST"])
def rater_link(request: HttpRequest, token: str) -> HttpResponse:
    """Signed-in staff are asked first: a rater's seat takes their place in this browser."""
    seen = access.look_at_link(token, request.user, "rater")
    if (
        request.method == "GET"
        and seen.door == Door.WELCOME
        and request.user.is_authenticated
        and request.user.is_staff
    ):
        return _private(render(request, "ratings/link_switch.html"))
    return _enter(request, token, "rater", "ratings:next")


@login_not_required
@require_GET
def admin_link(request: HttpRequest, token: str) -> HttpResponse:
    return _enter(request, token, "admin", "home")


def _enter(request: HttpRequest, token: str, purpose: str, onward: str) -> HttpResponse:
    """Through the door the token opens: on to the work, a page that says why not, or nothing there at all."""
    opened = access.open_link(token, request.user, purpose)
    if opened.door == Door.UNKNOWN:
        raise Http404
    if opened.door == Door.GONE or opened.user is None:
        response = render(request, "ratings/link_gone.html", {"why": opened.why, "purpose": purpose}, status=410)
    else:
        if request.user.pk != opened.user.pk:
            login(request, opened.user, backend=BACKEND)
        response = redirect(onward)
    return _private(response)


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "no-referrer"
    return response


urls: list[URLPattern] = [
    path("r/<str:token>/", rater_link, name="rater_link"),
    path("sign-in/<str:token>/", admin_link, name="admin_link"),
]
