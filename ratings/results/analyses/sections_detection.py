"""Detection of errors as signals, by rater and source. Values are taken from the results where they are, so that both show the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ratings.results.analyses.reading import Reading
from ratings.results.analyses.tables import Json, table
from ratings.stats import Estimate
from ratings.stats.areas import auc, roc
from ratings.stats.localisation import LOCALISATION, Marked, localisation
from ratings.stats.table import REFERENCES, UNKNOWN, Bools

EVERYBODY, EVERY_ERROR = "all raters", "all errors"
_OF_RATERS = ("dprime", "criterion_c")
_STATS = ("sensitivity", "specificity", *_OF_RATERS, "mrmc_mean_auc")
Found = Mapping[tuple[str, str, str], Estimate]


def tables(read: Reading, results: Sequence[Estimate]) -> dict[str, Json]:
    """Return the tables roc, localisation and detection. They are empty if no error is known."""
    curves, name = roc.curves(read.table), read.table.reference_name
    points = [
        [curve.source, point.threshold, point.false_alarm_rate, point.hit_rate, curve.n_error, curve.n_genuine, name]
        for curve in curves
        for point in curve.points
    ]
    rows = list(_detection(read, results))
    located = [_localisation_row(row) for row in results if row.stat == LOCALISATION]
    missing = [f"{curve.source}: {curve.reason}." for curve in curves if curve.reason]
    return {
        "roc": table("roc", points, notes=[*missing, *reference_note(read, bool(points))]),
        "localisation": table("localisation", located, notes=reference_note(read, bool(located))),
        "detection": table("detection", rows, notes=reference_note(read, bool(rows))),
    }


def reference_note(read: Reading, has_rows: bool) -> list[str]:
    """Return the sentence that names the reference of a table's numbers, or the reason why the table is empty."""
    if not has_rows and read.table.reference_name != UNKNOWN:
        return []
    return [f"Reference: {REFERENCES[read.table.reference_name]}."]


def _detection(read: Reading, results: Sequence[Estimate]) -> Iterator[list[Any]]:
    """Yield a row for all raters, then for each rater: all errors, then each source."""
    sources = read.table.error_sources
    if not sources:
        return
    estimates: Found = {
        (row.stat, row.args.get("rater", ""), row.args.get("source", "")): row
        for row in results
        if row.stat in _STATS and not {"mean_over", "target"} & set(row.args)
    }
    rater_means: Found = {
        (row.stat, "", row.args.get("source", "")): row
        for row in results
        if row.stat in _OF_RATERS and "mean_over" in row.args
    }
    for rater in ("", *(read.table.raters[at] for at in np.unique(read.table.rater))):
        for source in ("", *sources):
            # A rater without ratings on both sides has no d', and so no row.
            if ("dprime", rater, source) in estimates:
                yield _line(read, estimates, rater_means, rater, source)


def _line(read: Reading, found: Found, means: Found, rater: str, source: str) -> list[Any]:
    """Return the row of a rater, or of all raters."""
    # For all raters, d', c and the area are means over raters that generalise to new raters; the counts are
    # pooled.
    pooled, cells = found["dprime", rater, source], found if rater else {**found, **means}
    d_prime, criterion = cells["dprime", rater, source], cells["criterion_c", rater, source]
    sensitivity, specificity = found["sensitivity", rater, source], found["specificity", rater, ""]
    area = _area(read, found, rater, source)
    counts = [pooled.n.get(name) for name in ("hits", "misses", "false_alarms", "correct_rejections")]
    return [
        rater or EVERYBODY, source or EVERY_ERROR, *counts, sensitivity.value, sensitivity.low, sensitivity.high, specificity.value,
        d_prime.value, d_prime.low, d_prime.high, criterion.value, area.value, area.low, area.high, *_located(read, rater, source),
        _reasons(sensitivity, d_prime, area), read.table.reference_name,
    ]  # fmt: skip


def _area(read: Reading, found: Found, rater: str, source: str) -> Estimate:
    """Return the area under the curve: of one rater with DeLong's interval, of all raters their mean for new raters."""
    if not rater:
        return found["mrmc_mean_auc", "", source]
    return auc.signed(read.table.of_rater(rater), source or None)


def _reasons(hit: Estimate, d_prime: Estimate, area: Estimate) -> str:
    named_estimates = [(hit, "sensitivity"), (d_prime, "d'"), (area, "AUC")]
    return "; ".join(f"{name}: {row.reason}" for row, name in named_estimates if row.reason)


def find_localisation(read: Reading) -> list[Estimate]:
    """Return the shares of reported errors whose mark hits the planted row.

    They are computed over all, by source, by rater, and by rater and source. The list is empty if no judged rating could
    have marks or is of an error.
    """
    columns = read.columns
    asks_for_marks = np.array([arm.marks not in ("", "off") for arm in read.arms], dtype=np.bool_)
    # Otherwise the question does not arise, and a table of empty rows would suggest that it does.
    if not asks_for_marks[columns.arm[columns.judged]].any() or not (read.reference[columns.judged] == 0).any():
        return []
    reported = np.flatnonzero(columns.judged & (columns.verdict == 0) & (read.reference == 0))
    marked_ratings = [
        Marked(
            read.items[columns.item[n]].code,
            read.raters[columns.rater[n]],
            str(read.source[n]),
            None if columns.localised[n] < 0 else bool(columns.localised[n]),
        )
        for n in reported
    ]
    return [row._replace(reference=read.table.reference_name) for row in localisation(marked_ratings)]


def _localisation_row(row: Estimate) -> list[Any]:
    rater, source = row.args.get("rater", EVERYBODY), row.args.get("source", EVERY_ERROR)
    n = row.n
    counts = n["k"], n["ratings"], row.value, row.low, row.high, n["items"], n["raters"], n["untold"]
    return [rater, source, *counts, row.reason, row.reference]


def _located(read: Reading, rater: str, source: str) -> list[int]:
    """Return how many reported errors have a mark on the planted row, and how many could have one."""
    selected: Bools = read.columns.judged & (read.columns.localised >= 0) & (read.columns.verdict == 0)
    if rater:
        selected = selected & (read.columns.rater == read.raters.index(rater))
    selected = selected & (read.reference == 0)
    if source:
        selected = selected & (read.source == source)
    return [int((read.columns.localised[selected] == 1).sum()), int(selected.sum())]
