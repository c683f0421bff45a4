"""The rater's journey: the guide, item after item, the last page."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from ratings import access, batches, blinding, studies
from ratings.models import Assignment, Rater
from ratings.views.rating_form import RatingForm


class RaterRequest(HttpRequest):
    """A request that `rater_page` let through."""

    user: User
    htmx: HtmxDetails
    rater: Rater


P = ParamSpec("P")
View = Callable[Concatenate[RaterRequest, P], HttpResponse]


def rater_page(view: View[P]) -> View[P]:
    """For whoever holds a seat; no cache keeps the answer. Strangers are sent to sign in (401 to htmx), others get 404."""

    @login_not_required
    @wraps(view)
    def guarded(request: RaterRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            response = HttpResponse(status=401) if request.htmx else redirect_to_login(request.get_full_path())
        else:
            request.rater = access.rater_for(request.user)
            response = view(request, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        patch_vary_headers(response, ["HX-Request", "Cookie"])
        return response

    return guarded


@rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def guide(request: RaterRequest) -> HttpResponse:
    """What is asked and how to answer; posting it starts the work."""
    if request.method == "POST":
        studies.start(request.rater)
        return _onward("ratings:next")
    return _page(request, "ratings/guide.html")


@rater_page
@require_safe
def next_item(request: RaterRequest) -> HttpResponse:
    """On to what this rater has to do now."""
    if not request.rater.study.is_open:
        return _page(request, "ratings/closed.html")
    if request.rater.started_at is None:
        return redirect("ratings:guide")
    assignment = studies.next_assignment(request.rater)
    return redirect("ratings:rate", assignment.code) if assignment else redirect("ratings:done")


@rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def rate(request: RaterRequest, code: UUID) -> HttpResponse:
    """One item: shown, or answered. An answer is written once; whoever comes again is told which stands."""
    assignment = access.assignment_for(request.user, code)
    if not request.rater.study.is_open:
        return _onward("ratings:next")
    if request.method == "POST":
        return _save(request, assignment)
    if hasattr(assignment, "rating"):
        return _stands(request, assignment, 200)
    studies.mark_opened(assignment)
    return _card(request, assignment, RatingForm(request.rater.study))


@rater_page
@require_safe
def done(request: RaterRequest) -> HttpResponse:
    """Thanks, and how many were rated; nothing about how well."""
    if studies.next_assignment(request.rater):
        return redirect("ratings:next")
    return _page(request, "ratings/done.html")


def _save(request: RaterRequest, assignment: Assignment) -> HttpResponse:
    form = RatingForm(request.rater.study, request.POST)
    if not form.is_valid():
        stands = hasattr(assignment, "rating")
        return _stands(request, assignment, 409) if stands else _card(request, assignment, form, 422)
    try:
        result = studies.rate(assignment, **form.cleaned_data)
    except studies.StudyClosed:
        return _onward("ratings:next")
    except studies.StudyError as error:
        form.add_error(None, str(error))
        return _card(request, assignment, form, 422)
    if not (result.created or result.same):
        assignment.refresh_from_db()
        return _stands(request, assignment, 409)
    following = studies.next_assignment(request.rater)
    return _onward("ratings:rate", following.code) if following else _onward("ratings:done")


def _onward(name: str, *args: Any) -> HttpResponse:
    """To another page after a POST: 303, which plain browsers and htmx both follow with a GET."""
    response = redirect(name, *args)
    response.status_code = 303
    return response


def _card(request: RaterRequest, assignment: Assignment, form: RatingForm, status: int = 200) -> HttpResponse:
    payload = assignment.item.payload
    context: dict[str, Any] = {"code": assignment.code, "payload": payload, "form": form}
    if payload["kind"] == "transition":
        context["batches"], context["lanes"] = batches.batches(blinding.lanes(payload))
    else:
        context["steps"] = list(batches.record(payload["steps"]))
    return _page(request, "ratings/rate.html", context, status, fragment="ratings/_rating_card.html")


def _stands(request: RaterRequest, assignment: Assignment, status: int) -> HttpResponse:
    context = {"rating": assignment.rating}
    return _page(request, "ratings/already_rated.html", context, status, fragment="ratings/_already_rated.html")


def _page(
    request: RaterRequest, page: str, context: dict[str, Any] | None = None, status: int = 200, fragment: str = ""
) -> HttpResponse:
    """The page, or for htmx its fragment (a page without one is loaded whole), with what every rater page shows: the study and how far this rater is."""
    partial = bool(request.htmx) and not request.htmx.history_restore_request
    if partial and not fragment:
        return HttpResponseClientRedirect(request.path)
    shared = {"study": request.rater.study, "progress": studies.progress(request.rater), "partial": partial}
    return render(request, fragment if partial else page, {**shared, **(context or {})}, status=status)
