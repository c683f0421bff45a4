"""The analysis of an unblinded study, as its page has it."""

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Router

from ratings.api import forms
from ratings.api.bearer import ApiRequest, reads
from ratings.api.problems import ConflictError
from ratings.api.studies import own_study
from ratings.results import study_pairs
from ratings.results.analyses import form, store
from ratings.results.analyses.filters import Filters
from simulation.models import Job

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


@reads(
    router, "/studies/{slug:slug}/contrasts/{slug:other}", "contrasts", ["statistics:read"],
    {200: forms.Comparison, 202: forms.Pending}, 404, 409,
)  # fmt: skip
def contrasts(request: ApiRequest, slug: str, other: str) -> HttpResponse:
    """The contrasts of two studies, the first less the second. 202 while a worker computes them: ask again; 409 before
    both are unblinded, or where they are not of one kind."""
    first, second = own_study(request, slug), own_study(request, other)
    if sealed := [study for study in (first, second) if not study.is_unblinded]:
        raise ConflictError(
            f"{sealed[0].name} is {sealed[0].status}. There are no contrasts before both are unblinded."
        )
    if first == second or first.kind != second.kind:
        raise ConflictError("Two different studies of one kind are compared.")
    job = study_pairs.request_comparison(first, second, request.auth.user)
    if job.status != "done":
        return _wait(job.status, "The comparison is being computed.", job)
    return JsonResponse({"first": first.slug, "second": second.slug, "table": job.result["table"]})


def _pending(look: store.Look) -> HttpResponse:
    return _wait(look.job.status if look.job else "pending", look.said, look.job)


def _wait(status: str, said: str, job: Job | None) -> HttpResponse:
    page = reverse("ratings:job", kwargs={"job": job.code}) if job else None
    told = {"status": status, "said": said, "job": page}
    return JsonResponse(told, status=202, headers={"Retry-After": str(AGAIN_SECONDS)})
