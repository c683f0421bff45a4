"""The analysis of an unblinded study, identical to the one on its page."""

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Router

from ratings.api import schemas
from ratings.api.responses import ConflictError
from ratings.api.studies import get_readable_study
from ratings.api.tokens import ApiRequest, read_operation
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from simulation.models import Job

router = Router(tags=["statistics"])
RETRY_SECONDS = 5


@read_operation(
    router, "/studies/{slug:slug}/statistics", "statistics", ["statistics:read"],
    {200: schemas.Statistics, 202: schemas.Pending}, 404, 409,
)  # fmt: skip
def get_statistics(request: ApiRequest, slug: str) -> HttpResponse:
    """Return the stored analysis of all ratings. 202 while a worker computes it: retry later. 409 before the study is unblinded."""
    study = get_readable_study(request, slug)
    if not study.is_unblinded:
        message = f"{study.name} is {study.status}. Statistics are available after unblinding."
        raise ConflictError(message)
    lookup = store.get_or_request(study, Filters(), request.auth.user)
    if lookup.analysis is None or not (lookup.is_fresh and lookup.analysis.full):
        return _create_analysis_pending_response(lookup)
    # canonical bytes: their SHA-256 is that of results.json in the archive
    response = HttpResponse(store.encode_document(lookup.analysis.document), content_type="application/json")
    response["ETag"] = f'"{lookup.analysis.sha256}"'
    return response


@read_operation(
    router, "/studies/{slug:slug}/contrasts/{slug:other}", "contrasts", ["statistics:read"],
    {200: schemas.Comparison, 202: schemas.Pending}, 404, 409,
)  # fmt: skip
def get_contrasts(request: ApiRequest, slug: str, other: str) -> HttpResponse:
    """Return the contrasts of two studies, the first minus the second. 202 while a worker computes them: retry later.

    409 before both are unblinded, or if they are of different kinds.
    """
    first, second = get_readable_study(request, slug), get_readable_study(request, other)
    if sealed := [study for study in (first, second) if not study.is_unblinded]:
        raise ConflictError(
            f"{sealed[0].name} is {sealed[0].status}. Contrasts are available after both are unblinded."
        )
    if first == second or first.kind != second.kind:
        raise ConflictError("Choose two different studies of the same kind.")
    job = store.request_comparison(first, second, request.auth.user)
    if job.status != "done":
        return _create_pending_response(job.status, "The comparison is being computed.", job)
    return JsonResponse({"first": first.slug, "second": second.slug, "table": job.result["table"]})


def _create_analysis_pending_response(lookup: store.AnalysisStatus) -> HttpResponse:
    return _create_pending_response(lookup.job.status if lookup.job else "pending", lookup.message, lookup.job)


def _create_pending_response(status: str, message: str, job: Job | None) -> HttpResponse:
    page_url = reverse("ratings:job", kwargs={"job": job.code}) if job else None
    document = {"status": status, "said": message, "job": page_url}
    return JsonResponse(document, status=202, headers={"Retry-After": str(RETRY_SECONDS)})
