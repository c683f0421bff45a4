"""The results of an unblinded study as files: the whole document, and each of its tables. A benchmark's are sent alike."""

from typing import Any, TypeVar

from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.exchange import exports
from ratings.models import Analysis
from ratings.results.analyses import filters, form, store
from ratings.results.analyses.filters import Filters, UnknownFilterError
from ratings.results.analyses.store import Look
from ratings.results.analyses.tables import FORMS
from ratings.web.guards import StudyRequest, study_page
from simulation.models import Job

Answer = TypeVar("Answer", HttpResponse, StreamingHttpResponse)


@study_page("admin", "analyst")
@never_cache
@require_safe
def results_json(request: StudyRequest) -> HttpResponse:
    """The analysis in full, byte for byte as it is stored; 202 with its job until it is computed."""
    try:
        look = _look(request)
    except UnknownFilterError as error:
        return _refused(error)
    if look.analysis is None or not (look.fresh and look.analysis.full):
        return pending(look.job, look.said)
    return whole(look.analysis, request.study.slug)


@study_page("admin", "analyst")
@never_cache
@require_safe
def table_csv(request: StudyRequest, name: str) -> HttpResponse:
    """One table of the analysis, numbers in full; 202 with its job until it is computed."""
    if name not in FORMS:
        raise Http404
    try:
        look = _look(request)
    except UnknownFilterError as error:
        return _refused(error)
    if look.analysis is None or not (look.fresh and look.analysis.full):
        return pending(look.job, look.said)
    return table(look.analysis, name, request.study.slug)


def _look(request: StudyRequest) -> Look:
    """404 while the study is sealed; UnknownFilterError for what it does not have."""
    return store.look(request.study, asked(request), request.user)


def asked(request: StudyRequest) -> Filters:
    """The filters of the address. Http404 while the study is sealed, UnknownFilterError for what it does not have."""
    if not request.study.is_unblinded:
        raise Http404
    found = filters.from_query(request.GET, filters.choices(request.study))
    found.refuse_unknown()
    return found


def _refused(error: UnknownFilterError) -> HttpResponse:
    return HttpResponse(f"{error}\n", status=400, content_type="text/plain; charset=utf-8")


def whole(analysis: Analysis, stem: str) -> HttpResponse:
    """The document, byte for byte as its SHA-256 is of."""
    response = HttpResponse(form.canonical(analysis.document), content_type="application/json")
    response["ETag"] = f'"{analysis.sha256}"'
    return attached(response, f"{stem}-results.json")


def table(analysis: Analysis, name: str, stem: str) -> HttpResponse:
    """One of its tables, numbers in full."""
    found = analysis.document["tables"][name]
    lines = exports.table_lines([one["name"] for one in found["columns"]], found["rows"], exact=True)
    response = HttpResponse("".join(exports.for_spreadsheets(lines)), content_type="text/csv; charset=utf-8")
    return attached(response, f"{stem}-{name.replace('_', '-')}.csv")


def pending(job: Job | None, said: str) -> JsonResponse:
    """What is known of the job; the same address has the file when it is done."""
    told: dict[str, Any] = {"status": "pending", "said": said}
    if job:
        told |= {"status": job.status, "job": reverse("ratings:job", kwargs={"job": job.code})}
    return JsonResponse(told, status=202)


def attached(response: Answer, name: str) -> Answer:
    """To be saved under that name."""
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


urls: list[URLPattern] = [
    path("studies/<slug:slug>/results.json", results_json, name="results_json"),
    path("studies/<slug:slug>/tables/<slug:name>.csv", table_csv, name="table_csv"),
]
