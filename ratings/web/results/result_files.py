"""Result files of an unblinded study or a benchmark: the full document, and each of its tables."""

from typing import Any, TypeVar

from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.exchange import exports
from ratings.models import Analysis
from ratings.results.analyses import filters, store
from ratings.results.analyses.filters import Filters, UnknownFilterError
from ratings.results.analyses.store import AnalysisStatus
from ratings.results.analyses.tables import TABLE_SPECS
from ratings.web.decorators import StudyRequest, study_page
from simulation.models import Job

Answer = TypeVar("Answer", HttpResponse, StreamingHttpResponse)


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_results(request: StudyRequest) -> HttpResponse:
    """Return the complete analysis, byte for byte as stored, or status 202 and its job until it is computed."""
    # The bytes, not the parsed document: their SHA-256 is published.
    try:
        look = _get_analysis(request)
    except UnknownFilterError as error:
        return _bad_filter_response(error)
    if look.analysis is None or not (look.is_fresh and look.analysis.full):
        return pending_response(look.job, look.message)
    return document_response(look.analysis, request.study.slug)


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_table(request: StudyRequest, name: str) -> HttpResponse:
    """Return one table in full precision, or status 202 and its job until it is computed."""
    if name not in TABLE_SPECS:
        raise Http404
    try:
        look = _get_analysis(request)
    except UnknownFilterError as error:
        return _bad_filter_response(error)
    if look.analysis is None or not (look.is_fresh and look.analysis.full):
        return pending_response(look.job, look.message)
    return table_response(look.analysis, name, request.study.slug)


def _get_analysis(request: StudyRequest) -> AnalysisStatus:
    """Return the analysis or its job. 404 while the study is sealed; UnknownFilterError for unknown values."""
    return store.get_or_request(request.study, requested_filters(request), request.user)


def requested_filters(request: StudyRequest) -> Filters:
    """Return the filters in the URL. Raises Http404 while the study is sealed, UnknownFilterError for unknown values."""
    # Checked also for filters, because their known values would reveal the sources of a sealed study.
    if not request.study.is_unblinded:
        raise Http404
    parsed = filters.parse_query(request.GET, filters.list_choices(request.study))
    # Unknown values are errors, not ignored: a misspelt filter would return the numbers of all items.
    parsed.check_known()
    return parsed


def _bad_filter_response(error: UnknownFilterError) -> HttpResponse:
    return HttpResponse(f"{error}\n", status=400, content_type="text/plain; charset=utf-8")


def document_response(analysis: Analysis, stem: str) -> HttpResponse:
    """Return the document with the bytes that its SHA-256 covers."""
    # Serialised in the one canonical form, so that the digest can be verified.
    response = HttpResponse(store.encode_document(analysis.document), content_type="application/json")
    # A strong validator: the digest of exactly these bytes.
    response["ETag"] = f'"{analysis.sha256}"'
    return as_attachment(response, f"{stem}-results.json")


def table_response(analysis: Analysis, name: str, stem: str) -> HttpResponse:
    """Return one table as CSV in full precision."""
    table_data = analysis.document["tables"][name]
    lines = exports.format_table_lines([one["name"] for one in table_data["columns"]], table_data["rows"], exact=True)
    # Cells that a spreadsheet would read as a formula are neutralised.
    response = HttpResponse("".join(exports.prepend_byte_order_mark(lines)), content_type="text/csv; charset=utf-8")
    return as_attachment(response, f"{stem}-{name.replace('_', '-')}.csv")


def pending_response(job: Job | None, message: str) -> JsonResponse:
    """Return status 202 with the state of the job. When the job is done, the same URL returns the file."""
    data: dict[str, Any] = {"status": "pending", "said": message}
    if job:
        data |= {"status": job.status, "job": reverse("ratings:job", kwargs={"job": job.code})}
    return JsonResponse(data, status=202)


def as_attachment(response: Answer, name: str) -> Answer:
    """Set the file name for saving."""
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


urls: list[URLPattern] = [
    path("studies/<slug:slug>/results.json", download_results, name="results_json"),
    path("studies/<slug:slug>/tables/<slug:name>.csv", download_table, name="table_csv"),
]
