"""Studies in which the token's user has a role."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Query, Router

from ratings.api import responses, schemas, tokens
from ratings.api.responses import ConflictError, PageQuery
from ratings.api.tokens import ApiRequest, read_operation
from ratings.models import Study
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.studies.progress import evaluate_stop_rule
from simulation.models import Job

router = Router(tags=["studies"])


@read_operation(router, "/studies", "studies", ["studies:read"], schemas.Studies, 400)
def list_studies(request: ApiRequest, window: Query[PageQuery]) -> schemas.Studies:
    """List the studies in which you have a role, newest first."""

    def load_rows(last: list[Any] | None, n: int) -> QuerySet[Study]:
        matches = tokens.select_readable_studies(request.auth).order_by("-pk").defer("protocol", "guide")
        return (matches.filter(pk__lt=responses.find_key(Study.objects.all(), last[0])) if last else matches)[:n]

    page = responses.select_page(request, "studies", window, load_rows, lambda row: [str(row.code)])
    return schemas.Studies(data=[schemas.Study(**_get_study_columns(row)) for row in page.rows], next=page.next)


@read_operation(router, "/studies/{slug:slug}", "study", ["studies:read"], schemas.WholeStudy, 404)
def get_study(request: ApiRequest, slug: str) -> schemas.WholeStudy:
    """Return one study with its protocol and its progress."""
    row = get_readable_study(request, slug)
    stop = evaluate_stop_rule(row)
    progress = schemas.Progress(
        items=row.items.count(), ratings=stop.given, wanted=stop.wanted, complete=stop.met, said=stop.said
    )
    return schemas.WholeStudy(**_get_study_columns(row), guide=row.guide, progress=progress, protocol=row.protocol)


def get_readable_study(request: ApiRequest, slug: str) -> Study:
    """Return the study if the token's user has a role in it and the token covers it. Raises Http404 otherwise."""
    if (study_row := tokens.select_readable_studies(request.auth).filter(slug=slug).first()) is None:
        raise Http404
    return study_row


def _get_study_columns(row: Study) -> dict[str, Any]:
    names = [name for name in schemas.Study.model_fields if name != "unblinded"]
    return {"unblinded": row.is_unblinded, **{name: getattr(row, name) for name in names}}


statistics_router = Router(tags=["statistics"])
RETRY_SECONDS = 5


@read_operation(
    statistics_router, "/studies/{slug:slug}/statistics", "statistics", ["statistics:read"],
    {200: schemas.Statistics, 202: schemas.Pending}, 404, 409,
)  # fmt: skip
def get_statistics(request: ApiRequest, slug: str) -> HttpResponse:
    """Return the stored analysis of all ratings. 202 while a worker computes it: retry later. 409 before the study is unblinded."""
    study = get_readable_study(request, slug)
    if not study.is_unblinded:
        raise ConflictError(f"{study.name} is {study.status}. Statistics are available after unblinding.")
    lookup = store.get_or_request(study, Filters(), request.auth.user)
    if lookup.analysis is None or not (lookup.is_fresh and lookup.analysis.full):
        return _create_pending_response(lookup.job.status if lookup.job else "pending", lookup.message, lookup.job)
    # canonical bytes: their SHA-256 is that of results.json in the archive
    response = HttpResponse(store.encode_document(lookup.analysis.document), content_type="application/json")
    response["ETag"] = f'"{lookup.analysis.sha256}"'
    return response


@read_operation(
    statistics_router, "/studies/{slug:slug}/contrasts/{slug:other}", "contrasts", ["statistics:read"],
    {200: schemas.Comparison, 202: schemas.Pending}, 404, 409,
)  # fmt: skip
def get_contrasts(request: ApiRequest, slug: str, other: str) -> HttpResponse:
    """Return the contrasts of two studies, the first minus the second. 202 while a worker computes them: retry later.

    409 before both are unblinded, or if they are of different kinds.
    """
    first, second = get_readable_study(request, slug), get_readable_study(request, other)
    if sealed := [study for study in (first, second) if not study.is_unblinded]:
        state = f"{sealed[0].name} is {sealed[0].status}"
        raise ConflictError(f"{state}. Contrasts are available after both are unblinded.")
    if first == second or first.kind != second.kind:
        raise ConflictError("Choose two different studies of the same kind.")
    job = store.request_comparison(first, second, request.auth.user)
    if job.status != "done":
        return _create_pending_response(job.status, "The comparison is being computed.", job)
    return JsonResponse({"first": first.slug, "second": second.slug, "table": job.result["table"]})


def _create_pending_response(status: str, message: str, job: Job | None) -> HttpResponse:
    page_url = reverse("ratings:job", kwargs={"job": job.code}) if job else None
    document = {"status": status, "said": message, "job": page_url}
    return JsonResponse(document, status=202, headers={"Retry-After": str(RETRY_SECONDS)})
