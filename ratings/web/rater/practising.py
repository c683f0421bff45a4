"""Practice before the first rated item: own answer first, then what was right and how to see it."""

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

_OVERSURE = 4  # a wrong answer with this confidence or more is worth a word


@seat_page
@require_http_methods(["GET", "HEAD", "POST"])
def practise(request: RaterRequest) -> HttpResponse:
    """The next practice item, or with `?item=` one that was answered, explained; after the last one, how it went."""
    seat = request.rater
    if not seat.study.is_open or seat.withdrawn_at or not seat.guide_seen or not practice.wanted(seat):
        return redirect("ratings:next", seat.code)
    given = practice.answers(seat)
    asked = practice.asked(seat, given)
    if request.method == "POST":
        return _take(request, asked, given)
    if "item" in request.GET:
        item = _item(asked, request.GET["item"])
        return _explained(request, asked, item, given[item.key]) if item.key in given else _again(seat)
    open_items = [item for item in asked if item.key not in given]
    return _question(request, asked, open_items[0]) if open_items else _summary(request, asked, given)


def _take(request: RaterRequest, asked: list[PracticeItem], given: dict[str, PracticeAnswer]) -> HttpResponse:
    """The first answer to an item is kept; whoever sends another is shown the first with its explanation."""
    seat, item = request.rater, _item(asked, request.POST.get("item", ""))
    if item.key not in given:
        # Only these two count here: no marks, no note, and no way out of a practice item.
        only = QueryDict(mutable=True)
        for name in ("verdict", "confidence"):
            only.setlist(name, request.POST.getlist(name))
        form = RatingForm(seat.study, only)
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
    """Practice is over: on to the items that count. Refused while a practice item is left."""
    seat = request.rater
    given = practice.answers(seat)
    if seat.guide_seen and all(item.key in given for item in practice.asked(seat, given)):
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
    given = practice.answers(request.rater)
    marks = "always" if item.target else "off"  # the box at the error is ticked, whatever the arm
    context = {
        "answer": answer,
        "oversure": not answer.right and answer.confidence >= _OVERSURE,
        "unsure": answer.right and answer.confidence == 1,
        "last": all(other.key in given for other in asked),
        **_view(request.rater, item, list(item.target), "final", marks),
    }
    return _page(request, "ratings/practice_explained.html", asked, item, context)


def _summary(request: RaterRequest, asked: list[PracticeItem], given: dict[str, PracticeAnswer]) -> HttpResponse:
    rows = [(number, item, given[item.key]) for number, item in enumerate(asked, start=1)]
    context = {"rows": rows, "result": practice.result(request.rater), "passed": practice.passed(request.rater)}
    return _page(request, "ratings/practice_summary.html", asked, None, context)


def _view(seat: Rater, item: PracticeItem, marked: list[str], stage: str, marks: str = "") -> dict[str, Any]:
    """The item as this seat's arm shows it. The balance of the confirm arm comes with the explanation."""
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
    shared = {"study": seat.study, "seat": seat, "progress": serving.progress(seat), "practice": True}
    shared |= {"exercise": item, "number": number, "of": len(asked)}
    return render(request, page, {**shared, **context}, status=status)


urls: list[URLPattern] = [
    path("rate/study/<uuid:seat>/practice/", practise, name="practice"),
    path("rate/study/<uuid:seat>/practice/done/", begin, name="practised"),
]
