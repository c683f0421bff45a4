"""Invite raters: by e-mail, from a list with names, or with links to copy; and the wording of the invitations."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import messages
from django.core import signing
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ratings.exchange.exports import format_table_lines, prepend_byte_order_mark
from ratings.models import InvitationText, Rater
from ratings.raters import email_messages, invitation_texts, invitations, mailings
from ratings.raters.invitation_texts import Wording
from ratings.raters.mailings import AddressError, Invitee, PersonalLink, SendResult
from ratings.studies import StudyError
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results.result_files import as_attachment
from ratings.web.study.rater_forms import InviteForm, ListForm, WordingForm
from ratings.web.study.rater_list import (
    get_rater_by_label,
    redirect_to_list,
    render_list,
    report_study_errors,
)
from wetbench_site.text import format_count
from wetbench_site.validation import Problem

LINK_COLUMNS = ("rater", "name", "email", "link")
MAX_SHOWN_PROBLEMS = 200
_SIGNED_SECONDS = 3600  # how long a checked list can be sent, and new links can be saved as CSV
_EXAMPLE_LINK = "https://…/r/…/"  # in previews: a link that works is created when an invitation is sent


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def invite_raters(request: StudyRequest) -> HttpResponse:
    """Invite all pasted addresses. If any line has a problem, invite nobody and show all problems."""
    form = InviteForm(request.POST)
    if form.is_valid():
        try:
            return _invite_people(request, mailings.parse_addresses(form.cleaned_data["addresses"]))
        except AddressError as error:
            for problem in error.problems:
                form.add_error("addresses", problem)
    return render_list(request, invite=form, status=422)


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@report_study_errors
def invite_from_list(request: StudyRequest) -> HttpResponse:
    """Check a list of names and addresses, show what would be sent, and send it when confirmed."""
    context: dict[str, Any] = {"form": ListForm()}
    if request.method == "POST" and "signed" in request.POST:
        try:
            invitees = [Invitee(*row) for row in _load_signed(request, "list", request.POST["signed"])]
            return _invite_people(request, invitees)
        except signing.BadSignature:
            context["refused"] = "The checked list is no longer available. Choose the file again."
        except AddressError as error:
            context |= _describe_problems(error.located)
    elif request.method == "POST":
        context["form"] = form = ListForm(request.POST, request.FILES)
        if not form.is_valid():
            return _render_list_page(request, context, 422)
        context |= _check_list(request, form)
    has_problems = "problems" in context or "refused" in context
    return _render_list_page(request, context, 422 if has_problems else 200)


def _check_list(request: StudyRequest, form: ListForm) -> dict[str, Any]:
    """Return the preview of the list, or its problems."""
    parsed = form.parse_list()
    problems = list(parsed.problems)
    plan: list[tuple[Rater, Invitee]] = []
    try:
        # Rows are checked even if others could not be read, so that all problems are listed at once.
        plan = mailings.plan_invitations(request.study, parsed.invitees) if parsed.invitees else []
    except AddressError as error:
        problems += error.located
    if problems:
        return _describe_problems(sorted(problems, key=lambda problem: problem.line))
    study, first = request.study, parsed.invitees[0]
    days = invitations.INVITATION_LIFETIME.days
    letter = invitation_texts.write_invitation(first.email, study, _EXAMPLE_LINK, days, first.name)
    return {
        "plan": plan,
        "letter": letter,
        "n_sent": sum(bool(one.email) for one in parsed.invitees) if email_messages.is_email_set_up() else 0,
        "signed": _sign(request, "list", [list(one) for one in parsed.invitees]),
    }


def _describe_problems(problems: Sequence[Problem]) -> dict[str, Any]:
    return {"problems": problems[:MAX_SHOWN_PROBLEMS], "n_problems": len(problems)}


def _render_list_page(request: StudyRequest, context: dict[str, Any], status: int) -> HttpResponse:
    context |= {
        "study": request.study,
        "free": mailings.open_rater_places(request.study).count(),
        "under_way": request.study.status in ("open", "paused"),
    }
    return render(request, "ratings/invite_list.html", context, status=status)


def _invite_people(request: StudyRequest, invitees: Sequence[Invitee]) -> HttpResponse:
    """Invite these people and report what was sent; links that were not sent are shown instead of the list."""
    posted = mailings.invite_people(request.study, invitees, request.user, email_messages.make_url_builder(request))
    if not posted.links:
        return report_messages(request, posted, "invitation")
    if posted.sent:
        messages.success(request, f"{format_count(posted.sent, 'invitation')} sent by e-mail.")
    for label, error in posted.failed:
        messages.error(request, f"The invitation to {label} could not be sent: {error}")
    return _render_links(request, posted.links)


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def create_links(request: StudyRequest) -> HttpResponse:
    """Create a link for every open rater place and show all of them in this response."""
    raters = list(mailings.open_rater_places(request.study))
    if not raters:
        raise StudyError("There is no open rater place. Add rater places first, or select raters to create new links for them.")  # fmt: skip
    return show_new_links(request, raters)


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def create_link(request: StudyRequest, label: str) -> HttpResponse:
    """Create a link for one rater and show it in this response."""
    return show_new_links(request, [get_rater_by_label(request, label)])


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def download_links(request: StudyRequest) -> HttpResponse:
    """Return links that were just created as CSV. They come back in the form, because only their hashes are stored."""
    try:
        rows = _load_signed(request, "links", request.POST.get("signed", ""))
    except signing.BadSignature as error:
        raise StudyError("These links can no longer be saved as CSV. Create new ones.") from error
    return csv_attachment(LINK_COLUMNS, rows, f"{request.study.slug}-links.csv")


@study_page("admin")
@require_POST
@report_study_errors
def resend_invitation(request: StudyRequest, label: str) -> HttpResponse:
    rater, build_url = get_rater_by_label(request, label), email_messages.make_url_builder(request)
    return report_messages(request, mailings.resend_invitation(rater, request.user, build_url), "invitation")


@study_page("admin")
@require_POST
@report_study_errors
def revoke_invitation(request: StudyRequest, label: str) -> HttpResponse:
    invitations.revoke_invitation(get_rater_by_label(request, label), request.user)
    messages.success(request, f"The invitation of {label} has been revoked; its link no longer works.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@require_POST
@report_study_errors
def send_reminders(request: StudyRequest) -> HttpResponse:
    posted = mailings.send_reminders(request.study, request.user, email_messages.make_url_builder(request))
    return report_messages(request, posted, "reminder")


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def edit_wording(request: StudyRequest) -> HttpResponse:
    """Show the wording of the invitations with a preview; `do` is preview, save or reset."""
    study, do = request.study, request.POST.get("do", "save") if request.method == "POST" else ""
    if do == "reset":
        invitation_texts.reset_wording(study)
        messages.success(request, "The default wording is used again.")
        return redirect("ratings:invitation_text", slug=study.slug)
    wording = invitation_texts.load_wording(study)
    form = WordingForm(request.POST if do else None, initial=wording._asdict())
    if do and form.is_valid():
        wording = Wording(**form.cleaned_data)
        if do == "save":
            invitation_texts.save_wording(study, wording, request.user)
            messages.success(request, "The wording is saved. It applies to invitations that are sent from now on.")
            return redirect("ratings:invitation_text", slug=study.slug)
    days = invitations.INVITATION_LIFETIME.days
    letter = invitation_texts.write_invitation(
        "ada@example.org", study, _EXAMPLE_LINK, days, "Ada Byron", wording=wording
    )
    context = {
        "study": study,
        "form": form,
        "placeholders": invitation_texts.PLACEHOLDERS.items(),
        "letter": letter,
        "from": email_messages.format_sender(letter.sender),
        "is_previewed": do == "preview" and not form.errors,
        "stored": InvitationText.objects.filter(study=study).select_related("updated_by").first(),
    }
    return render(request, "ratings/invitation_text.html", context, status=422 if form.errors else 200)


def show_new_links(request: StudyRequest, raters: Iterable[Rater]) -> HttpResponse:
    """Create links for the raters and show them in this response: only their hashes are stored."""
    links, refused = mailings.create_links(raters, request.user, email_messages.make_url_builder(request))
    for label, reason in refused:
        messages.error(request, f"No link for {label}: {reason}")
    return _render_links(request, links) if links else redirect_to_list(request)


def _render_links(request: StudyRequest, links: Sequence[PersonalLink]) -> HttpResponse:
    context = {
        "study": request.study,
        "links": links,
        "text": "\n".join("\t".join(link) for link in links),
        "signed": _sign(request, "links", [list(link) for link in links]),
        "days": invitations.INVITATION_LIFETIME.days,
        "expires_at": timezone.now() + invitations.INVITATION_LIFETIME,
    }
    return render(request, "ratings/study_links.html", context)


def _sign(request: StudyRequest, purpose: str, value: object) -> str:
    """Return the value as text that only this user can send back, and only for this study."""
    return signing.dumps(value, salt=_get_salt(request, purpose), compress=True)


def _load_signed(request: StudyRequest, purpose: str, text: str) -> list[list[Any]]:
    """Return a signed value. Raises BadSignature if it was changed, is too old, or belongs to another study or user."""
    value: list[list[Any]] = signing.loads(text, salt=_get_salt(request, purpose), max_age=_SIGNED_SECONDS)
    return value


def _get_salt(request: StudyRequest, purpose: str) -> str:
    return f"ratings.inviting/{purpose}/{request.study.pk}/{request.user.pk}"


def csv_attachment(columns: Sequence[str], rows: Any, name: str) -> HttpResponse:
    """Return a CSV file for spreadsheets."""
    lines = prepend_byte_order_mark(format_table_lines(columns, rows))
    return as_attachment(HttpResponse("".join(lines), content_type="text/csv; charset=utf-8"), name)


def report_messages(request: StudyRequest, posted: SendResult, noun: str) -> HttpResponse:
    """Redirect to the list, with the numbers of messages sent and failed."""
    if posted.sent or not posted.failed:
        messages.success(request, f"{format_count(posted.sent, noun)} sent.")
    for label, error in posted.failed:
        messages.error(request, f"The {noun} to {label} could not be sent: {error}")
    if posted.without_address:
        without = ", ".join(posted.without_address)
        messages.warning(request, f"Not reminded, because there is no e-mail address: {without}")
    return redirect_to_list(request)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/raters/invite/", invite_raters, name="invite"),
    path("studies/<slug:slug>/raters/invite-list/", invite_from_list, name="invite_list"),
    path("studies/<slug:slug>/raters/wording/", edit_wording, name="invitation_text"),
    path("studies/<slug:slug>/raters/links/", create_links, name="make_links"),
    path("studies/<slug:slug>/raters/links.csv", download_links, name="links_csv"),
    path("studies/<slug:slug>/raters/remind/", send_reminders, name="remind"),
    path("studies/<slug:slug>/raters/<slug:label>/link/", create_link, name="make_link"),
    path("studies/<slug:slug>/raters/<slug:label>/resend/", resend_invitation, name="resend"),
    path("studies/<slug:slug>/raters/<slug:label>/revoke/", revoke_invitation, name="revoke"),
]
