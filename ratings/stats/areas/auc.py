"""Areas under ROC curves of expert ratings: four quantities that differ, each under its own name.

auc_confidence_correct (the paper's 0.609): confidence of correct against incorrect verdicts, all ratings together.
type2_auc: the same within one rater. auc_unsigned_truth: confidence, whatever the verdict, of unperturbed
against planted items. auc_signed: +confidence where the verdict is 1 and -confidence where it is 0, of unperturbed
against planted items; its mean over raters is mrmc.mean_auc. "Correct" means in agreement with the reference: a
transition nobody perturbed counts as plausible, although its simulator can have made a mistake of its own.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import sparse

from ratings.stats.areas import delong, mrmc
from ratings.stats.estimates import Estimate, estimate, generator
from ratings.stats.intervals import LEAST_RATERS
from ratings.stats.resampling import NOT_RESAMPLED, Resampled, percentile, rater_weights, weight_chunks, widening
from ratings.stats.table import Floats, Ints, Ratings, explain_missing

CONFIDENCE_CORRECT = "auc_confidence_correct"
UNSIGNED_TRUTH = "auc_unsigned_truth"
SIGNED = "auc_signed"
TYPE2 = "type2_auc"

OVER_RATERS = {"mean_over": "raters"}
POOLED = "ratings of one item and of one rater go together; the interval is that of the mean over raters"
ITEMS_ONLY = "fewer than three raters: only items are drawn again, for these raters"
CELLS = 4_000_000  # counts held at once while resampling


def panel(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """All areas of a table in a fixed order; tables that are not binary have none."""
    if not table.binary:
        return []
    sources = (None, *table.error_sources)
    rows = [confidence_correct(table, seed, resamples)]
    for source in sources:
        rows += unsigned_truth(table, source)
    for source in sources:
        rows.append(signed(table, source))
    return rows + type2(table, seed, resamples)


def confidence_correct(table: Ratings, seed: int, resamples: int) -> Estimate:
    """auc_confidence_correct with the two-way bootstrap; fewer than three raters: items alone."""
    own, n = _judged(table)
    found = delong.area(own.confidence, own.correct)
    if found.value is None or found.interval is None:
        return estimate(CONFIDENCE_CORRECT, found.value, n, reason=_why(table, own) or found.reason)
    rng = generator(seed, CONFIDENCE_CORRECT)
    drawn = _interval(_replicates(own, resamples, rng), own) if resamples else NOT_RESAMPLED
    return _resampled(CONFIDENCE_CORRECT, found.value, n, {}, drawn)


def type2(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """type2_auc of each rater with DeLong's interval, then the mean over raters who were both right and wrong."""
    own, _ = _judged(table)
    rows = []
    for name in [table.raters[at] for at in np.unique(table.rater)]:
        theirs, n = _judged(table.of_rater(name))
        found = delong.area(theirs.confidence, theirs.correct)
        reason = (_why(table.of_rater(name), theirs) if found.value is None else "") or found.reason
        args = {"rater": name}
        rows.append(
            estimate(TYPE2, found.value, n, args=args, interval=found.interval, method=found.method, reason=reason)
        )
    return [*rows, _type2_mean(table, own, [row.value for row in rows], seed, resamples)]


def _type2_mean(table: Ratings, own: Ratings, values: Sequence[float | None], seed: int, resamples: int) -> Estimate:
    used = [value for value in values if value is not None]
    n = {**_judged(table)[1], "raters_used": len(used), "raters_dropped": len(values) - len(used)}
    if not used:
        reason = _why(table, own) or "no rater was both right and wrong"
        return estimate(TYPE2, None, n, args=OVER_RATERS, reason=reason)
    drawn = NOT_RESAMPLED
    if resamples:
        rng = generator(seed, TYPE2, OVER_RATERS)
        drawn = _interval(_replicates(own, resamples, rng, mean_over_raters=True), own)
    return _resampled(TYPE2, float(np.mean(used)), n, OVER_RATERS, drawn)


def unsigned_truth(table: Ratings, source: str | None = None) -> list[Estimate]:
    """auc_unsigned_truth of one error source (None: of all): pooled over ratings, then the mean over raters (two
    targets)."""
    own, args = _against(table, source)
    pooled = _pooled(UNSIGNED_TRUTH, own, own.confidence, args)
    return [pooled, *mrmc.mean_rows(UNSIGNED_TRUTH, own, own.confidence, {**args, **OVER_RATERS})]


def signed(table: Ratings, source: str | None = None) -> Estimate:
    """auc_signed of one error source (None: of all, which mixes easy and hard errors), pooled over ratings."""
    own, args = _against(table, source)
    return _pooled(SIGNED, own, own.signed, args)


def _against(table: Ratings, source: str | None) -> tuple[Ratings, Mapping[str, str]]:
    if source is None:
        return table.where(table.reference >= 0), {}
    return table.against_unperturbed(source), {"source": source}


def _pooled(stat: str, own: Ratings, scores: Floats, args: Mapping[str, str]) -> Estimate:
    """The area over all ratings together, with its interval where they are one rater's."""
    scored = np.isfinite(scores)
    own_scores = own.where(scored)
    found = delong.area(scores[scored], own_scores.reference == 1)
    n = {**own_scores.n, "positives": found.positives, "negatives": found.negatives}
    if found.value is None:
        return estimate(stat, None, n, args=args, reason=mrmc.nothing(own, scores))
    if n["raters"] > 1:
        return estimate(stat, found.value, n, args=args, reason=POOLED)
    return estimate(stat, found.value, n, args=args, interval=found.interval, method=found.method, reason=found.reason)


def _judged(table: Ratings) -> tuple[Ratings, Mapping[str, int]]:
    """Return the ratings with a known reference and a confidence, and their counts."""
    own = table.where((table.reference >= 0) & np.isfinite(table.confidence))
    correct = int(own.correct.sum())
    return own, {**own.n, "correct": correct, "incorrect": len(own) - correct}


def _why(table: Ratings, own: Ratings) -> str:
    """Why there is no area of confidence against correctness; "" if there is one."""
    if not (table.reference >= 0).any():
        return explain_missing(table.reference_name, -1)
    if not len(own):
        return "no rating with a known reference has a confidence"
    if own.correct.all():
        return "no rating is incorrect"
    return "" if own.correct.any() else "no rating is correct"


def _resampled(stat: str, value: float, n: Mapping[str, int], args: Mapping[str, str], drawn: Resampled) -> Estimate:
    few = n["raters"] < LEAST_RATERS
    method = "item_bootstrap" if few else "two_way_bootstrap"
    reason = drawn.reason or (ITEMS_ONLY if few else "")
    return estimate(stat, value, n, args=args, interval=drawn.interval, method=method, reason=reason)


def _interval(replicates: Floats, own: Ratings) -> Resampled:
    """Percentiles; where items alone are drawn again they are widened for few items."""
    items_alone = own.n["raters"] < LEAST_RATERS
    found = percentile(
        replicates, widening=widening(own.n["items"], len(np.unique(own.source))) if items_alone else 1.0
    )
    if found.interval is not None and found.interval[0] == found.interval[1]:
        return Resampled(None, found.undefined, "all resamples are alike, so there is no interval")
    return found


def _replicates(own: Ratings, resamples: int, rng: np.random.Generator, *, mean_over_raters: bool = False) -> Floats:
    """The area in each resample of items (within their source) and raters, shape (resamples,); NaN where a class is
    empty.

    Pooled over ratings, or the mean of the drawn raters' own areas. A rating's weight is its item's times its rater's.
    """
    counts, strata, raters = _counts(own)
    few = raters < LEAST_RATERS
    rater = np.ones((resamples, raters), dtype=np.int64) if few else rater_weights(raters, resamples, rng)
    found, start = np.full(resamples, np.nan), 0
    for weights in _parts(weight_chunks(strata, resamples, rng), max(1, CELLS // counts.shape[1])):
        stop = start + len(weights)
        drawn = np.ascontiguousarray((counts.T @ weights.T.astype(np.float64)).T).reshape(len(weights), raters, -1, 2)
        mean = _mean_area if mean_over_raters else _pooled_area
        found[start:stop] = mean(drawn, rater[start:stop].astype(np.float64))
        start = stop
    return found


def _counts(own: Ratings) -> tuple[sparse.csr_array, Ints, int]:
    """Items by (rater, level of confidence, correct) with a 1 for each rating; the items' sources; how many raters."""
    items, item = np.unique(own.item, return_inverse=True)
    raters, rater = np.unique(own.rater, return_inverse=True)
    levels, level = np.unique(own.confidence, return_inverse=True)
    column = (rater * len(levels) + level) * 2 + own.correct
    shape = (len(items), len(raters) * len(levels) * 2)
    ones = np.ones(len(own), dtype=np.float64)
    return sparse.csr_array((ones, (item, column)), shape=shape), own.item_source[items], len(raters)


def _parts(chunks: Iterator[Ints], rows: int) -> Iterator[Ints]:
    for chunk in chunks:
        for start in range(0, len(chunk), rows):
            yield chunk[start : start + rows]


def _pooled_area(drawn: Floats, rater: Floats) -> Floats:
    return _area_of_counts(np.einsum("brlc,br->blc", drawn, rater))


def _mean_area(drawn: Floats, rater: Floats) -> Floats:
    areas = _area_of_counts(drawn)
    weight = np.where(np.isfinite(areas), rater, 0.0)
    total = weight.sum(axis=1)
    summed = np.where(weight > 0, areas, 0.0) * weight
    found = np.full(len(total), np.nan)
    np.divide(summed.sum(axis=1), total, out=found, where=total > 0)
    return found


def _area_of_counts(counts: Floats) -> Floats:
    """The area from counts by level and class, shape (..., levels, 2), class 1 positive; NaN where a class is empty."""
    negative, positive = counts[..., 0], counts[..., 1]
    won = (positive * (np.cumsum(negative, axis=-1) - negative / 2)).sum(axis=-1)
    pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
    found = np.full(pairs.shape, np.nan)
    np.divide(won, pairs, out=found, where=pairs > 0)
    return found
