"""The page of one study: while it is a draft what is still to do, then how far it is, and once unblinded the numbers."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings import protocol_words, reports, stopping
from ratings.models import TRANSITION, Study
from ratings.reports import StudyReport
from ratings.views import chart, drafts
from ratings.views.guards import StudyRequest, study_page


@study_page("admin", "analyst")
@require_safe
def study(request: StudyRequest) -> HttpResponse:
    """Admins run the study from here; analysts read."""
    row = request.study
    context = {
        "study": row,
        "role": request.role,
        "may_run": request.role != "analyst",
        "facts": protocol_words.facts(row),
        "events": row.events.select_related("by"),
    }
    if row.is_draft:
        return render(request, "ratings/study_draft.html", {**context, **_draft(request)})
    return render(request, "ratings/study.html", {**context, **_report(row)})


def _draft(request: StudyRequest) -> dict[str, Any]:
    """The pool is counted by a second request, which htmx sends by itself and others by a link."""
    counted = "counted" in request.GET
    return {"counted": counted, **(drafts.stocked(request.study) if counted else drafts.needs(request.study))}


def _report(row: Study) -> dict[str, Any]:
    report = reports.study_report(row)
    return {
        "report": report,
        "stop": stopping.look(row),
        "yes": row.answers[0].lower(),
        "rate_name": "Plausibility" if row.kind == TRANSITION else "Sufficiency",
        "given_by_simulated": sum(line.done for line in report.raters if line.simulated),
        **_charts(row, report),
    }


def _charts(row: Study, report: StudyReport) -> dict[str, Any]:
    if report.sealed:
        return {}
    return {
        "charts": [("wide", chart.wide(report.sources)), ("narrow", chart.narrow(report.sources))],
        "summary": chart.summary(report.sources, row.answers[0].lower()),
        "sources": [(chart.source_name(line), line) for line in report.sources],
        "planted": any(line.perturbation != "none" for line in report.sources),
        "planted_share": _planted_share(report),
        "marked": any(line.localised and line.localised.n for line in report.sources),
        "no": row.answers[1].lower(),
    }


def _planted_share(report: StudyReport) -> float | None:
    """The share of rated items with a planted error, which goes beside every rate; None where there is none."""
    items = sum(line.n_items for line in report.sources)
    wrong = sum(line.n_items for line in report.sources if line.perturbation != "none")
    return wrong / items if wrong else None


urls: list[URLPattern] = [path("studies/<slug:slug>/", study, name="study")]
