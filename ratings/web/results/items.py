"""Pages of items after unblinding: one item with its ratings, and the items that raters disagree about."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.blinding import Payload, blind_transition, item_diff, item_view
from ratings.blinding.item_diff import DiffLine, format_mark_key
from ratings.blinding.item_names import name_item
from ratings.models import Item, ItemSource, Study
from ratings.results import rating_rows
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import Json, list_records
from ratings.results.rating_rows import RatingRow, iter_rating_rows
from ratings.web.decorators import StudyRequest, study_page
from simulation.web.transcript import build_checker_report

TINT_STEPS = 5
MAX_ITEMS, MAX_MARKED_ROWS = 12, 4  # of the list of contested items


class StripCell(NamedTuple):
    """One rating. `side` is "yes", "no" or "none" (cannot judge), `text` is displayed, `full_text` explains it."""

    side: str
    strength: int
    text: str
    full_text: str


class HeatCell(NamedTuple):
    """One row of the item and how many raters marked it. `strength` is 0 to 5."""

    label: str
    ticked: int
    strength: int
    planted: bool


def build_strip(ratings: Iterable[RatingRow], answers: tuple[str, str]) -> list[StripCell]:
    """Return the ratings that count, from the most certain yes to the most certain no, then those without a verdict."""
    counting = [row for row in ratings if row.counts]
    # Certain yes first, certain no last; the rater's number makes the order the same each time.
    signs = {True: -1, False: 1, None: 1}
    counting.sort(key=lambda row: (row.verdict is None, (row.confidence or 0) * signs[row.verdict], row.number))
    return [_make_cell(row, answers) for row in counting]


def build_heat(lines: Sequence[DiffLine], could: int) -> list[HeatCell]:
    """Return every row of an item in order, tinted by the share of the `could` raters who marked it."""
    heat = []
    for line in lines:
        # Rounded up, so that a single mark is visible; never above the scale, even with more marks than raters who could mark.
        strength = -(-TINT_STEPS * min(line.ticked, could) // could)
        label = f"{line.material}, {line.label}" if line.material else line.label
        heat.append(HeatCell(label, line.ticked, strength, line.planted))
    return heat


def _make_cell(row: RatingRow, answers: tuple[str, str]) -> StripCell:
    if row.verdict is None:
        return StripCell("none", 0, "?", f"{row.rater}: cannot judge")
    full_text = f"{row.rater}: {answers[0 if row.verdict else 1].lower()}, confidence {row.confidence}"
    sign = "+" if row.verdict else "\N{MINUS SIGN}"
    return StripCell("yes" if row.verdict else "no", row.confidence or 0, f"{sign}{row.confidence}", full_text)


# Columns of documents, which can be large and are not shown.
_LONG = ("initial", "pending", "memory", "experiment__data", "run__setup")
_FROM = ("transition__episode", "review__episode")


class RelatedItem(NamedTuple):
    """Another item of the study from the same step or record."""

    code: UUID
    name: str
    source: str


class MarkCounts(NamedTuple):
    """Counts of marks by key, and the number of ratings whose raters could mark rows."""

    by_key: Counter[str]
    could: int


@study_page("admin", "analyst")
@require_safe
def show_item(request: StudyRequest, code: UUID) -> HttpResponse:
    """Show one item as raters saw it, its original, its source, and every rating by people and models."""
    if not request.study.is_unblinded:
        raise Http404
    row = get_object_or_404(_items_with_source(), study=request.study, code=code)
    related = ItemSource.objects.filter(item__study=request.study, pair=row.source.pair).exclude(pk=row.source.pk)
    kin = list(related.select_related("item").order_by("perturbation", "label", "pk"))
    ratings = list(rating_rows.iter_rating_rows(request.study, code))
    machines = list(row.machine_ratings.select_related("rater").order_by("rater__pk"))
    ticked = _count_marks(ratings)
    checked = row.source.twin or row.source.transition
    original, original_said = _find_original(row.source, kin)
    # Compared through the blinded payloads, so the page shows the difference that raters could have seen.
    diff_lines = item_diff.compare_rows(row.payload, original, row.source.target, ticked.by_key)
    context = {
        "study": request.study,
        "may_run": request.role != "analyst",
        "role": request.role,
        "may_see_runs": request.user.is_staff,
        "code": code,
        "source": row.source,
        "line": _summarise_item(ratings),
        "ratings": ratings,
        "strip": build_strip(ratings, request.study.answer_labels),
        "machines": machines,
        "given_by": _describe_raters(ratings, len(machines)),
        "name": row.name or name_item(row.payload),
        "kin": [
            RelatedItem(one.item.code, one.item.name, rating_rows.format_source_name(one.label, one.perturbation))
            for one in kin
        ],
        "compared": original is not None,
        "original_said": original_said,
        "lines": [one for one in diff_lines if one.is_notable],
        "folded": [one for one in diff_lines if not one.is_notable],
        "heat": build_heat(diff_lines, ticked.could) if ticked.could else [],
        # Without ratings that could mark, a share would be 0 of 0.
        "could": ticked.could,
        "is_transition": row.payload["kind"] == "transition",
        "checked": build_checker_report(checked.findings if checked else None),
        **item_view.build_item_view(row.payload, row.context, layout="aligned", with_context=True),
    }
    return render(request, "ratings/item.html", context)


def _describe_raters(given: Sequence[RatingRow], machines: int) -> str:
    simulated = sum(row.simulated for row in given)
    counts = ((len(given) - simulated, "people"), (simulated, "simulated raters"), (machines, "models"))
    return ", ".join(f"{count} by {who}" for count, who in counts if count)


def _items_with_source() -> Any:
    """Return items with everything their page shows about their source, without long columns."""
    joined = [f"source__{of}__{more}" for of in _FROM for more in ("experiment", "run")]
    joined += ["source__twin", "source__imported__by"]
    hidden = [f"source__{of}__{name}" for of in _FROM for name in _LONG]
    # Long columns are deferred: an episode and its run have large columns that the page does not show.
    return Item.objects.select_related(*joined).defer(*hidden, "source__twin__diff")


def _find_original(source: ItemSource, kin: Sequence[ItemSource]) -> tuple[Payload | None, str]:
    """Return the payload that the item is compared with, and its description; None and "" if there is none."""
    # A twin is compared with its own step, even if that step is no item of the study.
    if source.twin is not None and source.transition is not None:
        return blind_transition(source.transition.step), "the step as it was simulated"
    if source.perturbation == "none":
        return None, ""
    original = next((one for one in kin if one.perturbation == "none"), None)
    if original is None or original.item.payload["kind"] != "transition":
        return None, ""
    return original.item.payload, "the unperturbed item it is paired with"


def _count_marks(given: Sequence[RatingRow]) -> MarkCounts:
    # Ratings that could not mark must not count as "did not see the error".
    markable = [
        row
        for row in given
        # Some studies ask only after "not plausible".
        if row.is_judged
        and (row.marks == "always" or row.marked or (row.marks == "if_not_plausible" and row.verdict is False))
    ]
    return MarkCounts(Counter(key for row in markable for key in row.marked), len(markable))


def _summarise_item(given: Sequence[RatingRow]) -> dict[str, Any] | None:
    """Return the numbers of the item's summary sentence, or None if no rating has a verdict."""
    judged = [row for row in given if row.is_judged]
    if not judged:
        return None
    reference, yes = judged[0].reference, sum(row.verdict is True for row in judged)
    # The same function as in the list, or an item could be disputed on one page and not on the other.
    disputed = rating_rows.is_disputed(reference, yes, len(judged))
    return {"reference": reference, "yes": yes, "judged": len(judged), "disputed": disputed}


class MarkedRow(NamedTuple):
    """A row of the item and how many raters marked it; `planted` if it contains the error."""

    label: str
    raters: int
    planted: bool


class ContestedItem(NamedTuple):
    """One contested item. `ticks` are the rows with the most marks, `more` is the number of other marked rows."""

    name: str
    row: Mapping[str, Any]
    strip: list[StripCell]
    ticks: list[MarkedRow]
    more: int


def load_names(study: Study) -> dict[str, str]:
    """Return the name of each item of the study by its code."""
    return {str(code): name for code, name in study.items.order_by().values_list("code", "name")}


def list_contested(study: Study, document: Json, filters: Filters, names: Mapping[str, str]) -> list[ContestedItem]:
    """Return the first of the document's contested items with their current ratings. Raises SealedError before unblinding."""
    # Only items whose ratings differ: the others need no discussion.
    first = [row for row in list_records(document["tables"]["contested"]) if row["spread"]][:MAX_ITEMS]
    if not first:
        return []
    by_item: dict[str, list[RatingRow]] = defaultdict(list)
    codes = [UUID(row["item"]) for row in first]
    # The filters apply to ratings, as in every other part of the page.
    for rating in iter_rating_rows(study, *codes, within=filters.build_condition()):
        by_item[str(rating.item)].append(rating)
    return [_make_contested(names.get(row["item"], ""), row, by_item[row["item"]], study) for row in first]


def _make_contested(name: str, row: Mapping[str, Any], ratings: Sequence[RatingRow], study: Study) -> ContestedItem:
    target = ratings[0].target if ratings else []
    marks = Counter(key for rating in ratings if rating.is_judged for key in rating.marked)
    ticks = [MarkedRow(format_mark_key(key), n, key in target) for key, n in marks.most_common(MAX_MARKED_ROWS)]
    return ContestedItem(
        name, row, build_strip(ratings, study.answer_labels), ticks, max(0, len(marks) - MAX_MARKED_ROWS)
    )


urls: list[URLPattern] = [
    path("studies/<slug:slug>/items/<uuid:code>/", show_item, name="item"),
]
