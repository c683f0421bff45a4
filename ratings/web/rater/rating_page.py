"""The rating screen: the item with its form, the current answer, and the rater's progress."""

import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from ratings.blinding import item_view
from ratings.models import Assignment, InitialRating, Rating, UnsavedAnswer
from ratings.rating import Answer, next_item, submit
from ratings.rating.next_item import PreviousAnswer, Progress
from ratings.studies import rendered_items
from ratings.studies.rendered_items import FINAL_STAGE, FIRST_STAGE, TWO_STAGE_LAYOUT
from ratings.web.decorators import RaterRequest
from ratings.web.rater import own_answers
from ratings.web.rater.card_frame import fill_frame
from ratings.web.rater.rating_form import INTERFACE, RatingForm, build_initial_values


def show_unanswered(
    request: RaterRequest,
    assignment: Assignment,
    *,
    previous: PreviousAnswer | None = None,
    progress: Progress | None = None,
) -> HttpResponse:
    """Return the page of an item without a rating, with the choices that the rater has not saved.

    `previous` and `progress` are looked up unless the caller passes them.
    """
    rater = request.rater
    if not _fits_frame(request, assignment):
        unsaved: UnsavedAnswer | None = getattr(assignment, "unsaved_answer", None)
        form = RatingForm(rater.study, None, assignment, initial=build_initial_values(unsaved))
        return render_card(request, assignment, form, previous=previous, progress=progress)
    previous = previous or next_item.find_previous_answer(rater)
    progress = progress or next_item.count_progress(rater)
    html = rendered_items.load_html(assignment, FINAL_STAGE)
    return fill_page(request, assignment.code, assignment.marks, html, previous, progress)


def fill_page(
    request: RaterRequest,
    code: uuid.UUID,
    marks: str,
    html: str,
    previous: PreviousAnswer | None,
    progress: Progress,
) -> HttpResponse:
    """Return the ordinary page of an item: with an empty form, one stage, and no message. `html` is the rendered item."""
    partial, rater = is_partial(request), request.rater
    saved = SavedTime.from_time(previous.saved_at) if previous else None
    values = {
        "item": html,
        "code": code,
        "rater": rater.code,
        "previous": previous and previous.code,
        "submission_id": uuid.uuid4(),
        # Fragments have none: the script that requests them takes it from the cookie.
        "csrf_token": "" if partial else get_token(request),
        "done": progress.done,
        "number": progress.number,
        "total": progress.total,
        "saved_date": saved and saved.date,
        "saved_clock": saved and saved.clock,
    }
    page = fill_frame(
        rater.study, "ratings/_rating_card.html" if partial else "ratings/rate.html", values, marks=marks,
        stage=FINAL_STAGE, single_keys=None if partial else next_item.uses_single_keys(request.user.pk),
    )  # fmt: skip
    response = HttpResponse(page)
    response.has_visible_text = True  # type: ignore[attr-defined]  # read by invisible_characters_middleware
    return response


def _fits_frame(request: RaterRequest, assignment: Assignment) -> bool:
    """Return whether the page is the ordinary one: an empty form, one stage, and no message."""
    has_unsaved = hasattr(assignment, "unsaved_answer")
    has_message = not is_partial(request) and len(get_messages(request)) > 0
    return not (has_unsaved or has_message or is_two_stage(assignment))


class SavedTime(NamedTuple):
    """When an answer was saved: for programs, and as the time of day."""

    date: str
    clock: str

    @classmethod
    def from_time(cls, saved_at: datetime) -> "SavedTime":
        utc = saved_at.astimezone(UTC)
        return cls(utc.isoformat(), f"{utc:%H:%M:%S} UTC")


def render_card(
    request: RaterRequest,
    assignment: Assignment,
    form: RatingForm,
    status: int = 200,
    *,
    current: Rating | None = None,
    previous: PreviousAnswer | None = None,
    progress: Progress | None = None,
) -> HttpResponse:
    """Return the item with its form; in the confirm arm first without the balance sheet, then with it and the first answer.

    `previous` and `progress` are looked up unless the caller passes them.
    """
    two_stage = is_two_stage(assignment)
    initial_rating = InitialRating.objects.filter(assignment=assignment).first() if two_stage else None
    # Correcting a final answer happens with the balance sheet on the page.
    stage = FIRST_STAGE if two_stage and not (initial_rating or current) else FINAL_STAGE
    context: dict[str, Any] = {
        "code": assignment.code,
        "form": form,
        "submission_id": form.next_submission_id,
        **_build_addresses(request, assignment),
        "stage": stage,
        "look": initial_rating,
        "standing": current,
        "interface": INTERFACE,
        "marks": assignment.marks,
        "item": rendered_items.load_html(assignment, stage, form.marked_rows),
    }
    if progress is not None:
        context["progress"] = progress
    return render_rater_page(request, "ratings/rate.html", context, status, "ratings/_rating_card.html", previous)


def render_current_answer(
    request: RaterRequest, assignment: Assignment, current: Rating, yours: Answer | None = None, status: int = 200
) -> HttpResponse:
    """Show the current answer. If another one was just sent (`yours`), show both and ask which one should count."""
    context = {
        "code": assignment.code,
        **_build_addresses(request, assignment),
        "rating": current,
        "yours": yours,
        "may_correct": submit.can_correct(assignment),
        "submission_id": uuid.uuid4(),
        "interface": INTERFACE,
    }
    return render_rater_page(request, "ratings/already_rated.html", context, status, "ratings/_already_rated.html")


def _build_addresses(request: RaterRequest, assignment: Assignment) -> dict[str, str]:
    """Return where the form is sent, and where a rater returns who keeps the saved answer: the list that led here, if one did."""
    place = own_answers.read_place(request.GET)
    action = reverse("ratings:rate", args=[assignment.code])
    if not place:
        return {"action": action, "back": reverse("ratings:next", args=[request.rater.code])}
    return {"action": f"{action}?{place}", "back": own_answers.build_return_url(request.rater, place, assignment)}


def render_rater_page(
    request: RaterRequest,
    name: str,
    context: dict[str, Any] | None = None,
    status: int = 200,
    fragment: str = "",
    previous: PreviousAnswer | None = None,
) -> HttpResponse:
    """Return the page, or for htmx its fragment, with the context of every rater page. Without one, it loads in full."""
    partial = is_partial(request)
    if partial and not fragment:
        return HttpResponseClientRedirect(request.path)
    previous = previous or next_item.find_previous_answer(request.rater)
    saved = SavedTime.from_time(previous.saved_at) if previous else None
    more: dict[str, Any] = {"partial": partial, "previous": previous, "saved": saved}
    if not partial:
        # Only the full page contains the guide with this setting; fragments save the query.
        more["single_keys"] = next_item.uses_single_keys(request.user.pk)
    return render_study_page(request, fragment if partial else name, {**more, **(context or {})}, status)


def is_partial(request: RaterRequest) -> bool:
    # Restoring from history needs the full page, although htmx sends the request.
    return bool(request.htmx) and not request.htmx.history_restore_request


def render_study_page(request: RaterRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Render a template with the rater's study and progress."""
    rater = request.rater
    progress = context.get("progress") or next_item.count_progress(rater)
    base_context = {"rater": rater, "study": rater.study, "progress": progress}
    return render(request, template, base_context | context, status=status)


def get_shown_layout(assignment: Assignment) -> str:
    """Return the layout in which this item is shown: plain if outputs cannot be matched to inputs."""
    stored: str | None = getattr(assignment, "stored_layout", None)
    return stored or item_view.choose_layout(assignment.item.payload, assignment.layout)


def is_two_stage(assignment: Assignment) -> bool:
    """Return whether this item is answered twice: before and after the balance sheet is shown."""
    # Without reading the payload, unless the arm has two stages.
    return assignment.layout == TWO_STAGE_LAYOUT and get_shown_layout(assignment) == TWO_STAGE_LAYOUT
