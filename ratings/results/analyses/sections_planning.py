"""The precision to expect with more raters or items, projected from the ratings so far."""

from collections.abc import Iterable
from uuid import UUID

from ratings.models import TRANSITION
from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.tables import Cells, Json, build_table
from ratings.results.figures.names import POOLED
from ratings.stats import precision
from ratings.stats.precision import PrecisionStep
from ratings.stats.ratings_table import RatingRecord, build_ratings_table

RHO = 0.2  # planning value: correlation of two ratings of the same item


def build_precision_tables(data: AnalysisData) -> dict[str, Json]:
    """Return the table `precision`: rates and kappa of each source, and the AUC of each source with errors."""
    return {"precision": build_table("precision", map(_build_precision_row, precision.list_next_steps(data.table)))}


def build_blind_precision(verdicts: Iterable[tuple[UUID, str, bool]], kind: str, planted: float | None) -> Json:
    """Return the table `precision` while the study is sealed, all sources pooled. Each verdict is (item, rater, verdict).

    The AUC uses planning values and `planted`, the share of planted errors in the protocol. Nothing in the table depends on the
    sources of items.
    """
    rows = [RatingRecord(str(item), rater, int(verdict)) for item, rater, verdict in verdicts]
    if not rows:
        return build_table("precision", ())
    ratings = build_ratings_table(rows)
    steps = [step._replace(source=POOLED) for step in precision.list_next_steps(ratings)]
    notes = []
    if kind == TRANSITION and planted:
        design = precision.measure_design(ratings)
        steps += [
            step._replace(source=POOLED)
            for step in precision.list_planned_auc_steps(design, negative_share=planted, rho=RHO)
        ]
        notes.append("The AUC uses planning values, because the truth is sealed.")
    return build_table(
        "precision", map(_build_precision_row, steps), f"From {len(ratings):,} ratings, all sources pooled.", notes
    )


def _build_precision_row(step: PrecisionStep) -> Cells:
    return [
        step.quantity,
        step.source or POOLED,
        step.raters,
        step.items,
        step.half_width,
        step.is_present,
        step.description,
    ]
