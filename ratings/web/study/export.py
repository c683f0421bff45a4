"""What leaves a study as a file."""

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
    """One row per rating, streamed. Until the study is unblinded the sealed columns are empty and filter nothing."""
    chosen = filters.from_query(request.GET, filters.choices(request.study))
    if chosen.unknown:
        return HttpResponse("\n".join((*chosen.unknown, "")), status=400, content_type="text/plain; charset=utf-8")
    name = _named(request, "ratings-part" if chosen else "ratings", "csv")
    if request.method == "HEAD":
        return attached(HttpResponse(content_type="text/csv; charset=utf-8"), name)
    if wait := _wait(request):
        return wait
    lines = exports.csv_lines(request.study, not request.study.is_unblinded, request.user, chosen)
    return attached(
        StreamingHttpResponse(exports.for_spreadsheets(lines), content_type="text/csv; charset=utf-8"), name
    )


class Variant(NamedTuple):
    """One of the two archives. `job`: the last that was asked for; `stale`: the study has changed since it was made."""

    name: str  # "blinded" or "full"
    job: Job | None
    stale: bool


@study_page("admin", "analyst")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def export(request: StudyRequest) -> HttpResponseBase:
    """The study as one archive: asked for by a POST, made by a worker, found here while its file is kept."""
    study = request.study
    if request.method == "POST":
        return _ask(request, study)
    context = {"study": study, "role": request.role, "may_run": request.role != "analyst"}
    if not study.is_draft:
        context["variants"] = _variants(study)
    return render(request, "ratings/export.html", context)


def _wait(request: StudyRequest) -> HttpResponseBase | None:
    """Asks who they are where sources go out, and to come later who has had many exports; else None."""
    if request.study.is_unblinded and (asked := confirming.ask(request, "ratings:export")):
        return asked
    if not (seconds := export_limit.seconds_left(request.user)):
        return None
    context = {"study": request.study, "minutes": -(-seconds // 60), "most": settings.EXPORTS_PER_HOUR}
    response = render(request, "ratings/export_wait.html", context, status=429)
    response["Retry-After"] = str(seconds)
    return response


def _ask(request: StudyRequest, study: Study) -> HttpResponseBase:
    if wait := _wait(request):
        return wait
    variant = request.POST.get("variant")
    try:
        if variant not in ("blinded", "full"):
            raise StudyError("Choose one of the archives below")
        orders.ask(study, variant == "blinded", request.user)
    except (SealedError, StudyError) as error:
        messages.error(request, f"{str(error).rstrip('.')}.")
    return redirect("ratings:export", slug=study.slug)


def _variants(study: Study) -> list[Variant]:
    now = orders.state(study)
    found = []
    for name in ("full", "blinded") if study.is_unblinded else ("blinded",):
        job = orders.last(study, blinded=name == "blinded")
        found.append(Variant(name, job, job is not None and orders.is_stale(job, now)))
    return found


@study_page("admin", "analyst")
@require_safe
def protocol_json(request: StudyRequest) -> HttpResponse:
    """The study document as it was read, ready for `create_study`."""
    return _json(request.study.protocol, f"{request.study.slug}-protocol.json")


@study_page("admin", "analyst")
@require_safe
def certificate(request: StudyRequest) -> HttpResponse:
    """The last blinding audit; 404 before the first."""
    found = design.certificate(request.study, not request.study.is_unblinded)
    if found is None:
        raise Http404
    return _json(found, f"{request.study.slug}-certificate.json")


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
