"""The rating pages: one item after another; each answer is saved before the next item is shown."""

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
    """Redirect to the page that this rater needs now."""
    seat = request.rater
    if not seat.study.is_open or seat.withdrawn_at:
        return rating_page.page(request, "ratings/closed.html")
    if name := _before_rating(seat):
        return redirect(f"ratings:{name}", seat.code)
    if assignment := serving.next_assignment(seat):
        return redirect("ratings:rate", assignment.code)
    if washout_end := serving.washout_ends(seat):
        return rating_page.page(request, "ratings/washout.html", _washout(seat, washout_end))
    if until := serving.waiting(seat):
        return rating_page.page(request, "ratings/waiting.html", {"until": until})
    return redirect("ratings:done", seat.code)


def _washout(seat: Rater, opens: datetime) -> dict[str, Any]:
    """Return what the page between the sessions of a crossover shows."""
    has_mail = recalling.can_reach(seat)
    return {"opens": opens, "left": serving.open_work(seat).count(), "has_mail": has_mail}


def _before_rating(seat: Rater) -> str:
    """Return the page that must come first: consent, the current guide or practice; "" if none is due."""
    if seat.consented_at is None:
        return "agree"
    if seat.guide_seen < seat.study.guide_version:
        return "guide"
    if practice.pending(seat):
        return "practice"
    return "guide" if seat.started_at is None else ""


def _may_rate(seat: Rater) -> bool:
    """Return whether this rater has agreed, read the guide and practised."""
    # Any version of the guide is enough: an answer given before a new version came must not be lost. The new version is
    # shown before the next item.
    return seat.consented_at is not None and seat.guide_seen > 0 and not practice.pending(seat)


@item_page
@require_http_methods(["GET", "HEAD", "POST"])
def rate(request: RaterRequest) -> HttpResponse:
    """Show one item to be answered, save its answer, or show the current answer."""
    if request.method == "POST":
        return _save(request, request.place)
    if not request.rater.study.is_open or _before_rating(request.rater):
        return _elsewhere(request, "ratings:next")
    return _show(request, request.place)


def _show(request: RaterRequest, place: Assignment) -> HttpResponse:
    current: Rating | None = getattr(place, "rating", None)
    if current and not answering.may_correct(place):
        return rating_page.stands(request, place, current)
    # Opening can fail: in a pool study the item may have gone to another rater in the meantime.
    if not (current or serving.is_shown(place) or serving.mark_opened(place)):
        return _elsewhere(request, "ratings:next")
    return _card(request, place, current)


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
        # The study closed while the rater was answering: the answer is kept in case it is reopened.
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
    """Return whether this is the answer before the balance sheet. No answer is final before that, whatever the form claims."""
    if form.answer.cannot_judge or _standing(place):
        return False
    return form.cleaned_data["stage"] == FIRST_STAGE or not FirstLook.objects.filter(assignment=place).exists()


def _standing(place: Assignment) -> Rating | None:
    return Rating.objects.filter(assignment=place).first()


def _previous(place: Assignment, result: answering.RateResult) -> Previous | None:
    """Return what was just answered as the previous answer, if it is a first revision."""
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
    """Save the answer before the balance sheet; the same item follows with the sheet, and the rater answers again."""
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
    # The second answer needs as much time as the first, so the reservation starts again.
    serving.extend_lease(place)
    return _show(request, place) if request.htmx else _elsewhere(request, "ratings:rate", place.code)


def _refused(request: RaterRequest, place: Assignment, form: RatingForm, why: str) -> HttpResponse:
    """Show why the answer was rejected: beside the current answer if there is one, else in the form."""
    if current := _standing(place):
        return rating_page.stands(request, place, current, form.answer, 409)
    form.add_error(None, why)
    return rating_page.card(request, place, form, 422)


def _onward(request: RaterRequest) -> HttpResponse:
    """Show the next item: htmx gets it in this response, other browsers are redirected."""
    seat = request.rater
    assignment = None if seat.guide_seen < seat.study.guide_version else serving.next_assignment(seat)
    if assignment is None:
        return _elsewhere(request, "ratings:next")
    if not request.htmx:
        return _elsewhere(request, "ratings:rate", assignment.code)
    if not (serving.is_shown(assignment) or serving.mark_opened(assignment)):
        return _elsewhere(request, "ratings:next")
    return _pushed(request, assignment)


def _pushed(request: RaterRequest, following: Assignment, previous: Previous | None = None) -> HttpResponse:
    response = _card(request, following, previous=previous)
    # The address bar must show the item on screen: a reload would otherwise return to the previous one.
    return push_url(response, reverse("ratings:rate", args=[following.code]))


def _elsewhere(request: RaterRequest, name: str, *args: Any) -> HttpResponse:
    """Redirect to another page. htmx loads the full page."""
    url = reverse(name, args=args or [request.rater.code])
    if request.htmx:
        return HttpResponseClientRedirect(url)
    response = redirect(url)
    # After a POST, 303 makes plain browsers follow with a GET.
    response.status_code = 303 if request.method == "POST" else 302
    return response


@item_page
@require_POST
def draft(request: RaterRequest) -> HttpResponse:
    """Store the choices made so far, so that they survive a crash or a change of computer. Return 204."""
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
