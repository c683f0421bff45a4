"""The page of one study: what to do next while it is a draft or open, the numbers once it is unblinded."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings import access, reports, studies
from ratings.models import TRANSITION, Study
from ratings.protocols import ProtocolError
from ratings.reports import StudyReport
from ratings.views import chart
from simulation.access import StaffRequest, staff_only


@staff_only
@require_safe
def study(request: StaffRequest, slug: str) -> HttpResponse:
    row = access.study_for(request.user, slug)
    report = reports.study_report(row)
    context = {
        "study": row,
        "report": report,
        "events": row.events.select_related("by"),
        "yes": row.answers[0].lower(),
        "rate_name": "Plausibility" if row.kind == TRANSITION else "Sufficiency",
        "given_by_simulated": sum(line.done for line in report.raters if line.simulated),
        **(_pool(row) if row.status == "draft" else {}),
        **_charts(row, report),
    }
    return render(request, "ratings/study.html", context)


def _pool(row: Study) -> dict[str, Any]:
    """What a draft needs and what there is; or why its document no longer fits this laboratory."""
    try:
        stock = studies.pool_report(studies.read_protocol(row.protocol))
    except ProtocolError as error:
        return {"stock": [], "problems": error.problems, "ready": False}
    return {"stock": stock, "problems": [], "ready": all(one.enough for one in stock)}


def _charts(row: Study, report: StudyReport) -> dict[str, Any]:
    if report.sealed:
        return {}
    return {
        "charts": [("wide", chart.wide(report.sources)), ("narrow", chart.narrow(report.sources))],
        "summary": chart.summary(report.sources, row.answers[0].lower()),
        "sources": [(chart.source_name(line), line) for line in report.sources],
        "planted": any(line.perturbation != "none" for line in report.sources),
    }


urls: list[URLPattern] = [path("studies/<slug:slug>/", study, name="study")]
