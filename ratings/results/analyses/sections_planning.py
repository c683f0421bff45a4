"""What more raters or items would give, from the ratings there are."""

from collections.abc import Iterable
from uuid import UUID

from ratings.models import TRANSITION
from ratings.results.analyses.reading import Reading
from ratings.results.analyses.tables import Cells, Json, table
from ratings.results.figures.names import POOLED
from ratings.stats import precision
from ratings.stats.precision import Step
from ratings.stats.table import Row, build

RHO = 0.2  # planning value: how alike two ratings of one item are


def tables(read: Reading) -> dict[str, Json]:
    """precision: rates and kappa of each source, AUC of each error source."""
    return {"precision": table("precision", map(_line, precision.next_steps(read.table)))}


def blind(verdicts: Iterable[tuple[UUID, str, bool]], kind: str, planted: float | None) -> Json:
    """The same table of (item, rater, verdict) while the study is sealed: all sources together, and the AUC from planning values with the share of
    `planted` errors that the document asks for. Nothing in it depends on where an item came from."""
    judged = [Row(str(item), rater, int(verdict)) for item, rater, verdict in verdicts]
    if not judged:
        return table("precision", ())
    ratings = build(judged)
    steps = [step._replace(source=POOLED) for step in precision.next_steps(ratings)]
    notes = []
    if kind == TRANSITION and planted:
        design = precision.design_of(ratings)
        steps += [
            step._replace(source=POOLED)
            for step in precision.planned_auc_steps(design, negative_share=planted, rho=RHO)
        ]
        notes.append("The AUC's line is from planning values: its truth is sealed.")
    return table("precision", map(_line, steps), f"From {len(ratings):,} ratings, all sources together.", notes)


def _line(step: Step) -> Cells:
    return [step.what, step.source or POOLED, step.raters, step.items, step.half_width, step.now, step.said]
