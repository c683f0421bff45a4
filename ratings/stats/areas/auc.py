"""Estimate four areas under ROC curves of expert ratings, which differ and have names of their own.

auc_confidence_correct (0.609 in the paper): confidence of correct against incorrect verdicts, all ratings together.
type2_auc: the same within one rater. auc_unsigned_truth: confidence, regardless of the verdict, of unperturbed
against planted items. auc_signed: +confidence where the verdict is 1 and -confidence where it is 0, of unperturbed
against planted items; its mean over raters is mrmc.estimate_mean_auc. "Correct" means that the verdict equals the reference: an
unperturbed transition counts as plausible, although its simulator can have made a mistake.
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
POOLED = "ratings of one item and of one rater go together; the mean over raters has an interval"
ITEMS_ONLY = "fewer than three raters: only items are resampled, for these raters"
CELLS = 4_000_000  # counts in memory at once while resampling: 32 MB


def panel(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return all areas of a table in a fixed order; tables that are not binary have none."""
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
    """Return auc_confidence_correct with the two-way bootstrap; below three raters items alone are resampled."""
    judged, n = _judged(table)
    area = delong.area(judged.confidence, judged.correct)
    if area.value is None or area.interval is None:
        return estimate(CONFIDENCE_CORRECT, area.value, n, reason=_why(table, judged) or area.reason)
    rng = generator(seed, CONFIDENCE_CORRECT)
    resampled = _interval(_replicates(judged, resamples, rng), judged) if resamples else NOT_RESAMPLED
    return _resampled(CONFIDENCE_CORRECT, area.value, n, {}, resampled)


def type2(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return type2_auc of each rater with DeLong's interval, then the mean over raters with both correct and incorrect verdicts."""
    judged, _ = _judged(table)
    rows = []
    for name in [table.raters[index] for index in np.unique(table.rater)]:
        rater_ratings, n = _judged(table.of_rater(name))
        area = delong.area(rater_ratings.confidence, rater_ratings.correct)
        reason = (_why(table.of_rater(name), rater_ratings) if area.value is None else "") or area.reason
        args = {"rater": name}
        rows.append(
            estimate(TYPE2, area.value, n, args=args, interval=area.interval, method=area.method, reason=reason)
        )
    return [*rows, _type2_mean(table, judged, [row.value for row in rows], seed, resamples)]


def _type2_mean(table: Ratings, own: Ratings, values: Sequence[float | None], seed: int, resamples: int) -> Estimate:
    defined = [value for value in values if value is not None]
    n = {**_judged(table)[1], "raters_used": len(defined), "raters_dropped": len(values) - len(defined)}
    if not defined:
        reason = _why(table, own) or "no rater was both right and wrong"
        return estimate(TYPE2, None, n, args=OVER_RATERS, reason=reason)
    resampled = NOT_RESAMPLED
    if resamples:
        rng = generator(seed, TYPE2, OVER_RATERS)
        resampled = _interval(_replicates(own, resamples, rng, mean_over_raters=True), own)
    return _resampled(TYPE2, float(np.mean(defined)), n, OVER_RATERS, resampled)


def unsigned_truth(table: Ratings, source: str | None = None) -> list[Estimate]:
    """Return auc_unsigned_truth of one error source (None: of all): pooled over ratings, then the mean over raters (two
    targets).
    """
    ratings, args = _against(table, source)
    pooled = _pooled(UNSIGNED_TRUTH, ratings, ratings.confidence, args)
    return [pooled, *mrmc.mean_rows(UNSIGNED_TRUTH, ratings, ratings.confidence, {**args, **OVER_RATERS})]


def signed(table: Ratings, source: str | None = None) -> Estimate:
    """Return auc_signed of one error source, pooled over ratings (None: of all, a mixture of easy and difficult errors)."""
    ratings, args = _against(table, source)
    return _pooled(SIGNED, ratings, ratings.signed, args)


def _against(table: Ratings, source: str | None) -> tuple[Ratings, Mapping[str, str]]:
    if source is None:
        return table.where(table.reference >= 0), {}
    return table.against_unperturbed(source), {"source": source}


def _pooled(stat: str, own: Ratings, scores: Floats, args: Mapping[str, str]) -> Estimate:
    """Return the area over all ratings together, with an interval only if they are one rater's."""
    has_score = np.isfinite(scores)
    scored_ratings = own.where(has_score)
    area = delong.area(scores[has_score], scored_ratings.reference == 1)
    n = {**scored_ratings.n, "positives": area.positives, "negatives": area.negatives}
    if area.value is None:
        return estimate(stat, None, n, args=args, reason=mrmc.nothing(own, scores))
    # DeLong's interval treats ratings as independent; of several raters it covered 73 to 86 % (bench/results/coverage.md).
    if n["raters"] > 1:
        return estimate(stat, area.value, n, args=args, reason=POOLED)
    return estimate(stat, area.value, n, args=args, interval=area.interval, method=area.method, reason=area.reason)


def _judged(table: Ratings) -> tuple[Ratings, Mapping[str, int]]:
    """Return the ratings with a known reference and a confidence, and their counts."""
    judged = table.where((table.reference >= 0) & np.isfinite(table.confidence))
    correct = int(judged.correct.sum())
    return judged, {**judged.n, "correct": correct, "incorrect": len(judged) - correct}


def _why(table: Ratings, own: Ratings) -> str:
    """Return why there is no area of confidence against correctness; "" if there is one."""
    if not (table.reference >= 0).any():
        return explain_missing(table.reference_name, -1)
    if not len(own):
        return "no rating with a known reference has a confidence"
    if own.correct.all():
        return "no rating is incorrect"
    return "" if own.correct.any() else "no rating is correct"


def _resampled(stat: str, value: float, n: Mapping[str, int], args: Mapping[str, str], drawn: Resampled) -> Estimate:
    is_few_raters = n["raters"] < LEAST_RATERS
    method = "item_bootstrap" if is_few_raters else "two_way_bootstrap"
    reason = drawn.reason or (ITEMS_ONLY if is_few_raters else "")
    return estimate(stat, value, n, args=args, interval=drawn.interval, method=method, reason=reason)


def _interval(replicates: Floats, own: Ratings) -> Resampled:
    """Return percentiles, widened for few items where items alone are resampled."""
    is_items_only = own.n["raters"] < LEAST_RATERS
    # The two-way bootstrap counts the residual variance three times (Owen 2007), so it is wide enough already.
    percentiles = percentile(
        replicates, widening=widening(own.n["items"], len(np.unique(own.source))) if is_items_only else 1.0
    )
    if percentiles.interval is not None and percentiles.interval[0] == percentiles.interval[1]:
        return Resampled(None, percentiles.undefined, "all resamples are alike, so there is no interval")
    return percentiles


def _replicates(own: Ratings, resamples: int, rng: np.random.Generator, *, mean_over_raters: bool = False) -> Floats:
    """Return the area in each resample of items (within their source) and raters, shape (resamples,); NaN where a class is
    empty.

    Pooled over ratings, or the mean of the sampled raters' own areas. A rating's weight is its item's times its rater's.
    """
    counts, strata, raters = _counts(own)
    # Two raters are too few to resample: half of the resamples would have one rater twice.
    is_few_raters = raters < LEAST_RATERS
    rater = np.ones((resamples, raters), dtype=np.int64) if is_few_raters else rater_weights(raters, resamples, rng)
    areas, start = np.full(resamples, np.nan), 0
    for weights in _parts(weight_chunks(strata, resamples, rng), max(1, CELLS // counts.shape[1])):
        stop = start + len(weights)
        # Counts per rater and level are enough for an area, so a resample is one sparse product.
        cells = np.ascontiguousarray((counts.T @ weights.T.astype(np.float64)).T).reshape(len(weights), raters, -1, 2)
        compute_area = _mean_area if mean_over_raters else _pooled_area
        areas[start:stop] = compute_area(cells, rater[start:stop].astype(np.float64))
        start = stop
    return areas


def _counts(own: Ratings) -> tuple[sparse.csr_array, Ints, int]:
    """Return items by (rater, confidence level, correct) with a 1 for each rating, the items' sources, and the number of raters."""
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
    # A rater without both classes in a resample has no area there and is left out of the mean.
    weight = np.where(np.isfinite(areas), rater, 0.0)
    total = weight.sum(axis=1)
    weighted = np.where(weight > 0, areas, 0.0) * weight
    means = np.full(len(total), np.nan)
    np.divide(weighted.sum(axis=1), total, out=means, where=total > 0)
    return means


def _area_of_counts(counts: Floats) -> Floats:
    """Return the area from counts by level and class, shape (..., levels, 2), class 1 positive; NaN where a class is empty."""
    negative, positive = counts[..., 0], counts[..., 1]
    # Positives win against negatives of lower levels; a tie counts one half.
    wins = (positive * (np.cumsum(negative, axis=-1) - negative / 2)).sum(axis=-1)
    pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
    areas = np.full(pairs.shape, np.nan)
    np.divide(wins, pairs, out=areas, where=pairs > 0)
    return areas
