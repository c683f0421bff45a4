"""Decorators that decide who reaches a view.

A page that the user may not see returns 404, with the same body as any other 404.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from ratings.accounts import two_factor
from ratings.models import Assignment, Rater, Study
from ratings.studies import access


class RaterRequest(HttpRequest):
    """A request that passed a decorator for raters.

    `study_rater_page` and `item_page` set `rater`; `item_page` also sets `assignment`.
    """

    user: User
    htmx: HtmxDetails
    rater: Rater
    assignment: Assignment


class StudyRequest(HttpRequest):
    """A request that passed `study_page`: it has `study`, and `role` is "superuser", "admin" or "analyst".

    `staff_or_member` sets only `role`, to "staff" or "member".
    """

    user: User
    htmx: HtmxDetails
    study: Study
    role: str


P = ParamSpec("P")
GuardedView = Callable[..., HttpResponseBase]
RaterView = Callable[[RaterRequest], HttpResponseBase]


def rater_page(view: RaterView) -> GuardedView:
    """Allow users who rate in any study, and forbid caching. Visitors are sent to the sign-in page (401 for htmx)."""

    def require_rater(request: RaterRequest) -> None:
        if not access.list_raters(request.user).exists():
            raise Http404

    return _serve_raters(view, require_rater)


def study_rater_page(view: RaterView) -> GuardedView:
    """Like `rater_page`, for URLs with `<uuid:rater>`: sets `request.rater` to the user's own rater in that study."""

    def set_rater(request: RaterRequest, rater: UUID) -> None:
        request.rater = access.get_rater_or_404(request.user, rater)

    return _serve_raters(view, set_rater)


def item_page(view: RaterView) -> GuardedView:
    """Like `study_rater_page`, for URLs with `<uuid:code>`: sets `request.assignment` to the user's own one."""

    def set_assignment(request: RaterRequest, code: UUID) -> None:
        # A POST reads the answer and the unsaved answer later, under a lock: loaded here they could be out of date.
        request.assignment = access.get_assignment_or_404(request.user, code, to_show=request.method != "POST")
        request.rater = request.assignment.rater

    return _serve_raters(view, set_assignment)


def _serve_raters(view: RaterView, prepare: Callable[..., None]) -> GuardedView:
    """Wrap a view for raters. `prepare` takes the request and the parts of its URL, and sets what the view reads."""

    @login_not_required
    @wraps(view)
    def serve_rater(request: RaterRequest, **url_parts: Any) -> HttpResponseBase:
        response: HttpResponseBase
        if request.user.is_authenticated:
            prepare(request, **url_parts)
            response = view(request)
        else:
            # htmx would swap a sign-in page into the fragment; the 401 makes the page open its sign-in dialog instead.
            response = HttpResponse(status=401) if request.htmx else redirect_to_login(request.get_full_path())
        # The back button after signing out, or the next person at this computer, must not see the page again.
        response["Cache-Control"] = "no-store"
        patch_vary_headers(response, ["HX-Request", "Cookie"])
        return response

    return serve_rater


def study_page(*roles: str) -> Callable[[Callable[Concatenate[StudyRequest, P], HttpResponseBase]], GuardedView]:
    """Allow users with one of these roles in the study of `<slug:slug>`, and set `request.study`. Superusers are always allowed."""

    def decorate_view(view: Callable[Concatenate[StudyRequest, P], HttpResponseBase]) -> GuardedView:
        @wraps(view)
        def serve_study_role(request: StudyRequest, *args: Any, slug: str, **kwargs: Any) -> HttpResponseBase:
            request.study = access.get_study_or_404(request.user, slug, *roles)
            request.role = access.get_role(request.user, request.study)
            two_factor.require_two_factor(request, request.role)
            return view(request, *args, **kwargs)

        return serve_study_role

    return decorate_view


def staff_or_member(view: Callable[Concatenate[StudyRequest, P], HttpResponseBase]) -> GuardedView:
    """Allow staff and users with a role in any study."""

    @wraps(view)
    def serve_staff_or_member(request: StudyRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not (request.user.is_staff or access.list_studies(request.user).exists()):
            raise Http404
        if two_factor.is_required_anywhere(request.user):
            two_factor.require_two_factor(request, "admin")
        # 404 instead of 403 above: a stranger must not learn which studies exist.
        request.role = "staff" if request.user.is_staff else "member"
        return view(request, *args, **kwargs)

    return serve_staff_or_member


def redirect_after_post(to: str, *args: Any) -> HttpResponse:
    """Redirect to another page with status 303: every browser follows with a GET and does not submit the form again."""
    response = redirect(to, *args)
    response.status_code = 303
    return response
