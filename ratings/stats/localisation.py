"""Estimate localisation: the share of the errors reported by raters in which the rater marked the row with the
planted error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ratings.stats import proportions
from ratings.stats.estimates import Estimate, build_estimate
from ratings.stats.ratings_table import natural_sort_key

LOCALISATION = "localisation"


class CalledError(NamedTuple):
    """An item with an error that a rater rated not plausible.

    `localised`: whether the rater marked the row with the planted error. It is False if marks were requested and the rater
    made none, and None if no marks were requested or the location of the error is unknown.
    """

    item: str
    rater: str
    source: str
    localised: bool | None


def estimate_localisation(rows: Iterable[CalledError]) -> list[Estimate]:
    """Return the share of reported errors that were localised, over all, by source, by rater, and by rater and source.

    Errors whose `localised` is None are left out. The result does not depend on the order of the rows.
    """
    ordered = sorted(rows, key=lambda row: (row.item, natural_sort_key(row.rater)))
    sources = sorted({row.source for row in ordered})
    raters = sorted({row.rater for row in ordered}, key=natural_sort_key)
    results = [_estimate_share(ordered, {})]
    results += [
        _estimate_share([row for row in ordered if row.source == source], {"source": source}) for source in sources
    ]
    for rater in raters:
        results += _estimate_rater([row for row in ordered if row.rater == rater], rater, sources)
    return results


def _estimate_rater(rater_rows: Sequence[CalledError], rater: str, sources: Sequence[str]) -> Iterator[Estimate]:
    yield _estimate_share(rater_rows, {"rater": rater})
    for source in sources:
        if of_source := [row for row in rater_rows if row.source == source]:
            yield _estimate_share(of_source, {"rater": rater, "source": source})


def _estimate_share(rows: Sequence[CalledError], args: Mapping[str, str]) -> Estimate:
    """Return the share of localised errors, with items and raters as clusters.

    The sample size `untold` is the number of rows whose `localised` is None.
    """
    known = [row for row in rows if row.localised is not None]
    item, rater = ([row.item for row in known], [row.rater for row in known])
    n = {
        "items": len(set(item)),
        "raters": len(set(rater)),
        "ratings": len(known),
        "k": sum(bool(row.localised) for row in known),
        "untold": len(rows) - len(known),
    }
    if not known:
        reason = "no called error has marks that can be compared" if rows else "no error was called implausible"
        return build_estimate(LOCALISATION, None, n, args=args, reason=reason)
    answers = np.array([float(bool(row.localised)) for row in known])
    # Clusters are identified by numbers; any numbering of the items and raters will do.
    codes = [np.unique(names, return_inverse=True)[1] for names in (item, rater)]
    interval = proportions.compute_clustered_interval(answers, codes[0], codes[1])
    constant_reason = "all are alike; the interval treats the ratings as independent" if np.isnan(interval.deff) else ""
    reason = interval.reason or constant_reason
    return build_estimate(
        LOCALISATION, answers.mean(), n, args=args, interval=interval.interval, method=interval.method, reason=reason
    )
