"""Raters and invitations of a study. Analysts see codes and progress; admins also invite, remind and remove raters."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.models import Rater
from ratings.protocol import PlanError, protocols
from ratings.raters import inviting, mailing, people, posting
from ratings.raters.posting import AddressError, Posted
from ratings.studies import StudyError
from ratings.studies.seats import seating
from ratings.web.guards import StudyRequest, study_page
from ratings.web.study import members


class InviteForm(forms.Form):
    """Pasted e-mail addresses; `posting` checks them line by line."""

    addresses = forms.CharField(
        label="E-mail addresses",
        max_length=20_000,
        help_text="One per line, or separated by commas. Each address gets an open rater place and a personal link; at most 200 at a time.",
        widget=forms.Textarea(attrs={"rows": 5, "autocomplete": "off", "spellcheck": "false"}),
    )


class SeatsForm(forms.Form):
    seats = forms.IntegerField(label="Number of places", min_value=1, max_value=protocols.MOST_RATERS, initial=1)


@study_page("admin", "analyst")
@never_cache
@require_safe
def raters(request: StudyRequest) -> HttpResponse:
    return _page(request)


@study_page("admin")
@never_cache
@require_POST
def invite(request: StudyRequest) -> HttpResponse:
    """Invite all of the pasted addresses, or none of them and show the problems of each line."""
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _page(request, invite=form, status=422)
    try:
        posted = posting.invite_all(
            request.study, form.cleaned_data["addresses"], request.user, mailing.address_of(request)
        )
    except AddressError as error:
        for problem in error.problems:
            form.add_error("addresses", problem)
        return _page(request, invite=form, status=422)
    except StudyError as error:
        return _said(request, error)
    return _posted(request, posted, "invitation")


@study_page("admin")
@never_cache
@require_POST
def add_seats(request: StudyRequest) -> HttpResponse:
    """Add rater places to an open study. Items already shown keep their raters."""
    form = SeatsForm(request.POST)
    if not form.is_valid():
        return _page(request, seats=form, status=422)
    number = form.cleaned_data["seats"]
    try:
        seating.add_seats(request.study, number, request.user)
    except (StudyError, PlanError) as error:
        return _said(request, error)
    messages.success(request, f"{number} rater place{'s' * (number != 1)} added.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@require_POST
def remind(request: StudyRequest) -> HttpResponse:
    try:
        posted = posting.remind(request.study, request.user, mailing.address_of(request))
    except StudyError as error:
        return _said(request, error)
    return _posted(request, posted, "reminder")


@study_page("admin")
@never_cache
@require_POST
def make_link(request: StudyRequest, label: str) -> HttpResponse:
    """Create a link and show it in this response."""
    seat = _seat(request, label)
    try:
        # Only the hash of the token is stored, so no other page could show the link; a redirect would lose it.
        token = inviting.invite(seat, request.user)
    except StudyError as error:
        return _said(request, error)
    context = {"study": request.study, "seat": seat, "link": mailing.link(token, mailing.address_of(request))}
    return render(request, "ratings/study_link.html", context)


@study_page("admin")
@require_POST
def resend(request: StudyRequest, label: str) -> HttpResponse:
    try:
        posted = posting.resend(_seat(request, label), request.user, mailing.address_of(request))
    except StudyError as error:
        return _said(request, error)
    return _posted(request, posted, "invitation")


@study_page("admin")
@require_POST
def revoke(request: StudyRequest, label: str) -> HttpResponse:
    try:
        inviting.revoke(_seat(request, label), request.user)
    except StudyError as error:
        return _said(request, error)
    messages.success(request, f"The invitation of {label} has been revoked; its link no longer works.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def withdraw_rater(request: StudyRequest, label: str) -> HttpResponse:
    """Ask for confirmation, then remove the rater. This cannot be undone."""
    seat = _seat(request, label)
    if request.method != "POST":
        context = {"study": request.study, "seat": seat, "protocol": protocols.stored(request.study.protocol)}
        return render(request, "ratings/people_withdraw.html", context)
    try:
        seating.withdraw(seat, request.user)
    except (StudyError, PlanError) as error:
        return _said(request, error)
    messages.success(request, f"{label} has been removed.")
    return redirect("ratings:raters", slug=request.study.slug)


def _page(
    request: StudyRequest, invite: InviteForm | None = None, seats: SeatsForm | None = None, status: int = 200
) -> HttpResponse:
    study, may_change = request.study, request.role != "analyst"
    context: dict[str, Any] = {
        "study": study,
        "people": people.people(study),
        "may_change": may_change,
        "role": request.role,
        "under_way": study.status in ("open", "paused"),
        # Analysts cannot invite, so these two queries are not run for them.
        "free": posting.free(study).count() if may_change else None,
        "last_reminder": study.events.filter(kind="reminded").last() if may_change else None,
        "invite": invite or InviteForm(),
        "seats": seats or SeatsForm(),
    }
    return render(request, "ratings/people.html", context, status=status)


def _seat(request: StudyRequest, label: str) -> Rater:
    try:
        return inviting.seat_of(request.study, label)
    except StudyError as error:
        raise Http404 from error


def _posted(request: StudyRequest, posted: Posted, what: str) -> HttpResponse:
    """Redirect to the page, with the numbers of messages sent and failed."""
    if posted.sent or not posted.failed:
        messages.success(request, f"{posted.sent} {what}{'s' * (posted.sent != 1)} sent.")
    for label, error in posted.failed:
        messages.error(request, f"The {what} to {label} could not be sent: {error}")
    if posted.without:
        messages.warning(request, f"Not reminded, because there is no e-mail address: {', '.join(posted.without)}")
    return redirect("ratings:raters", slug=request.study.slug)


def _said(request: StudyRequest, error: Exception) -> HttpResponse:
    messages.error(request, str(error))
    return redirect(reverse("ratings:raters", args=[request.study.slug]))


urls: list[URLPattern] = [
    path("studies/<slug:slug>/raters/", raters, name="raters"),
    path("studies/<slug:slug>/raters/invite/", invite, name="invite"),
    path("studies/<slug:slug>/raters/add/", add_seats, name="add_seats"),
    path("studies/<slug:slug>/raters/remind/", remind, name="remind"),
    path("studies/<slug:slug>/raters/<slug:label>/link/", make_link, name="make_link"),
    path("studies/<slug:slug>/raters/<slug:label>/resend/", resend, name="resend"),
    path("studies/<slug:slug>/raters/<slug:label>/revoke/", revoke, name="revoke"),
    path("studies/<slug:slug>/raters/<slug:label>/withdraw/", withdraw_rater, name="withdraw_rater"),
    *members.urls,
]
