"""Downloads of a study: ratings, archives, protocol and blinding certificate."""

import json
import tempfile
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from ratings.accounts import reauthentication
from ratings.exchange import exports
from ratings.exchange.archive import archive_requests, study_facts
from ratings.exchange.imports import ImportRefused, import_jobs, item_imports, rating_imports
from ratings.exchange.imports.import_jobs import MAX_SHOWN_PROBLEMS, CheckedFile
from ratings.models import Study
from ratings.protocol import PlanError
from ratings.results.analyses import filters
from ratings.studies import SealedError, StudyError, progress
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import item_list, items
from ratings.web.results.result_files import as_attachment
from simulation.jobs import job_files
from simulation.models import Job
from wetbench_site.middleware.uploads import MAX_FILE_BYTES
from wetbench_site.text import format_count


@study_page("admin", "analyst")
@never_cache
@require_safe
def stream_ratings_csv(request: StudyRequest) -> HttpResponseBase:
    """Send one row per rating. Until the study is unblinded, sealed columns are blank and cannot be filtered."""
    active_filters = filters.parse_query(request.GET, filters.list_choices(request.study))
    if active_filters.unknown:
        text = "\n".join((*active_filters.unknown, ""))
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    blinded = "" if request.study.is_unblinded else "-blinded"
    name = f"{request.study.slug}-ratings{blinded}{active_filters.file_suffix}.csv"
    content_type = "text/csv; charset=utf-8"
    # A HEAD request sends no ratings.
    if request.method == "HEAD":
        return as_attachment(HttpResponse(content_type=content_type), name)
    if challenge := _ask_to_sign_in(request):
        return challenge
    lines = exports.export_csv_lines(request.study, not request.study.is_unblinded, request.user, active_filters)
    # On disk, not in memory. The file is complete before its first byte is sent: an error gives an error page and not a
    # part of the file, and a slow client occupies no database connection.
    file = tempfile.TemporaryFile(dir=settings.VAR_DIR)  # noqa: SIM115  # the response closes it
    file.writelines(text.encode() for text in exports.prepend_byte_order_mark(lines))
    file.seek(0)
    return as_attachment(FileResponse(file, content_type=content_type), name)


class ArchiveVariant(NamedTuple):
    """One of the two archives. `job` is the latest request; `stale` if the study has changed since it was created."""

    name: str  # "blinded" or "full"
    job: Job | None
    stale: bool
    is_current: bool  # requesting it creates no further archive


@study_page("admin", "analyst")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def show_exports(request: StudyRequest) -> HttpResponseBase:
    """Show the study's archives. A POST requests one; a worker creates it, and it is listed here while its file is stored."""
    if request.method == "POST":
        return _request_archive(request)
    return render(request, "ratings/export.html", _describe_archives(request))


def _describe_archives(request: StudyRequest) -> dict[str, Any]:
    """Return the context of the page of archives."""
    study = request.study
    context: dict[str, Any] = {"study": study, "role": request.role, "may_run": request.role != "analyst"}
    if study.is_draft:
        return context
    current_state = archive_requests.compute_state(study)
    variants = []
    for name in ("full", "blinded") if study.is_unblinded else ("blinded",):
        job = archive_requests.find_last_request(study, blinded=name == "blinded")
        is_stale = job is not None and archive_requests.is_stale(job, current_state)
        variants.append(ArchiveVariant(name, job, is_stale, archive_requests.is_current(job, current_state)))
    return context | {"variants": variants, "quota": archive_requests.get_quota(request.user)}


def _ask_to_sign_in(request: StudyRequest) -> HttpResponseBase | None:
    """Return the page that asks to sign in again if the files would name sources that people have judged, else None."""
    needs_proof = request.study.is_unblinded and progress.has_people(request.study)
    return reauthentication.ask_to_sign_in(request, "ratings:export") if needs_proof else None


def _request_archive(request: StudyRequest) -> HttpResponseBase:
    if challenge := _ask_to_sign_in(request):
        return challenge
    study, variant = request.study, request.POST.get("variant")
    try:
        if variant not in ("blinded", "full"):
            raise StudyError("Choose one of the archives below")
        archive_requests.check_may_export(study, variant == "blinded")
        # An archive that exists, or is being created, is free.
        context = _describe_archives(request)
        quota: archive_requests.ArchiveQuota = context["quota"]
        if quota.next_at and not any(one.is_current for one in context["variants"] if one.name == variant):
            response = render(request, "ratings/export.html", context | {"refused": True}, status=429)
            # + 1 rounds up, so that a request after the waiting time is not rejected by a fraction of a second.
            response["Retry-After"] = str(max(1, int((quota.next_at - timezone.now()).total_seconds()) + 1))
            return response
        archive_requests.request_archive(study, variant == "blinded", request.user)
    except (SealedError, StudyError) as error:
        messages.error(request, f"{str(error).rstrip('.')}.")
    return redirect("ratings:export", slug=study.slug)


@study_page("admin", "analyst")
@require_safe
def download_protocol(request: StudyRequest) -> HttpResponse:
    """Return the study document as submitted, in the format of `create_study`."""
    return _json_attachment(request.study.protocol, f"{request.study.slug}-protocol.json")


@study_page("admin", "analyst")
@require_safe
def download_certificate(request: StudyRequest) -> HttpResponse:
    """Return the certificate of the latest blinding audit; 404 if there is none."""
    document = study_facts.get_blinding_certificate(request.study, not request.study.is_unblinded)
    if document is None:
        raise Http404
    return _json_attachment(document, f"{request.study.slug}-certificate.json")


def _json_attachment(data: object, name: str) -> HttpResponse:
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return as_attachment(HttpResponse(text, content_type="application/json"), name)


class UploadForm(forms.Form):
    file = forms.FileField(label="File", max_length=200, error_messages={"required": "Choose a file."})

    def __init__(self, kind: str, *args: Any) -> None:
        super().__init__(*args)
        self._max_bytes = MAX_FILE_BYTES[f"ratings:{kind}"]

    def clean_file(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["file"]
        # A little more than is allowed passes the limit of the whole request.
        if (file.size or 0) > self._max_bytes:
            raise forms.ValidationError(f"The file is larger than {self._max_bytes // 1024**2:,} MiB.")
        return file


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def import_items(request: StudyRequest) -> HttpResponse:
    """Show the imported items and a form for more. A draft's imported items can be removed again."""
    study = request.study
    if request.POST.get("do") == "remove":
        try:
            count = item_imports.remove_all_items(study, request.user)
            messages.success(request, f"{format_count(count, 'imported item')} removed from the draft.")
        except StudyError as error:
            messages.error(request, str(error))
        return redirect("ratings:import_items", slug=study.slug)
    by_source = study.imported_items.values("label", "perturbation", "reference", "truth")
    rows = by_source.annotate(n=Count("pk")).order_by("label")
    may_import, n_imported = study.status in item_imports.ALLOWED_STATUSES, sum(row["n"] for row in rows)
    context = {"sources": rows, "imported": n_imported, "may": may_import}
    check, take = item_imports.check_file, item_imports.import_file
    return _handle_import(request, "ratings/import_items.html", context, check, take, import_jobs.ITEMS_KIND)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def import_ratings(request: StudyRequest) -> HttpResponse:
    raters = request.study.raters.exclude(imported_as="").annotate(n=Count("assignments__rating")).order_by("number")
    context = {"raters": raters, "may": request.study.status in rating_imports.ALLOWED_STATUSES}
    check, take = rating_imports.check_file, rating_imports.import_file
    return _handle_import(request, "ratings/import_ratings.html", context, check, take, import_jobs.RATINGS_KIND)


def _handle_import(
    request: StudyRequest,
    page: str,
    context: dict[str, Any],
    check: Callable[[Study, BinaryIO], CheckedFile],
    import_file: Callable[..., CheckedFile],
    kind: str,
) -> HttpResponse:
    """Check the file that was sent, or import the file checked before; problems give status 422. Large files become jobs."""
    context |= {"study": request.study, "form": UploadForm(kind), "may_run": True}
    if request.method != "POST":
        return render(request, page, context | _describe_job(request, kind))
    # A checked file can be imported only by the same admin and into the same study.
    owner = f"{request.user.pk}/{request.study.pk}/ratings:{kind}"
    try:
        if token := request.POST.get("token"):
            return _import_checked_file(request, token, owner, import_file, kind)
        if "job" in request.POST:
            return _import_by_job(request, kind)
        context["form"] = form = UploadForm(kind, request.POST, request.FILES)
        if not form.is_valid():
            return render(request, page, context, status=422)
        uploaded = form.cleaned_data["file"]
        # Checking a large file takes longer than a request may.
        if import_jobs.is_large(uploaded.file):
            job = import_jobs.request_check(kind, request.study, uploaded.file, uploaded.name, request.user)
            return _redirect_to_job(request, job)
        checked = check(request.study, uploaded.file)
        problems = checked.problems
        context |= {"checked": import_jobs.summarise_file(checked), "n_problems": len(problems)}
        context["file_name"] = uploaded.name
        context["problems"] = problems[:MAX_SHOWN_PROBLEMS]
        if not checked.problems:
            context["token"] = import_jobs.store_upload(uploaded.file, owner)
    except import_jobs.UploadGone:
        context["refused"] = "The checked file is no longer stored. Choose it again."
    except ImportRefused as refused:
        context |= {"problems": refused.problems[:MAX_SHOWN_PROBLEMS], "n_problems": len(refused.problems)}
    except (StudyError, PlanError) as error:
        context["refused"] = str(error)
    has_problems = context.get("problems") or context.get("refused")
    return render(request, page, context, status=422 if has_problems else 200)


def _describe_job(request: StudyRequest, kind: str) -> dict[str, Any]:
    """Return the job named in the URL: its progress, or the result of its check."""
    job = _find_job(request.study, kind, request.GET.get("job", ""))
    if job is None:
        return {}
    check = import_jobs.get_check_report(job)
    if check is None:
        return {"job": job}
    context = {"checked": check.summary, "problems": check.problems, "n_problems": check.n_problems}
    context["file_name"] = job.params["name"]
    cannot_import = check.n_problems or "inputs_removed" in job.result
    return context if cannot_import else context | {"from_job": job}


def _find_job(study: Study, kind: str, code: str) -> Job | None:
    try:
        return import_jobs.find_import(kind, study, UUID(code))
    except ValueError:
        return None


def _import_by_job(request: StudyRequest, kind: str) -> HttpResponse:
    job = _find_job(request.study, kind, request.POST["job"])
    check = import_jobs.get_check_report(job) if job else None
    if job is None or check is None or check.n_problems:
        raise import_jobs.UploadGone
    try:
        return _redirect_to_job(request, import_jobs.request_import(job, request.study, request.user))
    except (KeyError, job_files.FileRemoved) as error:
        raise import_jobs.UploadGone from error


def _redirect_to_job(request: StudyRequest, job: Job) -> HttpResponse:
    return redirect(f"{request.path}?job={job.code}")


def _import_checked_file(
    request: StudyRequest, token: str, owner: str, import_file: Callable[..., CheckedFile], kind: str
) -> HttpResponse:
    with import_jobs.open_upload(token, owner) as stream:
        checked = import_file(request.study, stream, request.user)
    import_jobs.delete_upload(token)
    messages.success(request, f"{import_jobs.format_items(kind, import_jobs.summarise_file(checked)['n'])} imported.")
    return redirect(f"ratings:{kind}", slug=request.study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/ratings.csv", stream_ratings_csv, name="ratings_csv"),
    path("studies/<slug:slug>/export/", show_exports, name="export"),
    path("studies/<slug:slug>/protocol.json", download_protocol, name="protocol_json"),
    path("studies/<slug:slug>/certificate.json", download_certificate, name="certificate"),
    *item_list.urls,
    *items.urls,
    path("studies/<slug:slug>/import/", import_items, name="import_items"),
    path("studies/<slug:slug>/import-ratings/", import_ratings, name="import_ratings"),
]
