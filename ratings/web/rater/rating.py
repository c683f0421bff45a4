"""The rating pages: one item after another; each answer is saved before the next item is shown."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, push_url

from ratings.models import Assignment, InitialRating, Rater, Rating
from ratings.raters import practice
from ratings.rating import next_item, submit
from ratings.rating.first_answer import NextAction
from ratings.rating.next_item import PreviousAnswer
from ratings.studies import StudyClosed, StudyError
from ratings.studies.rendered_items import FIRST_STAGE
from ratings.web.decorators import RaterRequest, item_page, redirect_after_post, study_rater_page
from ratings.web.rater import own_answers, rating_page
from ratings.web.rater.rating_form import RatingForm, build_initial_values, parse_draft


@study_rater_page
@require_safe
def open_next_page(request: RaterRequest) -> HttpResponse:
    """Redirect to the page that this rater needs now."""
    rater = request.rater
    if not rater.study.is_open or rater.withdrawn_at:
        return rating_page.render_rater_page(request, "ratings/closed.html")
    if name := _find_prior_page(rater):
        return redirect(f"ratings:{name}", rater.code)
    if assignment := next_item.find_next_assignment(rater):
        return redirect("ratings:rate", assignment.code)
    if washout_end := next_item.find_washout_end(rater):
        n_left, has_mail = next_item.unrated_assignments(rater).count(), practice.can_reach(rater)
        context = {"opens": washout_end, "left": n_left, "has_mail": has_mail}
        return rating_page.render_rater_page(request, "ratings/washout.html", context)
    if until := next_item.find_return_time(rater):
        return rating_page.render_rater_page(request, "ratings/waiting.html", {"until": until})
    return redirect("ratings:done", rater.code)


def _find_prior_page(rater: Rater) -> str:
    """Return the page that must come first: consent, the current guide or practice; "" if none is due."""
    if rater.consented_at is None:
        return "agree"
    if rater.guide_seen < rater.study.guide_version:
        return "guide"
    if practice.is_pending(rater):
        return "practice"
    return "guide" if rater.started_at is None else ""


def _can_rate(rater: Rater) -> bool:
    """Return whether this rater has agreed, read the guide and practised."""
    # Any version of the guide is enough: an answer given before a new version came must not be lost. The new version is
    # shown before the next item.
    return rater.consented_at is not None and rater.guide_seen > 0 and not practice.is_pending(rater)


@item_page
@require_http_methods(["GET", "HEAD", "POST"])
def rate_item(request: RaterRequest) -> HttpResponse:
    """Show one item to be answered, save its answer, or show the current answer."""
    if request.method == "POST":
        return _save_answer(request, request.assignment)
    if not request.rater.study.is_open or _find_prior_page(request.rater):
        return _redirect_to_page(request, "ratings:next")
    return _show_item(request, request.assignment)


def _show_item(request: RaterRequest, assignment: Assignment) -> HttpResponse:
    current: Rating | None = getattr(assignment, "rating", None)
    if current and not submit.can_correct(assignment):
        return rating_page.render_current_answer(request, assignment, current)
    # Opening can fail: in a pool study the item may have gone to another rater in the meantime.
    if not (current or next_item.is_shown(assignment) or next_item.mark_opened(assignment)):
        return _redirect_to_page(request, "ratings:next")
    if current is None:
        # The rater of this request was loaded with the item.
        progress = next_item.build_progress(rater := request.rater, rater.answered_items, rater.waiting_items)
        return rating_page.show_unanswered(request, assignment, progress=progress)
    form = RatingForm(request.rater.study, None, assignment, initial=build_initial_values(current))
    return rating_page.render_card(request, assignment, form, current=current)


def _save_answer(request: RaterRequest, assignment: Assignment) -> HttpResponse:
    if not _can_rate(assignment.rater):
        return _redirect_to_page(request, "ratings:next")
    form = RatingForm(request.rater.study, request.POST, assignment)
    if not form.is_valid():
        return rating_page.render_card(request, assignment, form, 422, current=_find_current_rating(assignment))
    try:
        if rating_page.is_two_stage(assignment) and _is_initial_answer(assignment, form):
            return _save_initial_answer(request, assignment, form)
        result = _submit_answer(request, form)
    except StudyClosed:
        # The study closed while the rater was answering: the answer is kept in case it is reopened.
        submit.save_unsaved_answer(assignment, form.parsed_answer)
        return _redirect_to_page(request, "ratings:next")
    except StudyError as error:
        if current := _find_current_rating(assignment):
            return rating_page.render_current_answer(request, assignment, current, form.parsed_answer, 409)
        form.add_error(None, str(error))
        return rating_page.render_card(request, assignment, form, 422)
    if result.next_item:
        return _show_opened_item(request, result)
    if (result.is_new or result.is_stored) and (place := own_answers.read_place(request.GET)):
        return _redirect_to_url(request, own_answers.build_return_url(request.rater, place, assignment))
    if result.is_new or result.is_stored:
        return _show_next_item(request)
    status = 422 if result.is_id_reused else 409
    return rating_page.render_current_answer(request, assignment, result.rating, form.parsed_answer, status)


def _is_initial_answer(assignment: Assignment, form: RatingForm) -> bool:
    """Return whether the answer is the one before the balance sheet, without which none is final, whatever the form claims."""
    if form.parsed_answer.cannot_judge or _find_current_rating(assignment):
        return False
    return form.cleaned_data["stage"] == FIRST_STAGE or not InitialRating.objects.filter(assignment=assignment).exists()


def _find_current_rating(assignment: Assignment) -> Rating | None:
    return Rating.objects.filter(assignment=assignment).first()


def _submit_answer(request: RaterRequest, form: RatingForm) -> submit.SubmissionResult:
    assignment, answer, now = request.assignment, form.parsed_answer, timezone.now()
    # While the site is developed, templates change at any time, so no stored HTML is shown.
    next_action = NextAction.SHOW if rating_page.is_partial(request) and not settings.DEBUG else NextAction.OPEN
    return submit.submit_rating(
        assignment,
        **answer._asdict(),
        submission_id=form.cleaned_data["submission_id"],
        now=now,
        revision=form.cleaned_data["revision"] or 0,
        timing=form.parse_timing(_measure_open_seconds(assignment, now)),
        layout_shown=rating_page.get_shown_layout(assignment),
        next_action=next_action,
        **form.client_details,
    )


def _save_initial_answer(request: RaterRequest, assignment: Assignment, form: RatingForm) -> HttpResponse:
    """Save the answer before the balance sheet; the same item follows with the sheet, and the rater answers again."""
    answer, now = form.parsed_answer, timezone.now()
    assert answer.verdict is not None and answer.confidence is not None
    submit.submit_initial_rating(
        assignment,
        answer.verdict,
        answer.confidence,
        form.cleaned_data["submission_id"],
        now,
        marks=answer.marks,
        note=answer.note,
        active_seconds=form.parse_timing(_measure_open_seconds(assignment, now)).active_seconds,
    )
    # The second answer needs as much time as the first, so the reservation starts again.
    next_item.extend_reservation(assignment)
    if request.htmx:
        return _show_item(request, assignment)
    return _redirect_to_page(request, "ratings:rate", assignment.code)


def _show_next_item(request: RaterRequest) -> HttpResponse:
    """Show the next item: htmx gets it in this response, other browsers are redirected."""
    rater = request.rater
    assignment = None if rater.guide_seen < rater.study.guide_version else next_item.find_next_assignment(rater)
    if assignment is None:
        return _redirect_to_page(request, "ratings:next")
    if not request.htmx:
        return _redirect_to_page(request, "ratings:rate", assignment.code)
    if not (next_item.is_shown(assignment) or next_item.mark_opened(assignment)):
        return _redirect_to_page(request, "ratings:next")
    return _push_address(rating_page.show_unanswered(request, assignment), assignment.code)


def _show_opened_item(request: RaterRequest, result: submit.SubmissionResult) -> HttpResponse:
    """Show the item that was opened when the answer was stored: htmx gets it in this response."""
    assert result.next_item is not None and result.progress is not None
    code, marks, html = result.next_item
    if not request.htmx:
        return _redirect_to_page(request, "ratings:rate", code)
    previous = PreviousAnswer(request.assignment.code, result.rating.submitted_at)
    if html is not None:
        response = rating_page.fill_page(request, code, marks, html, previous, result.progress)
    else:
        following = next_item.load_assignment_to_show(code, request.rater)
        response = rating_page.show_unanswered(request, following, previous=previous, progress=result.progress)
    return _push_address(response, code)


def _push_address(response: HttpResponse, code: UUID) -> HttpResponse:
    # The address bar must show the item on screen: a reload would otherwise return to the previous one.
    return push_url(response, reverse("ratings:rate", args=[code]))


def _redirect_to_page(request: RaterRequest, name: str, *args: Any) -> HttpResponse:
    """Redirect to another page. htmx loads the full page."""
    return _redirect_to_url(request, reverse(name, args=args or [request.rater.code]))


def _redirect_to_url(request: RaterRequest, url: str) -> HttpResponse:
    if request.htmx:
        return HttpResponseClientRedirect(url)
    return redirect_after_post(url) if request.method == "POST" else redirect(url)


@item_page
@require_POST
def save_unsaved_answer(request: RaterRequest) -> HttpResponse:
    """Store the choices made so far, so that they survive a crash or a change of computer. Return 204."""
    assignment = request.assignment
    draft = parse_draft(request.POST, assignment)
    if _can_rate(assignment.rater) and submit.save_unsaved_answer(assignment, draft):
        next_item.extend_reservation(assignment)
    return HttpResponse(status=204)


def _measure_open_seconds(assignment: Assignment, now: Any) -> float:
    return max((now - assignment.opened_at).total_seconds(), 0.0) if assignment.opened_at else 0.0


urls: list[URLPattern] = [
    path("rate/study/<uuid:rater>/", open_next_page, name="next"),
    path("rate/<uuid:code>/", rate_item, name="rate"),
    path("rate/<uuid:code>/draft/", save_unsaved_answer, name="draft"),
]
