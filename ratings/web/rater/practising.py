"""Practice before the first rated item: the rater answers, then sees the right answer with an explanation."""

from typing import Any

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST

from ratings.blinding import screen
from ratings.models import PracticeAnswer, Rater, RaterProfile
from ratings.raters import practice
from ratings.raters.practice import PracticeItem
from ratings.rating import serving
from ratings.web.guards import RaterRequest, seat_page
from ratings.web.rater.rating_form import RatingForm

_OVERSURE = 4  # a wrong answer with at least this confidence gets advice on confidence


@seat_page
@require_http_methods(["GET", "HEAD", "POST"])
def practise(request: RaterRequest) -> HttpResponse:
    """Show the next practice item; with `?item=` an answered one, explained; after the last one, the summary."""
    seat = request.rater
    # `next` knows which page comes first: closed study, guide, or the first item.
    if not seat.study.is_open or seat.withdrawn_at or not seat.guide_seen or not practice.wanted(seat):
        return redirect("ratings:next", seat.code)
    answers = practice.answers(seat)
    exercises = practice.asked(seat, answers)
    if request.method == "POST":
        return _take(request, exercises, answers)
    if "item" in request.GET:
        item = _item(exercises, request.GET["item"])
        return _explained(request, exercises, item, answers[item.key]) if item.key in answers else _again(seat)
    open_items = [item for item in exercises if item.key not in answers]
    return _question(request, exercises, open_items[0]) if open_items else _summary(request, exercises, answers)


def _take(request: RaterRequest, asked: list[PracticeItem], given: dict[str, PracticeAnswer]) -> HttpResponse:
    """Store the first answer to an item; for a repeated answer, show the explanation of the first."""
    seat, item = request.rater, _item(asked, request.POST.get("item", ""))
    if item.key not in given:
        # Practice takes a verdict and a confidence only: no marks, no note, and no "cannot judge".
        posted = QueryDict(mutable=True)
        for name in ("verdict", "confidence"):
            posted.setlist(name, request.POST.getlist(name))
        form = RatingForm(seat.study, posted)
        # Called for its errors: fields that practice does not post may be missing.
        form.is_valid()
        if form.errors.keys() & {"verdict", "confidence"}:
            return _question(request, asked, item, form, 422)
        practice.answer(seat, item, form.cleaned_data["verdict"], form.cleaned_data["confidence"])
    response = redirect(f"{reverse('ratings:practice', args=[seat.code])}?item={item.key}")
    response.status_code = 303
    return response


@seat_page
@require_POST
def begin(request: RaterRequest) -> HttpResponse:
    """End practice and continue with the items that count. Ignored while a practice item is unanswered."""
    seat = request.rater
    answers = practice.answers(seat)
    if seat.guide_seen and all(item.key in answers for item in practice.asked(seat, answers)):
        practice.begin(seat)
    response = redirect("ratings:next", seat.code)
    response.status_code = 303
    return response


def _item(asked: list[PracticeItem], key: str) -> PracticeItem:
    for item in asked:
        if item.key == key:
            return item
    raise Http404


def _again(seat: Rater) -> HttpResponse:
    return redirect("ratings:practice", seat.code)


def _question(
    request: RaterRequest,
    asked: list[PracticeItem],
    item: PracticeItem,
    form: RatingForm | None = None,
    status: int = 200,
) -> HttpResponse:
    form = form or RatingForm(request.rater.study)
    profile = RaterProfile.objects.filter(user=request.user).first()
    context = {"form": form, "action": request.path, "single_keys": profile is None or profile.single_keys}
    context |= _view(request.rater, item, request.POST.getlist("marks"), "first")
    return _page(request, "ratings/practice.html", asked, item, context, status)


def _explained(
    request: RaterRequest, asked: list[PracticeItem], item: PracticeItem, answer: PracticeAnswer
) -> HttpResponse:
    answers = practice.answers(request.rater)
    row_marking = "always" if item.target else "off"  # shows the error as a marked row, in every arm
    context = {
        "answer": answer,
        "oversure": not answer.right and answer.confidence >= _OVERSURE,
        "unsure": answer.right and answer.confidence == 1,
        # The page offers the summary once nothing is left to answer.
        "last": all(other.key in answers for other in asked),
        **_view(request.rater, item, list(item.target), "final", row_marking),
    }
    return _page(request, "ratings/practice_explained.html", asked, item, context)


def _summary(request: RaterRequest, asked: list[PracticeItem], given: dict[str, PracticeAnswer]) -> HttpResponse:
    rows = [(number, item, given[item.key]) for number, item in enumerate(asked, start=1)]
    context = {"rows": rows, "result": practice.result(request.rater), "passed": practice.passed(request.rater)}
    return _page(request, "ratings/practice_summary.html", asked, None, context)


def _view(seat: Rater, item: PracticeItem, marked: list[str], stage: str, marks: str = "") -> dict[str, Any]:
    """Return the item as this rater's arm shows it. In the confirm arm the balance sheet comes with the explanation."""
    arm = serving.arm(seat)
    return screen.view(
        item.payload,
        item.context,
        layout=arm.layout,
        with_context=arm.with_context,
        marks=marks or arm.marks,
        marked=marked,
        stage=stage,
    )


def _page(
    request: RaterRequest, page: str, asked: list[PracticeItem], item: PracticeItem | None, context: dict[str, Any],
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    seat = request.rater
    number = asked.index(item) + 1 if item else len(asked)
    base_context = {"study": seat.study, "seat": seat, "progress": serving.progress(seat), "practice": True}
    base_context |= {"exercise": item, "number": number, "of": len(asked)}
    return render(request, page, {**base_context, **context}, status=status)


urls: list[URLPattern] = [
    path("rate/study/<uuid:seat>/practice/", practise, name="practice"),
    path("rate/study/<uuid:seat>/practice/done/", begin, name="practised"),
]
