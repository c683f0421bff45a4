"""Items of a study. Before unblinding only their codes and counts are returned.

The person who generated an item could recognise its content.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.http import Http404
from django.utils import timezone
from ninja import Query, Router

from ratings.api import responses, schemas
from ratings.api.responses import STALE_CURSOR, CursorError, PageQuery
from ratings.api.studies import get_readable_study
from ratings.api.tokens import ApiRequest, read_operation
from ratings.exchange import exports
from ratings.exchange.exports import Cells
from ratings.models import Item, ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.models.study_events import ApiExported
from ratings.protocol.reference import public_perturbation
from ratings.studies import lifecycle

router = Router(tags=["items"])
ITEM_SCOPES = ("items:blinded", "items:unblinded")
_SEALED = {"payload": None, "context": None}


@read_operation(router, "/studies/{slug:slug}/items", "items", ITEM_SCOPES, schemas.Items, 400, 404)
def list_items(request: ApiRequest, slug: str, window: Query[PageQuery]) -> schemas.Items:
    """List items in the order of their random codes."""
    study = get_readable_study(request, slug)
    with_sources = shows_sources(request, study)

    def load_rows(last: list[Any] | None, n: int) -> QuerySet[Item]:
        return (_select_items(study).filter(code__gt=last[0]) if last else _select_items(study))[:n]

    page = responses.select_page(request, f"items/{study.code}", window, load_rows, lambda row: [str(row.code)])
    return schemas.Items(blinded=not with_sources, data=_format_items(study, page.rows, with_sources), next=page.next)


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
    items = []
    for row in rows:
        ratings, unsure = counts.get(row.pk, (0, 0))
        shown = {"payload": row.payload, "context": row.context} if study.is_unblinded else _SEALED
        source = origins.get(row.pk)
        items.append(schemas.Item(item=row.code, ratings=ratings, could_not_judge=unsure, source=source, **shown))
    return items


def _count_ratings(rows: Sequence[Item], imported: bool) -> dict[int, tuple[int, int]]:
    """Return, for each item, its numbers of counted and of "cannot judge" ratings, as in items.csv of the archive."""
    counted = Rating.objects.filter(
        assignment__item__in=[row.pk for row in rows], assignment__occasion=FIRST, assignment__released_at__isnull=True,
        assignment__surplus=False, assignment__rater__dropped=False,
    )  # fmt: skip
    if not imported:
        # The person who imported ratings knows which items they belong to; a higher count would
        # reveal their codes.
        counted = counted.filter(imported=False)
    numbers = {"n": Count("pk"), "n_unsure": Count("pk", filter=Q(cannot_judge=True))}
    counts = counted.order_by().values_list("assignment__item").annotate(**numbers)
    return {item: (n, n_unsure) for item, n, n_unsure in counts}


def _load_sources(rows: Sequence[Item]) -> dict[int, Any]:
    columns = (
        "item_id", "pair", "label", "perturbation", "twin__kind", "twin__deviation", "reference", "truth", "experiment", "action", "target", "verdicts",
        "imported__key", "item__name",
    )  # fmt: skip
    return {key: _format_source(*rest) for key, *rest in ItemSource.objects.filter(item__in=rows).values_list(*columns)}


def _format_source(
    pair: UUID, label: str, perturbation: str, kind: str | None, deviation: float | None, reference: str, truth: bool | None,
    experiment: str, action: str,
    target: list[str], verdicts: dict[str, bool], key: str | None, name: str,
) -> Any:  # fmt: skip
    return schemas.Source(
        pair=str(pair), source=label, perturbation=public_perturbation(perturbation, reference), error_kind=kind or None, deviation=deviation, reference=reference or None, truth=truth,
        experiment=experiment or None, action=action or None, target=target or None, classifiers=verdicts or None,
        imported_id=key, name=name,
    )  # fmt: skip


ratings_router = Router(tags=["ratings"])
_LOG_INTERVAL = timedelta(hours=1)
LastRow = list[Any] | None  # [item or "", rater, occasion, position] of the last row of the previous page


@read_operation(ratings_router, "/studies/{slug:slug}/ratings", "ratings", ["ratings:read"], schemas.Ratings, 400, 404)
def list_ratings(request: ApiRequest, slug: str, window: Query[PageQuery]) -> schemas.Ratings:
    """List ratings with the columns of the file of ratings. Ratings that do not count are included; `counts` is false for them."""
    study = get_readable_study(request, slug)
    blinded = not shows_sources(request, study)
    list_name = f"ratings/{study.code}/{'blinded' if blinded else 'full'}"

    def locate_row(cells: Cells) -> list[Any]:
        # a cursor is signed but readable; in blinded rows of imported ratings the cell of the item is empty
        return [cells[name] for name in ("item", "rater", "occasion", "position")]

    load = partial(_load_page, study, blinded)
    page = responses.select_page(request, list_name, window, load, locate_row)
    if not window.cursor:
        _log_export(request, study, blinded)
    data = [_convert_cells(row) for row in page.rows]
    return schemas.Ratings(blinded=blinded, data=data, next=page.next)


def _load_page(study: Study, blinded: bool, last_row: LastRow, max_rows: int) -> list[Cells]:
    """Return at most `max_rows` rows that follow the last row of the previous page."""
    if not blinded:
        # Restricting the query to a few items keeps its cost independent of the position of the page.
        within = _build_item_filter(study, last_row, max_rows)
        return list(exports.iter_rating_cells(study, blinded, within, max_rows))
    page_rows: list[Cells] = []
    if last_row is None or last_row[0]:
        within = _build_item_filter(study, last_row, max_rows, imported=False)
        page_rows = list(exports.iter_rating_cells(study, blinded, within, max_rows))
    # before unblinding, imported ratings come last and without their items, so they are sorted by rater
    if len(page_rows) < max_rows:
        after_last = _build_filter_after_rater(study, last_row) if last_row and not last_row[0] else Q()
        within = after_last & Q(imported=True)
        page_rows += exports.iter_rating_cells(study, blinded, within, max_rows - len(page_rows))
    return page_rows


def _build_item_filter(study: Study, last_row: LastRow, max_rows: int, **conditions: bool) -> Q:
    """Return a filter for rows after `last_row`, restricted to the ratings of the next rated items."""
    ratings = Rating.objects.filter(assignment__item=OuterRef("pk"), assignment__rater__dropped=False, **conditions)
    items = Item.objects.filter(Exists(ratings), study=study).order_by("code")
    if last_row:
        items = items.filter(code__gte=last_row[0])
    # every one of these items has a rating, so max_rows + 1 items always fill the page
    of_next_items = Q(assignment__item__in=list(items.values_list("pk", flat=True)[: max_rows + 1]), **conditions)
    if not last_row:
        return of_next_items
    same_item_later = Q(assignment__item__code=last_row[0]) & _build_filter_after_rater(study, last_row)
    return of_next_items & (Q(assignment__item__code__gt=last_row[0]) | same_item_later)


def _build_filter_after_rater(study: Study, last_row: list[Any]) -> Q:
    """Return a filter for rows after the rater, occasion and position of `last_row`."""
    _, label, occasion, position = last_row
    if (rater := study.raters.filter(label=label).first()) is None:
        raise CursorError(STALE_CURSOR)
    later_positions = Q(assignment__occasion=occasion, assignment__position__gt=position)
    of_rater = Q(assignment__rater=rater) & (Q(assignment__occasion__gt=occasion) | later_positions)
    same_number = Q(assignment__rater__number=rater.number, assignment__rater__gt=rater.pk)
    return Q(assignment__rater__number__gt=rater.number) | same_number | of_rater


def _log_export(request: ApiRequest, study: Study, blinded: bool) -> None:
    """Log an export through the API, at most once an hour for each token and variant (blinded or with sources)."""
    content = ApiExported(blinded=blinded, token=request.auth.name)
    # a program that polls every few minutes must not fill the study's log
    recent = study.events.filter(kind=content.kind, by=request.auth.user, at__gt=timezone.now() - _LOG_INTERVAL)
    logged = recent.filter(data__token=content.token, data__blinded=blinded)
    if request.method == "GET" and not logged.exists():
        lifecycle.log_event(study, content, request.auth.user)


def _convert_cells(cells: Cells) -> Any:
    """Return the cells of a CSV row as JSON values."""
    return schemas.Rating(
        **{field.name: _convert_cell(field.kind, cells[field.name]) for field in exports.RATING_FIELDS}
    )


def _convert_cell(kind: str, cell: Any) -> Any:
    if cell == "":
        return None
    match kind:
        case "flag":
            return bool(int(cell))
        case "number":
            return float(cell)
        case "list":
            return json.loads(cell) if isinstance(cell, str) else cell
        case "text":
            return str(cell)
        case _:
            return cell
