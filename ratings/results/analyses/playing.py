"""The job that computes an analysis in full and draws its figures."""

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
    """Computes what was asked for at the state the ratings are in now; whoever asks again at that state finds it."""
    study = Study.objects.filter(code=work.params["study"]).first()
    if study is None or not study.is_unblinded:
        raise jobs.Failed("The study is not unblinded, or is there no more: open its page again.")
    filters = Filters.from_json(work.params["filters"])
    try:
        made = store.compute(study, filters, work.tell)
    except store.MovingError as error:
        raise jobs.Wait(2 * settings.SWEEP_SECONDS, "moving", str(error)) from error
    drawn = draw(made, work)
    page = reverse("ratings:study", kwargs={"slug": study.slug})
    return {
        "analysis": made.pk,
        "said": f"{made.n_ratings:,} ratings analysed, {drawn} figures drawn.",
        "href": f"{page}?{filters.query()}" if filters else page,
        "label": "See the results",
    }


def draw(made: Analysis, work: Work | None = None) -> int:
    """The figures of an analysis for the screen, drawn and stored unless they are there; how many there are."""
    if not made.drawings.exists():
        rows = []
        for one in registry.draw(made.document):
            if work:
                work.tell(document.STEPS, document.STEPS, f"Drawing: {NAMES[one.name].title}")
            rows.append(Drawing(analysis=made, name=one.name, profile=one.profile, svg=one.svg, summary=one.summary))

        def keep() -> None:
            Drawing.objects.bulk_create(rows, ignore_conflicts=True)

        if work:
            work.commit(keep)
        else:
            keep()
    return made.drawings.values("name").distinct().count()
