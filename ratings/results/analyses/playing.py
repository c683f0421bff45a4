"""The job that computes a full analysis and draws its figures."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.urls import reverse

from ratings.models import Analysis, Drawing, Study
from ratings.results.analyses import document, store
from ratings.results.analyses.filters import Filters
from ratings.results.figures import registry
from ratings.results.figures.names import NAMES
from simulation.jobs import Work, jobs


@jobs.handles("analysis")
def play(work: Work) -> Mapping[str, Any]:
    """Compute the requested analysis for the ratings as they are now. Later requests for the same state find it stored."""
    study = Study.objects.filter(code=work.params["study"]).first()
    if study is None or not study.is_unblinded:
        raise jobs.Failed("The study is not unblinded or no longer exists. Reload its page.")
    filters = Filters.from_json(work.params["filters"])
    try:
        analysis = store.compute(study, filters, work.tell)
    except store.MovingError as error:
        # Data that changes now is likely to be at rest after two sweeps; the job keeps its place until then.
        raise jobs.Wait(2 * settings.SWEEP_SECONDS, "moving", str(error)) from error
    n_figures = draw(analysis, work)
    page = reverse("ratings:study", kwargs={"slug": study.slug})
    return {
        "analysis": analysis.pk,
        "said": f"{analysis.n_ratings:,} ratings analysed, {n_figures} figures drawn.",
        "href": f"{page}?{filters.query()}" if filters else page,
        "label": "View results",
    }


def draw(made: Analysis, work: Work | None = None) -> int:
    """Draw and store the figures of an analysis for the screen, unless they are stored. Return how many there are."""
    if not made.drawings.exists():
        drawings = []
        for drawing in registry.draw(made.document):
            if work:
                work.tell(document.STEPS, document.STEPS, f"Drawing: {NAMES[drawing.name].title}")
            drawings.append(
                Drawing(
                    analysis=made, name=drawing.name, profile=drawing.profile, svg=drawing.svg, summary=drawing.summary
                )
            )

        def keep() -> None:
            # Another worker may have drawn the same analysis in the meantime.
            Drawing.objects.bulk_create(drawings, ignore_conflicts=True)

        if work:
            # Under the job's fence: a worker that lost its lease writes nothing.
            work.commit(keep)
        else:
            keep()
    return made.drawings.values("name").distinct().count()
