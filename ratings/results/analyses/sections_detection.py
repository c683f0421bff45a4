"""The tables of error detection by rater and source.

Values in the list of results are taken from it, so that both agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.tables import Json, build_table
from ratings.stats import Estimate
from ratings.stats.areas import auc, roc
from ratings.stats.localisation import LOCALISATION, CalledError, estimate_localisation
from ratings.stats.ratings_table import REFERENCES, UNKNOWN, Bools

EVERYBODY, EVERY_ERROR = "all raters", "all errors"
_OF_RATERS = ("dprime", "criterion_c")
_STATS = ("sensitivity", "specificity", *_OF_RATERS, "mrmc_mean_auc")
EstimatesByCell = Mapping[tuple[str, str, str], Estimate]


def build_detection_tables(data: AnalysisData, results: Sequence[Estimate]) -> dict[str, Json]:
    """Return the tables roc, localisation and detection. They are empty if no item is known to have an error."""
    curves, name = roc.build_roc_curves(data.table), data.table.reference_name
    points = [
        [curve.source, point.threshold, point.false_alarm_rate, point.hit_rate, curve.n_error, curve.n_genuine, name]
        for curve in curves
        for point in curve.points
    ]
    rows = list(_iter_detection_rows(data, results))
    located = [_build_localisation_row(row) for row in results if row.stat == LOCALISATION]
    missing = [f"{curve.source}: {curve.reason}." for curve in curves if curve.reason]
    return {
        "roc": build_table("roc", points, notes=[*missing, *describe_reference(data, bool(points))]),
        "localisation": build_table("localisation", located, notes=describe_reference(data, bool(located))),
        "detection": build_table("detection", rows, notes=describe_reference(data, bool(rows))),
    }


def describe_reference(data: AnalysisData, has_rows: bool) -> list[str]:
    """Return the sentence that names the reference labels against which a table was computed; [] if it is not needed."""
    if not has_rows and data.table.reference_name != UNKNOWN:
        return []
    return [f"Reference: {REFERENCES[data.table.reference_name]}."]


def _iter_detection_rows(data: AnalysisData, results: Sequence[Estimate]) -> Iterator[list[Any]]:
    """Yield rows for all raters together and then for each rater; each has a row for all errors, then one per error
    source.
    """
    sources = data.table.error_sources
    if not sources:
        return
    estimates: EstimatesByCell = {
        (row.stat, row.args.get("rater", ""), row.args.get("source", "")): row
        for row in results
        if row.stat in _STATS and not {"mean_over", "target"} & set(row.args)
    }
    rater_means: EstimatesByCell = {
        (row.stat, "", row.args.get("source", "")): row
        for row in results
        if row.stat in _OF_RATERS and "mean_over" in row.args
    }
    for rater in ("", *(data.table.raters[at] for at in np.unique(data.table.rater))):
        for source in ("", *sources):
            # A combination of rater and source without a result for d' has no row.
            if ("dprime", rater, source) in estimates:
                yield _build_detection_row(data, estimates, rater_means, rater, source)


def _build_detection_row(
    data: AnalysisData, estimates: EstimatesByCell, rater_means: EstimatesByCell, rater: str, source: str
) -> list[Any]:
    """Return the row of one rater, or of all raters together if `rater` is ""."""
    # In the row of all raters, d', c and the area are means over raters that generalise to new raters; the counts are
    # pooled.
    pooled, cells = estimates["dprime", rater, source], estimates if rater else {**estimates, **rater_means}
    d_prime, criterion = cells["dprime", rater, source], cells["criterion_c", rater, source]
    sensitivity, specificity = estimates["sensitivity", rater, source], estimates["specificity", rater, ""]
    area = _find_area(data, estimates, rater, source)
    counts = [pooled.n.get(name) for name in ("hits", "misses", "false_alarms", "correct_rejections")]
    return [
        rater or EVERYBODY, source or EVERY_ERROR, *counts, sensitivity.value, sensitivity.low, sensitivity.high, specificity.value,
        d_prime.value, d_prime.low, d_prime.high, criterion.value, area.value, area.low, area.high, *_count_located(data, rater, source),
        _join_reasons(sensitivity, d_prime, area), data.table.reference_name,
    ]  # fmt: skip


def _find_area(data: AnalysisData, estimates: EstimatesByCell, rater: str, source: str) -> Estimate:
    """Return the area under a rater's ROC curve; for all raters, return the mean of their areas, with the interval
    for new raters.
    """
    if not rater:
        return estimates["mrmc_mean_auc", "", source]
    return auc.estimate_signed(data.table.select_rater(rater), source or None)


def _join_reasons(sensitivity: Estimate, d_prime: Estimate, area: Estimate) -> str:
    named_estimates = [(sensitivity, "sensitivity"), (d_prime, "d'"), (area, "AUC")]
    return "; ".join(f"{name}: {row.reason}" for row, name in named_estimates if row.reason)


def compute_localisation(data: AnalysisData) -> list[Estimate]:
    """Return the shares of reported errors in which the planted row was marked.

    They are computed over all, by source, by rater, and by rater and source. The list is empty if no judged rating could
    have marks, or none is of an item with an error.
    """
    columns = data.columns
    asks_for_marks = np.array([arm.marks not in ("", "off") for arm in data.arms], dtype=np.bool_)
    # Without marks or errors nothing can be localised, and a table of empty rows would suggest missing data.
    if (
        not asks_for_marks[columns.arm[columns.is_judged]].any()
        or not (data.reference_by_rating[columns.is_judged] == 0).any()
    ):
        return []
    reported = np.flatnonzero(columns.is_judged & (columns.verdict == 0) & (data.reference_by_rating == 0))
    marked_ratings = [
        CalledError(
            data.items[columns.item[n]].code,
            data.raters[columns.rater[n]],
            str(data.source_by_rating[n]),
            None if columns.localised[n] < 0 else bool(columns.localised[n]),
        )
        for n in reported
    ]
    return [row._replace(reference=data.table.reference_name) for row in estimate_localisation(marked_ratings)]


def _build_localisation_row(row: Estimate) -> list[Any]:
    rater, source = row.args.get("rater", EVERYBODY), row.args.get("source", EVERY_ERROR)
    n = row.n
    counts = n["k"], n["ratings"], row.value, row.low, row.high, n["items"], n["raters"], n["untold"]
    return [rater, source, *counts, row.reason, row.reference]


def _count_located(data: AnalysisData, rater: str, source: str) -> list[int]:
    """Return two numbers of reported errors: those whose planted row was marked, and those where this is known."""
    selected: Bools = data.columns.is_judged & (data.columns.localised >= 0) & (data.columns.verdict == 0)
    if rater:
        selected = selected & (data.columns.rater == data.raters.index(rater))
    selected = selected & (data.reference_by_rating == 0)
    if source:
        selected = selected & (data.source_by_rating == source)
    return [int((data.columns.localised[selected] == 1).sum()), int(selected.sum())]
