"""Items that raters disagree about, with all ratings and marks: a few, with one query."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ratings.blinding.comparing import mark_name
from ratings.models import Study
from ratings.results import RatingRow, rating_rows
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import Json, records
from ratings.web.results.strips import Cell, strip

MOST, MOST_TICKED = 12, 4


class Tick(NamedTuple):
    """A row of the item and how many raters marked it; `planted` if it contains the error."""

    said: str
    raters: int
    planted: bool


class Contested(NamedTuple):
    """One item. `ticks` are the most marked rows, `more` the number of other marked rows."""

    row: Mapping[str, Any]
    strip: list[Cell]
    ticks: list[Tick]
    more: int


def lines(study: Study, document: Json, filters: Filters) -> list[Contested]:
    """Return the first of the document's contested items with their current ratings. Raises SealedError before unblinding."""
    # Only items with a spread: agreement would fill the list with items that need no discussion.
    first = [row for row in records(document["tables"]["contested"]) if row["spread"]][:MOST]
    if not first:
        return []
    by_item: dict[str, list[RatingRow]] = defaultdict(list)
    for rating in filters.kept(rating_rows(study, *(UUID(row["item"]) for row in first))):
        # The filters apply to ratings, as in every other part of the page.
        by_item[str(rating.item)].append(rating)
    return [_line(row, by_item[row["item"]], study) for row in first]


def _line(row: Mapping[str, Any], given: Sequence[RatingRow], study: Study) -> Contested:
    target = given[0].target if given else []
    marks = Counter(key for rating in given if rating.judged for key in rating.marked)
    ticks = [Tick(mark_name(key), n, key in target) for key, n in marks.most_common(MOST_TICKED)]
    return Contested(row, strip(given, study.answers), ticks, max(0, len(marks) - MOST_TICKED))
