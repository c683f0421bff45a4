"""The page of one study: while it is a draft what is still to do, then how far it is, and once unblinded the results."""

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

MOST_LINES = 100  # of a section of the statistics; the JSON has them all
_WHOLE = "matrix"  # "?matrix=all" shows every item of the matrix


class Field(NamedTuple):
    """One of the filter form's lists. `chosen` is "" where everything is let through."""

    name: str
    title: str
    choices: tuple[filters.Choice, ...]
    chosen: str


class Chip(NamedTuple):
    """A filter that is on, and the query that is left without it."""

    said: str
    without: str


class Listed(NamedTuple):
    """A section of the statistics with its first lines, of `total`: every pair of many raters would be too long a page."""

    section: Section
    total: int


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
        "log": study_log.describe_events(row.events.select_related("by")),
    }
    if row.is_draft:
        return render(request, "ratings/study_draft.html", {**context, **_draft(request)})
    counted = tallies.of(row)
    context |= {"report": reports.study_report(row, counted), "stop": stopping.look(row, tally=counted.study)}
    context["unplaced"] = redealing.count_unplaced(row, counted.study.missing)
    context |= _results(request) if row.is_unblinded else {"precision": store.blind_precision(row, counted.study.given)}
    return render(request, "ratings/study.html", context)


def _draft(request: StudyRequest) -> dict[str, Any]:
    """The pool is counted by a second request, which htmx sends by itself and others by a link."""
    counted = "counted" in request.GET
    return {"counted": counted, **(drafts.stocked(request.study) if counted else drafts.needs(request.study))}


def _results(request: StudyRequest) -> dict[str, Any]:
    row, known = request.study, filters.choices(request.study)
    chosen = filters.from_query(request.GET, known, also=(_WHOLE,))
    look = store.look(row, chosen, request.user)
    context = {
        "benchmarks": freezing.of_study(row) if request.user.is_staff else (),
        "filters": chosen,
        "fields": _fields(known, chosen),
        "chips": _chips(chosen),
        "query": chosen.query(),
        "look": look,
    }
    if look.analysis is None:
        return context
    return {**context, **_shown(row, chosen, look.analysis, whole=request.GET.get(_WHOLE) == "all")}


def _shown(row: Study, chosen: Filters, analysis: Any, *, whole: bool) -> dict[str, Any]:
    document = analysis.document
    figures = drawings.shown(analysis, drawings.study_links(row, chosen.query()))
    return {
        "analysis": analysis,
        "document": document,
        "headline": panels.headline(document),
        "design": panels.design(document),
        # What the filters let through stands in a banner of its own.
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
        for section in sections(Estimate.from_json(one) for one in results)
    ]


def _named(line: Line, study: Study) -> Line:
    """The panel's words are of any verdict 1; here it is known what that says, and what the paper has beside it."""
    yes = study.answers[0].lower()
    published = None
    if (line.name, line.of) == (MEAN_CONFIDENCE, POOLED):
        published = find_paper_value("mean_confidence", study.kind)
    return line._replace(
        name=line.name.replace("Share of verdict 1", f"Share rated {yes}"),
        n=line.n.replace("verdicts 1", f"rated {yes}"),
        reason="; ".join(filter(None, (line.reason, published.description if published else ""))),
    )


def _fields(known: Choices, chosen: Filters) -> list[Field]:
    """Lists with something to choose: of two values or more."""
    return [
        Field(name, title, known[name], getattr(chosen, name)) for name, title in TITLES.items() if len(known[name]) > 1
    ]


def _chips(chosen: Filters) -> list[Chip]:
    on = chosen.to_json()
    return [
        Chip(
            f"{TITLES[name]}: {filters.word(name, value)}",
            Filters.from_json({other: kept for other, kept in on.items() if other != name}).query(),
        )
        for name, value in on.items()
    ]


urls: list[URLPattern] = [path("studies/<slug:slug>/", study, name="study")]
