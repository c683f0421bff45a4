"""The results of an analysis as HTML for the pages of its study, stored in the database, and the job that computes all of it.

An analysis never changes, so its HTML depends only on the templates and the code. Rendering it takes as long as ten other
pages, and a document can have megabytes of which the page shows a small part.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe

from ratings.models import Analysis, RenderedResults, Study
from ratings.results import stored_figures
from ratings.results.analyses import store
from ratings.results.analyses.filters import Choice, Filters, list_choices
from ratings.results.paper_values import find_paper_value
from ratings.studies import progress, rendered_items
from ratings.web.results import items, result_sections
from simulation.jobs import Work, jobs

if TYPE_CHECKING:  # imports NumPy, which is loaded when the first results are rendered
    from ratings.stats.summary_text import Section, SummaryLine

MAX_SECTION_ROWS = 60  # rows per section of the statistics; the JSON contains all of them
# Everything that the HTML is made with, from the project's folder.
_RENDERED_WITH = (
    "templates/ratings/_*.html",
    "ratings/**/*.py",
    "simulation/lab/quantities.py",
    "wetbench_site/text.py",
)
_PLAIN_PAGES = (
    "overview",
    result_sections.ITEMS,
    result_sections.STATISTICS,
    result_sections.ABOUT,
)  # ratings/_results_*.html
_LONG_PARTS = ("tables", "results")  # the parts of a document that grow with the study


@jobs.register_handler("analysis")
def run_analysis(work: Work) -> Mapping[str, Any]:
    """Compute, draw and render the requested analysis of the current ratings. Later requests find all of it stored."""
    from ratings.results.analyses import analysis_job  # imported here, because only workers need the plotting libraries

    study = Study.objects.filter(code=work.params["study"]).first()
    if study is None or not study.is_unblinded:
        raise jobs.JobFailed("The study is not unblinded or no longer exists. Reload its page.")
    filters = Filters.from_dict(work.params["filters"])
    try:
        analysis = store.compute_analysis(study, filters, work.report_progress)
    except store.DataChangingError as error:
        # Ratings that are changing now will probably have stopped changing after two sweeps; the job waits until then.
        raise jobs.RetryLater(2 * settings.SWEEP_SECONDS, "moving", str(error)) from error
    n_figures = analysis_job.draw_figures(analysis, work)
    results = render_results(study, analysis, filters)
    work.commit_write(lambda: _store_results(analysis, results))
    page = reverse("ratings:study", kwargs={"slug": study.slug})
    return {
        "analysis": analysis.pk,
        "said": f"{analysis.n_ratings:,} ratings analysed, {n_figures} figures drawn.",
        "href": f"{page}?{filters.build_query()}" if filters else page,
        "label": "View results",
    }


def load_results(study: Study, analysis: Analysis, filters: Filters, *, is_final: bool) -> dict[str, Any]:
    """Return what the pages of results show of this analysis: as stored, else rendered now and, if it is final, stored.

    `choices` has the values to filter by, `document` the parts of the document that do not grow with the study, `report`
    sentences about the ratings of the whole study, `sections` the slugs of the pages that have content, and `html` the content of
    each, and of the overview.
    """
    stored = RenderedResults.objects.filter(analysis=analysis, version=_compute_version())
    # While the site is developed, templates change at any time.
    content = None if settings.DEBUG else stored.values_list("content", flat=True).first()
    if content is not None:
        results: dict[str, Any] = json.loads(zlib.decompress(content))
        results["choices"] = {name: [Choice(*pair) for pair in pairs] for name, pairs in results["choices"].items()}
        # Safe to mark: templates rendered it, and they escape.
        return results | {"html": {name: mark_safe(html) for name, html in results["html"].items()}}
    results = render_results(study, analysis, filters)
    if is_final:
        _store_results(analysis, results)
    return results


def _store_results(analysis: Analysis, results: Mapping[str, Any]) -> None:
    """Store the results; what is stored for the same analysis is replaced."""
    content = zlib.compress(json.dumps(results, ensure_ascii=False).encode())
    RenderedResults.objects.bulk_create(
        [RenderedResults(analysis=analysis, version=_compute_version(), content=content)],
        update_conflicts=True, unique_fields=["analysis"], update_fields=["version", "content"],
    )  # fmt: skip


def _compute_version() -> str:
    return rendered_items.compute_version(_RENDERED_WITH)


def render_results(
    study: Study, analysis: Analysis, filters: Filters, *, show_all_items: bool = False
) -> dict[str, Any]:
    """Return the same as `load_results`, rendered now; `show_all_items` shows every item of the matrix."""
    document, query = analysis.document, filters.build_query()
    figures = stored_figures.list_stored_figures(analysis, stored_figures.study_links(study, query))
    report = progress.build_report(study)
    names = items.load_names(study)
    parts = result_sections.build_sections(document, figures) if document["data"]["ratings"] else []
    statistics = _build_statistics(document["results"], study) if parts else []
    # What the pages of the items and of all statistics have, each as the link to it has to name.
    others = {
        result_sections.ITEMS: bool(parts),
        result_sections.STATISTICS: bool(statistics),
        result_sections.ABOUT: True,
    }
    slugs = [part.slug for part in parts] + [slug for slug, has_content in others.items() if has_content]
    context = {
        "study": study,
        "query": query,
        "report": report,
        "document": document,
        "design": result_sections.describe_design(document),
        "parts": parts,
        "first": result_sections.find_first_block(document, figures) if parts else None,
        "headline": result_sections.build_key_numbers(document),
        # The active filters are described in a separate banner.
        "notes": [note for note in document["notes"] if not (filters and note.startswith(filters.description))],
        "sample_text": result_sections.describe_sample(document),
        "links": [(slug, result_sections.TITLES[slug]) for slug in others if slug in slugs],
        "contested": items.list_contested(study, document, filters, names),
        "n_contested": document["composition"]["contested"],
        "matrix": result_sections.build_matrix(document, names, whole=show_all_items),
        "matrix_files": figures["matrix"].files if "matrix" in figures else [],
        "statistics": statistics,
    }
    html = {name: render_to_string(f"ratings/_results_{name}.html", context) for name in _PLAIN_PAGES}
    html |= {part.slug: render_to_string("ratings/_results_section.html", context | {"part": part}) for part in parts}
    return {
        "choices": list_choices(study),
        "document": {name: part for name, part in document.items() if name not in _LONG_PARTS},
        "report": {"simulated": report.simulated, "imported": report.imported},
        "sections": slugs,
        "html": html,
    }


def _build_statistics(results: Sequence[Mapping[str, Any]], study: Study) -> "list[Section]":
    from ratings.stats import Estimate, summary_text

    sections = summary_text.build_sections((Estimate.from_dict(estimate) for estimate in results), MAX_SECTION_ROWS)
    return [section._replace(lines=[_name_statistic(line, study) for line in section.lines]) for section in sections]


def _name_statistic(line: "SummaryLine", study: Study) -> "SummaryLine":
    """Return the row with the study's own answer label instead of "verdict 1", and with the published value."""
    from ratings.stats.summary_text import MEAN_CONFIDENCE, POOLED

    yes_label, is_mean = study.answer_labels[0].lower(), (line.name, line.scope) == (MEAN_CONFIDENCE, POOLED)
    published = find_paper_value("mean_confidence", study.kind) if is_mean else None
    return line._replace(
        name=line.name.replace("Share of verdict 1", f"Share rated {yes_label}"),
        n=line.n.replace("verdicts 1", f"rated {yes_label}"),
        reason="; ".join(filter(None, (line.reason, published.description if published else ""))),
    )
