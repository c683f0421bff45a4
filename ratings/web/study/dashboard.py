"""The page of one study: as a draft what is left to do, then its progress and, once unblinded, its results."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.models import Study
from ratings.results import stored_figures, study_log
from ratings.results.analyses import filters, store
from ratings.results.analyses.filters import TITLES, Choices, Filters
from ratings.results.benchmarks import freeze
from ratings.results.paper_values import find_paper_value
from ratings.stats import Estimate
from ratings.stats.summary_text import MEAN_CONFIDENCE, POOLED, Section, SummaryLine, build_sections
from ratings.studies import protocol_words
from ratings.studies.assignments import reassign
from ratings.studies.progress import reports, stop_rule, study_counts
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import contested, result_sections
from ratings.web.study import drafts

MAX_SECTION_ROWS = 100  # rows per section of the statistics; the JSON contains all of them
_ALL_ITEMS_PARAMETER = "matrix"  # "?matrix=all" shows every item of the matrix


class FilterField(NamedTuple):
    """One list of the filter form. `chosen` is "" if the list filters nothing."""

    name: str
    title: str
    choices: tuple[filters.Choice, ...]
    chosen: str


class FilterChip(NamedTuple):
    """An active filter, and the query that remains without it."""

    description: str
    without: str


# Sections may list every pair of raters, which is too long for a page.
class ListedSection(NamedTuple):
    """A section of the statistics with the first of its `total` rows."""

    section: Section
    total: int


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
        "log": study_log.describe_events(study_row.events.select_related("by")),
    }
    if study_row.is_draft:
        return render(request, "ratings/study_draft.html", {**context, **_build_draft_context(request)})
    counts = study_counts.count_study(study_row)
    context |= {
        "report": reports.build_report(study_row, counts),
        "stop": stop_rule.evaluate_stop_rule(study_row, tally=counts.study),
    }
    context["unplaced"] = reassign.count_unassigned_ratings(study_row, counts.study.missing)
    context |= (
        _build_results_context(request)
        if study_row.is_unblinded
        else {"precision": store.compute_blind_precision(study_row, counts.study.given)}
    )
    return render(request, "ratings/study.html", context)


def _build_draft_context(request: StudyRequest) -> dict[str, Any]:
    """Return the context of a draft's page."""
    # Counting the pool can take a while, so the page loads without it. htmx then sends a second request by itself;
    # other browsers have a link.
    counted = "counted" in request.GET
    return {
        "counted": counted,
        **(drafts.describe_availability(request.study) if counted else drafts.describe_needs(request.study)),
    }


def _build_results_context(request: StudyRequest) -> dict[str, Any]:
    study_row, all_choices = request.study, filters.list_choices(request.study)
    chosen = filters.parse_query(request.GET, all_choices, other_parameters=(_ALL_ITEMS_PARAMETER,))
    look = store.get_or_request(study_row, chosen, request.user)
    context = {
        "benchmarks": freeze.find_benchmarks(study_row) if request.user.is_staff else (),
        "filters": chosen,
        "fields": _build_filter_fields(all_choices, chosen),
        "chips": _build_filter_chips(chosen),
        "query": chosen.build_query(),
        "look": look,
    }
    # The results are computed by a job; the page shows its progress until they are stored.
    if look.analysis is None:
        return context
    return {
        **context,
        **_describe_analysis(
            study_row, chosen, look.analysis, show_all_items=request.GET.get(_ALL_ITEMS_PARAMETER) == "all"
        ),
    }


def _describe_analysis(study_row: Study, chosen: Filters, analysis: Any, *, show_all_items: bool) -> dict[str, Any]:
    document = analysis.document
    figures = stored_figures.list_stored_figures(analysis, stored_figures.study_links(study_row, chosen.build_query()))
    return {
        "analysis": analysis,
        "document": document,
        "headline": result_sections.build_key_numbers(document),
        "design": result_sections.describe_design(document),
        # The active filters are described in a separate banner.
        "notes": [note for note in document["notes"] if not (chosen and note.startswith(chosen.description))],
        "parts": result_sections.build_sections(document, figures),
        "contested": contested.list_contested(study_row, document, chosen),
        "n_contested": document["composition"]["contested"],
        "matrix": result_sections.build_matrix(document, whole=show_all_items),
        "matrix_files": figures["matrix"].files if "matrix" in figures else [],
        "sections": _build_sections(document["results"], study_row),
    }


def _build_sections(results: Sequence[Mapping[str, Any]], study: Study) -> list[ListedSection]:
    return [
        ListedSection(
            section._replace(lines=[_name_statistic(line, study) for line in section.lines[:MAX_SECTION_ROWS]]),
            len(section.lines),
        )
        for section in build_sections(Estimate.from_dict(estimate) for estimate in results)
    ]


def _name_statistic(line: SummaryLine, study: Study) -> SummaryLine:
    """Return the row with the study's own answer label instead of "verdict 1", and with the published value."""
    yes_label = study.answer_labels[0].lower()
    published = None
    if (line.name, line.scope) == (MEAN_CONFIDENCE, POOLED):
        published = find_paper_value("mean_confidence", study.kind)
    return line._replace(
        name=line.name.replace("Share of verdict 1", f"Share rated {yes_label}"),
        n=line.n.replace("verdicts 1", f"rated {yes_label}"),
        reason="; ".join(filter(None, (line.reason, published.description if published else ""))),
    )


def _build_filter_fields(known: Choices, chosen: Filters) -> list[FilterField]:
    """Return the lists of the filter form that have at least two values."""
    return [
        FilterField(name, title, known[name], getattr(chosen, name))
        for name, title in TITLES.items()
        if len(known[name]) > 1
    ]


def _build_filter_chips(chosen: Filters) -> list[FilterChip]:
    active = chosen.to_dict()
    return [
        FilterChip(
            f"{TITLES[name]}: {filters.describe_value(name, value)}",
            Filters.from_dict(
                {other: value_kept for other, value_kept in active.items() if other != name}
            ).build_query(),
        )
        for name, value in active.items()
    ]


urls: list[URLPattern] = [path("studies/<slug:slug>/", show_study, name="study")]
