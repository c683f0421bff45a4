"""Figures as files: SVG and CSV as stored; PDF and PNG by a job, because rendering is too slow for a web process."""

from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, register_converter
from django.urls.converters import StringConverter
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.models import Analysis, Benchmark
from ratings.results import stored_figures
from ratings.results.analyses import store
from ratings.results.analyses.filters import UnknownFilterError
from ratings.results.benchmarks import store as benchmarks
from ratings.results.figures.registry import FIGURES
from ratings.studies import access
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import result_files
from simulation.jobs import job_files
from simulation.models import Job
from simulation.web import StaffRequest, staff_only


class EndingConverter(StringConverter):
    """The URL converter for the file formats of a figure."""

    # Any other ending has no route and is a 404.
    regex = "svg|pdf|png|csv"


register_converter(EndingConverter, "ending")


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_figure(request: StudyRequest, name: str, ending: str) -> HttpResponseBase:
    """Return a figure of an unblinded study with the page's filters, or redirect to its job until it is rendered.

    Its numbers as CSV need no rendering.
    """
    _check_name(name, "study")
    try:
        look = store.get_or_request(request.study, result_files.requested_filters(request), request.user)
    except UnknownFilterError as error:
        # The error names the unknown filter and its values; a program reads it as text.
        return HttpResponse(f"{error}\n", status=400, content_type="text/plain; charset=utf-8")
    # A stale analysis is not printed: the figure must fit the numbers that the page shows.
    if look.analysis is None or not (look.is_fresh and look.analysis.full):
        return _redirect_to_job(look.job)
    # The job draws the figures; the numbers of the CSV file exist before.
    if look.job and ending != "csv":
        return _redirect_to_job(look.job)
    subject = access.format_subject(request.study)
    return _send_file(request, look.analysis, subject, request.study.slug, name, ending)


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
        return result_files.table_response(analysis, table_name, stem)
    # A print file is drawn from the same specification, and exists only if the wide one does.
    drawing = get_object_or_404(analysis.drawings, name=name, profile="wide")
    if ending == "svg":
        # Standalone: in a page the styles come from the site, in a file they must be inside.
        response = HttpResponse(stored_figures.build_svg_file(drawing.svg), content_type="image/svg+xml")
        return result_files.as_attachment(response, f"{stem}-{name.replace('_', '-')}.svg")
    # Drawn on request: most figures are never printed.
    job = stored_figures.request_print_file(analysis, subject, stem, name, ending, request.user)
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
    path("studies/<slug:slug>/figures/<slug:name>.<ending:ending>", download_figure, name="figure"),
    path(
        "benchmarks/<uuid:code>/figures/<slug:name>.<ending:ending>", download_benchmark_figure, name="benchmark_figure"
    ),
]
