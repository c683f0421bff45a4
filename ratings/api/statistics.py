"""The analysis of an unblinded study, as its page has it."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Router

from ratings.analyses import form, store
from ratings.analyses.filters import Filters
from ratings.api import forms
from ratings.api.bearer import ApiRequest, reads
from ratings.api.problems import ConflictError
from ratings.api.studies import own_study

router = Router(tags=["statistics"])
AGAIN_SECONDS = 5


@reads(
    router, "/studies/{slug:slug}/statistics", "statistics", ["statistics:read"],
    {200: forms.Statistics, 202: forms.Pending}, 404, 409,
)  # fmt: skip
def statistics(request: ApiRequest, slug: str) -> HttpResponse:
    """The stored analysis of all ratings. 202 while a worker computes it: ask again; 409 before the study is unblinded."""
    study = own_study(request, slug)
    if not study.is_unblinded:
        said = f"{study.name} is {study.status}. There are no statistics before it is unblinded."
        raise ConflictError(said)
    look = store.look(study, Filters(), request.auth.user)
    if look.analysis is None or not (look.fresh and look.analysis.full):
        return _pending(look)
    response = HttpResponse(form.canonical(look.analysis.document), content_type="application/json")
    response["ETag"] = f'"{look.analysis.sha256}"'
    return response


def _pending(look: store.Look) -> HttpResponse:
    told: dict[str, Any] = {"status": "pending", "said": look.said, "job": None}
    if look.job:
        told |= {"status": look.job.status, "job": reverse("ratings:job", kwargs={"job": look.job.code})}
    return JsonResponse(told, status=202, headers={"Retry-After": str(AGAIN_SECONDS)})
