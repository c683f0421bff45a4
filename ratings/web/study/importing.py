"""Items and ratings from elsewhere, by file: checked first, then imported whole."""

from collections.abc import Callable
from typing import Any, BinaryIO
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.exchange.imports import ImportRefused, import_jobs, import_lines, item_imports, rating_imports, uploads
from ratings.exchange.imports.import_jobs import SHOWN, Checked
from ratings.models import Study
from ratings.protocol import PlanError
from ratings.studies import StudyError
from ratings.web.guards import StudyRequest, study_page
from simulation.jobs import job_files
from simulation.models import Job


class UploadForm(forms.Form):
    file = forms.FileField(label="File", max_length=200, error_messages={"required": "Choose a file."})

    def clean_file(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["file"]
        if (file.size or 0) > import_lines.MOST_BYTES:
            raise forms.ValidationError(f"The file is larger than {import_lines.MOST_BYTES // 1024**2} MiB.")
        return file


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def import_items(request: StudyRequest) -> HttpResponse:
    """What was imported so far, and a file for more. A draft's can be taken out again."""
    if request.POST.get("do") == "remove":
        return _removed(request)
    study = request.study
    rows = (
        study.imported_items.values("label", "perturbation", "reference", "truth")
        .annotate(n=Count("pk"))
        .order_by("label")
    )
    context = {"sources": rows, "imported": sum(row["n"] for row in rows), "may": study.status in item_imports.INTO}
    return _import(
        request, "ratings/import_items.html", context, item_imports.check, item_imports.take, import_jobs.ITEMS
    )


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def import_ratings(request: StudyRequest) -> HttpResponse:
    """Who was imported so far, and a file for more."""
    seats = request.study.raters.exclude(imported_as="").annotate(n=Count("assignments__rating")).order_by("number")
    context = {"seats": seats, "may": request.study.status in rating_imports.INTO}
    check, take = rating_imports.check, rating_imports.take
    return _import(request, "ratings/import_ratings.html", context, check, take, import_jobs.RATINGS)


def _import(
    request: StudyRequest,
    page: str,
    context: dict[str, Any],
    check: Callable[[Study, BinaryIO], Checked],
    take: Callable[..., Checked],
    kind: str,
) -> HttpResponse:
    """Check the file that was sent, or import the one that was checked before; problems are a 422. Large ones are jobs."""
    context |= {"study": request.study, "form": UploadForm(), "may_run": True}
    if request.method != "POST":
        return render(request, page, context | _asked(request, kind))
    owner = f"{request.user.pk}/{request.study.pk}/ratings:{kind}"
    try:
        if token := request.POST.get("token"):
            return _taken(request, token, owner, take, kind)
        if "job" in request.POST:
            return _taken_by_job(request, kind)
        context["form"] = form = UploadForm(request.POST, request.FILES)
        if not form.is_valid():
            return render(request, page, context, status=422)
        sent = form.cleaned_data["file"]
        if import_jobs.large(sent.file):
            return _to(request, import_jobs.check(kind, request.study, sent.file, sent.name, request.user))
        checked = check(request.study, sent.file)
        context |= _told(checked)
        if not checked.problems:
            context |= {"token": uploads.keep(sent.file, owner), "file_name": sent.name}
    except uploads.UploadGone:
        context["refused"] = "The file that was checked is not here any more. Choose it again."
    except ImportRefused as refused:
        context |= {"problems": refused.problems[:SHOWN], "n_problems": len(refused.problems)}
    except (StudyError, PlanError) as error:
        context["refused"] = str(error)
    wrong = context.get("problems") or context.get("refused")
    return render(request, page, context, status=422 if wrong else 200)


def _asked(request: StudyRequest, kind: str) -> dict[str, Any]:
    """The job that the address names: how far it is, or what its check found."""
    job = _job(request.study, kind, request.GET.get("job", ""))
    if job is None:
        return {}
    told = import_jobs.told(job)
    if told is None:
        return {"job": job}
    context = {"checked": told.summary, "problems": told.problems, "n_problems": told.n_problems}
    gone = told.n_problems or "inputs_removed" in job.result
    return context if gone else context | {"from_job": job, "file_name": job.params["name"]}


def _job(study: Study, kind: str, code: str) -> Job | None:
    try:
        return import_jobs.find(kind, study, UUID(code))
    except ValueError:
        return None


def _taken_by_job(request: StudyRequest, kind: str) -> HttpResponse:
    job = _job(request.study, kind, request.POST["job"])
    told = import_jobs.told(job) if job else None
    if job is None or told is None or told.n_problems:
        raise uploads.UploadGone
    try:
        return _to(request, import_jobs.take(job, request.study, request.user))
    except (KeyError, job_files.FileGone) as error:
        raise uploads.UploadGone from error


def _to(request: StudyRequest, job: Job) -> HttpResponse:
    """The same page, with the job on it."""
    return redirect(f"{request.path}?job={job.code}")


def _taken(request: StudyRequest, token: str, owner: str, take: Callable[..., Checked], kind: str) -> HttpResponse:
    with uploads.opened(token, owner) as stream:
        checked = take(request.study, stream, request.user)
    uploads.forget(token)
    messages.success(request, f"{import_jobs.counted(kind, import_jobs.summary(checked)['n'])} imported.")
    return redirect(f"ratings:{kind}", slug=request.study.slug)


def _told(checked: Checked) -> dict[str, Any]:
    return {
        "checked": import_jobs.summary(checked),
        "problems": checked.problems[:SHOWN],
        "n_problems": len(checked.problems),
    }


def _removed(request: StudyRequest) -> HttpResponse:
    try:
        count = item_imports.remove_all(request.study, request.user)
    except StudyError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{count} imported item{'s' * (count != 1)} removed from the draft.")
    return redirect("ratings:import_items", slug=request.study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/import/", import_items, name="import_items"),
    path("studies/<slug:slug>/import-ratings/", import_ratings, name="import_ratings"),
]
