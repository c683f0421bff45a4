"""Downloads of a study: ratings, archives, protocol and blinding certificate."""

import json
from typing import NamedTuple

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from ratings.accounts import export_quota, reauthentication_pages
from ratings.exchange import exports
from ratings.exchange.archive import archive_requests, study_facts
from ratings.models import Study
from ratings.results.analyses import filters
from ratings.studies import SealedError, StudyError
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import items
from ratings.web.results.result_files import as_attachment
from ratings.web.study import interim_page
from simulation.models import Job


@study_page("admin", "analyst")
@never_cache
@require_safe
def stream_ratings_csv(request: StudyRequest) -> HttpResponseBase:
    """Stream one row per rating. Until the study is unblinded, sealed columns are blank and cannot be filtered."""
    active_filters = filters.parse_query(request.GET, filters.list_choices(request.study))
    if active_filters.unknown:
        return HttpResponse(
            "\n".join((*active_filters.unknown, "")), status=400, content_type="text/plain; charset=utf-8"
        )
    name = _format_file_name(request, "ratings-part" if active_filters else "ratings", "csv")
    # A HEAD request sends no ratings, so it does not count towards the export limit.
    if request.method == "HEAD":
        return as_attachment(HttpResponse(content_type="text/csv; charset=utf-8"), name)
    if refusal := _check_export_allowed(request):
        return refusal
    lines = exports.export_csv_lines(request.study, not request.study.is_unblinded, request.user, active_filters)
    return as_attachment(
        StreamingHttpResponse(exports.prepend_byte_order_mark(lines), content_type="text/csv; charset=utf-8"), name
    )


class ArchiveVariant(NamedTuple):
    """One of the two archives. `job` is the latest request; `stale` if the study has changed since it was created."""

    name: str  # "blinded" or "full"
    job: Job | None
    stale: bool


@study_page("admin", "analyst")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def show_exports(request: StudyRequest) -> HttpResponseBase:
    """Show the study's archives. A POST requests one; a worker creates it, and it is listed here while its file is stored."""
    study = request.study
    if request.method == "POST":
        return _request_archive(request, study)
    context = {"study": study, "role": request.role, "may_run": request.role != "analyst"}
    if not study.is_draft:
        context["variants"] = _list_variants(study)
    return render(request, "ratings/export.html", context)


def _check_export_allowed(request: StudyRequest) -> HttpResponseBase | None:
    """Return None if the export may start, else the page that asks to sign in again or to wait."""
    # Exports of an unblinded study contain sources, so they need a recent sign-in.
    if request.study.is_unblinded and (challenge := reauthentication_pages.ask_to_sign_in(request, "ratings:export")):
        return challenge
    if not (seconds := export_quota.seconds_until_allowed(request.user)):
        return None
    # Rounded up: trying again after these minutes must succeed.
    context = {"study": request.study, "minutes": -(-seconds // 60), "most": settings.EXPORTS_PER_HOUR}
    response = render(request, "ratings/export_wait.html", context, status=429)
    response["Retry-After"] = str(seconds)
    return response


def _request_archive(request: StudyRequest, study: Study) -> HttpResponseBase:
    if refusal := _check_export_allowed(request):
        return refusal
    variant = request.POST.get("variant")
    try:
        if variant not in ("blinded", "full"):
            raise StudyError("Choose one of the archives below")
        archive_requests.request_archive(study, variant == "blinded", request.user)
    except (SealedError, StudyError) as error:
        messages.error(request, f"{str(error).rstrip('.')}.")
    return redirect("ratings:export", slug=study.slug)


def _list_variants(study: Study) -> list[ArchiveVariant]:
    current_state = archive_requests.compute_state(study)
    variants = []
    for name in ("full", "blinded") if study.is_unblinded else ("blinded",):
        job = archive_requests.find_last_request(study, blinded=name == "blinded")
        variants.append(ArchiveVariant(name, job, job is not None and archive_requests.is_stale(job, current_state)))
    return variants


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


def _format_file_name(request: StudyRequest, content: str, ending: str) -> str:
    return f"{request.study.slug}-{content}{'' if request.study.is_unblinded else '-blinded'}.{ending}"


def _json_attachment(data: object, name: str) -> HttpResponse:
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return as_attachment(HttpResponse(text, content_type="application/json"), name)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/ratings.csv", stream_ratings_csv, name="ratings_csv"),
    path("studies/<slug:slug>/export/", show_exports, name="export"),
    path("studies/<slug:slug>/protocol.json", download_protocol, name="protocol_json"),
    path("studies/<slug:slug>/certificate.json", download_certificate, name="certificate"),
    *items.urls,
    *interim_page.urls,
]
