"""The rating screen: the item with its form, the current answer, and the rater's progress."""

import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.core.cache import caches
from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from ratings.blinding import item_view
from ratings.models import Assignment, InitialRating, RaterProfile, Rating
from ratings.protocol import Arm
from ratings.rating import Answer, next_item, submit
from ratings.web.decorators import RaterRequest
from ratings.web.rater.rating_form import FINAL_STAGE, FIRST_STAGE, INTERFACE, RatingForm
from wetbench_site.text import hash_text

_CACHE = caches["drawn_items"]


def render_item(assignment: Assignment, stage: str, marked: Collection[str]) -> str:
    """Return the HTML of the item in its layout at this stage of answering."""
    payload, context = assignment.item.payload, assignment.item.context
    screen = Arm(assignment.layout, assignment.with_context, assignment.marks)._asdict()
    # Everything that affects the HTML: two items with the same content share one entry. The context affects it only on
    # screens that show it.
    shown_context = context if assignment.with_context else None
    key = hash_text(repr((payload, shown_context, assignment.layout, assignment.marks, stage)))
    # HTML with marked rows belongs to one rater and is not cached.
    html: str | None = None if marked else _CACHE.get(key)
    if html is None:
        view = item_view.build_item_view(payload, context, **screen, marked=marked, stage=stage)
        html = render_to_string("ratings/_item.html", view)
        if not marked:
            _CACHE.set(key, html)
    return html


class PreviousAnswer(NamedTuple):
    """The item that the rater answered last, and when that answer was saved."""

    code: uuid.UUID
    saved_at: datetime


def render_card(
    request: RaterRequest,
    assignment: Assignment,
    form: RatingForm,
    status: int = 200,
    *,
    current: Rating | None = None,
    previous: PreviousAnswer | None = None,
) -> HttpResponse:
    """Return the item with its form; in the confirm arm first without the balance sheet, then with it and the first answer.

    `previous` is looked up unless the caller passes it.
    """
    two_stage = is_two_stage(assignment)
    initial_rating = InitialRating.objects.filter(assignment=assignment).first() if two_stage else None
    # Correcting a final answer happens with the balance sheet on the page.
    stage = FIRST_STAGE if two_stage and not (initial_rating or current) else FINAL_STAGE
    context = {
        "code": assignment.code,
        "form": form,
        "action": reverse("ratings:rate", args=[assignment.code]),
        "stage": stage,
        "look": initial_rating,
        "standing": current,
        "interface": INTERFACE,
        "marks": assignment.marks,
        "item": render_item(assignment, stage, form.marked_rows),
    }
    return render_rater_page(request, "ratings/rate.html", context, status, "ratings/_rating_card.html", previous)


def render_current_answer(
    request: RaterRequest, assignment: Assignment, current: Rating, yours: Answer | None = None, status: int = 200
) -> HttpResponse:
    """Show the current answer. If another one was just sent (`yours`), show both and ask which one should count."""
    context = {
        "code": assignment.code,
        "rating": current,
        "yours": yours,
        "may_correct": submit.can_correct(assignment),
        "submission_id": uuid.uuid4(),
        "interface": INTERFACE,
    }
    return render_rater_page(request, "ratings/already_rated.html", context, status, "ratings/_already_rated.html")


def render_rater_page(
    request: RaterRequest,
    name: str,
    context: dict[str, Any] | None = None,
    status: int = 200,
    fragment: str = "",
    previous: PreviousAnswer | None = None,
) -> HttpResponse:
    """Return the page, or for htmx its fragment, with the context of every rater page. Without one, it loads in full."""
    # Restoring from history needs the full page, although htmx sends the request.
    partial = bool(request.htmx) and not request.htmx.history_restore_request
    if partial and not fragment:
        return HttpResponseClientRedirect(request.path)
    if previous is None and (last := next_item.find_previous_assignment(request.rater)):
        previous = PreviousAnswer(last.code, last.rating.revised_at or last.rating.submitted_at)
    saved_at = previous.saved_at if previous else None
    more: dict[str, Any] = {"partial": partial, "previous": previous, "saved_at": saved_at}
    if not partial:
        # Only the full page contains the guide with this setting; fragments save the query.
        profile = RaterProfile.objects.filter(user_id=request.user.pk).only("single_keys").first()
        more["single_keys"] = profile is None or profile.single_keys
    return render_study_page(request, fragment if partial else name, {**more, **(context or {})}, status)


def render_study_page(request: RaterRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Render a template with the rater's study and progress."""
    rater = request.rater
    base_context = {"rater": rater, "study": rater.study, "progress": next_item.count_progress(rater)}
    return render(request, template, base_context | context, status=status)


def get_shown_layout(assignment: Assignment) -> str:
    """Return the layout in which this item is shown: plain if outputs cannot be matched to inputs."""
    return item_view.choose_layout(assignment.item.payload, assignment.layout)


def is_two_stage(assignment: Assignment) -> bool:
    """Return whether this item is answered twice: before and after the balance sheet is shown."""
    return get_shown_layout(assignment) == item_view.CONFIRM
