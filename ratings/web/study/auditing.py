"""The blinding audit of a study, and the quarantine of what its own text might give away."""

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.models import Study
from ratings.protocol import protocols
from ratings.studies.blinding_audit import audit_jobs, auditing
from ratings.studies.blinding_audit.auditing import AuditError
from ratings.studies.pool import pool, quarantine, source_lexicon
from ratings.studies.pool.quarantine import DecisionError, Held
from ratings.web.guards import StudyRequest, study_page

MOST_SHOWN = 50  # held items on one page; decided ones leave it


@study_page("admin", "analyst")
@require_http_methods(["GET", "HEAD", "POST"])
def audit(request: StudyRequest) -> HttpResponse:
    """The last certificate, and for those who run the study a button that makes a new one."""
    study = request.study
    may_run = request.role in ("superuser", "admin")
    if request.method == "POST":
        if not may_run:
            raise Http404
        return _run(request, study)
    context = {
        "study": study,
        "role": request.role,
        "may_run": may_run,
        "audit": auditing.latest(study),
        "before": study.audits.defer("report")[1:11],
        "job": audit_jobs.shown(study),
    }
    return render(request, "ratings/audit.html", context)


def _run(request: StudyRequest, study: Study) -> HttpResponse:
    try:
        audit_jobs.ask(study, request.user)
    except AuditError as error:
        messages.error(request, str(error))
    return redirect("ratings:audit", study.slug)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def held(request: StudyRequest) -> HttpResponse:
    """What stays out of the study until somebody says that its text gives nothing away."""
    study = request.study
    found = _held(study)
    if request.method == "POST":
        return _decide(request, study, found)
    undecided = [one for one in found if not one.decision]
    context = {
        "study": study,
        "role": request.role,
        "may_run": True,
        "held": undecided[:MOST_SHOWN],
        "more": max(len(undecided) - MOST_SHOWN, 0),
        "decided": study.quarantine.exclude(decision="").select_related("by"),
        "allowed": source_lexicon.allowed(),
        "left_out": study.quarantine.filter(decision="").count(),
    }
    return render(request, "ratings/quarantine.html", context)


def _held(study: Study) -> list[Held]:
    """Once each, however often the pool has it. Nothing of a study that was opened: it is frozen."""
    if not study.is_draft:
        return []
    seen = {one.digest: one for one in pool.look(protocols.stored(study.protocol), study).held}
    return list(seen.values())


def _decide(request: StudyRequest, study: Study, found: list[Held]) -> HttpResponse:
    wanted = request.POST.get("item", "")
    one = next((one for one in found if one.digest == wanted), None)
    try:
        if one is None:
            raise DecisionError("This item is not held any more, or the study has been opened")
        things = dict(zip(request.POST.getlist("name"), request.POST.getlist("thing"), strict=False))
        decision = request.POST.get("decision", "")
        quarantine.decide(study, one, decision, request.user, things if decision == "released" else {})
    except DecisionError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{request.POST['decision'].capitalize()}, and logged.")
    return redirect("ratings:quarantine", study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/audit/", audit, name="audit"),
    path("studies/<slug:slug>/quarantine/", held, name="quarantine"),
]
