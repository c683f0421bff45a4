"""The raters of a study: the page of one rater, actions on several raters, and their active time."""

from collections.abc import Callable, Sequence

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.models import Rater
from ratings.protocol import study_protocol
from ratings.raters import active_time, email_messages, invitations, mailings, rater_overview
from ratings.studies import StudyError, running_raters
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.study.inviting import csv_attachment, report_messages, show_new_links
from ratings.web.study.rater_forms import AddRatersForm
from ratings.web.study.rater_list import (
    PER_PAGE,
    get_rater_by_label,
    read_back_query,
    redirect_to_list,
    render_list,
    report_study_errors,
)  # fmt: skip
from wetbench_site.text import format_count


@study_page("admin", "analyst")
@never_cache
@require_safe
def list_raters(request: StudyRequest) -> HttpResponse:
    return render_list(request)


@study_page("admin", "analyst")
@never_cache
@require_safe
def show_rater(request: StudyRequest, label: str) -> HttpResponse:
    """Show one rater: progress, times, and for admins the invitations to this place."""
    rater, study = get_rater_by_label(request, label), request.study
    may_change = request.role != "analyst"
    row = rater_overview.list_raters(study, label)[0]
    times = next(one for one in active_time.compute_active_times(study, label))
    context = {
        "study": study,
        "row": row,
        "times": times,
        "active_text": active_time.format_duration(times.seconds),
        "may_change": may_change,
        "role": request.role,
        "under_way": study.status in ("open", "paused"),
        "sends_email": email_messages.is_email_set_up(),
        # Analysts see labels alone. For admins the address disappears when the rater joins.
        "invitations": rater_overview.list_invitations(rater) if may_change else [],
    }
    return render(request, "ratings/people_rater.html", context)


@study_page("admin", "analyst")
@never_cache
@require_safe
def download_hours(request: StudyRequest) -> HttpResponse:
    """Return the active time of every rater as CSV, for payment."""
    rows = (times.to_row() for times in active_time.compute_active_times(request.study))
    return csv_attachment(active_time.COLUMNS, rows, f"{request.study.slug}-hours.csv")


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def add_rater_places(request: StudyRequest) -> HttpResponse:
    """Add rater places to an open study. Items already shown keep their raters."""
    form = AddRatersForm(request.POST)
    if not form.is_valid():
        return render_list(request, raters=form, status=422)
    number = form.cleaned_data["raters"]
    running_raters.add_rater_places(request.study, number, request.user)
    messages.success(request, f"{format_count(number, 'rater place')} added.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@report_study_errors
def remove_rater(request: StudyRequest, label: str) -> HttpResponse:
    """Ask for confirmation, then remove the rater. This cannot be undone."""
    rater = get_rater_by_label(request, label)
    if request.method != "POST":
        return _confirm_removal(request, [rater])
    running_raters.withdraw_rater(rater, request.user)
    messages.success(request, f"{label} has been removed.")
    return redirect("ratings:raters", slug=request.study.slug)


def _confirm_removal(request: StudyRequest, raters: Sequence[Rater]) -> HttpResponse:
    context = {
        "study": request.study,
        "raters": raters,
        "labels": ", ".join(rater.label for rater in raters),
        "protocol": study_protocol.load_protocol(request.study.protocol),
        "back": read_back_query(request),
    }
    return render(request, "ratings/people_withdraw.html", context)


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def change_selected_raters(request: StudyRequest) -> HttpResponse:
    """Remind the selected raters, create links for them, revoke their invitations, or remove them after a confirmation."""
    raters = list(request.study.raters.filter(label__in=request.POST.getlist("rater")[:PER_PAGE]).order_by("number"))
    if not raters:
        raise StudyError("Select at least one rater first.")
    match request.POST.get("do"):
        case "remind":
            return _remind_raters(request, raters)
        case "links":
            return show_new_links(request, raters)
        case "revoke":
            return _change_each(
                request, raters, invitations.revoke_invitation, "invitation revoked", "invitations revoked"
            )
        case "remove" if "confirmed" in request.POST:
            return _change_each(request, raters, running_raters.withdraw_rater, "rater removed", "raters removed")
        case "remove":
            return _confirm_removal(request, raters)
    raise StudyError("Choose what to do with the selected raters.")


def _change_each(
    request: StudyRequest, raters: Sequence[Rater], change: Callable[..., object], singular: str, plural: str
) -> HttpResponse:
    """Apply the change to each rater that allows it, and report the reasons of the others."""
    changed = 0
    for rater in raters:
        try:
            change(rater, request.user)
            changed += 1
        except StudyError as error:
            messages.warning(request, str(error))
    if changed:
        messages.success(request, f"{changed} {singular if changed == 1 else plural}.")
    return redirect_to_list(request)


def _remind_raters(request: StudyRequest, raters: Sequence[Rater]) -> HttpResponse:
    labels, build_url = [rater.label for rater in raters], email_messages.make_url_builder(request)
    posted = mailings.send_reminders(request.study, request.user, build_url, labels)
    skipped = len(labels) - posted.sent - len(posted.failed) - len(posted.without_address)
    if skipped:
        noun = "selected rater has" if skipped == 1 else "selected raters have"
        messages.warning(request, f"{skipped} {noun} nothing to be reminded of: not invited, finished or removed.")
    return report_messages(request, posted, "reminder")


urls: list[URLPattern] = [
    path("studies/<slug:slug>/hours.csv", download_hours, name="hours_csv"),
    path("studies/<slug:slug>/raters/", list_raters, name="raters"),
    path("studies/<slug:slug>/raters/add/", add_rater_places, name="add_raters"),
    path("studies/<slug:slug>/raters/selected/", change_selected_raters, name="selected_raters"),
    path("studies/<slug:slug>/raters/<slug:label>/withdraw/", remove_rater, name="withdraw_rater"),
    # Behind all other addresses below raters/: every one of them could be a label.
    path("studies/<slug:slug>/raters/<slug:label>/", show_rater, name="rater"),
]
