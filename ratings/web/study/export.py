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

from ratings.accounts import confirming, export_limit
from ratings.exchange import exports
from ratings.exchange.archive import design, orders
from ratings.models import Study
from ratings.results.analyses import filters
from ratings.studies import SealedError, StudyError
from ratings.web.guards import StudyRequest, study_page
from ratings.web.results import items
from ratings.web.results.results import attached
from ratings.web.study import looking
from simulation.models import Job


@study_page("admin", "analyst")
@never_cache
@require_safe
def ratings_csv(request: StudyRequest) -> HttpResponseBase:
    """Stream one row per rating. Until the study is unblinded, sealed columns are blank and cannot be filtered."""
    active_filters = filters.from_query(request.GET, filters.choices(request.study))
    if active_filters.unknown:
        return HttpResponse(
            "\n".join((*active_filters.unknown, "")), status=400, content_type="text/plain; charset=utf-8"
        )
    name = _named(request, "ratings-part" if active_filters else "ratings", "csv")
    # A HEAD request sends no ratings, so it does not count towards the export limit.
    if request.method == "HEAD":
        return attached(HttpResponse(content_type="text/csv; charset=utf-8"), name)
    if refusal := _wait(request):
        return refusal
    lines = exports.csv_lines(request.study, not request.study.is_unblinded, request.user, active_filters)
    return attached(
        StreamingHttpResponse(exports.for_spreadsheets(lines), content_type="text/csv; charset=utf-8"), name
    )


class Variant(NamedTuple):
    """One of the two archives. `job` is the latest request; `stale` if the study has changed since it was created."""

    name: str  # "blinded" or "full"
    job: Job | None
    stale: bool


@study_page("admin", "analyst")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def export(request: StudyRequest) -> HttpResponseBase:
    """Show the study's archives. A POST requests one; a worker creates it, and it is listed here while its file is stored."""
    study = request.study
    if request.method == "POST":
        return _ask(request, study)
    context = {"study": study, "role": request.role, "may_run": request.role != "analyst"}
    if not study.is_draft:
        context["variants"] = _variants(study)
    return render(request, "ratings/export.html", context)


def _wait(request: StudyRequest) -> HttpResponseBase | None:
    """Return a request to sign in again or the page on the export limit, or None if the export may start."""
    # Exports of an unblinded study contain sources, so they need a recent sign-in.
    if request.study.is_unblinded and (challenge := confirming.ask(request, "ratings:export")):
        return challenge
    if not (seconds := export_limit.seconds_left(request.user)):
        return None
    # Rounded up: trying again after these minutes must succeed.
    context = {"study": request.study, "minutes": -(-seconds // 60), "most": settings.EXPORTS_PER_HOUR}
    response = render(request, "ratings/export_wait.html", context, status=429)
    response["Retry-After"] = str(seconds)
    return response


def _ask(request: StudyRequest, study: Study) -> HttpResponseBase:
    if refusal := _wait(request):
        return refusal
    variant = request.POST.get("variant")
    try:
        if variant not in ("blinded", "full"):
            raise StudyError("Choose one of the archives below")
        orders.ask(study, variant == "blinded", request.user)
    except (SealedError, StudyError) as error:
        messages.error(request, f"{str(error).rstrip('.')}.")
    return redirect("ratings:export", slug=study.slug)


def _variants(study: Study) -> list[Variant]:
    current_state = orders.state(study)
    variants = []
    for name in ("full", "blinded") if study.is_unblinded else ("blinded",):
        job = orders.last(study, blinded=name == "blinded")
        variants.append(Variant(name, job, job is not None and orders.is_stale(job, current_state)))
    return variants


@study_page("admin", "analyst")
@require_safe
def protocol_json(request: StudyRequest) -> HttpResponse:
    """Return the study document as submitted, in the format of `create_study`."""
    return _json(request.study.protocol, f"{request.study.slug}-protocol.json")


@study_page("admin", "analyst")
@require_safe
def certificate(request: StudyRequest) -> HttpResponse:
    """Return the certificate of the latest blinding audit; 404 if there is none."""
    document = design.certificate(request.study, not request.study.is_unblinded)
    if document is None:
        raise Http404
    return _json(document, f"{request.study.slug}-certificate.json")


def _named(request: StudyRequest, what: str, ending: str) -> str:
    return f"{request.study.slug}-{what}{'' if request.study.is_unblinded else '-blinded'}.{ending}"


def _json(data: object, name: str) -> HttpResponse:
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return attached(HttpResponse(text, content_type="application/json"), name)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/ratings.csv", ratings_csv, name="ratings_csv"),
    path("studies/<slug:slug>/export/", export, name="export"),
    path("studies/<slug:slug>/protocol.json", protocol_json, name="protocol_json"),
    path("studies/<slug:slug>/certificate.json", certificate, name="certificate"),
    *items.urls,
    *looking.urls,
]
