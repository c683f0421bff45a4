"""Longer work under way: how far it has come, what came out of it, and the buttons that stop it and try it again."""

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
    """The job's page; for htmx the fragment alone, which asks again until the job has ended."""
    seen = _seen(request, job)
    partial = request.htmx and not request.htmx.history_restore_request
    context = {"job": seen.job, "study": seen.study, "role": seen.role, "may_run": seen.role in ("superuser", "admin")}
    if not partial:
        context["title"] = job_kinds.title(seen.job.kind)
    response = render(request, "ratings/_job.html" if partial else "ratings/job.html", context)
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    return response


@require_safe
def job_file(request: StudyRequest, job: UUID, file: int) -> HttpResponseBase:
    """A file that came out of the job, sent piece by piece. Of a study's archive the study's log says who took it."""
    seen = _seen(request, job)
    found = next((one for one in job_files.whole(seen.job) if one.pk == file), None)
    if found is None or seen.job.status != "done":
        raise Http404
    headers = {
        "Content-Length": str(found.size),
        "Content-Disposition": content_disposition_header(True, found.name) or "attachment",
        "Cache-Control": "private, no-store",
    }
    if (
        seen.job.kind == orders.KIND
        and seen.job.params["variant"] != orders.BLINDED
        and (asked := confirming.ask(request))
    ):
        return asked
    if request.method == "GET" and seen.study and seen.job.kind == orders.KIND:
        orders.taken(seen.study, seen.job, request.user, found.sha256)
    pieces = job_files.read(found) if request.method == "GET" else iter(())
    return StreamingHttpResponse(pieces, content_type=found.content_type, headers=headers)


@require_POST
def cancel_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """Ask for an end. Its worker finishes what it has begun."""
    seen = _steered(request, job)
    if jobs.cancel(seen.job):
        messages.success(request, "It is being stopped.")
    else:
        messages.info(request, "It has ended already.")
    return redirect("ratings:job", seen.job.code)


@require_POST
def retry_job(request: StudyRequest, job: UUID) -> HttpResponse:
    """The same work once more, as a new job. A machine goes on instead where it stands."""
    seen = _steered(request, job)
    again: Job | None = seen.job
    try:
        if seen.job.kind == machines.KIND:
            again = machines.again(seen.job, request.user).job
        else:
            again = jobs.retry(seen.job, request.user)
    except (jobs.Failed, StudyError, LabError) as error:
        messages.error(request, str(error))
    if again is None:
        messages.info(request, "Nothing is left to rate.")
    return redirect("ratings:job", (again or seen.job).code)


def _seen(request: StudyRequest, code: UUID) -> Seen:
    seen = job_access.seen(request.user, code)
    second_step.require(request, seen.role)
    return seen


def _steered(request: StudyRequest, code: UUID) -> Seen:
    seen = _seen(request, code)
    if not seen.may_steer:
        raise Http404
    return seen


urls: list[URLPattern] = [
    path("jobs/<uuid:job>/", job, name="job"),
    path("jobs/<uuid:job>/files/<int:file>/", job_file, name="job_file"),
    path("jobs/<uuid:job>/cancel/", cancel_job, name="cancel_job"),
    path("jobs/<uuid:job>/retry/", retry_job, name="retry_job"),
]
