"""Ratings row by row: the rows of the study's CSV file, in the same order and with the same values."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from ninja import Query, Router

from ratings.api import cursors, forms
from ratings.api.bearer import ApiRequest, reads
from ratings.api.cursors import GONE, CursorError, Window
from ratings.api.items import shows_sources
from ratings.api.studies import own_study
from ratings.exchange import exports
from ratings.exchange.archive import fields
from ratings.models import Item, Rating, Study
from ratings.models.study_events import ApiExported
from ratings.results import BlindRow, rows
from ratings.studies import lifecycle

router = Router(tags=["ratings"])
_PLACE = "assignment__"
_LOGGED_EVERY = timedelta(hours=1)
At = list[Any] | None  # [item or "", rater, occasion, position] of the last row of the previous page


@reads(router, "/studies/{slug:slug}/ratings", "ratings", ["ratings:read"], forms.Ratings, 400, 404)
def ratings(request: ApiRequest, slug: str, window: Query[Window]) -> forms.Ratings:
    """List ratings with the columns of the file of ratings. Ratings that do not count are included; `counts` is false for them."""
    study = own_study(request, slug)
    blinded = not shows_sources(request, study)
    list_name = f"ratings/{study.code}/{'blinded' if blinded else 'full'}"
    last_row = cursors.read(list_name, window.cursor)
    page_rows, more = cursors.cut(_page(study, blinded, last_row, window.limit + 1), window.limit)
    if last_row is None:
        _log(request, study, blinded)
    next_url = cursors.following(request, list_name, window, _place(page_rows[-1], blinded)) if more else None
    data = [_typed(exports.told(study, row, blinded)) for row in page_rows]
    return forms.Ratings(blinded=blinded, data=data, next=next_url)


def _page(study: Study, blinded: bool, at: At, most: int) -> list[BlindRow]:
    """Return the next rows, by way of the next items."""
    if not blinded:
        # Restricting the query to a few items keeps its cost independent of the position of the page.
        return list(rows.rating_rows(study, within=_of_items(study, at, most), most=most))
    page_rows: list[BlindRow] = []
    if at is None or at[0]:
        page_rows = list(rows.blind_rows(study, _of_items(study, at, most, imported=False), most))
    # before unblinding, imported ratings follow after all others, without their items: they sort by rater
    if len(page_rows) < most:
        after_last = _after(study, at) if at and not at[0] else Q()
        page_rows += rows.blind_rows(study, after_last & Q(imported=True), most - len(page_rows))
    return page_rows


def _of_items(study: Study, at: At, most: int, **which: bool) -> Q:
    """Return a filter for rows after the last row, restricted to the next rated items."""
    ratings_of_item = Rating.objects.filter(assignment__item=OuterRef("pk"), assignment__rater__dropped=False, **which)
    items = Item.objects.filter(Exists(ratings_of_item), study=study).order_by("code")
    if at:
        items = items.filter(code__gte=at[0])
    # every one of these items has a rating, so max_rows + 1 items always fill the page
    of_next_items = Q(assignment__item__in=list(items.values_list("pk", flat=True)[: most + 1]), **which)
    return of_next_items & _after_item(study, at) if at else of_next_items


def _after_item(study: Study, at: list[Any]) -> Q:
    item = f"{_PLACE}item__code"
    return Q(**{f"{item}__gt": at[0]}) | Q(**{item: at[0]}) & _after(study, at)


def _after(study: Study, at: list[Any]) -> Q:
    """Return a filter for rows after this rater, occasion and position."""
    _, label, occasion, position = at
    seat = study.raters.filter(label=label).values_list("number", "pk").first()
    if seat is None:
        raise CursorError(GONE)
    number, key = seat
    same_rater_later = Q(assignment__occasion__gt=occasion) | Q(
        assignment__occasion=occasion, assignment__position__gt=position
    )
    later_raters = Q(assignment__rater__number__gt=number) | Q(
        assignment__rater__number=number, assignment__rater__gt=key
    )
    return later_raters | Q(assignment__rater=key) & same_rater_later


def _place(row: BlindRow, blinded: bool) -> list[Any]:
    """Of an imported one, blinded, without its item: that would tell which."""
    # a cursor is signed but readable: the item would reveal what an imported rating is about
    item = "" if blinded and row.imported else str(row.item)
    return [item, row.rater, row.occasion, row.position]


def _log(request: ApiRequest, study: Study, blinded: bool) -> None:
    """Log that a copy was started, at most once an hour for each token and form."""
    content = ApiExported(blinded=blinded, token=request.auth.name)
    # a program that polls every few minutes must not fill the study's log
    start = timezone.now() - _LOGGED_EVERY
    recent_exports = study.events.filter(kind=content.kind, by=request.auth.user, at__gt=start)
    logged = recent_exports.filter(data__token=content.token, data__blinded=blinded)
    if request.method == "GET" and not logged.exists():
        lifecycle.log(study, content, request.auth.user)


def _typed(cells: Mapping[str, object]) -> Any:
    """Return the cells of a CSV row as JSON values."""
    return forms.Rating(**{field.name: _value(field.kind, cells[field.name]) for field in fields.RATINGS})


def _value(kind: str, cell: Any) -> Any:
    if cell == "":
        return None
    match kind:
        case "flag":
            return bool(cell)
        case "number":
            return float(cell)
        case "list":
            return json.loads(cell) if isinstance(cell, str) else cell
        case "text":
            return str(cell)
        case _:
            return cell
