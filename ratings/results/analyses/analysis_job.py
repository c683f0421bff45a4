"""The figures of an analysis, and the job that compares two studies.

Figures are drawn in a process of their own.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from ratings.models import Analysis, StoredFigure, Study
from ratings.results.analyses import document, sections_contrasts, store
from ratings.results.figures.drawing_process import draw_all
from ratings.results.figures.registry import FIGURES
from simulation.jobs import Work, jobs


def draw_figures(analysis: Analysis, work: Work | None = None) -> int:
    """Draw and store the screen versions of an analysis's figures, unless they are stored. Return their number."""
    if not analysis.drawings.exists():
        drawings = []
        for drawing in draw_all(analysis.document):
            if work:
                work.report_progress(document.STEPS, document.STEPS, f"Drawing: {FIGURES[drawing.name].title}")
            drawings.append(StoredFigure(analysis=analysis, **drawing._asdict()))

        def save_drawings() -> None:
            # Another worker may have drawn the same analysis in the meantime.
            StoredFigure.objects.bulk_create(drawings, ignore_conflicts=True)

        if work:
            # The write checks the job's fence, so that a worker that lost its lease writes nothing.
            work.commit_write(save_drawings)
        else:
            save_drawings()
    return analysis.drawings.values("name").distinct().count()


@jobs.register_handler(store.COMPARISON_KIND)
def run_comparison(work: Work) -> Mapping[str, Any]:
    """Compute the table of contrasts of two studies and draw its figure for wide and narrow screens."""
    first, second = (Study.objects.filter(code=work.params[name]).first() for name in ("study", "other"))
    if first is None or second is None or not (first.is_unblinded and second.is_unblinded):
        raise jobs.JobFailed("One of the two studies is not unblinded or no longer exists. Choose another study.")
    work.report_progress(0, 2, "Comparing the ratings of both studies")
    table = sections_contrasts.compare_studies(first, second)
    work.report_progress(1, 2, "Drawing")
    # The part of an analysis document that the figure of contrasts needs.
    content = {"tables": {"contrasts": table}, "subject": {"kind": first.kind}}
    drawings = list(draw_all(content))
    return {
        "table": table,
        "figure": {drawing.profile: drawing.svg for drawing in drawings},
        "summary": drawings[0].summary if drawings else table["summary"],
        "said": f"{len(table['rows'])} contrasts of {first.name} and {second.name}.",
        "href": f"{reverse('ratings:compare', kwargs={'slug': first.slug})}?{urlencode({'with': second.slug})}",
        "label": "View comparison",
    }
