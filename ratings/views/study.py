"""Studies for staff: list, make, open, invite, close, unblind."""

from typing import Any

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings import access, studies
from ratings.models import Study
from ratings.planning import PlanError
from ratings.protocols import ProtocolError
from ratings.studies import StudyError
from simulation.access import StaffRequest, staff_only


@staff_only
@require_safe
def study_list(request: StaffRequest) -> HttpResponse:
    return render(request, "ratings/studies.html", {"studies": counted()})


def counted() -> QuerySet[Study]:
    """Studies with the numbers that a list shows."""
    return (
        Study.objects.defer("protocol")
        .annotate(
            n_items=Count("items", distinct=True),
            wanted=Count("items__assignments", distinct=True),
            given=Count("items__assignments__rating", distinct=True),
            simulated=Count(
                "items__assignments__rating", distinct=True, filter=Q(items__assignments__rater__simulated=True)
            ),
        )
        .order_by("-created_at", "-pk")
    )


@staff_only
@require_POST
def open_study(request: StaffRequest, slug: str) -> HttpResponse:
    said = "The study is open. Make a link for each rater below and send it."
    return _done(request, slug, lambda study: studies.open_study(study, by=request.user), said)


@staff_only
@require_POST
def close_study(request: StaffRequest, slug: str) -> HttpResponse:
    said = "The study is closed. The ratings stay sealed until it is unblinded."
    return _done(request, slug, lambda study: studies.close(study, request.user), said)


@staff_only
@require_POST
def reopen_study(request: StaffRequest, slug: str) -> HttpResponse:
    return _done(request, slug, lambda study: studies.reopen(study, request.user), "The study takes ratings again.")


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def unblind_study(request: StaffRequest, slug: str) -> HttpResponse:
    """Asks first: it cannot be undone."""
    study = access.study_for(request.user, slug)
    if request.method == "POST":
        return _done(request, slug, lambda one: studies.unblind(one, request.user), "The study is unblinded.")
    if study.is_unblinded or study.status == "draft":
        return redirect("ratings:study", slug=slug)
    context = {"study": counted().get(pk=study.pk)}
    return render(request, "ratings/study_unblind.html", context)


def _done(request: StaffRequest, slug: str, verb: Any, said: str) -> HttpResponse:
    """Do it and go back to the study's page, which says what became of it."""
    study = access.study_for(request.user, slug)
    try:
        verb(study)
    except (StudyError, PlanError, ProtocolError) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, said)
    return redirect("ratings:study", slug=slug)


urls: list[URLPattern] = [
    path("studies/", study_list, name="studies"),
    path("studies/<slug:slug>/open/", open_study, name="open_study"),
    path("studies/<slug:slug>/close/", close_study, name="close_study"),
    path("studies/<slug:slug>/reopen/", reopen_study, name="reopen_study"),
    path("studies/<slug:slug>/unblind/", unblind_study, name="unblind_study"),
]
