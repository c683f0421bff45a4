"""Pages of the blinding audit of a study, and of the quarantine of items whose text might reveal their source."""

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.models import Study
from ratings.protocol import study_protocol
from ratings.studies.blinding_audit import audit_jobs, audit_runner
from ratings.studies.blinding_audit.audit_runner import AuditError
from ratings.studies.pool import pool, quarantine, source_lexicon
from ratings.studies.pool.quarantine import DecisionError, HeldItem
from ratings.web.decorators import StudyRequest, study_page

MAX_SHOWN = 50  # undecided items on one page; decided ones leave the list


@study_page("admin", "analyst")
@require_http_methods(["GET", "HEAD", "POST"])
def show_audit(request: StudyRequest) -> HttpResponse:
    """Show the latest certificate; a POST by an admin starts a new audit."""
    study = request.study
    may_run = request.role in ("superuser", "admin")
    if request.method == "POST":
        if not may_run:
            raise Http404
        return _start_audit(request, study)
    context = {
        "study": study,
        "role": request.role,
        "may_run": may_run,
        "audit": audit_runner.find_latest_audit(study),
        # Reports are large, and only the dates of earlier audits are shown.
        "before": study.audits.defer("report")[1:11],
        "job": audit_jobs.find_unfinished_audit(study),
    }
    return render(request, "ratings/audit.html", context)


def _start_audit(request: StudyRequest, study: Study) -> HttpResponse:
    try:
        audit_jobs.request_audit(study, request.user)
    except AuditError as error:
        messages.error(request, str(error))
    return redirect("ratings:audit", study.slug)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def show_quarantine(request: StudyRequest) -> HttpResponse:
    """Show the items that stay out of the study until an admin decides that their text reveals nothing."""
    study = request.study
    quarantined = _list_quarantined(study)
    if request.method == "POST":
        return _save_decision(request, study, quarantined)
    undecided = [item for item in quarantined if not item.decision]
    context = {
        "study": study,
        "role": request.role,
        "may_run": True,
        "held": undecided[:MAX_SHOWN],
        "more": max(len(undecided) - MAX_SHOWN, 0),
        "decided": study.quarantine.exclude(decision="").select_related("by"),
        "allowed": source_lexicon.list_laboratory_words(),
        "left_out": study.quarantine.filter(decision="").count(),
    }
    return render(request, "ratings/quarantine.html", context)


def _list_quarantined(study: Study) -> list[HeldItem]:
    """Return the quarantined items of a draft, each once however often it is in the pool."""
    # The items of an opened study are frozen, so there is nothing to decide.
    if not study.is_draft:
        return []
    by_digest = {
        item.digest: item for item in pool.take_inventory(study_protocol.load_protocol(study.protocol), study).held
    }
    return list(by_digest.values())


def _save_decision(request: StudyRequest, study: Study, quarantined: list[HeldItem]) -> HttpResponse:
    requested = request.POST.get("item", "")
    item = next((item for item in quarantined if item.digest == requested), None)
    try:
        if item is None:
            raise DecisionError("This item is no longer in quarantine, or the study has been opened")
        # Names without a declaration are sent as blanks, so both lists have the same length.
        things = dict(zip(request.POST.getlist("name"), request.POST.getlist("thing"), strict=False))
        decision = request.POST.get("decision", "")
        quarantine.record_decision(study, item, decision, request.user, things if decision == "released" else {})
    except DecisionError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{request.POST['decision'].capitalize()}. The decision is logged.")
    return redirect("ratings:quarantine", study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/audit/", show_audit, name="audit"),
    path("studies/<slug:slug>/quarantine/", show_quarantine, name="quarantine"),
]
