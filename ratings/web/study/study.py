"""The status changes of a study (open, pause, resume, close, reopen, unblind), its instructions, team, log and audits."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.accounts import reauthentication, require_recent_for_post
from ratings.models import Membership, Study
from ratings.protocol import PlanError, ProtocolError
from ratings.raters import rater_overview
from ratings.results import study_log
from ratings.studies import StudyError, access, interim_analysis, lifecycle, opening_jobs, progress
from ratings.studies.blinding_audit import audit_runner
from ratings.studies.blinding_audit.audit_runner import AuditError
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.study.step_forms import GuideForm
from ratings.web.study.study_list import add_list_counts

EVENTS_PER_PAGE = 50
_RECENT = timedelta(minutes=15)  # raters who were active since then are probably at work


# The URL, name and success message of each status change, and the function that makes it.
_STATUS_CHANGES: dict[str, tuple[Callable[[Study, Any], object], str]] = {
    "open": (
        lambda study, by: lifecycle.open_study(study, by=by),
        "The study is open. Now invite raters: by e-mail, or with a link for each of them.",
    ),
    "pause": (lifecycle.pause_study, "The study is paused. Raters see a notice, and none of their answers is lost."),
    "resume": (lifecycle.resume_study, "The study accepts ratings again."),
    "close": (
        lifecycle.close_study,
        "The study is closed. The ratings stay sealed until it is unblinded; until then you can reopen it.",
    ),
    "reopen": (lifecycle.reopen_study, "The study accepts ratings again."),
}


@study_page("admin")
@require_POST
def change_status(request: StudyRequest, action: str) -> HttpResponse:
    """Make one status change and return to the study's page with a message."""
    return _change_status(request, action)


def _change_status(request: StudyRequest, action: str) -> HttpResponse:
    make_change, success_message = _STATUS_CHANGES[action]
    if action == "open" and request.study.is_draft and opening_jobs.is_large(request.study):
        opening_jobs.request_opening(request.study, request.user)
        return redirect("ratings:study", slug=request.study.slug)
    try:
        make_change(request.study, request.user)
    except ProtocolError as error:
        messages.error(request, f"The study cannot be opened: {'; '.join(error.problems)}")
    except (StudyError, PlanError) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, success_message)
        # Nothing happens in an open study before somebody is invited, so its page of raters is next.
        return redirect("ratings:raters" if action == "open" else "ratings:study", slug=request.study.slug)
    return redirect("ratings:study", slug=request.study.slug)


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def close_study(request: StudyRequest) -> HttpResponse:
    """Ask for confirmation, then close the study. It can be reopened until it is unblinded."""
    study = request.study
    if request.method == "POST":
        return _change_status(request, "close")
    if not (study.is_open or study.status == "paused"):
        messages.error(request, f"The study is {study.status}: only a study that is open or paused can be closed.")
        return redirect("ratings:study", slug=study.slug)
    context = {
        "study": add_list_counts(Study.objects.filter(pk=study.pk))[0],
        "stop": progress.evaluate_stop_rule(study),
        "active": rater_overview.count_active_raters(study, _RECENT),
        "minutes": int(_RECENT.total_seconds() // 60),
    }
    return render(request, "ratings/study_close.html", context)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def unblind_study(request: StudyRequest) -> HttpResponse:
    """Ask for confirmation and the password, then unblind the study. This cannot be undone."""
    study = request.study
    if study.status != "closed":
        if not study.is_unblinded:
            messages.error(request, "Close the study first: only a closed study can be unblinded.")
        return redirect("ratings:study", slug=study.slug)
    # A session left open is not enough for a step that cannot be undone.
    if request.method == "POST" and reauthentication.verify_identity(request, request.POST.get("password", "")):
        lifecycle.unblind_study(study, request.user)
        messages.success(request, "The study is unblinded.")
        return redirect("ratings:study", slug=study.slug)
    refused = request.method == "POST"
    context = {
        "study": add_list_counts(Study.objects.filter(pk=study.pk))[0],
        **reauthentication.describe_proof(request),
        "refused": refused,
        "stop": progress.evaluate_stop_rule(study),
    }
    return render(request, "ratings/study_unblind.html", context, status=422 if refused else 200)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_guide(request: StudyRequest) -> HttpResponse:
    """Show all versions of the study's own instructions; while the study is open or paused, accept a new one."""
    study = request.study
    form = GuideForm(request.POST if request.method == "POST" else None, initial={"guide": study.guide})
    if form.is_valid():
        try:
            number = lifecycle.revise_guide(study, form.cleaned_data["guide"], request.user)
        except ProtocolError as error:
            form.add_error("guide", error.problems[0].partition(": ")[2])
        except StudyError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"Raters now see version {number} of the instructions.")
            return redirect("ratings:study_guide", slug=study.slug)
    context = {"study": study, "form": form, "guides": study.guides.select_related("by").order_by("-number")}
    return render(request, "ratings/study_guide.html", context, status=422 if form.errors else 200)


class MemberForm(forms.Form):
    who = forms.CharField(label="User name or e-mail address", max_length=254)
    role = forms.ChoiceField(widget=forms.RadioSelect, initial="analyst", choices=[
        ("analyst", "Analyst: can read the results, and rates by source before unblinding"),
        ("admin", "Study admin: can do everything in this study"),
    ])  # fmt: skip
    who.widget.attrs |= {"autocomplete": "off", "autocapitalize": "none"}


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require_recent_for_post
def show_team(request: StudyRequest) -> HttpResponse:
    form = MemberForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            added = access.add_member(request.study, form.cleaned_data["who"], form.cleaned_data["role"], request.user)
        except StudyError as error:
            form.add_error("who", str(error))
        else:
            role = added.get_role_display()
            messages.success(request, f"{added.user.get_username()} is now {role} of this study.")
            return redirect("ratings:members", slug=request.study.slug)
    context = {"study": request.study, "form": form, "members": request.study.members.select_related("user")}
    return render(request, "ratings/people_roles.html", context, status=422 if form.errors else 200)


@study_page("admin")
@require_POST
@require_recent_for_post
def remove_member(request: StudyRequest, number: int) -> HttpResponse:
    # Looked up within the study: a number from another study is a 404.
    member = Membership.objects.select_related("user").filter(study=request.study, pk=number).first()
    if member is None:
        raise Http404
    try:
        access.remove_member(request.study, member, request.user)
    except StudyError as error:
        messages.error(request, str(error))
    return redirect("ratings:members", slug=request.study.slug)


class LogFilter(forms.Form):
    kind = forms.ChoiceField(label="Kind of event", required=False)

    def __init__(self, parameters: Any, kinds: Iterable[str]) -> None:
        super().__init__(parameters)
        names = sorted((study_log.title_kind(kind).capitalize(), kind) for kind in kinds)
        field = self.fields["kind"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "All"), *((kind, name) for name, kind in names)]


@study_page("admin", "analyst")
@require_safe
def show_log(request: StudyRequest) -> HttpResponse:
    """Show the events of the study, newest first, of all kinds or of the one in the URL."""
    events = request.study.events.select_related("by").order_by("-at", "-pk")
    form = LogFilter(request.GET, events.order_by().values_list("kind", flat=True).distinct())
    # A kind that the study has no events of is ignored, like any value that the form does not offer.
    kind = form.cleaned_data["kind"] if form.is_valid() else ""
    page = Paginator(events.filter(kind=kind) if kind else events, EVENTS_PER_PAGE).get_page(request.GET.get("page"))
    context = {"study": request.study, "page": page, "form": form, "filtered": bool(kind)}
    return render(request, "ratings/study_log.html", context | {"log": study_log.describe_events(page)})


@study_page("analyst")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def show_interim_analysis(request: StudyRequest) -> HttpResponse:
    """Show who may run an interim analysis and the log of earlier ones; a POST runs one."""
    study, looks = request.study, request.study.events.filter(kind="looked")
    context = {
        "study": study,
        "may_run": request.role != "analyst",
        "refusal": interim_analysis.explain_refusal(study, request.user),
        "least": interim_analysis.MIN_CHANGED_RATINGS,
        "yes": study.answer_labels[0].lower(),
        "looks": study_log.describe_events(looks.select_related("by").order_by("-at")[:20]),
    }
    # Only a POST runs an analysis: every analysis is logged, but opening the page is not.
    if request.method == "POST":
        try:
            context["look"] = interim_analysis.take_interim_analysis(study, request.user)
        except interim_analysis.InterimNotAllowed as error:
            context["refusal"] = str(error)
            return render(request, "ratings/interim.html", context, status=409)
    return render(request, "ratings/interim.html", context)


@study_page("admin", "analyst")
@require_http_methods(["GET", "HEAD", "POST"])
def show_audit(request: StudyRequest) -> HttpResponse:
    """Show the latest certificate; a POST by an admin starts a new audit."""
    study = request.study
    may_run = request.role in ("superuser", "admin")
    if request.method == "POST":
        if not may_run:
            raise Http404
        try:
            audit_runner.request_audit(study, request.user)
        except AuditError as error:
            messages.error(request, str(error))
        return redirect("ratings:audit", study.slug)
    context = {
        "study": study,
        "role": request.role,
        "may_run": may_run,
        "audit": audit_runner.find_latest_audit(study),
        # Reports are large, and only the dates of earlier audits are shown.
        "before": study.audits.defer("report")[1:11],
        "job": audit_runner.find_unfinished_audit(study),
    }
    return render(request, "ratings/audit.html", context)


urls: list[URLPattern] = [
    *(
        path(f"studies/<slug:slug>/{action}/", change_status, {"action": action}, name=f"{action}_study")
        for action in _STATUS_CHANGES
        if action != "close"
    ),
    path("studies/<slug:slug>/close/", close_study, name="close_study"),
    path("studies/<slug:slug>/unblind/", unblind_study, name="unblind_study"),
    path("studies/<slug:slug>/guide/", edit_guide, name="study_guide"),
    path("studies/<slug:slug>/members/", show_team, name="members"),
    path("studies/<slug:slug>/members/<int:number>/remove/", remove_member, name="remove_member"),
    path("studies/<slug:slug>/log/", show_log, name="study_log"),
    path("studies/<slug:slug>/interim/", show_interim_analysis, name="interim"),
    path("studies/<slug:slug>/audit/", show_audit, name="audit"),
]
