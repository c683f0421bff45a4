"""Result files of an unblinded study or a benchmark: the full document, and each of its tables."""

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
    """Return the complete analysis, byte for byte as stored; 202 with its job until it is computed."""
    # The bytes, not the parsed document: their SHA-256 is published.
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
    """Return one table in full precision; 202 with its job until it is computed."""
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
    """Return the analysis or its job. 404 while the study is sealed; UnknownFilterError for unknown values."""
    return store.look(request.study, asked(request), request.user)


def asked(request: StudyRequest) -> Filters:
    """Return the filters in the URL. Raises Http404 while the study is sealed, UnknownFilterError for unknown values."""
    # Also for filters: known values would reveal the sources of a sealed study.
    if not request.study.is_unblinded:
        raise Http404
    parsed = filters.from_query(request.GET, filters.choices(request.study))
    # Unknown values are errors, not ignored: a misspelt filter would return the numbers of all items.
    parsed.refuse_unknown()
    return parsed


def _refused(error: UnknownFilterError) -> HttpResponse:
    return HttpResponse(f"{error}\n", status=400, content_type="text/plain; charset=utf-8")


def whole(analysis: Analysis, stem: str) -> HttpResponse:
    """Return the document with the bytes that its SHA-256 covers."""
    # Serialised in the one canonical form, so that the digest can be verified.
    response = HttpResponse(form.canonical(analysis.document), content_type="application/json")
    # A strong validator: the digest of exactly these bytes.
    response["ETag"] = f'"{analysis.sha256}"'
    return attached(response, f"{stem}-results.json")


def table(analysis: Analysis, name: str, stem: str) -> HttpResponse:
    """Return one table as CSV in full precision."""
    table_data = analysis.document["tables"][name]
    lines = exports.table_lines([one["name"] for one in table_data["columns"]], table_data["rows"], exact=True)
    # Cells that a spreadsheet would read as a formula are neutralised.
    response = HttpResponse("".join(exports.for_spreadsheets(lines)), content_type="text/csv; charset=utf-8")
    return attached(response, f"{stem}-{name.replace('_', '-')}.csv")


def pending(job: Job | None, said: str) -> JsonResponse:
    """Return the state of the job; the same URL has the file when it is done."""
    data: dict[str, Any] = {"status": "pending", "said": said}
    if job:
        data |= {"status": job.status, "job": reverse("ratings:job", kwargs={"job": job.code})}
    return JsonResponse(data, status=202)


def attached(response: Answer, name: str) -> Answer:
    """Set the file name for saving."""
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


urls: list[URLPattern] = [
    path("studies/<slug:slug>/results.json", results_json, name="results_json"),
    path("studies/<slug:slug>/tables/<slug:name>.csv", table_csv, name="table_csv"),
]
