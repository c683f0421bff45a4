"""A rater's own answers: the list on the last page, and the CSV download."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.exchange.exports import format_table_lines, prepend_byte_order_mark
from ratings.models import Rater, Rating
from ratings.studies import access
from ratings.web.decorators import RaterRequest, rater_page

COLUMNS = ("study", "rater", "number", "answer", "confidence", "marks", "note", "saved_at", "changed_at")


class OwnAnswer(NamedTuple):
    """A rater's current answer to an item. `number` counts the items in the order in which the rater saw them."""

    number: int
    code: UUID
    rating: Rating
    verdict_label: str


def list_own_answers(rater: Rater) -> list[OwnAnswer]:
    """Return the current answers of this rater, in the order of their items."""
    ratings = (
        Rating.objects.filter(assignment__rater=rater).select_related("assignment").order_by("assignment__position")
    )
    return [
        OwnAnswer(number, rating.assignment.code, rating, _format_verdict(rater, rating))
        for number, rating in enumerate(ratings, start=1)
    ]


def _format_verdict(rater: Rater, rating: Rating) -> str:
    if rating.cannot_judge or rating.verdict is None:
        return "Cannot judge"
    yes_label, no_label = rater.study.answer_labels
    return yes_label if rating.verdict else no_label


@rater_page
@require_safe
def download_my_ratings(request: RaterRequest) -> HttpResponseBase:
    """Stream all answers of this user in all studies as CSV. It contains only what the rater saw and answered."""
    lines = _format_csv_lines(list(access.list_raters(request.user).order_by("study__opened_at", "pk")))
    response = StreamingHttpResponse(prepend_byte_order_mark(lines), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="my-ratings.csv"'
    return response


def _format_csv_lines(raters: list[Rater]) -> Iterator[str]:
    return format_table_lines(
        COLUMNS, (_build_csv_row(rater, answer) for rater in raters for answer in list_own_answers(rater))
    )


def _build_csv_row(rater: Rater, answer: OwnAnswer) -> list[str]:
    rating = answer.rating
    confidence = "" if rating.confidence is None else str(rating.confidence)
    # Only the number of marked rows: mark keys mean nothing outside the rating page.
    answer_cells = [str(answer.number), answer.verdict_label, confidence, str(len(rating.marks)), rating.note]
    return [
        rater.study.name,
        rater.label,
        *answer_cells,
        *(_format_time(saved_at) for saved_at in (rating.submitted_at, rating.revised_at)),
    ]


def _format_time(time: datetime | None) -> str:
    return "" if time is None else time.isoformat(timespec="seconds")


urls: list[URLPattern] = [path("rate/mine.csv", download_my_ratings, name="my_ratings")]
