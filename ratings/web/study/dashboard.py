"""The page of one study: as a draft what is left to do, then its progress and, once unblinded, its results."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.models import Rater, Study
from ratings.protocol import PlanError, study_protocol
from ratings.raters import email_messages, invitations, rater_overview
from ratings.raters.email_messages import AddressError, SendResult
from ratings.results import study_log
from ratings.results.analyses import filters, store
from ratings.results.analyses.filters import TITLES, Filters
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies import StudyError, opening_jobs, progress, protocol_words, reassign, running_raters
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import rendered_results, result_sections
from ratings.web.study import builder
from wetbench_site.text import format_count

RECENT_EVENTS = 6  # on the study's page; its log has all of them
_ALL_ITEMS_PARAMETER = "matrix"  # "?matrix=all" shows every item of the matrix


class FilterField(NamedTuple):
    """One list of the filter form. `chosen` is "" if the list filters nothing."""

    name: str
    title: str
    choices: Sequence[filters.Choice]
    chosen: str


class FilterChip(NamedTuple):
    """An active filter, and the query that remains without it."""

    description: str
    without: str


@study_page("admin", "analyst")
@require_safe
def show_study(request: StudyRequest) -> HttpResponse:
    """Show the study. Admins run it from this page; analysts read it."""
    study_row = request.study
    context = {
        "study": study_row,
        "role": request.role,
        "may_run": request.role != "analyst",
        "facts": protocol_words.describe_document(study_row),
        "log": study_log.describe_events(study_row.events.select_related("by").order_by("-at", "-pk")[:RECENT_EVENTS]),
    }
    if study_row.is_draft:
        # Counting the pool can take a while, so the page loads without it. htmx then requests it; others have a link.
        counted = "counted" in request.GET
        context |= builder.describe_availability(study_row) if counted else builder.describe_needs(study_row)
        context["job"] = opening_jobs.find_opening(study_row)
        return render(request, "ratings/study_draft.html", {**context, "counted": counted})
    if study_row.is_unblinded:
        return render(request, "ratings/study.html", context | _build_results_context(request))
    counts = progress.count_study(study_row)
    context |= _build_progress_context(study_row, counts)
    context["unplaced"] = reassign.count_unassigned_ratings(study_row, counts.study.missing)
    context["precision"] = store.compute_blind_precision(study_row, counts.study.given)
    return render(request, "ratings/study.html", context)


def _build_progress_context(study: Study, counts: progress.StudyCounts) -> dict[str, Any]:
    stop = progress.evaluate_stop_rule(study, tally=counts.study)
    return {"report": progress.build_report(study, counts), "stop": stop}


def _build_results_context(request: StudyRequest) -> dict[str, Any]:
    study_row, parameters = request.study, set(request.GET)
    show_all_items = request.GET.get(_ALL_ITEMS_PARAMETER) == "all"
    # Without a filter in the URL, the list of possible ones is stored with the results.
    choices = filters.list_choices(study_row) if parameters - {_ALL_ITEMS_PARAMETER} else None
    chosen = filters.parse_query(request.GET, choices, (_ALL_ITEMS_PARAMETER,)) if choices else Filters()
    look = store.get_or_request(study_row, chosen, request.user)
    context = {
        "benchmarks": benchmark_store.find_benchmarks(study_row) if request.user.is_staff else (),
        "filters": chosen,
        "chips": _list_chips(chosen),
        "query": chosen.build_query(),
        "look": look,
    }
    # The results are computed by a job; the page shows its progress until they are stored.
    if look.analysis is None:
        counts = progress.count_study(study_row)
        fields = _list_fields(choices or filters.list_choices(study_row), chosen)
        return context | _build_progress_context(study_row, counts) | {"fields": fields}
    if show_all_items:
        results = rendered_results.render_results(study_row, look.analysis, chosen, show_all_items=True)
    else:
        # While a job is under way, figures are missing, or another analysis will replace this one.
        results = rendered_results.load_results(study_row, look.analysis, chosen, is_final=look.job is None)
    document = results["document"]
    return context | {
        "analysis": look.analysis,
        "document": document,
        "fields": _list_fields(results["choices"], chosen),
        "headline": result_sections.build_key_numbers(document),
        "design": result_sections.describe_design(document),
        "stop": document["interim"],
        # The active filters are described in a separate banner.
        "notes": [note for note in document["notes"] if not (chosen and note.startswith(chosen.description))],
        "report": results["report"],
        "results": results["html"],
    }


def _list_fields(choices: filters.Choices, chosen: Filters) -> list[FilterField]:
    """Return the lists that have at least two values."""
    return [
        FilterField(name, title, choices[name], getattr(chosen, name))
        for name, title in TITLES.items()
        if len(choices[name]) > 1
    ]


def _list_chips(chosen: Filters) -> list[FilterChip]:
    active, chips = chosen.to_dict(), []
    for name, value in active.items():
        others = Filters.from_dict({other: kept for other, kept in active.items() if other != name})
        chips.append(FilterChip(f"{TITLES[name]}: {filters.describe_value(name, value)}", others.build_query()))
    return chips


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


def report_study_errors(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Make a view that returns to the list of raters with the message of an error that the study's state causes."""

    @wraps(view)
    def view_or_message(request: StudyRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except (StudyError, PlanError) as error:
            messages.error(request, str(error))
            return redirect("ratings:raters", request.study.slug)

    return view_or_message


@study_page("admin", "analyst")
@never_cache
@require_safe
def list_raters(request: StudyRequest) -> HttpResponse:
    return _render_page(request)


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def invite_raters(request: StudyRequest) -> HttpResponse:
    """Invite all pasted addresses. If any line has a problem, invite nobody and show all problems."""
    form = InviteForm(request.POST)
    if form.is_valid():
        addresses, build_url = form.cleaned_data["addresses"], email_messages.make_url_builder(request)
        try:
            posted = email_messages.invite_addresses(request.study, addresses, request.user, build_url)
            return _report_messages(request, posted, "invitation")
        except AddressError as error:
            for problem in error.problems:
                form.add_error("addresses", problem)
    return _render_page(request, invite=form, status=422)


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def add_rater_places(request: StudyRequest) -> HttpResponse:
    """Add rater places to an open study. Items already shown keep their raters."""
    form = AddRatersForm(request.POST)
    if not form.is_valid():
        return _render_page(request, raters=form, status=422)
    number = form.cleaned_data["raters"]
    running_raters.add_rater_places(request.study, number, request.user)
    messages.success(request, f"{format_count(number, 'rater place')} added.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@require_POST
@report_study_errors
def send_reminders(request: StudyRequest) -> HttpResponse:
    posted = email_messages.send_reminders(request.study, request.user, email_messages.make_url_builder(request))
    return _report_messages(request, posted, "reminder")


@study_page("admin")
@never_cache
@require_POST
@report_study_errors
def create_link(request: StudyRequest, label: str) -> HttpResponse:
    """Create a link and show it in this response."""
    rater = _get_rater_by_label(request, label)
    # Only the hash of the token is stored, so no other page could show the link; a redirect would lose it.
    token = invitations.create_invitation(rater, request.user)
    link = email_messages.build_link(token, email_messages.make_url_builder(request))
    return render(request, "ratings/study_link.html", {"study": request.study, "rater": rater, "link": link})


@study_page("admin")
@require_POST
@report_study_errors
def resend_invitation(request: StudyRequest, label: str) -> HttpResponse:
    rater, build_url = _get_rater_by_label(request, label), email_messages.make_url_builder(request)
    posted = email_messages.resend_invitation(rater, request.user, build_url)
    return _report_messages(request, posted, "invitation")


@study_page("admin")
@require_POST
@report_study_errors
def revoke_invitation(request: StudyRequest, label: str) -> HttpResponse:
    invitations.revoke_invitation(_get_rater_by_label(request, label), request.user)
    messages.success(request, f"The invitation of {label} has been revoked; its link no longer works.")
    return redirect("ratings:raters", slug=request.study.slug)


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@report_study_errors
def remove_rater(request: StudyRequest, label: str) -> HttpResponse:
    """Ask for confirmation, then remove the rater. This cannot be undone."""
    rater, study = _get_rater_by_label(request, label), request.study
    if request.method != "POST":
        context = {"study": study, "rater": rater, "protocol": study_protocol.load_protocol(study.protocol)}
        return render(request, "ratings/people_withdraw.html", context)
    running_raters.withdraw_rater(rater, request.user)
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
        "free": email_messages.open_rater_places(study).count() if may_change else None,
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
        messages.success(request, f"{format_count(posted.sent, noun)} sent.")
    for label, error in posted.failed:
        messages.error(request, f"The {noun} to {label} could not be sent: {error}")
    if posted.without_address:
        without = ", ".join(posted.without_address)
        messages.warning(request, f"Not reminded, because there is no e-mail address: {without}")
    return redirect("ratings:raters", slug=request.study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/", show_study, name="study"),
    path("studies/<slug:slug>/raters/", list_raters, name="raters"),
    path("studies/<slug:slug>/raters/invite/", invite_raters, name="invite"),
    path("studies/<slug:slug>/raters/add/", add_rater_places, name="add_raters"),
    path("studies/<slug:slug>/raters/remind/", send_reminders, name="remind"),
    path("studies/<slug:slug>/raters/<slug:label>/link/", create_link, name="make_link"),
    path("studies/<slug:slug>/raters/<slug:label>/resend/", resend_invitation, name="resend"),
    path("studies/<slug:slug>/raters/<slug:label>/revoke/", revoke_invitation, name="revoke"),
    path("studies/<slug:slug>/raters/<slug:label>/withdraw/", remove_rater, name="withdraw_rater"),
]
