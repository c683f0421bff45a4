"""Decorators that decide who reaches a view.

A page that is not the user's own answers 404, with the same body as any other 404.
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

from ratings.accounts import second_step
from ratings.models import Assignment, Rater, Study
from ratings.studies import access


class RaterRequest(HttpRequest):
    """A request that passed a decorator for raters. `study_rater_page` and `item_page` set `rater`; `item_page` also sets `place`."""

    user: User
    htmx: HtmxDetails
    rater: Rater
    place: Assignment


class StudyRequest(HttpRequest):
    """A request that passed `study_page`: it has `study`, and `role` is "superuser", "admin" or "analyst".

    `staff_or_member` sets only `role`, to "staff" or "member".
    """

    user: User
    htmx: HtmxDetails
    study: Study
    role: str


P = ParamSpec("P")
Guarded = Callable[..., HttpResponseBase]


def rater_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> Guarded:
    """Allow users who rate in any study, and forbid caching. Visitors are sent to the sign-in page (401 for htmx)."""

    @login_not_required
    @wraps(view)
    def guarded(request: RaterRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _private(_stranger(request))
        if not access.seats_of(request.user).exists():
            raise Http404
        return _private(view(request, *args, **kwargs))

    return guarded


def seat_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> Guarded:
    """Like `rater_page`, for URLs with `<uuid:seat>`: sets `request.rater` to the user's own rater in that study."""

    @login_not_required
    @wraps(view)
    def guarded(request: RaterRequest, *args: Any, seat: UUID, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _private(_stranger(request))
        request.rater = access.seat_for(request.user, seat)
        return _private(view(request, *args, **kwargs))

    return guarded


def item_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> Guarded:
    """Like `study_rater_page`, for URLs with `<uuid:code>`: sets `request.place` to the user's own assignment."""

    @login_not_required
    @wraps(view)
    def guarded(request: RaterRequest, *args: Any, code: UUID, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _private(_stranger(request))
        # A page shows the answer and the unsaved answer, so both are loaded here. A POST reads them later, under
        # a lock: loaded here they could be out of date.
        related = () if request.method == "POST" else ("rating", "draft")
        request.place = access.assignment_for(request.user, code, *related)
        request.rater = request.place.rater
        return _private(view(request, *args, **kwargs))

    return guarded


def study_page(*roles: str) -> Callable[[Callable[Concatenate[StudyRequest, P], HttpResponseBase]], Guarded]:
    """Allow users with one of these roles in the study of `<slug:slug>`, and set `request.study`. Superusers are always allowed."""

    def decorate(view: Callable[Concatenate[StudyRequest, P], HttpResponseBase]) -> Guarded:
        @wraps(view)
        def guarded(request: StudyRequest, *args: Any, slug: str, **kwargs: Any) -> HttpResponseBase:
            request.study = access.study_for(request.user, slug, *roles)
            request.role = access.role_in(request.user, request.study)
            second_step.require(request, request.role)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def staff_or_member(view: Callable[Concatenate[StudyRequest, P], HttpResponseBase]) -> Guarded:
    """Allow staff and users with a role in any study."""

    @wraps(view)
    def guarded(request: StudyRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not (request.user.is_staff or access.studies_of(request.user).exists()):
            raise Http404
        if second_step.is_required_anywhere(request.user):
            second_step.require(request, "admin")
        # 404 instead of 403 above: a stranger must not learn which studies exist.
        request.role = "staff" if request.user.is_staff else "member"
        return view(request, *args, **kwargs)

    return guarded


def _stranger(request: RaterRequest) -> HttpResponse:
    # htmx would swap a sign-in page into the fragment; the 401 makes the page open its sign-in dialog instead.
    return HttpResponse(status=401) if request.htmx else redirect_to_login(request.get_full_path())


def _private(response: HttpResponseBase) -> HttpResponseBase:
    # The back button after signing out, or the next person at this computer, must not see the page again.
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["HX-Request", "Cookie"])
    return response
