"""What leaves a study as a file."""

import json

from django.http import HttpResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from ratings import access, exports
from simulation.access import StaffRequest, staff_only


@staff_only
@never_cache
@require_GET
def ratings_csv(request: StaffRequest, slug: str) -> StreamingHttpResponse:
    """One row per rating, streamed. Until the study is unblinded the sealed columns are empty."""
    study = access.study_for(request.user, slug)
    blinded = not study.is_unblinded
    lines = exports.csv_lines(study, blinded=blinded, by=request.user)
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    name = f"{study.slug}-ratings{'-blinded' if blinded else ''}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@staff_only
@require_safe
def protocol_json(request: StaffRequest, slug: str) -> HttpResponse:
    """The study document as it was read, ready for `create_study`."""
    study = access.study_for(request.user, slug)
    text = json.dumps(study.protocol, indent=2, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{study.slug}-protocol.json"'
    return response


urls: list[URLPattern] = [
    path("studies/<slug:slug>/ratings.csv", ratings_csv, name="ratings_csv"),
    path("studies/<slug:slug>/protocol.json", protocol_json, name="protocol_json"),
]
