"""Weighted kappa of ordered answers (confidence, verdicts on a scale): of two raters, and its mean over pairs of raters.

Cohen 1968, Psychological Bulletin 70:213; the standard error is that of Fleiss, Cohen and Everitt (1969, Psychological
Bulletin 72:323), and the mean over pairs Light's (1971, Psychological Bulletin 76:365).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ratings.stats import pairwise, rater_pairs, resampling
from ratings.stats.coefficients import WEIGHTS, AnswerColumn, compute_agreement_weights, list_answer_columns
from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.ratings_table import Floats, Ratings

WEIGHTED_KAPPA, MEAN_WEIGHTED_KAPPA = "weighted_kappa", "avg_pairwise_weighted_kappa"
MAX_PAIRS_LISTED = 435  # all pairs of 30 raters; more would be hundreds of lines that nobody reads
# Most counts of pairs' cells in all resamples. Beyond it (about 60 raters) the mean over pairs has no interval, because it
# would take longer than all other statistics together; AC2 and alpha have one.
MAX_RESAMPLED_CELLS = 100_000_000
TOO_MANY_PAIRS = "too many pairs of raters to resample; AC2 and alpha have an interval"


def estimate_weighted_kappas(
    table: Ratings,
    min_overlap: int = pairwise.MIN_OVERLAP,
    *,
    seed: int = 0,
    resamples: int = 2000,
    show_unstable: bool = False,
) -> list[Estimate]:
    """Return weighted kappas of each ordered answer but the signed rating, with linear and with quadratic weights.

    For each: the mean over pairs of raters with at least `min_overlap` shared items, over all sources and within each, for
    these and for new raters (see pairwise.estimate_pair_means); then every pair of raters with a shared item.
    """
    rows: list[Estimate] = []
    for column in list_answer_columns(table):
        # The signed rating has a gap between -1 and 1, because its verdict changes there; its levels are not equally far apart.
        if column.is_scale and column.answer != "signed" and len(column.ratings):
            levels = _tabulate_levels(column)
            for scope in resampling.list_scopes(levels):
                rows += _estimate_means(scope, column.answer, min_overlap, seed, resamples, show_unstable)
            for weights in WEIGHTS:
                rows += _estimate_pairs(levels, column.answer, weights, min_overlap, show_unstable)
    return rows


def _tabulate_levels(column: AnswerColumn) -> Ratings:
    """Return the ratings with the level of the answer, 0 to q - 1, in place of the verdict."""
    return replace(column.ratings, verdict=column.codes, categories=tuple(range(column.q)))


def _estimate_means(
    scope: resampling.Scope, answer: str, min_overlap: int, seed: int, resamples: int, show_unstable: bool
) -> Iterator[Estimate]:
    q = len(scope.ratings.categories)
    pair_scopes = {
        kind: pairwise.PairScope(
            scope, min_overlap, weights=compute_agreement_weights(q, kind), show_unstable=show_unstable
        )
        for kind in WEIGHTS
    }
    # Both kinds of weights have the same pairs, so one set of resamples serves both.
    resampled_pairs = {kind: pairs.resampled_pairs for kind, pairs in pair_scopes.items()}
    is_too_large = resamples * max(len(pairs.count) for pairs in resampled_pairs.values()) > MAX_RESAMPLED_CELLS
    rng = build_generator(seed, MEAN_WEIGHTED_KAPPA, {"of": answer, **scope.args})
    replicates = _resample_means(scope.ratings, resampled_pairs, 0 if is_too_large else resamples, rng)
    for kind, pair_scope in pair_scopes.items():
        args = {"of": answer, "weights": kind, **pair_scope.args}
        for row in pair_scope.build_kappa_rows(MEAN_WEIGHTED_KAPPA, args, replicates[kind]):
            needs_reason = is_too_large and row.value is not None and row.low is None and not row.withheld
            yield row._replace(reason=TOO_MANY_PAIRS) if needs_reason else row


def _resample_means(
    ratings: Ratings, pairs_of: dict[str, rater_pairs.RaterPairs], resamples: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return the mean kappa over the pairs in each resample of items within sources, by kind of weights."""
    means: dict[str, list[Floats]] = {kind: [np.empty(0)] for kind in pairs_of}
    pairs = pairs_of[WEIGHTS[0]]
    if resamples and len(pairs):
        scoped = rater_pairs.ScopedPairs(ratings, pairs)
        for cells in rater_pairs.iter_resampled_cells(scoped, ratings.item_source, resamples, rng):
            for kind, weighted in pairs_of.items():
                means[kind].append(rater_pairs.compute_defined_mean(weighted.compute_kappa(cells)))
    return {kind: np.concatenate(blocks) for kind, blocks in means.items()}


def _estimate_pairs(
    levels: Ratings, answer: str, kind: str, min_overlap: int, show_unstable: bool
) -> Iterator[Estimate]:
    weights = compute_agreement_weights(len(levels.categories), kind)
    pairs = replace(rater_pairs.tabulate_pairs(levels), weights=weights)
    args = {"of": answer, "weights": kind}
    if len(pairs) > MAX_PAIRS_LISTED:
        reason = f"more than {MAX_PAIRS_LISTED} pairs are counted, not listed"
        yield build_estimate(
            WEIGHTED_KAPPA, None, {"pairs": len(pairs)}, {**args, "pairs": "of all raters"}, reason=reason
        )
        return
    for index, sides in enumerate(zip(pairs.first, pairs.second, strict=True)):
        of_pair = {**args, "raters": [levels.raters[rater] for rater in sides]}
        yield pairwise.estimate_kappa_of_pair(
            WEIGHTED_KAPPA, pairs, index, of_pair, min_overlap, show_unstable=show_unstable
        )
