"""The job that compares two studies and draws the figure of their contrasts. Imports what draws, so only workers import this."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from ratings.models import Study
from ratings.results import study_pairs
from ratings.results.analyses import two_studies
from ratings.results.figures import registry
from simulation.jobs import jobs


@jobs.handles(study_pairs.KIND)
def play(work: jobs.Work) -> Mapping[str, Any]:
    """Compute the table of contrasts of two studies and draw it for both sizes of screen."""
    studies = [Study.objects.filter(code=work.params[name]).first() for name in ("study", "other")]
    first, second = studies
    if first is None or second is None or not (first.is_unblinded and second.is_unblinded):
        raise jobs.Failed("One of the two studies is not unblinded, or is there no more: choose another one.")
    work.tell(0, 2, "Comparing the ratings of both")
    table = two_studies.compare_studies(first, second)
    work.tell(1, 2, "Drawing")
    document = {"tables": {"contrasts": table}, "subject": {"kind": first.kind}}
    drawn = [one for one in registry.draw(document) if one.name == "contrasts"]
    return {
        "table": table,
        "figure": {one.profile: one.svg for one in drawn},
        "summary": drawn[0].summary if drawn else table["summary"],
        "said": f"{len(table['rows'])} contrasts of {first.name} and {second.name}.",
        "href": f"{reverse('ratings:compare', kwargs={'slug': first.slug})}?{urlencode({'with': second.slug})}",
        "label": "See the comparison",
    }
