"""The job that draws one figure for print. It imports the plotting libraries, so only workers import this module."""

from collections.abc import Callable, Mapping
from typing import Any

from ratings.models import Analysis
from ratings.results.figures import render
from ratings.results.figures.registry import FIGURES, FileLabel
from ratings.results.figures.render import render_for_print
from simulation.jobs import jobs

PRINT_FORMATS: Mapping[str, tuple[str, Callable[[str, FileLabel], bytes]]] = {
    # The content type and converter of each file ending.
    "pdf": ("application/pdf", render.to_pdf),
    "png": ("image/png", render.to_png),
}


@jobs.register_handler("figure")
def draw_print_figure(work: jobs.Work) -> Mapping[str, Any]:
    """Draw a figure as the job's file. Raises JobFailed if the analysis was replaced or has no data for it."""
    params = work.params
    analysis = Analysis.objects.filter(pk=params["analysis"], sha256=params["sha256"]).first()
    figure = FIGURES.get(params["figure"])
    if analysis is None or figure is None or not figure.has_data(analysis.document):
        raise jobs.JobFailed("The results for this figure no longer exist. Reload the page and try again.")
    content_type, convert = PRINT_FORMATS[params["ending"]]
    work.report_progress(0, 1, f"Drawing {figure.title}")
    file = convert(render_for_print(analysis.document, figure.name), figure.build_file_label(analysis.document))
    work.store_file(params["file"], content_type, [file])
    return {"said": f"{figure.title}, {len(file) / 1000:,.0f} KB, for print."}
