"""What the rating screen shows: the item with its form, the answer that stands, and how far the rater is."""

import uuid
from datetime import datetime
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from ratings.blinding import screen
from ratings.models import Assignment, FirstLook, Rater, RaterProfile, Rating
from ratings.rating import Answer, answering, serving
from ratings.web.guards import RaterRequest
from ratings.web.rater import drawn_items
from ratings.web.rater.rating_form import FINAL_STAGE, FIRST_STAGE, INTERFACE, RatingForm


class Previous(NamedTuple):
    """What a rater answered last, and when that was saved."""

    code: uuid.UUID
    saved_at: datetime


def card(
    request: RaterRequest,
    place: Assignment,
    form: RatingForm,
    status: int = 200,
    *,
    standing: Rating | None = None,
    previous: Previous | None = None,
) -> HttpResponse:
    """The item with its form. In the confirm arm first without the balance sheet, then with it and the first answer.
    `previous` is looked up unless the caller knows it."""
    two_stage = is_two_stage(place)
    look = FirstLook.objects.filter(assignment=place).first() if two_stage else None
    stage = FIRST_STAGE if two_stage and not (look or standing) else FINAL_STAGE
    context = {
        "code": place.code,
        "form": form,
        "action": reverse("ratings:rate", args=[place.code]),
        "stage": stage,
        "look": look,
        "standing": standing,
        "interface": INTERFACE,
        "marks": place.marks,
        "item": drawn_items.drawn(place, stage, form.marked),
    }
    return page(request, "ratings/rate.html", context, status, "ratings/_rating_card.html", previous)


def stands(
    request: RaterRequest, place: Assignment, standing: Rating, yours: Answer | None = None, status: int = 200
) -> HttpResponse:
    """The answer that stands; beside it what was sent, with the question whether it shall take its place."""
    context = {
        "code": place.code,
        "rating": standing,
        "yours": yours,
        "may_correct": answering.may_correct(place),
        "submission_id": uuid.uuid4(),
        "interface": INTERFACE,
    }
    return page(request, "ratings/already_rated.html", context, status, fragment="ratings/_already_rated.html")


def page(
    request: RaterRequest,
    name: str,
    context: dict[str, Any] | None = None,
    status: int = 200,
    fragment: str = "",
    previous: Previous | None = None,
) -> HttpResponse:
    """The page, or for htmx its fragment (a page without one is loaded whole), with what every rater page shows."""
    partial = bool(request.htmx) and not request.htmx.history_restore_request
    if partial and not fragment:
        return HttpResponseClientRedirect(request.path)
    shared = _shared(request.rater, partial, previous or _previous(request.rater))
    if not partial:
        shared["single_keys"] = _single_keys(request)
    return render(request, fragment if partial else name, {**shared, **(context or {})}, status=status)


def layout_shown(place: Assignment) -> str:
    """The layout this item really gets: plain where nobody knows what became of what."""
    return screen.layout_shown(place.item.payload, place.layout)


def is_two_stage(place: Assignment) -> bool:
    """Whether this item is answered twice: before and after the balance sheet is shown."""
    return layout_shown(place) == screen.CONFIRM


def _shared(seat: Rater, partial: bool, previous: Previous | None) -> dict[str, Any]:
    return {
        "seat": seat,
        "study": seat.study,
        "progress": serving.progress(seat),
        "partial": partial,
        "previous": previous,
        "saved_at": previous.saved_at if previous else None,
    }


def _previous(seat: Rater) -> Previous | None:
    last = serving.previous_assignment(seat)
    return Previous(last.code, last.rating.revised_at or last.rating.submitted_at) if last else None


def _single_keys(request: RaterRequest) -> bool:
    profile = RaterProfile.objects.filter(user_id=request.user.pk).only("single_keys").first()
    return profile is None or profile.single_keys
