"""The items of an unblinded study with all that was said of each, those that raters dispute first."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings import reports, rows, screen
from ratings.models import Item
from ratings.rows import RatingRow
from ratings.views.guards import StudyRequest, study_page

PER_PAGE = 50
_PARTS = {"name": "name", "place": "where it is kept", "availability": "availability", "gone": "nothing is left of it"}


class MarkLine(NamedTuple):
    """A row of the item that somebody ticked. `planted`: the planted error is there; None where its place is unknown."""

    said: str
    raters: int
    planted: bool | None


@study_page("admin", "analyst")
@require_safe
def item_list(request: StudyRequest) -> HttpResponse:
    """Fifty at a time; "?show=disputed" only those that most raters dispute."""
    study = request.study
    context: dict[str, Any] = {"study": study, "may_run": request.role != "analyst", "sealed": not study.is_unblinded}
    if study.is_unblinded:
        every = reports.item_lines(study)
        disputed = [line for line in every if line.disputed]
        only = request.GET.get("show") == "disputed"
        page = Paginator(disputed if only else every, PER_PAGE).get_page(request.GET.get("page"))
        context |= {"page": page, "only": only, "n_items": len(every), "n_disputed": len(disputed)}
    return render(request, "ratings/items.html", context)


@study_page("admin", "analyst")
@require_safe
def item(request: StudyRequest, code: UUID) -> HttpResponse:
    """One item as raters saw it, where it came from, and every rating of it."""
    if not request.study.is_unblinded:
        raise Http404
    row = get_object_or_404(Item.objects.select_related("source"), study=request.study, code=code)
    ratings = list(rows.rating_rows(request.study, code))
    (line, *_) = [*reports.lines_of(ratings), None]
    context = {
        "study": request.study,
        "may_run": request.role != "analyst",
        "code": code,
        "source": row.source,
        "line": line,
        "ratings": ratings,
        "ticked": _ticked(ratings, row.source.target),
        **screen.view(row.payload, row.context, layout="aligned", with_context=True),
    }
    return render(request, "ratings/item.html", context)


def _ticked(ratings: Sequence[RatingRow], target: Sequence[str]) -> list[MarkLine]:
    count = Counter(key for row in ratings if row.counts for key in row.marked)
    planted = [(key, 0) for key in target[:1] if not set(target) & set(count)]
    found = [*count.most_common(), *planted]
    return [MarkLine(mark_name(key), n, key in target if target else None) for key, n in found]


def mark_name(key: str) -> str:
    """A mark's key in words: "A:Volume" is "A: Volume", "seen/1" is "observation 1"."""
    if key in ("missing", "rejected"):
        return {"missing": "something is missing", "rejected": "the reason for the rejection"}[key]
    ref, _, rest = key.partition("/")
    if ref in ("seen", "step") and rest:
        return f"{'observation' if ref == 'seen' else 'step'} {rest}"
    if rest and ":" not in ref:
        return f"{ref.removesuffix('+')}: {_PARTS.get(rest, 'its row of the table')}"
    ref, _, rest = key.partition(":")
    return f"{ref[:-1]} and those like it: {rest}" if ref.endswith("+") else f"{ref}: {rest}"


urls: list[URLPattern] = [
    path("studies/<slug:slug>/items/", item_list, name="items"),
    path("studies/<slug:slug>/items/<uuid:code>/", item, name="item"),
]
