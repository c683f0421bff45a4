"""Studies in which the token's user has a role."""

from typing import Any

from django.http import Http404
from ninja import Query, Router

from ratings.api import responses, schemas, tokens
from ratings.api.responses import STALE_CURSOR, CursorError, PageQuery
from ratings.api.tokens import ApiRequest, read_operation
from ratings.models import Study
from ratings.studies.progress import evaluate_stop_rule

router = Router(tags=["studies"])


@read_operation(router, "/studies", "studies", ["studies:read"], schemas.Studies, 400)
def list_studies(request: ApiRequest, window: Query[PageQuery]) -> schemas.Studies:
    """List the studies in which you have a role, newest first."""
    matches = tokens.select_readable_studies(request.auth).order_by("-pk").defer("protocol", "guide")
    if last_row := responses.parse_cursor("studies", window.cursor):
        matches = matches.filter(pk__lt=_get_key(last_row[0]))
    rows, more = responses.split_page(list(matches[: window.limit + 1]), window.limit)
    next_url = responses.build_next_url(request, "studies", window, [str(rows[-1].code)]) if more else None
    return schemas.Studies(data=[schemas.Study(**_get_study_columns(row)) for row in rows], next=next_url)


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


def _get_key(code: str) -> int:
    if (key := Study.objects.filter(code=code).values_list("pk", flat=True).first()) is None:
        # the study of the last row was deleted
        raise CursorError(STALE_CURSOR)
    return key
