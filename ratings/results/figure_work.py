"""The job that draws one figure for print. Imports what draws, so only workers import this."""

from collections.abc import Callable, Mapping
from typing import Any

from ratings.models import Analysis
from ratings.results.figures import render
from ratings.results.figures.registry import FIGURES, for_print
from simulation.jobs import jobs

PRINTED: Mapping[str, tuple[str, Callable[[str], bytes]]] = {
    "pdf": ("application/pdf", render.pdf),
    "png": ("image/png", render.png),
}


@jobs.handles("figure")
def play(work: jobs.Work) -> Mapping[str, Any]:
    """One figure of a stored analysis as PDF or PNG."""
    asked = work.params
    analysis = Analysis.objects.filter(pk=asked["analysis"], sha256=asked["sha256"]).first()
    figure = FIGURES.get(asked["figure"])
    if analysis is None or figure is None or not figure.has_data(analysis.document):
        raise jobs.Failed("The results it was to be drawn from are there no more: open the page again.")
    content_type, convert = PRINTED[asked["ending"]]
    work.tell(0, 1, f"Drawing {figure.title}")
    file = convert(for_print(analysis.document, figure.name))
    work.put(asked["file"], content_type, [file])
    return {"said": f"{figure.title}, {len(file) / 1000:,.0f} KB, for print."}
