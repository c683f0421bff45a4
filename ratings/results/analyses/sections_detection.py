"""Errors as signals, by rater and source: from the results where they hold it, so that both say the same."""

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
    """roc and detection; empty where no error is known."""
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
    """Return the sentence that names the reference of a table's numbers, or why the table is empty."""
    if not has_rows and read.table.reference_name != UNKNOWN:
        return []
    return [f"Reference: {REFERENCES[read.table.reference_name]}."]


def _detection(read: Reading, results: Sequence[Estimate]) -> Iterator[list[Any]]:
    """All raters together, then each: all errors together, then each source."""
    sources = read.table.error_sources
    if not sources:
        return
    found: Found = {
        (row.stat, row.args.get("rater", ""), row.args.get("source", "")): row
        for row in results
        if row.stat in _STATS and not {"mean_over", "target"} & set(row.args)
    }
    means: Found = {
        (row.stat, "", row.args.get("source", "")): row
        for row in results
        if row.stat in _OF_RATERS and "mean_over" in row.args
    }
    for rater in ("", *(read.table.raters[at] for at in np.unique(read.table.rater))):
        for source in ("", *sources):
            if ("dprime", rater, source) in found:
                yield _line(read, found, means, rater, source)


def _line(read: Reading, found: Found, means: Found, rater: str, source: str) -> list[Any]:
    """The row of a rater, or of all: then d', c and the area are means over raters, for new raters."""
    pooled, own = found["dprime", rater, source], found if rater else {**found, **means}
    d_prime, c = own["dprime", rater, source], own["criterion_c", rater, source]
    hit, right = found["sensitivity", rater, source], found["specificity", rater, ""]
    area = _area(read, found, rater, source)
    counts = [pooled.n.get(name) for name in ("hits", "misses", "false_alarms", "correct_rejections")]
    return [
        rater or EVERYBODY, source or EVERY_ERROR, *counts, hit.value, hit.low, hit.high, right.value,
        d_prime.value, d_prime.low, d_prime.high, c.value, area.value, area.low, area.high, *_located(read, rater, source),
        _reasons(hit, d_prime, area), read.table.reference_name,
    ]  # fmt: skip


def _area(read: Reading, found: Found, rater: str, source: str) -> Estimate:
    """Of one rater with DeLong's interval; of all raters their mean, for new raters."""
    if not rater:
        return found["mrmc_mean_auc", "", source]
    return auc.signed(read.table.of_rater(rater), source or None)


def _reasons(hit: Estimate, d_prime: Estimate, area: Estimate) -> str:
    told = [(hit, "sensitivity"), (d_prime, "d'"), (area, "AUC")]
    return "; ".join(f"{name}: {row.reason}" for row, name in told if row.reason)


def find_localisation(read: Reading) -> list[Estimate]:
    """Return the shares of called errors whose mark hits the planted row: all, by source, by rater, by rater and source.

    Nothing where no judged rating was asked for marks or is of an error: the question does not arise.
    """
    columns = read.columns
    asked = np.array([arm.marks not in ("", "off") for arm in read.arms], dtype=np.bool_)
    if not asked[columns.arm[columns.judged]].any() or not (read.reference[columns.judged] == 0).any():
        return []
    called = np.flatnonzero(columns.judged & (columns.verdict == 0) & (read.reference == 0))
    marked = [
        Marked(
            read.items[columns.item[at]].code,
            read.raters[columns.rater[at]],
            str(read.source[at]),
            None if columns.localised[at] < 0 else bool(columns.localised[at]),
        )
        for at in called
    ]
    return [row._replace(reference=read.table.reference_name) for row in localisation(marked)]


def _localisation_row(row: Estimate) -> list[Any]:
    who, source = row.args.get("rater", EVERYBODY), row.args.get("source", EVERY_ERROR)
    n = row.n
    counts = n["k"], n["ratings"], row.value, row.low, row.high, n["items"], n["raters"], n["untold"]
    return [who, source, *counts, row.reason, row.reference]


def _located(read: Reading, rater: str, source: str) -> list[int]:
    """Return how many called errors have a mark on the planted row, and how many could have one."""
    mine: Bools = read.columns.judged & (read.columns.localised >= 0) & (read.columns.verdict == 0)
    if rater:
        mine = mine & (read.columns.rater == read.raters.index(rater))
    mine = mine & (read.reference == 0)
    if source:
        mine = mine & (read.source == source)
    return [int((read.columns.localised[mine] == 1).sum()), int(mine.sum())]
