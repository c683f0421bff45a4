"""The page of one study: as a draft what is left to do, then its progress and, once unblinded, the overview of its results."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.results import study_log
from ratings.results.analyses import store
from ratings.studies import opening_jobs, progress, protocol_words, reassign
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import results_pages
from ratings.web.study import builder

RECENT_EVENTS = 6  # on the study's page; its log has all of them


@study_page("admin", "analyst")
@require_safe
def show_study(request: StudyRequest) -> HttpResponse:
    """Show the study. Admins run it from this page; analysts read it."""
    study_row = request.study
    if study_row.is_unblinded:
        return results_pages.show_overview(request)
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
    counts = progress.count_study(study_row)
    context["report"] = progress.build_report(study_row, counts)
    context["stop"] = progress.evaluate_stop_rule(study_row, tally=counts.study)
    context["unplaced"] = reassign.count_unassigned_ratings(study_row, counts.study.missing)
    context["precision"] = store.compute_blind_precision(study_row, counts.study.given)
    return render(request, "ratings/study.html", context)


urls: list[URLPattern] = [path("studies/<slug:slug>/", show_study, name="study")]
