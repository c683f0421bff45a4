"""The pages of a study's results after unblinding: an overview, and a page for each section. All have the same filters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from ratings.models import Study
from ratings.results import study_log
from ratings.results.analyses import filters, store
from ratings.results.analyses.filters import TITLES, Filters
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies import progress, protocol_words
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.results import rendered_results, result_sections
from ratings.web.results.result_sections import ABOUT, ITEMS

_ALL_ITEMS_PARAMETER = "matrix"  # "?matrix=all" on the page of the items shows every item of the matrix
OVERVIEW = "overview"
RECENT_EVENTS = 6  # on the page of the protocol; the log has all of them


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


class PageLink(NamedTuple):
    """A link to a page of results, with the filters of this one."""

    slug: str
    title: str
    url: str


def show_overview(request: StudyRequest) -> HttpResponse:
    """Show the key numbers with a figure, and links to the sections. The study must be unblinded."""
    # Every item of the matrix was part of this page until the sections had pages of their own.
    if _ALL_ITEMS_PARAMETER in request.GET:
        return redirect(f"{_build_url(request.study, ITEMS)}?{request.GET.urlencode()}")
    return _render_page(request, OVERVIEW)


@study_page("admin", "analyst")
@require_safe
def show_first_section(request: StudyRequest) -> HttpResponse:
    """Show the section that comes first in studies of this kind."""
    return _show_section(request, result_sections.get_first_slug(request.study.kind))


@study_page("admin", "analyst")
@require_safe
def show_section(request: StudyRequest, section: str) -> HttpResponse:
    """Show one section of the results. Sealed studies have none, so this redirects to the study's page."""
    if section not in result_sections.TITLES:
        raise Http404
    return _show_section(request, section)


def _show_section(request: StudyRequest, section: str) -> HttpResponse:
    if not request.study.is_unblinded:
        return redirect("ratings:study", request.study.slug)
    return _render_page(request, section)


def _render_page(request: StudyRequest, section: str) -> HttpResponse:
    study = request.study
    context = {
        "study": study,
        "role": request.role,
        "may_run": request.role != "analyst",
        "section": section,
        "title": result_sections.TITLES.get(section, "Results"),
        **_build_results_context(request, section),
    }
    if section == ABOUT:
        context |= {
            "facts": protocol_words.describe_document(study),
            "log": study_log.describe_events(study.events.select_related("by").order_by("-at", "-pk")[:RECENT_EVENTS]),
            "benchmarks": benchmark_store.find_benchmarks(study) if request.user.is_staff else (),
        }
    return render(request, "ratings/results.html", context)


def _build_results_context(request: StudyRequest, section: str) -> dict[str, Any]:
    study, parameters = request.study, set(request.GET)
    show_all_items = section == ITEMS and request.GET.get(_ALL_ITEMS_PARAMETER) == "all"
    # Without a filter in the URL, the list of possible ones is stored with the results.
    choices = filters.list_choices(study) if parameters - {_ALL_ITEMS_PARAMETER} else None
    chosen = filters.parse_query(request.GET, choices, (_ALL_ITEMS_PARAMETER,)) if choices else Filters()
    look = store.get_or_request(study, chosen, request.user)
    query = chosen.build_query()
    context: dict[str, Any] = {
        "filters": chosen,
        "chips": _list_chips(chosen),
        "query": query,
        "look": look,
        "page_url": _build_url(study, section),
    }
    # The results are computed by a job; the page shows its progress until they are stored.
    if look.analysis is None:
        counts = progress.count_study(study)
        return context | {
            "fields": _list_fields(choices or filters.list_choices(study), chosen),
            "report": progress.build_report(study, counts),
            "stop": progress.evaluate_stop_rule(study, tally=counts.study),
            "links": _list_links(study, (OVERVIEW, ABOUT), query),
        }
    if show_all_items:
        results = rendered_results.render_results(study, look.analysis, chosen, show_all_items=True)
    else:
        # While a job is under way, figures are missing, or another analysis will replace this one.
        results = rendered_results.load_results(study, look.analysis, chosen, is_final=look.job is None)
    document, links = results["document"], _list_links(study, (OVERVIEW, *results["sections"]), query)
    places = {link.slug: place for place, link in enumerate(links)}
    place = places.get(section, 0)
    return context | {
        "analysis": look.analysis,
        "document": document,
        "fields": _list_fields(results["choices"], chosen),
        "stop": document["interim"],
        "report": results["report"],
        "links": links,
        "following": links[place + 1] if place + 1 < len(links) else None,
        "content": results["html"].get(section, ""),
    }


def _build_url(study: Study, section: str) -> str:
    if section == OVERVIEW:
        return reverse("ratings:study", args=[study.slug])
    return reverse("ratings:results", args=[study.slug, section])


def _list_links(study: Study, slugs: Sequence[str], query: str) -> list[PageLink]:
    titles = {OVERVIEW: "Overview", **result_sections.TITLES}
    end = f"?{query}" if query else ""
    return [PageLink(slug, titles[slug], _build_url(study, slug) + end) for slug in slugs]


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


urls: list[URLPattern] = [
    path("studies/<slug:slug>/results/", show_first_section, name="first_results"),
    path("studies/<slug:slug>/results/<slug:section>/", show_section, name="results"),
]
