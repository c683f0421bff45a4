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


def rater_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> GuardedView:
    """Allow users who rate in any study, and forbid caching. Visitors are sent to the sign-in page (401 for htmx)."""

    @login_not_required
    @wraps(view)
    def serve_rater(request: RaterRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _forbid_caching(_ask_to_sign_in(request))
        if not access.list_raters(request.user).exists():
            raise Http404
        return _forbid_caching(view(request, *args, **kwargs))

    return serve_rater


def study_rater_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> GuardedView:
    """Like `rater_page`, for URLs with `<uuid:rater>`: sets `request.rater` to the user's own rater in that study."""

    @login_not_required
    @wraps(view)
    def serve_study_rater(request: RaterRequest, *args: Any, rater: UUID, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _forbid_caching(_ask_to_sign_in(request))
        request.rater = access.get_rater_or_404(request.user, rater)
        return _forbid_caching(view(request, *args, **kwargs))

    return serve_study_rater


def item_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> GuardedView:
    """Like `study_rater_page`, for URLs with `<uuid:code>`: sets `request.assignment` to the user's own one."""

    @login_not_required
    @wraps(view)
    def serve_item(request: RaterRequest, *args: Any, code: UUID, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _forbid_caching(_ask_to_sign_in(request))
        # A page shows the answer and the unsaved answer, so both are loaded here. A POST reads them later, under
        # a lock: loaded here they could be out of date.
        related = () if request.method == "POST" else ("rating", "unsaved_answer")
        request.assignment = access.get_assignment_or_404(request.user, code, *related)
        request.rater = request.assignment.rater
        return _forbid_caching(view(request, *args, **kwargs))

    return serve_item


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


def _ask_to_sign_in(request: RaterRequest) -> HttpResponse:
    # htmx would swap a sign-in page into the fragment; the 401 makes the page open its sign-in dialog instead.
    return HttpResponse(status=401) if request.htmx else redirect_to_login(request.get_full_path())


def _forbid_caching(response: HttpResponseBase) -> HttpResponseBase:
    # The back button after signing out, or the next person at this computer, must not see the page again.
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["HX-Request", "Cookie"])
    return response
