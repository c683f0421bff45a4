"""Pages of jobs: progress, result files, and the buttons that stop a job or try it again."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_POST, require_safe

from ratings.accounts import confirming, second_step
from ratings.exchange.archive import orders
from ratings.raters.machines import machines
from ratings.studies import StudyError, job_access
from ratings.studies.job_access import Seen
from ratings.web.guards import StudyRequest
from simulation.jobs import job_files, job_kinds, jobs
from simulation.lab.errors import LabError
from simulation.models import Job


@require_safe
def job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Show the job's page; for htmx only the fragment, which polls until the job has ended."""
    permitted = _seen(request, job)
    partial = request.htmx and not request.htmx.history_restore_request
    context = {
        "job": permitted.job,
        "study": permitted.study,
        "role": permitted.role,
        "may_run": permitted.role in ("superuser", "admin"),
    }
    if not partial:
        context["title"] = job_kinds.title(permitted.job.kind)
    response = render(request, "ratings/_job.html" if partial else "ratings/job.html", context)
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    return response


@require_safe
def job_file(request: StudyRequest, job: UUID, file: int) -> HttpResponseBase:
    """Stream a result file of the job. Downloads of a study's archive are recorded in the study's log."""
    permitted = _seen(request, job)
    result_file = next((candidate for candidate in job_files.whole(permitted.job) if candidate.pk == file), None)
    if result_file is None or permitted.job.status != "done":
        raise Http404
    headers = {
        "Content-Length": str(result_file.size),
        "Content-Disposition": content_disposition_header(True, result_file.name) or "attachment",
        "Cache-Control": "private, no-store",
    }
    if (
        permitted.job.kind == orders.KIND
        and permitted.job.params["variant"] != orders.BLINDED
        and (challenge := confirming.ask(request))
    ):
        return challenge
    # A HEAD request transfers nothing, so it is not recorded as a download.
    if request.method == "GET" and permitted.study and permitted.job.kind == orders.KIND:
        orders.taken(permitted.study, permitted.job, request.user, result_file.sha256)
    pieces = job_files.read(result_file) if request.method == "GET" else iter(())
    return StreamingHttpResponse(pieces, content_type=result_file.content_type, headers=headers)


@require_POST
def cancel_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Ask the worker to stop the job. The worker first completes the step it has started."""
    permitted = _steered(request, job)
    if jobs.cancel(permitted.job):
        messages.success(request, "The job is being stopped.")
    else:
        messages.info(request, "The job has already ended.")
    return redirect("ratings:job", permitted.job.code)


@require_POST
def retry_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Run the same work again as a new job. A model rater continues its existing job instead."""
    permitted = _steered(request, job)
    next_job: Job | None = permitted.job
    try:
        if permitted.job.kind == machines.KIND:
            next_job = machines.again(permitted.job, request.user).job
        else:
            next_job = jobs.retry(permitted.job, request.user)
    except (jobs.Failed, StudyError, LabError) as error:
        messages.error(request, str(error))
    if next_job is None:
        messages.info(request, "Nothing is left to rate.")
    return redirect("ratings:job", (next_job or permitted.job).code)


def _seen(request: StudyRequest, code: UUID) -> Seen:
    permitted = job_access.seen(request.user, code)
    # Jobs are outside the pages of a study, so `study_page` has not checked this.
    second_step.require(request, permitted.role)
    return permitted


def _steered(request: StudyRequest, code: UUID) -> Seen:
    permitted = _seen(request, code)
    if not permitted.may_steer:
        raise Http404
    return permitted


urls: list[URLPattern] = [
    path("jobs/<uuid:job>/", job, name="job"),
    path("jobs/<uuid:job>/files/<int:file>/", job_file, name="job_file"),
    path("jobs/<uuid:job>/cancel/", cancel_job, name="cancel_job"),
    path("jobs/<uuid:job>/retry/", retry_job, name="retry_job"),
]
