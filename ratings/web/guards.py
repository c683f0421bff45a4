"""Who gets to a view of the rating room. What is not yours does not exist: 404, with the body of any other 404."""

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
    """A request that a guard of raters let through. `rater` is set by `seat_page` and `item_page`, `place` by the latter."""

    user: User
    htmx: HtmxDetails
    rater: Rater
    place: Assignment


class StudyRequest(HttpRequest):
    """A request that `study_page` let through: `study`, and `role` is "superuser", "admin" or "analyst" of it.

    `staff_or_member` sets `role` alone: "staff" or "member".
    """

    user: User
    htmx: HtmxDetails
    study: Study
    role: str


P = ParamSpec("P")
Guarded = Callable[..., HttpResponseBase]


def rater_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> Guarded:
    """For whoever holds a seat anywhere; no cache keeps the answer. Strangers are sent to sign in (401 to htmx)."""

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
    """Like `rater_page`, for addresses with `<uuid:seat>`: the user's own seat is `request.rater`."""

    @login_not_required
    @wraps(view)
    def guarded(request: RaterRequest, *args: Any, seat: UUID, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _private(_stranger(request))
        request.rater = access.seat_for(request.user, seat)
        return _private(view(request, *args, **kwargs))

    return guarded


def item_page(view: Callable[Concatenate[RaterRequest, P], HttpResponseBase]) -> Guarded:
    """Like `seat_page`, for addresses with `<uuid:code>`: the user's own assignment is `request.place`. Whoever asks to
    see it gets its answer and draft with it; who sends something finds the answer under a lock."""

    @login_not_required
    @wraps(view)
    def guarded(request: RaterRequest, *args: Any, code: UUID, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _private(_stranger(request))
        also = () if request.method == "POST" else ("rating", "draft")
        request.place = access.assignment_for(request.user, code, *also)
        request.rater = request.place.rater
        return _private(view(request, *args, **kwargs))

    return guarded


def study_page(*roles: str) -> Callable[[Callable[Concatenate[StudyRequest, P], HttpResponseBase]], Guarded]:
    """For those with one of these roles in the study of `<slug:slug>`: it is `request.study`. Superusers always are."""

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
    """For staff, and for whoever has a role in some study."""

    @wraps(view)
    def guarded(request: StudyRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not (request.user.is_staff or access.studies_of(request.user).exists()):
            raise Http404
        if second_step.is_required_anywhere(request.user):
            second_step.require(request, "admin")
        request.role = "staff" if request.user.is_staff else "member"
        return view(request, *args, **kwargs)

    return guarded


def _stranger(request: RaterRequest) -> HttpResponse:
    return HttpResponse(status=401) if request.htmx else redirect_to_login(request.get_full_path())


def _private(response: HttpResponseBase) -> HttpResponseBase:
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["HX-Request", "Cookie"])
    return response
