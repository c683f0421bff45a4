"""The page of one study: as a draft what is left to do, then its progress and, once unblinded, its results."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.models import Study
from ratings.results import study_log
from ratings.results.analyses import filters, store
from ratings.results.analyses.filters import TITLES, Filters
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies import opening_jobs, progress, protocol_words, reassign
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import rendered_results, result_sections
from ratings.web.study import builder

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


urls: list[URLPattern] = [path("studies/<slug:slug>/", show_study, name="study")]
