"""The precision to expect with more raters or items, projected from the ratings so far."""

from collections.abc import Iterable
from uuid import UUID

from ratings.models import TRANSITION
from ratings.results.analyses.reading import Reading
from ratings.results.analyses.tables import Cells, Json, table
from ratings.results.figures.names import POOLED
from ratings.stats import precision
from ratings.stats.precision import Step
from ratings.stats.table import Row, build

RHO = 0.2  # planning value: correlation of two ratings of the same item


def tables(read: Reading) -> dict[str, Json]:
    """Return the table `precision`: rates and kappa of each source, and the AUC of each source with errors."""
    return {"precision": table("precision", map(_line, precision.next_steps(read.table)))}


def blind(verdicts: Iterable[tuple[UUID, str, bool]], kind: str, planted: float | None) -> Json:
    """Return the table `precision` while the study is sealed, from (item, rater, verdict), all sources pooled.

    The AUC uses planning values and the share of `planted` errors in the protocol. Nothing in the table depends on where an
    item came from.
    """
    rows = [Row(str(item), rater, int(verdict)) for item, rater, verdict in verdicts]
    if not rows:
        return table("precision", ())
    ratings = build(rows)
    steps = [step._replace(source=POOLED) for step in precision.next_steps(ratings)]
    notes = []
    if kind == TRANSITION and planted:
        design = precision.design_of(ratings)
        steps += [
            step._replace(source=POOLED)
            for step in precision.planned_auc_steps(design, negative_share=planted, rho=RHO)
        ]
        notes.append("The AUC uses planning values, because the truth is sealed.")
    return table("precision", map(_line, steps), f"From {len(ratings):,} ratings, all sources pooled.", notes)


def _line(step: Step) -> Cells:
    return [step.what, step.source or POOLED, step.raters, step.items, step.half_width, step.now, step.said]
