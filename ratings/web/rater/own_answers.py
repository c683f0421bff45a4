"""A rater's own answers: the list on the last page, which is filtered and sorted by its URL, and their download."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from ratings.exchange.exports import format_table_lines, prepend_byte_order_mark
from ratings.models import Assignment, Rater, Rating, Study
from ratings.studies import access
from ratings.web.decorators import RaterRequest, rater_page
from wetbench_site.sorted_lists import SORT, Column, Sorting

PER_PAGE = 50
LOW = Q(confidence__lte=2)  # answers to review before Finish
_COLUMNS = (
    Column("number", "Item", ("assignment__position",)),
    Column("name", "Name", ("assignment__item__name",)),
    # Plausible before not plausible, and answers without a verdict last.
    Column("answer", "Your answer", ("verdict",), falls_first=True, has_nulls=True),
    Column("confidence", "Confidence", ("confidence",), has_nulls=True),
    Column("saved", "Saved (UTC)", ("submitted_at",), falls_first=True),
    Column("", "Change"),
)
_ANSWERS = {"yes": Q(verdict=True), "no": Q(verdict=False), "none": Q(cannot_judge=True)}
_CONFIDENCES = {"low": LOW, "middle": Q(confidence=3), "high": Q(confidence__gte=4)}
_LIST = "list"  # in the URL of an item: that a list of answers led to it, with the state of that list


class OwnAnswer(NamedTuple):
    """A rater's current answer to an item. `number` counts the items in the order in which the rater saw them."""

    number: int
    code: UUID
    name: str
    rating: Rating
    verdict_label: str


class AnswerFilter(forms.Form):
    """Which answers to list. Values that do not exist are those of no filter."""

    answer = forms.ChoiceField(label="Your answer", required=False)  # choices: the labels of the study
    confidence = forms.ChoiceField(
        label="Confidence", required=False,
        choices=[("", "All"), ("low", "1 or 2, low"), ("middle", "3"), ("high", "4 or 5")],
    )  # fmt: skip

    def __init__(self, study: Study, data: Mapping[str, Any]) -> None:
        super().__init__(data, use_required_attribute=False)
        yes, no = study.answer_labels
        answer = self.fields["answer"]
        assert isinstance(answer, forms.ChoiceField)
        answer.choices = [("", "All"), ("yes", yes), ("no", no), ("none", "Cannot judge")]

    def build_condition(self) -> Q:
        return self._find("answer", _ANSWERS) & self._find("confidence", _CONFIDENCES)

    def _find(self, name: str, conditions: Mapping[str, Q]) -> Q:
        return conditions.get(self.data.get(name, ""), Q())

    @property
    def is_filtering(self) -> bool:
        return bool(self.build_condition())


class AnswerList(NamedTuple):
    """One page of a rater's answers. `low` is the number of all answers with confidence 1 or 2."""

    answers: list[OwnAnswer]
    page: Page[Rating]
    form: AnswerFilter
    sorting: Sorting
    total: int
    low: int
    place: str  # the state of this list for the URL of an item


def build_list(rater: Rater, parameters: Mapping[str, Any], may_change: bool) -> AnswerList:
    """Return the page of the rater's answers that the URL asks for, with a column for changes if it `may_change`. Four queries."""
    ratings = Rating.objects.filter(assignment__rater=rater)
    counts = ratings.aggregate(total=Count("pk"), low=Count("pk", filter=LOW))
    form, sorting = (
        AnswerFilter(rater.study, parameters),
        Sorting(_COLUMNS if may_change else _COLUMNS[:-1], parameters, "number"),
    )
    rows = sorting.order_rows(_select_answers(ratings.filter(form.build_condition())))
    page = Paginator(rows, PER_PAGE).get_page(parameters.get("page"))
    return AnswerList(
        list(_number_answers(rater, page)), page, form, sorting, **counts,
        place=_build_place(parameters, str(page.number)),
    )  # fmt: skip


def _select_answers(ratings: QuerySet[Rating]) -> QuerySet[Rating]:
    # Without the payload: the name of the item is stored.
    columns = ("assignment__code", "assignment__position", "assignment__item__name")
    own = [field.name for field in Rating._meta.concrete_fields]
    return ratings.select_related("assignment__item").only(*own, *columns)


def _number_answers(rater: Rater, ratings: Any) -> Iterator[OwnAnswer]:
    labels = dict(zip((True, False, None), (*rater.study.answer_labels, "Cannot judge"), strict=True))
    in_order = Assignment.objects.filter(rater=rater, answered_at__isnull=False).order_by("position")
    numbers = {key: number for number, key in enumerate(in_order.values_list("pk", flat=True), start=1)}
    for rating in ratings:
        place, label = rating.assignment, labels[None if rating.cannot_judge else rating.verdict]
        yield OwnAnswer(numbers[place.pk], place.code, place.item.name, rating, label)


def read_place(parameters: Mapping[str, Any]) -> str:
    """Return the state of the list that led to an item as a query string, or "" if no list did. Unknown values are left out."""
    return _build_place(parameters, str(parameters.get("page", ""))) if parameters.get(_LIST) == "answers" else ""


def _build_place(parameters: Mapping[str, Any], page: str) -> str:
    sort = Sorting(_COLUMNS, parameters, "number").value
    values = {
        _LIST: "answers",
        "answer": parameters.get("answer") if parameters.get("answer") in _ANSWERS else None,
        "confidence": parameters.get("confidence") if parameters.get("confidence") in _CONFIDENCES else None,
        SORT: sort if sort != "number" else None,
        "page": page if page.isascii() and page.isdigit() and len(page) < 6 and int(page) > 1 else None,
    }
    return urlencode({key: value for key, value in values.items() if value})


def build_return_url(rater: Rater, place: str, assignment: Assignment) -> str:
    """Return the URL of the list at this place, with the item in view."""
    return f"{reverse('ratings:done', args=[rater.code])}?{place}#answer-{assignment.code}"


CSV_COLUMNS = ("study", "rater", "number", "answer", "confidence", "marks", "note", "saved_at", "changed_at", "item")


@rater_page
@require_safe
def download_my_ratings(request: RaterRequest) -> HttpResponseBase:
    """Stream all answers of this user in all studies as CSV. It contains only what the rater saw and answered."""
    raters = list(access.list_raters(request.user).order_by("study__opened_at", "pk"))
    rows = (_build_csv_row(rater, answer) for rater in raters for answer in _list_all_answers(rater))
    lines = prepend_byte_order_mark(format_table_lines(CSV_COLUMNS, rows))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="my-ratings.csv"'
    return response


def _list_all_answers(rater: Rater) -> Iterator[OwnAnswer]:
    ratings = _select_answers(Rating.objects.filter(assignment__rater=rater)).order_by("assignment__position")
    return _number_answers(rater, list(ratings))


def _build_csv_row(rater: Rater, answer: OwnAnswer) -> list[str]:
    rating = answer.rating
    confidence = "" if rating.confidence is None else str(rating.confidence)
    # Only the number of marked rows: mark keys mean nothing outside the rating page.
    cells = [str(answer.number), answer.verdict_label, confidence, str(len(rating.marks)), rating.note]
    times = [at.isoformat(timespec="seconds") if at else "" for at in (rating.submitted_at, rating.revised_at)]
    return [rater.study.name, rater.label, *cells, *times, answer.name]


urls: list[URLPattern] = [path("rate/mine.csv", download_my_ratings, name="my_ratings")]
