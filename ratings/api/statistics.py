"""The analysis of an unblinded study, identical to the one on its page."""

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
    """Return the stored analysis of all ratings. 202 while a worker computes it: retry later. 409 before the study is unblinded."""
    study = own_study(request, slug)
    if not study.is_unblinded:
        message = f"{study.name} is {study.status}. Statistics are available after unblinding."
        raise ConflictError(message)
    lookup = store.look(study, Filters(), request.auth.user)
    if lookup.analysis is None or not (lookup.fresh and lookup.analysis.full):
        return _pending(lookup)
    # canonical bytes: their SHA-256 is that of results.json in the archive
    response = HttpResponse(form.canonical(lookup.analysis.document), content_type="application/json")
    response["ETag"] = f'"{lookup.analysis.sha256}"'
    return response


@reads(
    router, "/studies/{slug:slug}/contrasts/{slug:other}", "contrasts", ["statistics:read"],
    {200: forms.Comparison, 202: forms.Pending}, 404, 409,
)  # fmt: skip
def contrasts(request: ApiRequest, slug: str, other: str) -> HttpResponse:
    """Return the contrasts of two studies, the first minus the second. 202 while a worker computes them: retry later.

    409 before both are unblinded, or if they are of different kinds.
    """
    first, second = own_study(request, slug), own_study(request, other)
    if sealed := [study for study in (first, second) if not study.is_unblinded]:
        raise ConflictError(
            f"{sealed[0].name} is {sealed[0].status}. Contrasts are available after both are unblinded."
        )
    if first == second or first.kind != second.kind:
        raise ConflictError("Choose two different studies of the same kind.")
    job = study_pairs.request_comparison(first, second, request.auth.user)
    if job.status != "done":
        return _wait(job.status, "The comparison is being computed.", job)
    return JsonResponse({"first": first.slug, "second": second.slug, "table": job.result["table"]})


def _pending(look: store.Look) -> HttpResponse:
    return _wait(look.job.status if look.job else "pending", look.said, look.job)


def _wait(status: str, said: str, job: Job | None) -> HttpResponse:
    page_url = reverse("ratings:job", kwargs={"job": job.code}) if job else None
    document = {"status": status, "said": said, "job": page_url}
    return JsonResponse(document, status=202, headers={"Retry-After": str(AGAIN_SECONDS)})
