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
from ratings.protocol import PlanError, study_protocol
from ratings.raters import email_messages, invitations, invite_by_email, rater_overview
from ratings.raters.invite_by_email import AddressError, SendResult
from ratings.studies import StudyError
from ratings.studies.assignments import running_raters
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.study import members


class InviteForm(forms.Form):
    """Pasted e-mail addresses; `invite_by_email` checks them line by line."""

    addresses = forms.CharField(
        label="E-mail addresses",
        max_length=20_000,
        help_text="One per line, or separated by commas. Each address gets an open rater place and a personal link; at most 200 at a time.",
        widget=forms.Textarea(attrs={"rows": 5, "autocomplete": "off", "spellcheck": "false"}),
    )


class AddRatersForm(forms.Form):
    raters = forms.IntegerField(label="Number of places", min_value=1, max_value=study_protocol.MAX_RATERS, initial=1)


@study_page("admin", "analyst")
@never_cache
@require_safe
def list_raters(request: StudyRequest) -> HttpResponse:
    return _render_page(request)


@study_page("admin")
@never_cache
@require_POST
def invite_raters(request: StudyRequest) -> HttpResponse:
    """Invite all pasted addresses. If any line has a problem, invite nobody and show all problems."""
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _render_page(request, invite=form, status=422)
    try:
        posted = invite_by_email.invite_addresses(
            request.study, form.cleaned_data["addresses"], request.user, email_messages.make_url_builder(request)
        )
    except AddressError as error:
        for problem in error.problems:
            form.add_error("addresses", problem)
        return _render_page(request, invite=form, status=422)
    except StudyError as error:
        return _report_error(request, error)
    return _report_messages(request, posted, "invitation")


@study_page("admin")
@never_cache
@require_POST
def add_rater_places(request: StudyRequest) -> HttpResponse:
    """Add rater places to an open study. Items already shown keep their raters."""
    form = AddRatersForm(request.POST)
    if not form.is_valid():
        return _render_page(request, raters=form, status=422)
    number = form.cleaned_data["raters"]
    try:
        running_raters.add_rater_places(request.study, number, request.user)
    except (StudyError, PlanError) as error:
        return _report_error(request, error)
    messages.success(request, f"{number} rater place{'s' * (number != 1)} added.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@require_POST
def send_reminders(request: StudyRequest) -> HttpResponse:
    try:
        posted = invite_by_email.send_reminders(request.study, request.user, email_messages.make_url_builder(request))
    except StudyError as error:
        return _report_error(request, error)
    return _report_messages(request, posted, "reminder")


@study_page("admin")
@never_cache
@require_POST
def create_link(request: StudyRequest, label: str) -> HttpResponse:
    """Create a link and show it in this response."""
    rater = _get_rater_by_label(request, label)
    try:
        # Only the hash of the token is stored, so no other page could show the link; a redirect would lose it.
        token = invitations.create_invitation(rater, request.user)
    except StudyError as error:
        return _report_error(request, error)
    context = {
        "study": request.study,
        "rater": rater,
        "link": email_messages.build_link(token, email_messages.make_url_builder(request)),
    }
    return render(request, "ratings/study_link.html", context)


@study_page("admin")
@require_POST
def resend_invitation(request: StudyRequest, label: str) -> HttpResponse:
    try:
        posted = invite_by_email.resend_invitation(
            _get_rater_by_label(request, label), request.user, email_messages.make_url_builder(request)
        )
    except StudyError as error:
        return _report_error(request, error)
    return _report_messages(request, posted, "invitation")


@study_page("admin")
@require_POST
def revoke_invitation(request: StudyRequest, label: str) -> HttpResponse:
    try:
        invitations.revoke_invitation(_get_rater_by_label(request, label), request.user)
    except StudyError as error:
        return _report_error(request, error)
    messages.success(request, f"The invitation of {label} has been revoked; its link no longer works.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def remove_rater(request: StudyRequest, label: str) -> HttpResponse:
    """Ask for confirmation, then remove the rater. This cannot be undone."""
    rater = _get_rater_by_label(request, label)
    if request.method != "POST":
        context = {
            "study": request.study,
            "rater": rater,
            "protocol": study_protocol.load_protocol(request.study.protocol),
        }
        return render(request, "ratings/people_withdraw.html", context)
    try:
        running_raters.withdraw_rater(rater, request.user)
    except (StudyError, PlanError) as error:
        return _report_error(request, error)
    messages.success(request, f"{label} has been removed.")
    return redirect("ratings:raters", slug=request.study.slug)


def _render_page(
    request: StudyRequest, invite: InviteForm | None = None, raters: AddRatersForm | None = None, status: int = 200
) -> HttpResponse:
    study, may_change = request.study, request.role != "analyst"
    context: dict[str, Any] = {
        "study": study,
        "people": rater_overview.list_raters(study),
        "may_change": may_change,
        "role": request.role,
        "under_way": study.status in ("open", "paused"),
        # Analysts cannot invite, so these two queries are not run for them.
        "free": invite_by_email.open_rater_places(study).count() if may_change else None,
        "last_reminder": study.events.filter(kind="reminded").last() if may_change else None,
        "invite": invite or InviteForm(),
        "raters": raters or AddRatersForm(),
    }
    return render(request, "ratings/people.html", context, status=status)


def _get_rater_by_label(request: StudyRequest, label: str) -> Rater:
    try:
        return invitations.get_rater(request.study, label)
    except StudyError as error:
        raise Http404 from error


def _report_messages(request: StudyRequest, posted: SendResult, noun: str) -> HttpResponse:
    """Redirect to the page, with the numbers of messages sent and failed."""
    if posted.sent or not posted.failed:
        messages.success(request, f"{posted.sent} {noun}{'s' * (posted.sent != 1)} sent.")
    for label, error in posted.failed:
        messages.error(request, f"The {noun} to {label} could not be sent: {error}")
    if posted.without_address:
        messages.warning(
            request, f"Not reminded, because there is no e-mail address: {', '.join(posted.without_address)}"
        )
    return redirect("ratings:raters", slug=request.study.slug)


def _report_error(request: StudyRequest, error: Exception) -> HttpResponse:
    messages.error(request, str(error))
    return redirect(reverse("ratings:raters", args=[request.study.slug]))


urls: list[URLPattern] = [
    path("studies/<slug:slug>/raters/", list_raters, name="raters"),
    path("studies/<slug:slug>/raters/invite/", invite_raters, name="invite"),
    path("studies/<slug:slug>/raters/add/", add_rater_places, name="add_raters"),
    path("studies/<slug:slug>/raters/remind/", send_reminders, name="remind"),
    path("studies/<slug:slug>/raters/<slug:label>/link/", create_link, name="make_link"),
    path("studies/<slug:slug>/raters/<slug:label>/resend/", resend_invitation, name="resend"),
    path("studies/<slug:slug>/raters/<slug:label>/revoke/", revoke_invitation, name="revoke"),
    path("studies/<slug:slug>/raters/<slug:label>/withdraw/", remove_rater, name="withdraw_rater"),
    *members.urls,
]
