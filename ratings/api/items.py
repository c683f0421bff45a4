"""Items of a study. Before unblinding only their codes and counts are returned.

The person who generated an item could recognise its content.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.http import Http404
from ninja import Query, Router

from ratings.api import responses, schemas
from ratings.api.responses import PageQuery
from ratings.api.studies import get_readable_study
from ratings.api.tokens import ApiRequest, read_operation
from ratings.models import Item, ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import public_perturbation

router = Router(tags=["items"])
ITEM_SCOPES = ("items:blinded", "items:unblinded")


@read_operation(router, "/studies/{slug:slug}/items", "items", ITEM_SCOPES, schemas.Items, 400, 404)
def list_items(request: ApiRequest, slug: str, window: Query[PageQuery]) -> schemas.Items:
    """List items in the order of their random codes."""
    study = get_readable_study(request, slug)
    list_name, matches = f"items/{study.code}", _select_items(study)
    if last_row := responses.parse_cursor(list_name, window.cursor):
        matches = matches.filter(code__gt=last_row[0])
    rows, more = responses.split_page(list(matches[: window.limit + 1]), window.limit)
    next_url = responses.build_next_url(request, list_name, window, [str(rows[-1].code)]) if more else None
    with_sources = shows_sources(request, study)
    return schemas.Items(blinded=not with_sources, data=_format_items(study, rows, with_sources), next=next_url)


@read_operation(router, "/studies/{slug:slug}/items/{uuid:code}", "item", ITEM_SCOPES, schemas.Item, 404)
def get_item(request: ApiRequest, slug: str, code: UUID) -> schemas.Item:
    """Return one item."""
    study = get_readable_study(request, slug)
    rows = list(_select_items(study).filter(code=code))
    if not rows:
        raise Http404
    return _format_items(study, rows, shows_sources(request, study))[0]


def shows_sources(request: ApiRequest, study: Study) -> bool:
    """Return whether this token may currently read the sources of items."""
    return study.is_unblinded and "items:unblinded" in request.auth.scopes


def _select_items(study: Study) -> QuerySet[Item]:
    study_items = Item.objects.filter(study=study).order_by("code")
    # before unblinding, payloads are not even read from the database
    return study_items if study.is_unblinded else study_items.only("code")


def _format_items(study: Study, rows: Sequence[Item], with_sources: bool) -> list[schemas.Item]:
    counts = _count_ratings(rows, imported=with_sources)
    origins = _load_sources(rows) if with_sources else {}
    return [_format_item(study, row, *counts.get(row.pk, (0, 0)), origins.get(row.pk)) for row in rows]


def _format_item(study: Study, row: Item, n_ratings: int, n_unsure: int, source: schemas.Source | None) -> schemas.Item:
    content = (
        {"payload": row.payload, "context": row.context} if study.is_unblinded else {"payload": None, "context": None}
    )
    return schemas.Item(item=row.code, ratings=n_ratings, could_not_judge=n_unsure, source=source, **content)


def _count_ratings(rows: Sequence[Item], imported: bool) -> dict[int, tuple[int, int]]:
    """Return, for each item, its numbers of counted and of "cannot judge" ratings, as in items.csv of the archive."""
    prefix = "assignment__"
    counted = Rating.objects.filter(
        assignment__item__in=[row.pk for row in rows], assignment__occasion=FIRST, assignment__released_at__isnull=True,
        assignment__surplus=False, assignment__rater__dropped=False,
    )  # fmt: skip
    if not imported:
        # The person who imported ratings knows which items they belong to; a higher count would
        # reveal their codes.
        counted = counted.filter(imported=False)
    n_unsure = Count("pk", filter=Q(cannot_judge=True))
    return {
        item: (n, m)
        for item, n, m in counted.order_by().values_list(f"{prefix}item").annotate(n=Count("pk"), m=n_unsure)
    }


def _load_sources(rows: Sequence[Item]) -> dict[int, Any]:
    columns = (
        "item_id", "pair", "label", "perturbation", "twin__kind", "reference", "truth", "experiment", "action", "target", "verdicts",
        "imported__key",
    )  # fmt: skip
    return {key: _format_source(*rest) for key, *rest in ItemSource.objects.filter(item__in=rows).values_list(*columns)}


def _format_source(
    pair: UUID, label: str, perturbation: str, kind: str | None, reference: str, truth: bool | None, experiment: str, action: str,
    target: list[str], verdicts: dict[str, bool], key: str | None,
) -> Any:  # fmt: skip
    return schemas.Source(
        pair=str(pair), source=label, perturbation=public_perturbation(perturbation, reference), error_kind=kind or None, reference=reference or None, truth=truth,
        experiment=experiment or None, action=action or None, target=target or None, classifiers=verdicts or None,
        imported_id=key,
    )  # fmt: skip
