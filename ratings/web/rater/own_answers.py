"""A rater's own answers: the list on the last page, and the CSV download."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.exchange.exports import for_spreadsheets, table_lines
from ratings.models import Rater, Rating
from ratings.studies import access
from ratings.web.guards import RaterRequest, rater_page

COLUMNS = ("study", "rater", "number", "answer", "confidence", "marks", "note", "saved_at", "changed_at")


class OwnAnswer(NamedTuple):
    """A rater's current answer to an item. `number` counts the items in the order in which the rater saw them."""

    number: int
    code: UUID
    rating: Rating
    word: str


def listed(seat: Rater) -> list[OwnAnswer]:
    """Return the current answers of this rater, in the order of their items."""
    ratings = (
        Rating.objects.filter(assignment__rater=seat).select_related("assignment").order_by("assignment__position")
    )
    return [
        OwnAnswer(number, rating.assignment.code, rating, _word(seat, rating))
        for number, rating in enumerate(ratings, start=1)
    ]


def _word(seat: Rater, rating: Rating) -> str:
    if rating.cannot_judge or rating.verdict is None:
        return "Cannot judge"
    yes_label, no_label = seat.study.answers
    return yes_label if rating.verdict else no_label


@rater_page
@require_safe
def my_ratings(request: RaterRequest) -> HttpResponseBase:
    """Stream all answers of this user in all studies as CSV. It contains only what the rater saw and answered."""
    lines = _lines(list(access.seats_of(request.user).order_by("study__opened_at", "pk")))
    response = StreamingHttpResponse(for_spreadsheets(lines), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="my-ratings.csv"'
    return response


def _lines(seats: list[Rater]) -> Iterator[str]:
    return table_lines(COLUMNS, (_cells(seat, answer) for seat in seats for answer in listed(seat)))


def _cells(seat: Rater, answer: OwnAnswer) -> list[str]:
    rating = answer.rating
    confidence = "" if rating.confidence is None else str(rating.confidence)
    # Only the number of marked rows: mark keys mean nothing outside the rating page.
    answer_cells = [str(answer.number), answer.word, confidence, str(len(rating.marks)), rating.note]
    return [
        seat.study.name,
        seat.label,
        *answer_cells,
        *(_time(saved_at) for saved_at in (rating.submitted_at, rating.revised_at)),
    ]


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds")


urls: list[URLPattern] = [path("rate/mine.csv", my_ratings, name="my_ratings")]
