"""The results of an analysis as HTML for its study's page, stored in the database.

An analysis never changes, so its HTML depends only on the templates and the code. Rendering it takes as long as ten other
pages, and a document can have megabytes of which the page shows a small part.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from ratings.models import Analysis, RenderedResults, Study
from ratings.results import stored_figures
from ratings.results.analyses.filters import Filters
from ratings.results.paper_values import find_paper_value
from ratings.stats import Estimate
from ratings.stats.summary_text import MEAN_CONFIDENCE, POOLED, Section, SummaryLine, build_sections
from ratings.studies import progress, rendered_items
from ratings.web.results import items, result_sections

MAX_SECTION_ROWS = 100  # rows per section of the statistics; the JSON contains all of them
# Everything that the HTML is made with, from the project's folder.
_RENDERED_WITH = (
    "templates/ratings/_*.html",
    "ratings/**/*.py",
    "simulation/lab/quantities.py",
    "wetbench_site/text.py",
)
_FRAGMENTS = ("contents", "parts", "raters")  # of the templates ratings/_study_*.html
_LONG_PARTS = ("tables", "results")  # the parts of a document that grow with the study


def load_results(study: Study, analysis: Analysis, filters: Filters, *, is_final: bool) -> dict[str, Any]:
    """Return what the study's page shows of this analysis: stored, or rendered and, if it is final, stored now.

    `document` has the parts of the document that do not grow with the study, `report` has sentences about the ratings of
    the whole study, and `html` has the rest of the page.
    """
    version = rendered_items.compute_version(_RENDERED_WITH)
    stored = RenderedResults.objects.filter(analysis=analysis, version=version).values_list("content", flat=True)
    # While the site is developed, templates change at any time.
    if not settings.DEBUG and (content := stored.first()) is not None:
        results: dict[str, Any] = json.loads(zlib.decompress(content))
        # Safe to mark: templates rendered it, and they escape.
        return results | {"html": {name: mark_safe(html) for name, html in results["html"].items()}}
    results = render_results(study, analysis, filters)
    if is_final and not settings.DEBUG:
        content = zlib.compress(json.dumps(results, ensure_ascii=False).encode())
        # Two requests may render the same results.
        RenderedResults.objects.bulk_create(
            [RenderedResults(analysis=analysis, version=version, content=content)],
            update_conflicts=True, unique_fields=["analysis"], update_fields=["version", "content"],
        )  # fmt: skip
    return results


def render_results(
    study: Study, analysis: Analysis, filters: Filters, *, show_all_items: bool = False
) -> dict[str, Any]:
    """Return the same as `load_results`, rendered now; `show_all_items` shows every item of the matrix."""
    document, query = analysis.document, filters.build_query()
    figures = stored_figures.list_stored_figures(analysis, stored_figures.study_links(study, query))
    report = progress.build_report(study)
    context = {
        "study": study,
        "query": query,
        "report": report,
        "document": document,
        "design": result_sections.describe_design(document),
        "parts": result_sections.build_sections(document, figures),
        "contested": items.list_contested(study, document, filters),
        "n_contested": document["composition"]["contested"],
        "matrix": result_sections.build_matrix(document, whole=show_all_items),
        "matrix_files": figures["matrix"].files if "matrix" in figures else [],
        "sections": _build_sections(document["results"], study),
    }
    return {
        "document": {name: part for name, part in document.items() if name not in _LONG_PARTS},
        "report": {"simulated": report.simulated, "imported": report.imported},
        "html": {name: render_to_string(f"ratings/_study_{name}.html", context) for name in _FRAGMENTS},
    }


def _build_sections(results: Sequence[Mapping[str, Any]], study: Study) -> list[Section]:
    sections = build_sections((Estimate.from_dict(estimate) for estimate in results), MAX_SECTION_ROWS)
    return [section._replace(lines=[_name_statistic(line, study) for line in section.lines]) for section in sections]


def _name_statistic(line: SummaryLine, study: Study) -> SummaryLine:
    """Return the row with the study's own answer label instead of "verdict 1", and with the published value."""
    yes_label, is_mean = study.answer_labels[0].lower(), (line.name, line.scope) == (MEAN_CONFIDENCE, POOLED)
    published = find_paper_value("mean_confidence", study.kind) if is_mean else None
    return line._replace(
        name=line.name.replace("Share of verdict 1", f"Share rated {yes_label}"),
        n=line.n.replace("verdicts 1", f"rated {yes_label}"),
        reason="; ".join(filter(None, (line.reason, published.description if published else ""))),
    )
