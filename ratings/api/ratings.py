"""Ratings row by row: those of the study's CSV file, in its order, with its values."""

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
At = list[Any] | None  # [item or "", rater, occasion, position] of the last row of the page before


@reads(router, "/studies/{slug:slug}/ratings", "ratings", ["ratings:read"], forms.Ratings, 400, 404)
def ratings(request: ApiRequest, slug: str, window: Query[Window]) -> forms.Ratings:
    """Ratings with the columns of ratings.csv. Those that count nowhere are there too: `counts` tells."""
    study = own_study(request, slug)
    blinded = not shows_sources(request, study)
    form = f"ratings/{study.code}/{'blinded' if blinded else 'full'}"
    at = cursors.read(form, window.cursor)
    found, more = cursors.cut(_page(study, blinded, at, window.limit + 1), window.limit)
    if at is None:
        _log(request, study, blinded)
    following = cursors.following(request, form, window, _place(found[-1], blinded)) if more else None
    data = [_typed(exports.told(study, row, blinded)) for row in found]
    return forms.Ratings(blinded=blinded, data=data, next=following)


def _page(study: Study, blinded: bool, at: At, most: int) -> list[BlindRow]:
    """The next rows, by way of the next items: what is read does not grow with how deep the page is."""
    if not blinded:
        return list(rows.rating_rows(study, within=_of_items(study, at, most), most=most))
    found: list[BlindRow] = []
    if at is None or at[0]:
        found = list(rows.blind_rows(study, _of_items(study, at, most, imported=False), most))
    if len(found) < most:
        elsewhere = _after(study, at) if at and not at[0] else Q()
        found += rows.blind_rows(study, elsewhere & Q(imported=True), most - len(found))
    return found


def _of_items(study: Study, at: At, most: int, **which: bool) -> Q:
    """Rows after that place, of as many rated items from it on as can be needed."""
    given = Rating.objects.filter(assignment__item=OuterRef("pk"), assignment__rater__dropped=False, **which)
    items = Item.objects.filter(Exists(given), study=study).order_by("code")
    if at:
        items = items.filter(code__gte=at[0])
    these = Q(assignment__item__in=list(items.values_list("pk", flat=True)[: most + 1]), **which)
    return these & _after_item(study, at) if at else these


def _after_item(study: Study, at: list[Any]) -> Q:
    item = f"{_PLACE}item__code"
    return Q(**{f"{item}__gt": at[0]}) | Q(**{item: at[0]}) & _after(study, at)


def _after(study: Study, at: list[Any]) -> Q:
    """After that rater, occasion and position."""
    _, label, occasion, position = at
    seat = study.raters.filter(label=label).values_list("number", "pk").first()
    if seat is None:
        raise CursorError(GONE)
    number, key = seat
    later = Q(assignment__occasion__gt=occasion) | Q(assignment__occasion=occasion, assignment__position__gt=position)
    others = Q(assignment__rater__number__gt=number) | Q(assignment__rater__number=number, assignment__rater__gt=key)
    return others | Q(assignment__rater=key) & later


def _place(row: BlindRow, blinded: bool) -> list[Any]:
    """Of an imported one, blinded, without its item: that would tell which."""
    item = "" if blinded and row.imported else str(row.item)
    return [item, row.rater, row.occasion, row.position]


def _log(request: ApiRequest, study: Study, blinded: bool) -> None:
    """A copy that begins is logged like the file's, but not each time for a program that looks every few minutes."""
    content = ApiExported(blinded=blinded, token=request.auth.name)
    since = timezone.now() - _LOGGED_EVERY
    own = study.events.filter(kind=content.kind, by=request.auth.user, at__gt=since)
    logged = own.filter(data__token=content.token, data__blinded=blinded)
    if request.method == "GET" and not logged.exists():
        lifecycle.log(study, content, request.auth.user)


def _typed(cells: Mapping[str, object]) -> Any:
    """The cells of the CSV row as JSON has them."""
    return forms.Rating(**{one.name: _value(one.kind, cells[one.name]) for one in fields.RATINGS})


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
