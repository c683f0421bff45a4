"""The rater's journey: the guide, item after item, the last page."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from ratings import access, answering, batches, blinding, serving, studies
from ratings.models import Assignment
from ratings.views.guards import RaterRequest, rater_page, seat_page
from ratings.views.rating_form import RatingForm


@seat_page
@require_safe
def next_item(request: RaterRequest) -> HttpResponse:
    """On to what this rater has to do now."""
    if not request.rater.study.is_open:
        return _page(request, "ratings/closed.html")
    if request.rater.started_at is None:
        return redirect("ratings:guide", request.rater.code)
    assignment = serving.next_assignment(request.rater)
    return redirect("ratings:rate", assignment.code) if assignment else redirect("ratings:done", request.rater.code)


@rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def rate(request: RaterRequest, code: UUID) -> HttpResponse:
    """One item: shown, or answered. An answer is written once; whoever comes again is told which stands."""
    assignment = access.assignment_for(request.user, code)
    request.rater = assignment.rater
    if not request.rater.study.is_open:
        return _onward("ratings:next", request.rater.code)
    if request.method == "POST":
        return _save(request, assignment)
    if hasattr(assignment, "rating"):
        return _stands(request, assignment, 200)
    serving.mark_opened(assignment)
    return _card(request, assignment, RatingForm(request.rater.study))


def _save(request: RaterRequest, assignment: Assignment) -> HttpResponse:
    form = RatingForm(request.rater.study, request.POST)
    if not form.is_valid():
        stands = hasattr(assignment, "rating")
        return _stands(request, assignment, 409) if stands else _card(request, assignment, form, 422)
    try:
        result = answering.rate(assignment, **form.cleaned_data)
    except studies.StudyClosed:
        return _onward("ratings:next", request.rater.code)
    except studies.StudyError as error:
        form.add_error(None, str(error))
        return _card(request, assignment, form, 422)
    if not (result.created or result.same):
        assignment.refresh_from_db()
        return _stands(request, assignment, 409)
    following = serving.next_assignment(request.rater)
    return _onward("ratings:rate", following.code) if following else _onward("ratings:done", request.rater.code)


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
    shared = {"study": request.rater.study, "progress": serving.progress(request.rater), "partial": partial}
    return render(request, fragment if partial else page, {**shared, **(context or {})}, status=status)


urls: list[URLPattern] = [
    path("rate/study/<uuid:seat>/", next_item, name="next"),
    path("rate/<uuid:code>/", rate, name="rate"),
]
