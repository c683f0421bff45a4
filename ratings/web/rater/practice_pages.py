"""Practice before the first rated item: the rater answers, then sees the right answer with an explanation."""

from typing import Any

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST

from ratings.blinding import item_view
from ratings.models import PracticeAnswer, Rater, RaterProfile
from ratings.raters import practice
from ratings.raters.practice import PracticeItem
from ratings.rating import next_item
from ratings.web.decorators import RaterRequest, redirect_after_post, study_rater_page
from ratings.web.rater import rating_page
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
        if item.key in answers:
            return _show_explanation(request, exercises, item, answers)
        return redirect("ratings:practice", rater.code)
    for item in exercises:
        if item.key not in answers:
            return _show_question(request, exercises, item)
    rows = [(number, item, answers[item.key]) for number, item in enumerate(exercises, start=1)]
    result = practice.get_result(rater)
    context = {"rows": rows, "result": result, "passed": result.is_passed}
    return _render_page(request, "ratings/practice_summary.html", exercises, None, context)


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
            return _show_question(request, exercises, item, form)
        practice.store_answer(rater, item, form.cleaned_data["verdict"], form.cleaned_data["confidence"])
    return redirect_after_post(f"{reverse('ratings:practice', args=[rater.code])}?item={item.key}")


@study_rater_page
@require_POST
def finish_practice(request: RaterRequest) -> HttpResponse:
    """End practice and continue with the items that count. Ignored while a practice item is unanswered."""
    rater = request.rater
    answers = practice.answers_by_key(rater)
    if rater.guide_seen and all(item.key in answers for item in practice.list_items(rater, answers)):
        practice.finish_practice(rater)
    return redirect_after_post("ratings:next", rater.code)


def _get_exercise(exercises: list[PracticeItem], key: str) -> PracticeItem:
    for item in exercises:
        if item.key == key:
            return item
    raise Http404


def _show_question(
    request: RaterRequest, exercises: list[PracticeItem], item: PracticeItem, form: RatingForm | None = None
) -> HttpResponse:
    """Show an item to be answered; with `form`, the rejected answer and its errors."""
    profile = RaterProfile.objects.filter(user=request.user).first()
    form, status = form or RatingForm(request.rater.study), 422 if form else 200
    context: dict[str, Any] = {"form": form, "submission_id": form.next_submission_id, "action": request.path}
    context["single_keys"] = profile is None or profile.single_keys
    context |= _build_item_view(request.rater, item, request.POST.getlist("marks"), "first")
    return _render_page(request, "ratings/practice.html", exercises, item, context, status)


def _show_explanation(
    request: RaterRequest, exercises: list[PracticeItem], item: PracticeItem, answers: dict[str, PracticeAnswer]
) -> HttpResponse:
    answer = answers[item.key]
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


def _build_item_view(
    rater: Rater, item: PracticeItem, marked: list[str], stage: str, marks: str = ""
) -> dict[str, Any]:
    """Return the item as this rater's arm shows it. In the confirm arm the balance sheet comes with the explanation."""
    arm = next_item.get_arm(rater)
    screen = arm._replace(marks=marks or arm.marks)._asdict()
    return item_view.build_item_view(item.payload, item.context, **screen, marked=marked, stage=stage)


def _render_page(
    request: RaterRequest, page: str, exercises: list[PracticeItem], item: PracticeItem | None, context: dict[str, Any],
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    number = exercises.index(item) + 1 if item else len(exercises)
    place: dict[str, Any] = {"practice": True, "exercise": item, "number": number, "of": len(exercises)}
    return rating_page.render_study_page(request, page, place | context, status)


urls: list[URLPattern] = [
    path("rate/study/<uuid:rater>/practice/", show_practice, name="practice"),
    path("rate/study/<uuid:rater>/practice/done/", finish_practice, name="practised"),
]
