"""The rater's journey: where to go on, item after item, each answer saved before the next one shows."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, push_url

from ratings.models import Assignment, FirstLook, Rater, Rating
from ratings.raters import practice, recalling
from ratings.rating import answering, serving
from ratings.studies import StudyClosed, StudyError
from ratings.web.guards import RaterRequest, item_page, seat_page
from ratings.web.rater import rating_page
from ratings.web.rater.rating_form import FIRST_STAGE, DraftForm, RatingForm, shown_again
from ratings.web.rater.rating_page import Previous


@seat_page
@require_safe
def next_item(request: RaterRequest) -> HttpResponse:
    """On to what this rater has to do now."""
    seat = request.rater
    if not seat.study.is_open or seat.withdrawn_at:
        return rating_page.page(request, "ratings/closed.html")
    if name := _before_rating(seat):
        return redirect(f"ratings:{name}", seat.code)
    if assignment := serving.next_assignment(seat):
        return redirect("ratings:rate", assignment.code)
    if opens := serving.washout_ends(seat):
        return rating_page.page(request, "ratings/washout.html", _washout(seat, opens))
    if until := serving.waiting(seat):
        return rating_page.page(request, "ratings/waiting.html", {"until": until})
    return redirect("ratings:done", seat.code)


def _washout(seat: Rater, opens: datetime) -> dict[str, Any]:
    """What the page between the sessions of a crossover shows."""
    has_mail = recalling.can_reach(seat)
    return {"opens": opens, "left": serving.open_work(seat).count(), "has_mail": has_mail}


def _before_rating(seat: Rater) -> str:
    """The page that has to come first: consent, the guide as it stands now, practice; "" when all that is done."""
    if seat.consented_at is None:
        return "agree"
    if seat.guide_seen < seat.study.guide_version:
        return "guide"
    if practice.pending(seat):
        return "practice"
    return "guide" if seat.started_at is None else ""


def _may_rate(seat: Rater) -> bool:
    """Whether this rater agreed, read the guide and practised. Who has is not turned away for a newer guide: what was
    answered before it came is kept, and the new one is shown next."""
    return seat.consented_at is not None and seat.guide_seen > 0 and not practice.pending(seat)


@item_page
@require_http_methods(["GET", "HEAD", "POST"])
def rate(request: RaterRequest) -> HttpResponse:
    """One item: shown to be answered, answered, or shown with the answer that stands."""
    if request.method == "POST":
        return _save(request, request.place)
    if not request.rater.study.is_open or _before_rating(request.rater):
        return _elsewhere(request, "ratings:next")
    return _show(request, request.place)


def _show(request: RaterRequest, place: Assignment) -> HttpResponse:
    standing: Rating | None = getattr(place, "rating", None)
    if standing and not answering.may_correct(place):
        return rating_page.stands(request, place, standing)
    if not (standing or serving.is_shown(place) or serving.mark_opened(place)):
        return _elsewhere(request, "ratings:next")
    return _card(request, place, standing)


def _card(
    request: RaterRequest, place: Assignment, standing: Rating | None = None, previous: Previous | None = None
) -> HttpResponse:
    form = RatingForm(request.rater.study, None, place, initial=shown_again(standing or getattr(place, "draft", None)))
    return rating_page.card(request, place, form, standing=standing, previous=previous)


def _save(request: RaterRequest, place: Assignment) -> HttpResponse:
    if not _may_rate(place.rater):
        return _elsewhere(request, "ratings:next")
    form = RatingForm(request.rater.study, request.POST, place)
    if not form.is_valid():
        return rating_page.card(request, place, form, 422, standing=_standing(place))
    try:
        if rating_page.is_two_stage(place) and _is_first(place, form):
            return _save_first(request, place, form)
        result = _rate(place, form, go_on=bool(request.htmx))
    except StudyClosed:
        answering.save_draft(place, form.answer)
        return _elsewhere(request, "ratings:next")
    except StudyError as error:
        return _refused(request, place, form, str(error))
    if result.following:
        return _pushed(request, result.following, previous=_previous(place, result))
    if result.created or result.same:
        return _onward(request)
    return rating_page.stands(request, place, result.rating, form.answer, 422 if result.reused else 409)


def _is_first(place: Assignment, form: RatingForm) -> bool:
    """Whether this is the answer before the balance sheet. Nothing is final before that, whatever the form says."""
    if form.answer.cannot_judge or _standing(place):
        return False
    return form.cleaned_data["stage"] == FIRST_STAGE or not FirstLook.objects.filter(assignment=place).exists()


def _standing(place: Assignment) -> Rating | None:
    return Rating.objects.filter(assignment=place).first()


def _previous(place: Assignment, result: answering.RateResult) -> Previous | None:
    """What was answered just now, if that was new: then it is the last answer."""
    return Previous(place.code, result.rating.submitted_at) if result.rating.revision == 1 else None


def _rate(place: Assignment, form: RatingForm, go_on: bool) -> answering.RateResult:
    answer, now = form.answer, timezone.now()
    return answering.rate(
        place,
        answer.verdict,
        answer.confidence,
        form.cleaned_data["submission_id"],
        now,
        cannot_judge=answer.cannot_judge,
        marks=answer.marks,
        note=answer.note,
        revision=form.cleaned_data["revision"] or 0,
        timing=form.timing(_out_for(place, now)),
        layout_shown=rating_page.layout_shown(place),
        go_on=go_on,
        **form.how,
    )


def _save_first(request: RaterRequest, place: Assignment, form: RatingForm) -> HttpResponse:
    """The answer before the balance sheet; the same item follows with it, and the rater answers again."""
    answer, now = form.answer, timezone.now()
    assert answer.verdict is not None and answer.confidence is not None
    answering.first_look(
        place,
        answer.verdict,
        answer.confidence,
        form.cleaned_data["submission_id"],
        now,
        marks=answer.marks,
        note=answer.note,
        active_seconds=form.timing(_out_for(place, now)).active_seconds,
    )
    serving.extend_lease(place)
    return _show(request, place) if request.htmx else _elsewhere(request, "ratings:rate", place.code)


def _refused(request: RaterRequest, place: Assignment, form: RatingForm, why: str) -> HttpResponse:
    """What was sent cannot be taken: where an answer stands it is shown beside what was sent, else the form is."""
    if standing := _standing(place):
        return rating_page.stands(request, place, standing, form.answer, 409)
    form.add_error(None, why)
    return rating_page.card(request, place, form, 422)


def _onward(request: RaterRequest) -> HttpResponse:
    """To the next item: htmx gets it with this very answer, other browsers are sent there."""
    seat = request.rater
    following = None if seat.guide_seen < seat.study.guide_version else serving.next_assignment(seat)
    if following is None:
        return _elsewhere(request, "ratings:next")
    if not request.htmx:
        return _elsewhere(request, "ratings:rate", following.code)
    if not (serving.is_shown(following) or serving.mark_opened(following)):
        return _elsewhere(request, "ratings:next")
    return _pushed(request, following)


def _pushed(request: RaterRequest, following: Assignment, previous: Previous | None = None) -> HttpResponse:
    shown = _card(request, following, previous=previous)
    return push_url(shown, reverse("ratings:rate", args=[following.code]))


def _elsewhere(request: RaterRequest, name: str, *args: Any) -> HttpResponse:
    """Another page: after a POST with 303, which plain browsers follow with a GET; htmx loads it whole."""
    where = reverse(name, args=args or [request.rater.code])
    if request.htmx:
        return HttpResponseClientRedirect(where)
    response = redirect(where)
    response.status_code = 303 if request.method == "POST" else 302
    return response


@item_page
@require_POST
def draft(request: RaterRequest) -> HttpResponse:
    """Keep what is chosen so far, for after a crash or on another computer. Nothing is said back."""
    place = request.place
    if _may_rate(place.rater) and answering.save_draft(place, DraftForm(request.POST, place).answer):
        serving.extend_lease(place)
    return HttpResponse(status=204)


def _out_for(place: Assignment, now: Any) -> float:
    return max((now - place.opened_at).total_seconds(), 0.0) if place.opened_at else 0.0


urls: list[URLPattern] = [
    path("rate/study/<uuid:seat>/", next_item, name="next"),
    path("rate/<uuid:code>/", rate, name="rate"),
    path("rate/<uuid:code>/draft/", draft, name="draft"),
]
