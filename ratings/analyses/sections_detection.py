"""Errors as signals, by rater and source: from the results where they hold it, so that both say the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ratings.analyses.reading import Reading
from ratings.analyses.tables import Json, table
from ratings.stats import auc, roc
from ratings.stats.estimates import Estimate
from ratings.stats.table import Bools

EVERYBODY, EVERY_ERROR = "all raters", "all errors"
_STATS = ("sensitivity", "specificity", "dprime", "criterion_c", "mrmc_mean_auc")
Found = Mapping[tuple[str, str, str], Estimate]


def tables(read: Reading, results: Sequence[Estimate]) -> dict[str, Json]:
    """roc and detection; empty where no error is known."""
    curves = roc.curves(read.table)
    points = [
        [curve.source, point.threshold, point.false_alarm_rate, point.hit_rate, curve.n_error, curve.n_genuine]
        for curve in curves
        for point in curve.points
    ]
    missing = [f"{curve.source}: {curve.reason}." for curve in curves if curve.reason]
    return {
        "roc": table("roc", points, notes=missing),
        "detection": table("detection", _detection(read, results)),
    }


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
    for rater in ("", *(read.table.raters[at] for at in np.unique(read.table.rater))):
        for source in ("", *sources):
            if ("dprime", rater, source) in found:
                yield _line(read, found, rater, source)


def _line(read: Reading, found: Found, rater: str, source: str) -> list[Any]:
    d_prime, c = found["dprime", rater, source], found["criterion_c", rater, source]
    hit, right = found["sensitivity", rater, source], found["specificity", rater, ""]
    area = _area(read, found, rater, source)
    counts = [d_prime.n.get(name) for name in ("hits", "misses", "false_alarms", "correct_rejections")]
    return [
        rater or EVERYBODY, source or EVERY_ERROR, *counts, hit.value, hit.low, hit.high, right.value,
        d_prime.value, c.value, area.value, area.low, area.high, *_located(read, rater, source),
        _reasons(hit, d_prime, area),
    ]  # fmt: skip


def _area(read: Reading, found: Found, rater: str, source: str) -> Estimate:
    """Of one rater with DeLong's interval; of all raters their mean, for new raters."""
    if not rater:
        return found["mrmc_mean_auc", "", source]
    return auc.signed(read.table.of_rater(rater), source or None)


def _reasons(hit: Estimate, d_prime: Estimate, area: Estimate) -> str:
    told = [(hit, "sensitivity"), (area, "AUC")]
    if d_prime.value is None:
        told.append((d_prime, "d'"))
    return "; ".join(f"{name}: {row.reason}" for row, name in told if row.reason)


def _located(read: Reading, rater: str, source: str) -> list[int]:
    """Error ratings that say no and tick the planted row, and those where that could be asked."""
    mine: Bools = read.columns.judged & (read.columns.localised >= 0)
    if rater:
        mine = mine & (read.columns.rater == read.raters.index(rater))
    mine = mine & (read.truth == 0)
    if source:
        mine = mine & (read.source == source)
    return [int((read.columns.localised[mine] == 1).sum()), int(mine.sum())]
