"""The review of a rater's own items after unblinding: its list, and one item with the planted error marked."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from ratings.blinding import blind_transition, item_diff, item_view
from ratings.blinding.item_diff import DiffLine
from ratings.models import ItemSource, Rater, Rating
from ratings.protocol import reference
from ratings.raters import item_review
from ratings.raters.item_review import OtherAnswers
from ratings.studies import StudyError
from ratings.web.decorators import RaterRequest, item_page, redirect_after_post, study_rater_page
from ratings.web.rater.rating_page import render_study_page

PER_PAGE = 25


class ReviewFilter(NamedTuple):
    """A filter of the list: its name, its condition, and the text if no answer matches."""

    name: str
    condition: Q
    empty: str


FILTERS = {
    "": ReviewFilter("All", Q(), "You rated no item of this study."),
    "wrong": ReviewFilter("Wrong answers", item_review.WRONG, "None of your answers was wrong."),
    "low": ReviewFilter("Confidence 1 or 2", item_review.LOW, "You gave no answer with confidence 1 or 2."),
    "missed": ReviewFilter("Planted errors missed", item_review.MISSED, "You missed no planted error."),
}


class FilterLink(NamedTuple):
    """A filter with its number of answers, as a link."""

    key: str
    name: str
    number: int
    is_current: bool


class ReviewedAnswer(NamedTuple):
    """One of the rater's answers beside the reference of its item. `is_right` is None if the reference is not known."""

    code: UUID
    name: str
    rating: Rating
    reference: str
    is_planted: bool
    is_right: bool | None
    others: OtherAnswers


@study_rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def show_review(request: RaterRequest) -> HttpResponse:
    """List the rater's items with their references. The first time, explain what opening the review means, and ask."""
    rater = request.rater
    if not item_review.is_offered(rater):
        raise Http404
    if request.method == "POST":
        try:
            item_review.open_review(rater)
        except StudyError as error:
            return render_study_page(request, "ratings/review_closed.html", {"refusal": str(error)}, 409)
        return redirect_after_post("ratings:review", rater.code)
    if refusal := item_review.find_refusal(rater):
        return render_study_page(request, "ratings/review_closed.html", {"refusal": refusal})
    if rater.reviewed_at is None:
        return render_study_page(request, "ratings/review_closed.html", {"refusal": ""})
    return render_study_page(request, "ratings/review.html", _build_list(rater, request.GET))


def _build_list(rater: Rater, parameters: Mapping[str, Any]) -> dict[str, Any]:
    answers, key = item_review.select_answers(rater), _read_filter(parameters)
    counts = answers.order_by().aggregate(
        **{f"n_{name}": Count("pk", filter=one.condition) for name, one in FILTERS.items() if name}, n_=Count("pk")
    )
    rows = answers.filter(FILTERS[key].condition).select_related("assignment__item__source__item__study")
    # Payloads and contexts are large, and the list shows none.
    rows = rows.defer("assignment__item__payload", "assignment__item__context").order_by("assignment__position")
    page = Paginator(rows, PER_PAGE).get_page(parameters.get("page"))
    others = item_review.count_other_answers(rater, [rating.assignment.item_id for rating in page])
    return {
        "page": page,
        "answers": [_build_answer(rating, others[rating.assignment.item_id]) for rating in page],
        "filters": [FilterLink(name, one.name, counts[f"n_{name}"], name == key) for name, one in FILTERS.items()],
        "empty": FILTERS[key].empty,
        "place": _build_place(key, page.number),
    }


def _read_filter(parameters: Mapping[str, Any]) -> str:
    key = str(parameters.get("show", ""))
    return key if key in FILTERS else ""


def _build_place(key: str, page: int) -> str:
    """Return the query string of this page of the list."""
    values = {"show": key, "page": str(page) if page > 1 else ""}
    return urlencode({name: value for name, value in values.items() if value})


def _build_answer(rating: Rating, others: OtherAnswers) -> ReviewedAnswer:
    place = rating.assignment
    source = place.item.source
    label = reference.reference_to_label(source.reference)
    is_right = None if label is None or rating.verdict is None else rating.verdict == bool(label)
    is_planted = source.reference == reference.PLANTED
    name = item_review.describe_reference(source)
    return ReviewedAnswer(place.code, place.item.name, rating, name, is_planted, is_right, others)


@item_page
@require_safe
def show_reviewed_item(request: RaterRequest) -> HttpResponse:
    """Show one of the rater's items as they saw it, with the planted error marked, why it is wrong, and how others answered."""
    rater = request.rater
    if not item_review.is_offered(rater) or rater.reviewed_at is None or item_review.find_refusal(rater):
        raise Http404
    parameters = request.GET
    answers = item_review.select_answers(rater)
    long = ("assignment__item__source__twin__diff",)
    wanted = answers.select_related(
        "assignment__item__source__twin",
        "assignment__item__source__transition",
        "assignment__item__source__item__study",
    )
    rating = get_object_or_404(wanted.defer(*long), assignment=request.assignment)
    assignment = rating.assignment
    item, source = assignment.item, assignment.item.source
    others = item_review.count_other_answers(rater, [item.pk])[item.pk]
    key, page = _read_filter(parameters), str(parameters.get("page", ""))
    filtered = answers.filter(FILTERS[key].condition)
    position = assignment.position
    view = item_view.build_item_view(
        item.payload,
        item.context,
        layout=assignment.layout,
        with_context=assignment.with_context,
        marks="review",
        marked=source.target,
    )
    context = {
        "answer": _build_answer(rating, others),
        "reasons": item_review.list_reasons(source),
        "lines": _list_planted_lines(source),
        "place": _build_place(key, int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1),
        "show": key,
        "ticked": frozenset(rating.marks),
        "item_before": _find_neighbour(filtered.filter(assignment__position__lt=position), "-assignment__position"),
        "item_after": _find_neighbour(filtered.filter(assignment__position__gt=position), "assignment__position"),
        "is_transition": item.payload["kind"] == "transition",
        **view,
    }
    return render_study_page(request, "ratings/review_item.html", context)


def _find_neighbour(answers: QuerySet[Rating], order: str) -> UUID | None:
    return answers.order_by(order).values_list("assignment__code", flat=True).first()


def _list_planted_lines(source: ItemSource) -> list[DiffLine]:
    """Return the rows in which a twin differs from the step as it was simulated; none for other items."""
    if source.reference != reference.PLANTED or source.item.payload["kind"] != "transition":
        return []
    original = blind_transition(source.transition.step) if source.twin and source.transition else None
    return [line for line in item_diff.compare_rows(source.item.payload, original, source.target) if line.is_notable]


urls: list[URLPattern] = [
    path("rate/study/<uuid:rater>/review/", show_review, name="review"),
    path("rate/<uuid:code>/review/", show_reviewed_item, name="review_item"),
]
