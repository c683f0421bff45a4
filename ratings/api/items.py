"""Items of a study. Before unblinding only codes and counts: the person who generated an item could recognise its content."""

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
    """List items in the order of their random codes."""
    study = own_study(request, slug)
    list_name, matches = f"items/{study.code}", _items(study)
    if last_row := cursors.read(list_name, window.cursor):
        matches = matches.filter(code__gt=last_row[0])
    rows, more = cursors.cut(list(matches[: window.limit + 1]), window.limit)
    next_url = cursors.following(request, list_name, window, [str(rows[-1].code)]) if more else None
    with_sources = shows_sources(request, study)
    return forms.Items(blinded=not with_sources, data=_told(study, rows, with_sources), next=next_url)


@reads(router, "/studies/{slug:slug}/items/{uuid:code}", "item", SCOPES, forms.Item, 404)
def item(request: ApiRequest, slug: str, code: UUID) -> forms.Item:
    """Return one item."""
    study = own_study(request, slug)
    rows = list(_items(study).filter(code=code))
    if not rows:
        raise Http404
    return _told(study, rows, shows_sources(request, study))[0]


def shows_sources(request: ApiRequest, study: Study) -> bool:
    """Return whether this token may currently read the sources of items."""
    return study.is_unblinded and "items:unblinded" in request.auth.scopes


def _items(study: Study) -> QuerySet[Item]:
    study_items = Item.objects.filter(study=study).order_by("code")
    # before unblinding, payloads are not even read from the database
    return study_items if study.is_unblinded else study_items.only("code")


def _told(study: Study, rows: Sequence[Item], sources: bool) -> list[forms.Item]:
    counts = _counts(rows, imported=sources)
    origins = _sources(rows) if sources else {}
    return [_item(study, row, *counts.get(row.pk, (0, 0)), origins.get(row.pk)) for row in rows]


def _item(study: Study, row: Item, given: int, unsure: int, source: forms.Source | None) -> forms.Item:
    content = (
        {"payload": row.payload, "context": row.context} if study.is_unblinded else {"payload": None, "context": None}
    )
    return forms.Item(item=row.code, ratings=given, could_not_judge=unsure, source=source, **content)


def _counts(rows: Sequence[Item], imported: bool) -> dict[int, tuple[int, int]]:
    """Return for each item its counted ratings and how many of them could not judge, as in `items.csv` of the archive."""
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
