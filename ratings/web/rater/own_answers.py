"""What a rater answered, for that rater: on the last page, and as a file of their own."""

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
    """One standing answer. `number` counts the rater's own items in the order they met them."""

    number: int
    code: UUID
    rating: Rating
    word: str


def listed(seat: Rater) -> list[OwnAnswer]:
    """Every answer of this seat that stands, in the order of their items."""
    ratings = (
        Rating.objects.filter(assignment__rater=seat).select_related("assignment").order_by("assignment__position")
    )
    return [OwnAnswer(n, r.assignment.code, r, _word(seat, r)) for n, r in enumerate(ratings, start=1)]


def _word(seat: Rater, rating: Rating) -> str:
    if rating.cannot_judge or rating.verdict is None:
        return "Cannot judge"
    yes, no = seat.study.answers
    return yes if rating.verdict else no


@rater_page
@require_safe
def my_ratings(request: RaterRequest) -> HttpResponseBase:
    """All own answers in all studies as CSV: nothing but what the rater saw and said."""
    lines = _lines(list(access.seats_of(request.user).order_by("study__opened_at", "pk")))
    response = StreamingHttpResponse(for_spreadsheets(lines), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="my-ratings.csv"'
    return response


def _lines(seats: list[Rater]) -> Iterator[str]:
    return table_lines(COLUMNS, (_cells(seat, answer) for seat in seats for answer in listed(seat)))


def _cells(seat: Rater, answer: OwnAnswer) -> list[str]:
    rating = answer.rating
    confidence = "" if rating.confidence is None else str(rating.confidence)
    said = [str(answer.number), answer.word, confidence, str(len(rating.marks)), rating.note]
    return [seat.study.name, seat.label, *said, *(_time(at) for at in (rating.submitted_at, rating.revised_at))]


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat(timespec="seconds")


urls: list[URLPattern] = [path("rate/mine.csv", my_ratings, name="my_ratings")]
