"""Import items and ratings from a file: the file is checked first, then imported as a whole."""

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
    """Show the imported items and a form for more. A draft's imported items can be removed again."""
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
    """Show the imported raters and a form for more."""
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
    """Check the file that was sent, or import the file checked before; problems return 422. Large files become jobs."""
    context |= {"study": request.study, "form": UploadForm(), "may_run": True}
    if request.method != "POST":
        return render(request, page, context | _asked(request, kind))
    # Another admin, or another study of this admin, cannot import a file that was checked here.
    owner = f"{request.user.pk}/{request.study.pk}/ratings:{kind}"
    try:
        if token := request.POST.get("token"):
            return _taken(request, token, owner, take, kind)
        if "job" in request.POST:
            return _taken_by_job(request, kind)
        context["form"] = form = UploadForm(request.POST, request.FILES)
        if not form.is_valid():
            return render(request, page, context, status=422)
        uploaded = form.cleaned_data["file"]
        # Checking a large file takes longer than a request may.
        if import_jobs.large(uploaded.file):
            return _to(request, import_jobs.check(kind, request.study, uploaded.file, uploaded.name, request.user))
        checked = check(request.study, uploaded.file)
        context |= _told(checked)
        if not checked.problems:
            context |= {"token": uploads.keep(uploaded.file, owner), "file_name": uploaded.name}
    except uploads.UploadGone:
        context["refused"] = "The checked file is no longer stored. Choose it again."
    except ImportRefused as refused:
        context |= {"problems": refused.problems[:SHOWN], "n_problems": len(refused.problems)}
    except (StudyError, PlanError) as error:
        context["refused"] = str(error)
    has_problems = context.get("problems") or context.get("refused")
    return render(request, page, context, status=422 if has_problems else 200)


def _asked(request: StudyRequest, kind: str) -> dict[str, Any]:
    """Return the job named in the URL: its progress, or the result of its check."""
    job = _job(request.study, kind, request.GET.get("job", ""))
    if job is None:
        return {}
    check = import_jobs.told(job)
    if check is None:
        return {"job": job}
    context = {"checked": check.summary, "problems": check.problems, "n_problems": check.n_problems}
    cannot_import = check.n_problems or "inputs_removed" in job.result
    return context if cannot_import else context | {"from_job": job, "file_name": job.params["name"]}


def _job(study: Study, kind: str, code: str) -> Job | None:
    try:
        return import_jobs.find(kind, study, UUID(code))
    except ValueError:
        return None


def _taken_by_job(request: StudyRequest, kind: str) -> HttpResponse:
    job = _job(request.study, kind, request.POST["job"])
    check = import_jobs.told(job) if job else None
    if job is None or check is None or check.n_problems:
        raise uploads.UploadGone
    try:
        return _to(request, import_jobs.take(job, request.study, request.user))
    except (KeyError, job_files.FileGone) as error:
        raise uploads.UploadGone from error


def _to(request: StudyRequest, job: Job) -> HttpResponse:
    """Redirect to the same page, which shows the job."""
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
