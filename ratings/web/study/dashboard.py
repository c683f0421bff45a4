"""The page of one study: as a draft what is left to do, then its progress and, once unblinded, its results."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.models import Study
from ratings.results import drawings, study_log
from ratings.results.analyses import filters, store
from ratings.results.analyses.filters import TITLES, Choices, Filters
from ratings.results.benchmarks import freezing
from ratings.results.paper_values import find_paper_value
from ratings.stats import Estimate
from ratings.stats.panel_words import MEAN_CONFIDENCE, POOLED, Line, Section, sections
from ratings.studies import protocol_words
from ratings.studies.progress import reports, stopping, tallies
from ratings.studies.seats import redealing
from ratings.web.guards import StudyRequest, study_page
from ratings.web.results import contested, panels
from ratings.web.study import drafts

MOST_LINES = 100  # rows per section of the statistics; the JSON contains all of them
_WHOLE = "matrix"  # "?matrix=all" shows every item of the matrix


class Field(NamedTuple):
    """One list of the filter form. `chosen` is "" if the list filters nothing."""

    name: str
    title: str
    choices: tuple[filters.Choice, ...]
    chosen: str


class Chip(NamedTuple):
    """An active filter, and the query that remains without it."""

    said: str
    without: str


# Sections may list every pair of raters, which is too long for a page.
class Listed(NamedTuple):
    """A section of the statistics with the first of its `total` rows."""

    section: Section
    total: int


@study_page("admin", "analyst")
@require_safe
def study(request: StudyRequest) -> HttpResponse:
    """Show the study. Admins run it from this page; analysts read it."""
    study_row = request.study
    context = {
        "study": study_row,
        "role": request.role,
        "may_run": request.role != "analyst",
        "facts": protocol_words.facts(study_row),
        "log": study_log.describe_events(study_row.events.select_related("by")),
    }
    if study_row.is_draft:
        return render(request, "ratings/study_draft.html", {**context, **_draft(request)})
    counts = tallies.of(study_row)
    context |= {"report": reports.study_report(study_row, counts), "stop": stopping.look(study_row, tally=counts.study)}
    context["unplaced"] = redealing.count_unplaced(study_row, counts.study.missing)
    context |= (
        _results(request)
        if study_row.is_unblinded
        else {"precision": store.blind_precision(study_row, counts.study.given)}
    )
    return render(request, "ratings/study.html", context)


def _draft(request: StudyRequest) -> dict[str, Any]:
    """Return the context of a draft's page."""
    # Counting the pool can take a while, so the page loads without it. htmx then sends a second request by itself;
    # other browsers have a link.
    counted = "counted" in request.GET
    return {"counted": counted, **(drafts.stocked(request.study) if counted else drafts.needs(request.study))}


def _results(request: StudyRequest) -> dict[str, Any]:
    study_row, all_choices = request.study, filters.choices(request.study)
    chosen = filters.from_query(request.GET, all_choices, also=(_WHOLE,))
    look = store.look(study_row, chosen, request.user)
    context = {
        "benchmarks": freezing.of_study(study_row) if request.user.is_staff else (),
        "filters": chosen,
        "fields": _fields(all_choices, chosen),
        "chips": _chips(chosen),
        "query": chosen.query(),
        "look": look,
    }
    # The results are computed by a job; the page shows its progress until they are stored.
    if look.analysis is None:
        return context
    return {**context, **_shown(study_row, chosen, look.analysis, whole=request.GET.get(_WHOLE) == "all")}


def _shown(row: Study, chosen: Filters, analysis: Any, *, whole: bool) -> dict[str, Any]:
    document = analysis.document
    figures = drawings.shown(analysis, drawings.study_links(row, chosen.query()))
    return {
        "analysis": analysis,
        "document": document,
        "headline": panels.headline(document),
        "design": panels.design(document),
        # The active filters are described in a banner of their own.
        "notes": [note for note in document["notes"] if not (chosen and note.startswith(chosen.said))],
        "parts": panels.parts(document, figures),
        "contested": contested.lines(row, document, chosen),
        "n_contested": document["composition"]["contested"],
        "matrix": panels.matrix(document, whole=whole),
        "matrix_files": figures["matrix"].files if "matrix" in figures else [],
        "sections": _sections(document["results"], row),
    }


def _sections(results: Sequence[Mapping[str, Any]], study: Study) -> list[Listed]:
    return [
        Listed(section._replace(lines=[_named(line, study) for line in section.lines[:MOST_LINES]]), len(section.lines))
        for section in sections(Estimate.from_json(estimate) for estimate in results)
    ]


def _named(line: Line, study: Study) -> Line:
    """Return the row with the study's own answer label instead of "verdict 1", and with the published value."""
    yes_label = study.answers[0].lower()
    published = None
    if (line.name, line.of) == (MEAN_CONFIDENCE, POOLED):
        published = find_paper_value("mean_confidence", study.kind)
    return line._replace(
        name=line.name.replace("Share of verdict 1", f"Share rated {yes_label}"),
        n=line.n.replace("verdicts 1", f"rated {yes_label}"),
        reason="; ".join(filter(None, (line.reason, published.description if published else ""))),
    )


def _fields(known: Choices, chosen: Filters) -> list[Field]:
    """Return the lists with something to choose: two values or more."""
    return [
        Field(name, title, known[name], getattr(chosen, name)) for name, title in TITLES.items() if len(known[name]) > 1
    ]


def _chips(chosen: Filters) -> list[Chip]:
    active = chosen.to_json()
    return [
        Chip(
            f"{TITLES[name]}: {filters.word(name, value)}",
            Filters.from_json({other: value_kept for other, value_kept in active.items() if other != name}).query(),
        )
        for name, value in active.items()
    ]


urls: list[URLPattern] = [path("studies/<slug:slug>/", study, name="study")]
