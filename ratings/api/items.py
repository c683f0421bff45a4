"""Items of a study. Until it is unblinded, codes and counts alone: who made an item could know it by what it shows."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.http import Http404
from ninja import Query, Router

from ratings.api import cursors, forms
from ratings.api.bearer import ApiRequest, reads
from ratings.api.cursors import Window
from ratings.api.studies import own_study
from ratings.models import Item, ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import show_perturbation

router = Router(tags=["items"])
SCOPES = ("items:blinded", "items:unblinded")


@reads(router, "/studies/{slug:slug}/items", "items", SCOPES, forms.Items, 400, 404)
def items(request: ApiRequest, slug: str, window: Query[Window]) -> forms.Items:
    """Items in the order of their random codes."""
    study = own_study(request, slug)
    form, found = f"items/{study.code}", _items(study)
    if at := cursors.read(form, window.cursor):
        found = found.filter(code__gt=at[0])
    rows, more = cursors.cut(list(found[: window.limit + 1]), window.limit)
    following = cursors.following(request, form, window, [str(rows[-1].code)]) if more else None
    told = shows_sources(request, study)
    return forms.Items(blinded=not told, data=_told(study, rows, told), next=following)


@reads(router, "/studies/{slug:slug}/items/{uuid:code}", "item", SCOPES, forms.Item, 404)
def item(request: ApiRequest, slug: str, code: UUID) -> forms.Item:
    """One item."""
    study = own_study(request, slug)
    rows = list(_items(study).filter(code=code))
    if not rows:
        raise Http404
    return _told(study, rows, shows_sources(request, study))[0]


def shows_sources(request: ApiRequest, study: Study) -> bool:
    """Whether this token may read where items came from, now."""
    return study.is_unblinded and "items:unblinded" in request.auth.scopes


def _items(study: Study) -> QuerySet[Item]:
    found = Item.objects.filter(study=study).order_by("code")
    return found if study.is_unblinded else found.only("code")


def _told(study: Study, rows: Sequence[Item], sources: bool) -> list[forms.Item]:
    counts = _counts(rows, imported=sources)
    origins = _sources(rows) if sources else {}
    return [_item(study, row, *counts.get(row.pk, (0, 0)), origins.get(row.pk)) for row in rows]


def _item(study: Study, row: Item, given: int, unsure: int, source: forms.Source | None) -> forms.Item:
    shown = (
        {"payload": row.payload, "context": row.context} if study.is_unblinded else {"payload": None, "context": None}
    )
    return forms.Item(item=row.code, ratings=given, could_not_judge=unsure, source=source, **shown)


def _counts(rows: Sequence[Item], imported: bool) -> dict[int, tuple[int, int]]:
    """Ratings that count of each, and how many of them could not be judged, as `items.csv` of the archive has them.

    Not `imported`: without those that came from elsewhere. Who brought them knows what they are of, and a count would tell where.
    """
    place = "assignment__"
    live = Rating.objects.filter(
        assignment__item__in=[row.pk for row in rows], assignment__occasion=FIRST, assignment__released_at__isnull=True,
        assignment__surplus=False, assignment__rater__dropped=False,
    )  # fmt: skip
    if not imported:
        live = live.filter(imported=False)
    unsure = Count("pk", filter=Q(cannot_judge=True))
    return {one: (n, m) for one, n, m in live.order_by().values_list(f"{place}item").annotate(n=Count("pk"), m=unsure)}


def _sources(rows: Sequence[Item]) -> dict[int, Any]:
    columns = (
        "item_id", "pair", "label", "perturbation", "twin__kind", "reference", "truth", "experiment", "action", "target", "verdicts",
        "imported__key",
    )  # fmt: skip
    return {key: _source(*rest) for key, *rest in ItemSource.objects.filter(item__in=rows).values_list(*columns)}


def _source(
    pair: UUID, label: str, perturbation: str, kind: str | None, reference: str, truth: bool | None, experiment: str, action: str,
    target: list[str], verdicts: dict[str, bool], key: str | None,
) -> Any:  # fmt: skip
    return forms.Source(
        pair=str(pair), source=label, perturbation=show_perturbation(perturbation, reference), error_kind=kind or None, reference=reference or None, truth=truth,
        experiment=experiment or None, action=action or None, target=target or None, classifiers=verdicts or None,
        imported_id=key,
    )  # fmt: skip
