"""The job that compares two studies and draws the figure of their contrasts.

It imports the plotting libraries, so only workers import this module.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from ratings.models import Study
from ratings.results import study_pairs
from ratings.results.analyses import two_studies
from ratings.results.figures import registry
from simulation.jobs import jobs


@jobs.register_handler(study_pairs.KIND)
def run_comparison(work: jobs.Work) -> Mapping[str, Any]:
    """Compute the table of contrasts of two studies and draw its figure for wide and narrow screens."""
    studies = [Study.objects.filter(code=work.params[name]).first() for name in ("study", "other")]
    first, second = studies
    if first is None or second is None or not (first.is_unblinded and second.is_unblinded):
        raise jobs.JobFailed("One of the two studies is not unblinded or no longer exists. Choose another study.")
    work.report_progress(0, 2, "Comparing the ratings of both studies")
    table = two_studies.compare_studies(first, second)
    work.report_progress(1, 2, "Drawing")
    # The part of an analysis document that the figure of contrasts needs.
    document = {"tables": {"contrasts": table}, "subject": {"kind": first.kind}}
    drawings = [drawing for drawing in registry.render_all(document) if drawing.name == "contrasts"]
    return {
        "table": table,
        "figure": {drawing.profile: drawing.svg for drawing in drawings},
        "summary": drawings[0].summary if drawings else table["summary"],
        "said": f"{len(table['rows'])} contrasts of {first.name} and {second.name}.",
        "href": f"{reverse('ratings:compare', kwargs={'slug': first.slug})}?{urlencode({'with': second.slug})}",
        "label": "View comparison",
    }
