"""Compare a study with another one: the choice, the running job, and the contrasts with their figure."""

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.models import Study
from ratings.results.analyses import store
from ratings.results.stored_figures import FigureFile, build_result_figure
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results.result_files import csv_response, pending_response


@study_page("admin", "analyst")
@never_cache
@require_safe
def compare_studies(request: StudyRequest) -> HttpResponse:
    """Show the studies to choose from, and the comparison with the chosen one. 404 while this study is sealed."""
    # 404, not 403: while a study is sealed, the page does not exist for anybody.
    if not request.study.is_unblinded:
        raise Http404
    others = list(store.find_comparable_studies(request.user, request.study))
    other = _get_chosen(others, request)
    context: dict[str, Any] = {"study": request.study, "role": request.role, "others": others, "other": other}
    context["may_run"] = request.role != "analyst"
    if other is not None:
        # A request with the same parameters returns the existing job, so reloading computes nothing again.
        job = store.request_comparison(request.study, other, request.user)
        address = f"{reverse('ratings:compare_csv', kwargs={'slug': request.study.slug})}?with={other.slug}"
        figure = build_result_figure(job, "contrasts", [FigureFile("CSV", address)])
        context |= {"job": job, "table": job.result.get("table"), "figure": figure}
    return render(request, "ratings/compare.html", context)


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_comparison(request: StudyRequest) -> HttpResponse:
    """Return the contrasts with the chosen study in full precision, or status 202 and the job until they exist."""
    if not request.study.is_unblinded:
        raise Http404
    other = _get_chosen(list(store.find_comparable_studies(request.user, request.study)), request)
    if other is None:
        raise Http404
    job = store.request_comparison(request.study, other, request.user)
    if job.status != "done":
        return pending_response(job, "The comparison is being computed.")
    return csv_response(job.result["table"], f"{request.study.slug}-and-{other.slug}-contrasts.csv")


def _get_chosen(others: list[Study], request: StudyRequest) -> Study | None:
    """Return the study named in the URL. 404 if it is not among these."""
    slug = request.GET.get("with", "")
    # Compared in Python among the permitted studies: an unknown study and a forbidden one both give 404.
    match = next((one for one in others if one.slug == slug), None)
    if slug and match is None:
        raise Http404
    return match


urls: list[URLPattern] = [
    path("studies/<slug:slug>/compare/", compare_studies, name="compare"),
    path("studies/<slug:slug>/compare/contrasts.csv", download_comparison, name="compare_csv"),
]
