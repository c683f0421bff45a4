"""The first few items that raters disagree about, with all ratings and marks, loaded by one query."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ratings.blinding.item_diff import format_mark_key
from ratings.models import Study
from ratings.results import RatingRow, iter_rating_rows
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import Json, list_records
from ratings.web.results.rating_strips import StripCell, build_strip

MAX_ITEMS, MAX_MARKED_ROWS = 12, 4


class MarkedRow(NamedTuple):
    """A row of the item and how many raters marked it; `planted` if it contains the error."""

    label: str
    raters: int
    planted: bool


class ContestedItem(NamedTuple):
    """One contested item. `ticks` are the rows with the most marks, `more` is the number of other marked rows."""

    row: Mapping[str, Any]
    strip: list[StripCell]
    ticks: list[MarkedRow]
    more: int


def list_contested(study: Study, document: Json, filters: Filters) -> list[ContestedItem]:
    """Return the first of the document's contested items with their current ratings. Raises SealedError before unblinding."""
    # Only items whose ratings differ: the others need no discussion.
    first = [row for row in list_records(document["tables"]["contested"]) if row["spread"]][:MAX_ITEMS]
    if not first:
        return []
    by_item: dict[str, list[RatingRow]] = defaultdict(list)
    for rating in filters.select_rows(iter_rating_rows(study, *(UUID(row["item"]) for row in first))):
        # The filters apply to ratings, as in every other part of the page.
        by_item[str(rating.item)].append(rating)
    return [_make_contested(row, by_item[row["item"]], study) for row in first]


def _make_contested(row: Mapping[str, Any], ratings: Sequence[RatingRow], study: Study) -> ContestedItem:
    target = ratings[0].target if ratings else []
    marks = Counter(key for rating in ratings if rating.is_judged for key in rating.marked)
    ticks = [MarkedRow(format_mark_key(key), n, key in target) for key, n in marks.most_common(MAX_MARKED_ROWS)]
    return ContestedItem(row, build_strip(ratings, study.answer_labels), ticks, max(0, len(marks) - MAX_MARKED_ROWS))
