"""Right for the right reason: of errors that were called, how many had the injected place marked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ratings.stats import proportions
from ratings.stats.estimates import Estimate, estimate
from ratings.stats.table import natural

LOCALISATION = "localisation"


class Marked(NamedTuple):
    """A wrong item that this rater called implausible; `localised` whether a mark hits the injected place.

    None where it cannot be told: no marks were asked for, or the place is not known. A rater who left no mark where
    marks were asked for has False.
    """

    item: str
    rater: str
    source: str
    localised: bool | None


def localisation(rows: Iterable[Marked]) -> list[Estimate]:
    """Share of localised among the called errors that can tell: of all, of each source, each rater, each rater and
    source. The order of the rows changes no number."""
    given = sorted(rows, key=lambda row: (row.item, natural(row.rater)))
    sources = sorted({row.source for row in given})
    raters = sorted({row.rater for row in given}, key=natural)
    found = [_share(given, {})]
    found += [_share([row for row in given if row.source == source], {"source": source}) for source in sources]
    for rater in raters:
        found += _of_rater([row for row in given if row.rater == rater], rater, sources)
    return found


def _of_rater(theirs: Sequence[Marked], rater: str, sources: Sequence[str]) -> Iterator[Estimate]:
    yield _share(theirs, {"rater": rater})
    for source in sources:
        if own := [row for row in theirs if row.source == source]:
            yield _share(own, {"rater": rater, "source": source})


def _share(rows: Sequence[Marked], args: Mapping[str, str]) -> Estimate:
    """The share with items and raters as clusters; `untold` counts rows that cannot tell."""
    told = [row for row in rows if row.localised is not None]
    item, rater = ([row.item for row in told], [row.rater for row in told])
    n = {
        "items": len(set(item)),
        "raters": len(set(rater)),
        "ratings": len(told),
        "k": sum(bool(row.localised) for row in told),
        "untold": len(rows) - len(told),
    }
    if not told:
        reason = "no called error has marks that can be compared" if rows else "no error was called implausible"
        return estimate(LOCALISATION, None, n, args=args, reason=reason)
    answers = np.array([float(bool(row.localised)) for row in told])
    codes = [np.unique(names, return_inverse=True)[1] for names in (item, rater)]
    found = proportions.clustered(answers, codes[0], codes[1])
    alike = "all are alike; the interval takes the ratings as independent" if np.isnan(found.deff) else ""
    reason = found.reason or alike
    return estimate(
        LOCALISATION, answers.mean(), n, args=args, interval=found.interval, method=found.method, reason=reason
    )
