"""Practice before the first rated item: the rater answers, then sees the right answer with an explanation."""

from typing import Any

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST

from ratings.blinding import item_view
from ratings.models import PracticeAnswer, Rater, RaterProfile
from ratings.raters import practice
from ratings.raters.practice import PracticeItem
from ratings.rating import next_item
from ratings.web.decorators import RaterRequest, study_rater_page
from ratings.web.rater.rating_form import RatingForm

_OVERCONFIDENT = 4  # a wrong answer with at least this confidence gets advice on confidence


@study_rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def show_practice(request: RaterRequest) -> HttpResponse:
    """Show the next practice item or, after the last, the summary. `?item=` shows an answered item, explained."""
    rater = request.rater
    # The view `next` redirects to the page that comes first: closed study, guide, or the first item.
    if not rater.study.is_open or rater.withdrawn_at or not rater.guide_seen or not practice.count_requested(rater):
        return redirect("ratings:next", rater.code)
    answers = practice.answers_by_key(rater)
    exercises = practice.list_items(rater, answers)
    if request.method == "POST":
        return _save_practice_answer(request, exercises, answers)
    if "item" in request.GET:
        item = _get_exercise(exercises, request.GET["item"])
        return (
            _show_explanation(request, exercises, item, answers[item.key])
            if item.key in answers
            else redirect("ratings:practice", rater.code)
        )
    open_items = [item for item in exercises if item.key not in answers]
    return (
        _show_question(request, exercises, open_items[0]) if open_items else _show_summary(request, exercises, answers)
    )


def _save_practice_answer(
    request: RaterRequest, exercises: list[PracticeItem], answers: dict[str, PracticeAnswer]
) -> HttpResponse:
    """Store the first answer to an item; for a repeated answer, show the explanation of the first."""
    rater, item = request.rater, _get_exercise(exercises, request.POST.get("item", ""))
    if item.key not in answers:
        # Practice takes a verdict and a confidence only: no marks, no note, and no "cannot judge".
        posted = QueryDict(mutable=True)
        for name in ("verdict", "confidence"):
            posted.setlist(name, request.POST.getlist(name))
        form = RatingForm(rater.study, posted)
        # Called to fill `form.errors`. Errors of fields that practice does not post are ignored.
        form.is_valid()
        if form.errors.keys() & {"verdict", "confidence"}:
            return _show_question(request, exercises, item, form, 422)
        practice.store_answer(rater, item, form.cleaned_data["verdict"], form.cleaned_data["confidence"])
    response = redirect(f"{reverse('ratings:practice', args=[rater.code])}?item={item.key}")
    response.status_code = 303
    return response


@study_rater_page
@require_POST
def finish_practice(request: RaterRequest) -> HttpResponse:
    """End practice and continue with the items that count. Ignored while a practice item is unanswered."""
    rater = request.rater
    answers = practice.answers_by_key(rater)
    if rater.guide_seen and all(item.key in answers for item in practice.list_items(rater, answers)):
        practice.finish_practice(rater)
    response = redirect("ratings:next", rater.code)
    response.status_code = 303
    return response


def _get_exercise(exercises: list[PracticeItem], key: str) -> PracticeItem:
    for item in exercises:
        if item.key == key:
            return item
    raise Http404


def _show_question(
    request: RaterRequest,
    exercises: list[PracticeItem],
    item: PracticeItem,
    form: RatingForm | None = None,
    status: int = 200,
) -> HttpResponse:
    form = form or RatingForm(request.rater.study)
    profile = RaterProfile.objects.filter(user=request.user).first()
    context = {"form": form, "action": request.path, "single_keys": profile is None or profile.single_keys}
    context |= _build_item_view(request.rater, item, request.POST.getlist("marks"), "first")
    return _render_page(request, "ratings/practice.html", exercises, item, context, status)


def _show_explanation(
    request: RaterRequest, exercises: list[PracticeItem], item: PracticeItem, answer: PracticeAnswer
) -> HttpResponse:
    answers = practice.answers_by_key(request.rater)
    row_marking = "always" if item.target else "off"  # shows the error as a marked row, in every arm
    context = {
        "answer": answer,
        "oversure": not answer.right and answer.confidence >= _OVERCONFIDENT,
        "unsure": answer.right and answer.confidence == 1,
        # The page offers the summary once nothing is left to answer.
        "last": all(other.key in answers for other in exercises),
        **_build_item_view(request.rater, item, list(item.target), "final", row_marking),
    }
    return _render_page(request, "ratings/practice_explained.html", exercises, item, context)


def _show_summary(
    request: RaterRequest, exercises: list[PracticeItem], answers: dict[str, PracticeAnswer]
) -> HttpResponse:
    rows = [(number, item, answers[item.key]) for number, item in enumerate(exercises, start=1)]
    result = practice.get_result(request.rater)
    context = {"rows": rows, "result": result, "passed": result.is_passed}
    return _render_page(request, "ratings/practice_summary.html", exercises, None, context)


def _build_item_view(
    rater: Rater, item: PracticeItem, marked: list[str], stage: str, marks: str = ""
) -> dict[str, Any]:
    """Return the item as this rater's arm shows it. In the confirm arm the balance sheet comes with the explanation."""
    arm = next_item.get_arm(rater)
    return item_view.build_item_view(
        item.payload,
        item.context,
        layout=arm.layout,
        with_context=arm.with_context,
        marks=marks or arm.marks,
        marked=marked,
        stage=stage,
    )


def _render_page(
    request: RaterRequest, page: str, exercises: list[PracticeItem], item: PracticeItem | None, context: dict[str, Any],
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    rater = request.rater
    number = exercises.index(item) + 1 if item else len(exercises)
    base_context = {"study": rater.study, "rater": rater, "progress": next_item.count_progress(rater), "practice": True}
    base_context |= {"exercise": item, "number": number, "of": len(exercises)}
    return render(request, page, {**base_context, **context}, status=status)


urls: list[URLPattern] = [
    path("rate/study/<uuid:rater>/practice/", show_practice, name="practice"),
    path("rate/study/<uuid:rater>/practice/done/", finish_practice, name="practised"),
]
