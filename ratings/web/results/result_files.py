"""Results and figures as files: CSV, JSON and SVG as stored; PDF and PNG by a job, because rendering is too slow for a web process."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, register_converter, reverse
from django.urls.converters import StringConverter
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.exchange import exports
from ratings.models import Analysis, Benchmark
from ratings.results import stored_figures
from ratings.results.analyses import filters, store
from ratings.results.analyses.tables import TABLE_SPECS, Json
from ratings.results.benchmarks import store as benchmarks
from ratings.results.figures.file_metadata import build_svg_file
from ratings.results.figures.registry import FIGURES
from ratings.studies import access
from ratings.web.decorators import StudyRequest, study_page
from simulation.jobs import job_files
from simulation.models import Job
from simulation.web import StaffRequest, staff_only

FILTER_COLUMN = "filter"  # of the CSV file of a table with filters

Answer = TypeVar("Answer", HttpResponse, StreamingHttpResponse)


class EndingConverter(StringConverter):
    """The URL converter for the file formats of a figure."""

    # Any other ending has no route and is a 404.
    regex = "svg|pdf|png|csv"


register_converter(EndingConverter, "ending")


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_results(request: StudyRequest) -> HttpResponseBase:
    """Return the complete analysis, byte for byte as stored, or status 202 and its job until it is computed."""
    # The bytes, not the parsed document: their SHA-256 is published.
    return _serve_analysis(request, lambda analysis, job: document_response(analysis, request.study.slug))


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_table(request: StudyRequest, name: str) -> HttpResponseBase:
    """Return one table in full precision, or status 202 and its job until it is computed."""
    if name not in TABLE_SPECS:
        raise Http404
    return _serve_analysis(request, lambda analysis, job: table_response(analysis, name, request.study.slug))


def _serve_analysis(
    request: StudyRequest,
    build: Callable[[Analysis, Job | None], HttpResponseBase],
    wait: Callable[[Job | None, str], HttpResponseBase] | None = None,
) -> HttpResponseBase:
    """Return what `build` makes of the complete current analysis; until it exists, the response of `wait`, by default 202.

    Status 400 for unknown filters. Raises Http404 while the study is sealed.
    """
    # Checked also for filters, because their known values would reveal the sources of a sealed study.
    if not request.study.is_unblinded:
        raise Http404
    parsed = filters.parse_query(request.GET, filters.list_choices(request.study))
    # Unknown values are errors, not ignored: a misspelt filter would return the numbers of all items.
    if parsed.unknown:
        return HttpResponse(f"{' '.join(parsed.unknown)}\n", status=400, content_type="text/plain; charset=utf-8")
    look = store.get_or_request(request.study, parsed, request.user)
    if look.analysis is None or not (look.is_fresh and look.analysis.full):
        return (wait or pending_response)(look.job, look.message)
    return build(look.analysis, look.job)


def document_response(analysis: Analysis, stem: str) -> HttpResponse:
    """Return the document with the bytes that its SHA-256 covers."""
    # Serialised in the one canonical form, so that the digest can be verified.
    response = HttpResponse(store.encode_document(analysis.document), content_type="application/json")
    # A strong validator: the digest of exactly these bytes.
    response["ETag"] = f'"{analysis.sha256}"'
    return as_attachment(response, f"{stem}-results{get_filters(analysis).file_suffix}.json")


def get_filters(analysis: Analysis) -> filters.Filters:
    """Return the filters of an analysis. Benchmarks have none."""
    return filters.Filters.from_dict(analysis.document.get("filters", {}).get("values", {}))


def table_response(analysis: Analysis, name: str, stem: str) -> HttpResponse:
    """Return one table as CSV in full precision. With filters, a last column `filter` has them in every row."""
    table, active = analysis.document["tables"][name], get_filters(analysis)
    if active:
        # CSV has no place for metadata, and a comment line would break programs that read the header from the first line.
        columns = [*table["columns"], {"name": FILTER_COLUMN}]
        table = {**table, "columns": columns, "rows": [[*row, active.assignments] for row in table["rows"]]}
    return csv_response(table, f"{stem}-{name.replace('_', '-')}{active.file_suffix}.csv")


def csv_response(table: Json, file_name: str) -> HttpResponse:
    """Return a table of a document as CSV in full precision: the page rounds, a file for computation must not."""
    # Cells that a spreadsheet would read as a formula are neutralised.
    lines = exports.format_table_lines([one["name"] for one in table["columns"]], table["rows"], exact=True)
    response = HttpResponse("".join(exports.prepend_byte_order_mark(lines)), content_type="text/csv; charset=utf-8")
    return as_attachment(response, file_name)


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


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_figure(request: StudyRequest, name: str, ending: str) -> HttpResponseBase:
    """Return a figure with the page's filters, or redirect to its job. Its numbers as CSV need no rendering."""
    _check_name(name, "study")

    def send(analysis: Analysis, job: Job | None) -> HttpResponseBase:
        # The job draws the figures; the numbers of the CSV file exist before.
        if job and ending != "csv":
            return _redirect_to_job(job)
        return _send_file(request, analysis, access.format_subject(request.study), request.study.slug, name, ending)

    # A stale analysis is not printed: the figure must fit the numbers that the page shows.
    return _serve_analysis(request, send, lambda job, message: _redirect_to_job(job))


@staff_only
@never_cache
@require_safe
def download_benchmark_figure(request: StaffRequest, code: UUID, name: str, ending: str) -> HttpResponseBase:
    """Return a figure of a benchmark."""
    _check_name(name, "benchmark")
    benchmark = get_object_or_404(Benchmark, code=code)
    look = benchmarks.get_or_request(benchmark, request.user)
    if look.analysis is None:
        return _redirect_to_job(look.job)
    return _send_file(request, look.analysis, benchmarks.job_subject(benchmark), f"benchmark-{code}", name, ending)


def _check_name(name: str, kind: str) -> None:
    if name not in FIGURES or kind not in FIGURES[name].kinds:
        raise Http404


def _redirect_to_job(job: Job | None) -> HttpResponse:
    if job is None:
        raise Http404
    return redirect("ratings:job", job.code)


def _send_file(
    request: StudyRequest | StaffRequest, analysis: Analysis, subject: str, stem: str, name: str, ending: str
) -> HttpResponseBase:
    """Return the figure in the format `ending`. Raises Http404 for a figure without data."""
    if ending == "csv":
        table_name = FIGURES[name].table
        if not analysis.document["tables"][table_name]["rows"]:
            raise Http404
        return table_response(analysis, table_name, stem)
    # A print file is drawn from the same specification, and exists only if the wide one does.
    drawing = get_object_or_404(analysis.drawings, name=name, profile="wide")
    file_name = f"{stem}-{name.replace('_', '-')}{get_filters(analysis).file_suffix}.{ending}"
    if ending == "svg":
        # Standalone: in a page the styles come from the site, in a file they must be inside.
        content = build_svg_file(drawing.svg, FIGURES[name].build_file_label(analysis.document))
        return as_attachment(HttpResponse(content, content_type="image/svg+xml"), file_name)
    # Drawn on request: most figures are never printed.
    job = stored_figures.request_print_file(analysis, subject, name, ending, file_name, request.user)
    return _stream_job_file(request, job) if job.status == "done" else redirect("ratings:job", job.code)


def _stream_job_file(request: StudyRequest | StaffRequest, job: Job) -> HttpResponseBase:
    (file,) = job_files.list_finished_files(job)
    # A HEAD request needs the headers, not the file.
    pieces = job_files.iter_file(file) if request.method == "GET" else iter(())
    headers = {
        "Content-Length": str(file.size),
        "Content-Disposition": content_disposition_header(True, file.name) or "attachment",
    }
    return StreamingHttpResponse(pieces, content_type=file.content_type, headers=headers)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/results.json", download_results, name="results_json"),
    path("studies/<slug:slug>/tables/<slug:name>.csv", download_table, name="table_csv"),
    path("studies/<slug:slug>/figures/<slug:name>.<ending:ending>", download_figure, name="figure"),
    path(
        "benchmarks/<uuid:code>/figures/<slug:name>.<ending:ending>", download_benchmark_figure, name="benchmark_figure"
    ),
]
