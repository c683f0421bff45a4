"""What leaves a study as a file."""

import json
from typing import TypeVar

from django.http import FileResponse, Http404, HttpResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings import exports, packs
from ratings.views import items, looking
from ratings.views.guards import StudyRequest, study_page

Answer = TypeVar("Answer", HttpResponse, StreamingHttpResponse)


@study_page("admin", "analyst")
@never_cache
@require_safe
def ratings_csv(request: StudyRequest) -> HttpResponse | StreamingHttpResponse:
    """One row per rating, streamed. Until the study is unblinded the sealed columns are empty."""
    name = _named(request, "ratings", "csv")
    if request.method == "HEAD":
        return _attached(HttpResponse(content_type="text/csv; charset=utf-8"), name)
    lines = exports.csv_lines(request.study, blinded=not request.study.is_unblinded, by=request.user)
    return _attached(StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8"), name)


@study_page("admin", "analyst")
@never_cache
@require_safe
def pack(request: StudyRequest) -> HttpResponse | FileResponse:
    """All of it in a zip, blinded until the study is unblinded."""
    name = _named(request, "study", "zip")
    if request.method == "HEAD":
        return _attached(HttpResponse(content_type="application/zip"), name)
    file = packs.pack(request.study, blinded=not request.study.is_unblinded, by=request.user)
    return FileResponse(file, as_attachment=True, filename=name, content_type="application/zip")


@study_page("admin", "analyst")
@require_safe
def protocol_json(request: StudyRequest) -> HttpResponse:
    """The study document as it was read, ready for `create_study`."""
    return _json(request.study.protocol, f"{request.study.slug}-protocol.json")


@study_page("admin", "analyst")
@require_safe
def certificate(request: StudyRequest) -> HttpResponse:
    """The last blinding audit; 404 before the first."""
    found = packs.certificate(request.study)
    if found is None:
        raise Http404
    return _json(found, f"{request.study.slug}-certificate.json")


def _named(request: StudyRequest, what: str, ending: str) -> str:
    return f"{request.study.slug}-{what}{'' if request.study.is_unblinded else '-blinded'}.{ending}"


def _json(data: object, name: str) -> HttpResponse:
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return _attached(HttpResponse(text, content_type="application/json"), name)


def _attached(response: Answer, name: str) -> Answer:
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


urls: list[URLPattern] = [
    path("studies/<slug:slug>/ratings.csv", ratings_csv, name="ratings_csv"),
    path("studies/<slug:slug>/study.zip", pack, name="pack"),
    path("studies/<slug:slug>/protocol.json", protocol_json, name="protocol_json"),
    path("studies/<slug:slug>/certificate.json", certificate, name="certificate"),
    *items.urls,
    *looking.urls,
]
