"""Pages of jobs: progress, result files, and the buttons that stop a job or try it again."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_POST, require_safe

from ratings.accounts import reauthentication, two_factor
from ratings.exchange.archive import archive_requests
from ratings.raters import model_raters
from ratings.studies import StudyError, access, progress
from ratings.studies.access import JobAccess
from ratings.web.decorators import StudyRequest
from simulation.jobs import job_files, jobs
from simulation.lab.errors import LabError
from simulation.models import Job


@require_safe
def show_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Show the job's page; for htmx only the fragment, which polls until the job has ended."""
    permitted = _get_permitted_job(request, job)
    partial = request.htmx and not request.htmx.history_restore_request
    context: dict[str, Any] = {"job": permitted.job, "study": permitted.study, "role": permitted.role}
    context["may_run"] = permitted.role in ("superuser", "admin")
    if not partial:
        context["title"] = jobs.get_title(permitted.job.kind)
    response = render(request, "ratings/_job.html" if partial else "ratings/job.html", context)
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    return response


@require_safe
def download_job_file(request: StudyRequest, job: UUID, file: int) -> HttpResponseBase:
    """Stream a result file of the job. Downloads of a study's archive are recorded in the study's log."""
    permitted = _get_permitted_job(request, job)
    result_file = next((row for row in job_files.list_finished_files(permitted.job) if row.pk == file), None)
    if result_file is None or permitted.job.status != "done":
        raise Http404
    headers = {
        "Content-Length": str(result_file.size),
        "Content-Disposition": content_disposition_header(True, result_file.name) or "attachment",
        "Cache-Control": "private, no-store",
    }
    is_archive = permitted.job.kind == archive_requests.JOB_KIND
    is_unblinded_archive = is_archive and permitted.job.params["variant"] != archive_requests.BLINDED
    # Sources that no person judges need no protection.
    needs_proof = is_unblinded_archive and not (permitted.study and not progress.has_people(permitted.study))
    if needs_proof and (challenge := reauthentication.ask_to_sign_in(request)):
        return challenge
    # A HEAD request transfers nothing, so it is not recorded as a download.
    if request.method == "GET" and permitted.study and is_archive:
        archive_requests.log_download(permitted.study, permitted.job, request.user, result_file.sha256)
    pieces = job_files.iter_file(result_file) if request.method == "GET" else iter(())
    return StreamingHttpResponse(pieces, content_type=result_file.content_type, headers=headers)


@require_POST
def cancel_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Ask the worker to stop the job. The worker first completes the step it has started."""
    permitted = _get_controllable_job(request, job)
    if jobs.cancel_job(permitted.job):
        messages.success(request, "The job is being stopped.")
    else:
        messages.info(request, "The job has already ended.")
    return redirect("ratings:job", permitted.job.code)


@require_POST
def retry_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Run the same work again as a new job. A model rater continues its existing job instead."""
    permitted = _get_controllable_job(request, job)
    next_job: Job | None = permitted.job
    try:
        if permitted.job.kind == model_raters.KIND:
            next_job = model_raters.retry_job(permitted.job, request.user).job
        else:
            next_job = jobs.retry_job(permitted.job, request.user)
    except (jobs.JobFailed, StudyError, LabError) as error:
        messages.error(request, str(error))
    if next_job is None:
        messages.info(request, "Nothing is left to rate.")
    return redirect("ratings:job", (next_job or permitted.job).code)


def _get_permitted_job(request: StudyRequest, code: UUID) -> JobAccess:
    permitted = access.get_job_or_404(request.user, code)
    # Jobs are outside the pages of a study, so `study_page` has not checked this.
    two_factor.require_two_factor(request, permitted.role)
    request.role = permitted.role  # as on the pages of the study, whose navigation reads it
    return permitted


def _get_controllable_job(request: StudyRequest, code: UUID) -> JobAccess:
    permitted = _get_permitted_job(request, code)
    if not permitted.may_control:
        raise Http404
    return permitted


urls: list[URLPattern] = [
    path("jobs/<uuid:job>/", show_job, name="job"),
    path("jobs/<uuid:job>/files/<int:file>/", download_job_file, name="job_file"),
    path("jobs/<uuid:job>/cancel/", cancel_job, name="cancel_job"),
    path("jobs/<uuid:job>/retry/", retry_job, name="retry_job"),
]
