"""Estimate four different areas under ROC curves of expert ratings.

auc_confidence_correct (0.609 in the paper): the confidence of correct verdicts against that of incorrect verdicts, all
ratings together. type2_auc: the same area for one rater. auc_unsigned_truth: the confidence in ratings of unperturbed
items against that in ratings of planted items, regardless of the verdict. auc_signed: the signed rating (+confidence if
the verdict is 1, -confidence if it is 0) of unperturbed items against that of planted items; mrmc.estimate_mean_auc
returns its mean over raters. A verdict is correct if it equals the reference: an unperturbed transition counts as
plausible, although its simulator can have made a mistake.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import sparse

from ratings.stats.areas import delong, mrmc
from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.intervals import MIN_RATERS
from ratings.stats.ratings_table import Floats, Ints, Ratings, explain_missing
from ratings.stats.resampling import (
    NOT_RESAMPLED,
    ResampledInterval,
    compute_percentile_interval,
    compute_widening,
    iter_weight_chunks,
    sample_rater_weights,
)

CONFIDENCE_CORRECT = "auc_confidence_correct"
UNSIGNED_TRUTH = "auc_unsigned_truth"
SIGNED = "auc_signed"
TYPE2 = "type2_auc"

OVER_RATERS = {"mean_over": "raters"}
POOLED = "ratings of one item and of one rater go together; the mean over raters has an interval"
ITEMS_ONLY = "fewer than three raters: only items are resampled, for these raters"
MAX_CELLS = 4_000_000  # counts in memory at once while resampling: 32 MB


def estimate_areas(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return all areas of a table in a fixed order; the list is empty if the table is not binary."""
    if not table.is_binary:
        return []
    sources = (None, *table.error_sources)
    rows = [estimate_confidence_correct(table, seed, resamples)]
    for source in sources:
        rows += estimate_unsigned_truth(table, source)
    for source in sources:
        rows.append(estimate_signed(table, source))
    return rows + estimate_type2(table, seed, resamples)


def estimate_confidence_correct(table: Ratings, seed: int, resamples: int) -> Estimate:
    """Return auc_confidence_correct with an interval from the two-way bootstrap; below three raters only items are
    resampled.
    """
    judged, n = _select_judged(table)
    area = delong.estimate_area(judged.confidence, judged.is_correct)
    if area.value is None or area.interval is None:
        return build_estimate(CONFIDENCE_CORRECT, area.value, n, reason=_explain_no_area(table, judged) or area.reason)
    rng = build_generator(seed, CONFIDENCE_CORRECT)
    resampled = _compute_interval(_resample_areas(judged, resamples, rng), judged) if resamples else NOT_RESAMPLED
    return _build_resampled(CONFIDENCE_CORRECT, area.value, n, {}, resampled)


def estimate_type2(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return type2_auc of each rater with its interval, then the mean over raters who have both correct and
    incorrect verdicts.
    """
    judged, _ = _select_judged(table)
    rows = []
    for name in [table.raters[index] for index in np.unique(table.rater)]:
        rater_ratings, n = _select_judged(table.select_rater(name))
        area = delong.estimate_area(rater_ratings.confidence, rater_ratings.is_correct)
        reason = (
            _explain_no_area(table.select_rater(name), rater_ratings) if area.value is None else ""
        ) or area.reason
        args = {"rater": name}
        rows.append(
            build_estimate(TYPE2, area.value, n, args=args, interval=area.interval, method=area.method, reason=reason)
        )
    return [*rows, _estimate_type2_mean(table, judged, [row.value for row in rows], seed, resamples)]


def _estimate_type2_mean(
    table: Ratings, judged: Ratings, values: Sequence[float | None], seed: int, resamples: int
) -> Estimate:
    defined = [value for value in values if value is not None]
    n = {**_select_judged(table)[1], "raters_used": len(defined), "raters_dropped": len(values) - len(defined)}
    if not defined:
        reason = _explain_no_area(table, judged) or "no rater was both right and wrong"
        return build_estimate(TYPE2, None, n, args=OVER_RATERS, reason=reason)
    resampled = NOT_RESAMPLED
    if resamples:
        rng = build_generator(seed, TYPE2, OVER_RATERS)
        resampled = _compute_interval(_resample_areas(judged, resamples, rng, mean_over_raters=True), judged)
    return _build_resampled(TYPE2, float(np.mean(defined)), n, OVER_RATERS, resampled)


def estimate_unsigned_truth(table: Ratings, source: str | None = None) -> list[Estimate]:
    """Return auc_unsigned_truth for one error source, or for all if `source` is None.

    The first row pools all ratings; the others are the mean over raters, for new raters and for these raters.
    """
    ratings, args = _select_comparison(table, source)
    pooled = _estimate_pooled(UNSIGNED_TRUTH, ratings, ratings.confidence, args)
    return [pooled, *mrmc.estimate_mean_area(UNSIGNED_TRUTH, ratings, ratings.confidence, {**args, **OVER_RATERS})]


def estimate_signed(table: Ratings, source: str | None = None) -> Estimate:
    """Return auc_signed for one error source, pooled over ratings.

    If `source` is None, it is for all error sources together: a mixture of easy and difficult errors.
    """
    ratings, args = _select_comparison(table, source)
    return _estimate_pooled(SIGNED, ratings, ratings.signed_ratings, args)


def _select_comparison(table: Ratings, source: str | None) -> tuple[Ratings, Mapping[str, str]]:
    if source is None:
        return table.select_ratings(table.reference >= 0), {}
    return table.select_against_unperturbed(source), {"source": source}


def _estimate_pooled(stat: str, ratings: Ratings, scores: Floats, args: Mapping[str, str]) -> Estimate:
    """Return one area for all ratings together, with an interval only if all ratings are by one rater."""
    has_score = np.isfinite(scores)
    scored_ratings = ratings.select_ratings(has_score)
    area = delong.estimate_area(scores[has_score], scored_ratings.reference == 1)
    n = {**scored_ratings.sample_sizes, "positives": area.positives, "negatives": area.negatives}
    if area.value is None:
        return build_estimate(stat, None, n, args=args, reason=mrmc.explain_no_area(ratings, scores))
    # DeLong's interval treats ratings as independent; for several raters its coverage was 73 to 86 % (bench/results/coverage.md).
    if n["raters"] > 1:
        return build_estimate(stat, area.value, n, args=args, reason=POOLED)
    return build_estimate(
        stat, area.value, n, args=args, interval=area.interval, method=area.method, reason=area.reason
    )


def _select_judged(table: Ratings) -> tuple[Ratings, Mapping[str, int]]:
    """Return the ratings that have a known reference and a confidence, and their sample sizes."""
    judged = table.select_ratings((table.reference >= 0) & np.isfinite(table.confidence))
    correct = int(judged.is_correct.sum())
    return judged, {**judged.sample_sizes, "correct": correct, "incorrect": len(judged) - correct}


def _explain_no_area(table: Ratings, judged: Ratings) -> str:
    """Return why there is no area for the confidence of correct against incorrect verdicts; "" if there is one."""
    if not (table.reference >= 0).any():
        return explain_missing(table.reference_name, -1)
    if not len(judged):
        return "no rating with a known reference has a confidence"
    if judged.is_correct.all():
        return "no rating is incorrect"
    return "" if judged.is_correct.any() else "no rating is correct"


def _build_resampled(
    stat: str, value: float, n: Mapping[str, int], args: Mapping[str, str], resampled: ResampledInterval
) -> Estimate:
    is_few_raters = n["raters"] < MIN_RATERS
    method = "item_bootstrap" if is_few_raters else "two_way_bootstrap"
    reason = resampled.reason or (ITEMS_ONLY if is_few_raters else "")
    return build_estimate(stat, value, n, args=args, interval=resampled.interval, method=method, reason=reason)


def _compute_interval(replicates: Floats, judged: Ratings) -> ResampledInterval:
    """Return the percentile interval of the replicates, widened for few items if only items were resampled."""
    is_items_only = judged.sample_sizes["raters"] < MIN_RATERS
    # The two-way bootstrap counts the residual variance three times (Owen 2007), so it is wide enough already.
    percentiles = compute_percentile_interval(
        replicates,
        widening=compute_widening(judged.sample_sizes["items"], len(np.unique(judged.source)))
        if is_items_only
        else 1.0,
    )
    if percentiles.interval is not None and percentiles.interval[0] == percentiles.interval[1]:
        return ResampledInterval(None, percentiles.undefined, "all resamples are alike, so there is no interval")
    return percentiles


def _resample_areas(
    judged: Ratings, resamples: int, rng: np.random.Generator, *, mean_over_raters: bool = False
) -> Floats:
    """Return the area in each resample of items (within sources) and raters, shape (resamples,); NaN where a class is empty.

    The area is pooled over ratings or, with `mean_over_raters`, the mean of the sampled raters' own areas. A rating is
    weighted by how often its item was sampled times how often its rater was sampled.
    """
    counts, strata, raters = _tabulate_ratings(judged)
    # Two raters are too few to resample: half of the resamples would contain one rater twice.
    is_few_raters = raters < MIN_RATERS
    rater = (
        np.ones((resamples, raters), dtype=np.int64) if is_few_raters else sample_rater_weights(raters, resamples, rng)
    )
    areas, start = np.full(resamples, np.nan), 0
    for weights in _split_chunks(iter_weight_chunks(strata, resamples, rng), max(1, MAX_CELLS // counts.shape[1])):
        stop = start + len(weights)
        # Counts per rater and level are enough for an area, so a resample is one sparse product.
        cells = np.ascontiguousarray((counts.T @ weights.T.astype(np.float64)).T).reshape(len(weights), raters, -1, 2)
        compute_area = _compute_mean_area if mean_over_raters else _compute_pooled_area
        areas[start:stop] = compute_area(cells, rater[start:stop].astype(np.float64))
        start = stop
    return areas


def _tabulate_ratings(judged: Ratings) -> tuple[sparse.csr_array, Ints, int]:
    """Return a matrix with a 1 for each rating, the source of each item, and the number of raters.

    The matrix has a row for each item, and a column for each combination of rater, confidence level and correctness.
    """
    items, item = np.unique(judged.item, return_inverse=True)
    raters, rater = np.unique(judged.rater, return_inverse=True)
    levels, level = np.unique(judged.confidence, return_inverse=True)
    column = (rater * len(levels) + level) * 2 + judged.is_correct
    shape = (len(items), len(raters) * len(levels) * 2)
    ones = np.ones(len(judged), dtype=np.float64)
    return sparse.csr_array((ones, (item, column)), shape=shape), judged.item_source[items], len(raters)


def _split_chunks(chunks: Iterator[Ints], block_size: int) -> Iterator[Ints]:
    for chunk in chunks:
        for start in range(0, len(chunk), block_size):
            yield chunk[start : start + block_size]


def _compute_pooled_area(cells: Floats, rater: Floats) -> Floats:
    return _compute_area_from_counts(np.einsum("brlc,br->blc", cells, rater))


def _compute_mean_area(cells: Floats, rater: Floats) -> Floats:
    areas = _compute_area_from_counts(cells)
    # A rater without both classes in a resample has no area there and is left out of the mean.
    weight = np.where(np.isfinite(areas), rater, 0.0)
    total = weight.sum(axis=1)
    weighted = np.where(weight > 0, areas, 0.0) * weight
    means = np.full(len(total), np.nan)
    np.divide(weighted.sum(axis=1), total, out=means, where=total > 0)
    return means


def _compute_area_from_counts(counts: Floats) -> Floats:
    """Return the area for counts by level and class, shape (..., levels, 2); NaN where a class is empty.

    Index 1 of the last axis is the positive class.
    """
    negative, positive = counts[..., 0], counts[..., 1]
    # A positive counts 1 against each negative of a lower level, and one half against each of the same level.
    wins = (positive * (np.cumsum(negative, axis=-1) - negative / 2)).sum(axis=-1)
    pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
    areas = np.full(pairs.shape, np.nan)
    np.divide(wins, pairs, out=areas, where=pairs > 0)
    return areas
