"""Estimate the agreement of pairs of raters: Cohen's kappa of each pair, and its mean over all pairs with enough
shared items.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from ratings.stats.estimates import FEW_ITEMS, LEVEL, Estimate, build_estimate, build_generator
from ratings.stats.intervals import (
    CO_MINORITY,
    CO_MINORITY_NEW,
    SKEWED,
    PointEstimate,
    Scope,
    Uncertainty,
    build_interval_rows,
    explain_rare_verdict,
    find_commonest_category,
    list_scopes,
)
from ratings.stats.pair_resampling import PairMeans, ScopedPairs, compute_pair_means, resample_pair_means
from ratings.stats.proportions import compute_wilson_interval
from ratings.stats.rater_pairs import RaterPairs, compute_leave_one_out_means, tabulate_pairs
from ratings.stats.ratings_table import Bools, Floats, Ratings
from ratings.stats.resampling import compute_widening
from ratings.stats.text import format_count

MIN_OVERLAP = 20
MAX_DISJOINT_LISTED = 20_000  # most pairs without a shared item that are listed one by one: all pairs of 200 raters
MIN_ITEMS_FOR_INTERVAL = 10  # items that two raters share; with fewer, intervals of kappa did not reach 95% coverage
PAIR_STATISTICS = ("percent_agreement", "cohen_kappa")
QUANTILE = float(norm.ppf((1 + LEVEL) / 2))
NO_COMMON_ITEM = "no item was rated by both"
NO_PAIRS = "there are fewer than two raters with ratings"
NO_SPREAD = "the sample does not vary, so there is no interval"
ONE_ANSWER = "0/0: both gave one and the same answer throughout"


def estimate_pairs(table: Ratings, min_overlap: int = MIN_OVERLAP) -> list[Estimate]:
    """Return percent_agreement and cohen_kappa of every pair of raters, over all sources.

    A pair with fewer than `min_overlap` shared items has values without an interval, and a reason that starts with FEW_ITEMS.
    If more than MAX_DISJOINT_LISTED pairs share no item, these pairs are not listed but counted in one row of each statistic.
    """
    rater_pairs = tabulate_pairs(table)
    pair_index = {
        pair: index
        for index, pair in enumerate(zip(rater_pairs.first.tolist(), rater_pairs.second.tolist(), strict=True))
    }
    rows = []
    for pair in (
        combinations(rater_pairs.raters.tolist(), 2)
        if rater_pairs.disjoint_pairs <= MAX_DISJOINT_LISTED
        else pair_index
    ):
        args = {"raters": [table.raters[index] for index in pair]}
        rows += (
            _estimate_pair(rater_pairs, pair_index[pair], args, min_overlap)
            if pair in pair_index
            else _list_disjoint_pair(args)
        )
    return (
        rows
        if rater_pairs.disjoint_pairs <= MAX_DISJOINT_LISTED
        else [*rows, *_count_disjoint_pairs(rater_pairs.disjoint_pairs)]
    )


def _list_disjoint_pair(args: Mapping[str, Any]) -> list[Estimate]:
    n = {"items": 0, "raters": 2, "ratings": 0}
    return [build_estimate(stat, None, n, args=args, reason=NO_COMMON_ITEM) for stat in PAIR_STATISTICS]


def _count_disjoint_pairs(pair_count: int) -> list[Estimate]:
    reason = f"{NO_COMMON_ITEM}; more than {MAX_DISJOINT_LISTED:,} such pairs are counted, not listed"
    args = {"pairs": "without an item in common"}
    return [
        build_estimate(stat, None, {"items": 0, "pairs": pair_count}, args=args, reason=reason)
        for stat in PAIR_STATISTICS
    ]


def _estimate_pair(rater_pairs: RaterPairs, index: int, args: Mapping[str, Any], min_overlap: int) -> list[Estimate]:
    shared_items = int(rater_pairs.shared_items[index])
    n = {"items": shared_items, "raters": 2, "ratings": 2 * shared_items}
    few_items = f"{FEW_ITEMS}: {format_count(shared_items, 'item')} in common, fewer than {min_overlap}"
    too_few = few_items if shared_items < min_overlap else ""
    agreement, kappa = float(rater_pairs.percent_agreement[index]), float(rater_pairs.cohen_kappa[index])
    interval = None if too_few else compute_wilson_interval(agreement, shared_items, QUANTILE)
    agreement_row = build_estimate(
        "percent_agreement", agreement, n, args=args, interval=interval, method="wilson", reason=too_few
    )
    if math.isnan(kappa):
        return [agreement_row, build_estimate("cohen_kappa", None, n, args=args, reason=ONE_ANSWER)]
    half_width = QUANTILE * math.sqrt(rater_pairs.kappa_variance[index])
    reason = (
        too_few
        or _explain_no_kappa_interval(shared_items, rater_pairs.co_minority[index])
        or ("" if half_width else NO_SPREAD)
    )
    kappa_interval = None if reason else (max(-1.0, kappa - half_width), min(1.0, kappa + half_width))
    return [
        agreement_row,
        build_estimate("cohen_kappa", kappa, n, args=args, interval=kappa_interval, method="normal", reason=reason),
    ]


def _explain_no_kappa_interval(fewest_items: float, co_minority: float, floor: float = CO_MINORITY) -> str:
    """Return why a kappa is given without an interval; "" if an interval may be given."""
    # In simulated studies, the 95% intervals of such samples included the true value in fewer than 95% of the studies.
    if fewest_items < MIN_ITEMS_FOR_INTERVAL:
        return f"a pair shares only {format_count(int(fewest_items), 'item')}; below {MIN_ITEMS_FOR_INTERVAL} no interval is reliable"
    return explain_rare_verdict(co_minority, floor)


def choose_pairs(shared_items: Floats, min_overlap: int) -> Bools:
    """Return the mask of the pairs over which a mean is taken, shape (pairs,).

    These are the pairs that share at least `min_overlap` items or, if there is no such pair, all pairs that share an item.
    `shared_items`: number of items that each pair shares.
    """
    enough: Bools = shared_items >= max(1, min_overlap)
    return enough if enough.any() else shared_items >= 1


def explain_few_items(shared_items: Floats, min_overlap: int) -> str:
    """Return why the mean over these pairs has no interval; "" if a pair shares at least `min_overlap` items, or
    none shares any.
    """
    largest = int(shared_items.max(initial=0))
    if not largest or largest >= min_overlap:
        return ""
    return f"{FEW_ITEMS}: no pair shares {format_count(min_overlap, 'item')}, the most is {largest}; no interval is reliable"


class _PairScope(NamedTuple):
    """The pairs of raters in one scope.

    `chosen`: mask of the pairs over which the mean is taken, shape (pairs,). `few_items`: why the mean has no interval, or "".
    """

    scope: Scope
    pairs: RaterPairs
    chosen: Bools
    few_items: str
    args: Mapping[str, Any]

    @property
    def used_pairs(self) -> RaterPairs:
        return self.pairs.select_pairs(self.chosen)

    @property
    def mean_co_minority(self) -> float:
        """Return the mean co-minority count of the chosen pairs (see RaterPairs.co_minority)."""
        return float(np.mean(self.pairs.co_minority[self.chosen]))

    @property
    def fewest_shared_items(self) -> float:
        return float(np.min(self.pairs.shared_items[self.chosen]))

    @property
    def has_interval(self) -> bool:
        """Return whether an interval of the mean agreement may be given."""
        return bool(self.chosen.any()) and not self.few_items and self.fewest_shared_items >= MIN_ITEMS_FOR_INTERVAL


def estimate_pair_means(
    table: Ratings, min_overlap: int = MIN_OVERLAP, *, seed: int = 0, resamples: int = 2000
) -> list[Estimate]:
    """Return means of agreement and kappa over the pairs of raters with at least `min_overlap` shared items (Light 1971).

    If no pair shares that many items, the means are over all pairs with a shared item; they have no interval, and a reason
    that starts with FEW_ITEMS.

    The rows are for all sources together, then for each source: avg_pairwise_agreement (including pairs with an undefined
    kappa) and avg_pairwise_kappa, each with an interval for these raters and one for new raters; avg_pairwise_kappa_weighted,
    in which each pair is weighted by its number of shared items; and kappa_max, the mean over pairs of the largest kappa
    possible with the pair's shares of verdicts.
    """
    pair_scopes = []
    for scope in list_scopes(table):
        rater_pairs = tabulate_pairs(scope.ratings)
        few_items = explain_few_items(rater_pairs.shared_items, min_overlap)
        args = {"min_overlap": min_overlap, **scope.args}
        pair_scopes.append(
            _PairScope(scope, rater_pairs, choose_pairs(rater_pairs.shared_items, min_overlap), few_items, args)
        )
    resampled = _resample_scopes(table, pair_scopes, seed, resamples)
    return [
        row
        for pair_scope, replicates in zip(pair_scopes, resampled, strict=True)
        for row in _build_mean_rows(pair_scope, replicates)
    ]


def _resample_scopes(table: Ratings, pair_scopes: Sequence[_PairScope], seed: int, resamples: int) -> list[PairMeans]:
    # A scope without an interval is resampled without any pairs: this costs nothing and does not change the random draws
    # of the other scopes.
    no_pair = [np.zeros(len(pair_scope.pairs), dtype=np.bool_) for pair_scope in pair_scopes]
    scoped = [
        ScopedPairs(
            pair_scope.scope.ratings,
            pair_scope.used_pairs if pair_scope.has_interval else pair_scope.pairs.select_pairs(mask),
        )
        for pair_scope, mask in zip(pair_scopes, no_pair, strict=True)
    ]
    return resample_pair_means(scoped, table.item_source, resamples, build_generator(seed, "avg_pairwise_kappa"))


def _build_mean_rows(pair_scope: _PairScope, resampled: PairMeans) -> Iterator[Estimate]:
    used_pairs = pair_scope.used_pairs
    defined = int(np.isfinite(used_pairs.cohen_kappa).sum())
    n = {
        **pair_scope.scope.ratings.sample_sizes,
        "pairs_used": defined,
        "pairs_undefined": len(used_pairs) - defined,
        "pairs_below_overlap": int((pair_scope.pairs.shared_items < pair_scope.args["min_overlap"]).sum())
        + pair_scope.pairs.disjoint_pairs,
    }
    no_pairs = _explain_no_pairs(pair_scope)
    mean_agreement = compute_pair_means(
        used_pairs.shared_items, used_pairs.percent_agreement, used_pairs.percent_agreement
    )
    mean_kappa = compute_pair_means(used_pairs.shared_items, used_pairs.percent_agreement, used_pairs.cohen_kappa)
    # Reasons for agreement, kappa for these raters and kappa for new raters. The floor for agreement is 0, because its
    # interval stays reliable where one verdict is rare.
    withheld = [
        pair_scope.few_items
        or (
            _explain_no_kappa_interval(pair_scope.fewest_shared_items, pair_scope.mean_co_minority, floor)
            if len(used_pairs)
            else ""
        )
        for floor in (0, CO_MINORITY, CO_MINORITY_NEW)
    ]
    leave_one_out = compute_leave_one_out_means(used_pairs, used_pairs.percent_agreement)
    # A pair with an undefined kappa (0/0) still has an agreement.
    agreement_n = {**n, "pairs_used": len(used_pairs), "pairs_undefined": 0}
    point = PointEstimate(
        "avg_pairwise_agreement", pair_scope.args, _number_or_none(mean_agreement.kappa), agreement_n, no_pairs
    )
    widening_factor = compute_widening(
        pair_scope.scope.ratings.sample_sizes["items"], len(np.unique(pair_scope.scope.ratings.source))
    )
    uncertainty = Uncertainty(
        resampled.agreement,
        leave_one_out,
        linear=True,
        widening=widening_factor,
        withheld=withheld[0],
        withheld_new=withheld[0],
    )
    yield from build_interval_rows(point, uncertainty)
    point = PointEstimate(
        "avg_pairwise_kappa",
        pair_scope.args,
        _number_or_none(mean_kappa.kappa),
        n,
        no_pairs or _explain_undefined_kappa(pair_scope),
    )
    leave_one_out = compute_leave_one_out_means(used_pairs, used_pairs.cohen_kappa)
    uncertainty = Uncertainty(
        resampled.kappa,
        leave_one_out,
        bias_corrected=True,
        widening=widening_factor,
        withheld=withheld[1],
        withheld_new=withheld[2],
    )
    yield from build_interval_rows(point, uncertainty)
    for stat, value in (
        ("avg_pairwise_kappa_weighted", mean_kappa.weighted),
        (
            "kappa_max",
            compute_pair_means(used_pairs.shared_items, used_pairs.percent_agreement, used_pairs.kappa_max).kappa,
        ),
    ):
        reason = no_pairs or (
            _explain_undefined_kappa(pair_scope)
            if np.isnan(value)
            else pair_scope.few_items or "beside avg_pairwise_kappa, which has the interval"
        )
        yield build_estimate(stat, _number_or_none(value), n, args=pair_scope.args, reason=reason)


def _number_or_none(value: Floats | float) -> float | None:
    return None if np.isnan(value) else float(value)


def _explain_no_pairs(pair_scope: _PairScope) -> str:
    if len(pair_scope.pairs.raters) < 2:
        return NO_PAIRS
    return "" if pair_scope.chosen.any() else "no pair of raters has an item in common"


def _explain_undefined_kappa(pair_scope: _PairScope) -> str:
    undefined = bool(pair_scope.chosen.any()) and not np.isfinite(pair_scope.used_pairs.cohen_kappa).any()
    return "0/0 in every pair: both raters gave one and the same answer throughout" if undefined else ""


def estimate_prevalence(table: Ratings) -> list[Estimate]:
    """Return the share of ratings with verdict 1, over all sources and within each.

    A table that is not binary has the share of each category instead, named in args.
    """
    binary_reason, category_reason = (
        "beside plausibility_rate, which has the interval",
        "no interval is computed for the share of a category",
    )
    reason, rows = binary_reason if table.is_binary else category_reason, []
    for scope in list_scopes(table):
        category_counts = np.bincount(scope.ratings.verdict, minlength=len(table.categories))
        for index in [1] if table.is_binary else range(len(table.categories)):
            args = scope.args if table.is_binary else {"category": table.categories[index], **scope.args}
            share = category_counts[index] / len(scope.ratings) if len(scope.ratings) else None
            rows.append(
                build_estimate(
                    "prevalence",
                    share,
                    scope.ratings.sample_sizes,
                    args=args,
                    reason=reason if len(table) else "no ratings",
                )
            )
    return rows


def describe_skew(table: Ratings, words: Mapping[Any, str] | None = None) -> str:
    """Return sentences that warn of a misleading kappa; "" if the shares of verdicts give no reason for a warning.

    If nearly all verdicts on a source are alike, kappa can be near 0 although raters agree. If the shares of verdicts differ
    widely between sources, kappa over all sources can be high although raters hardly agree within any source.
    `words` maps a category to the word for it in the text.
    """
    if not len(table):
        return ""
    table_scopes = list_scopes(table)
    warnings = [_describe_skewed_scope(scope, words or {}) for scope in (table_scopes[1:] or table_scopes)]
    return " ".join(filter(None, [*warnings, _describe_pooled_kappa(table_scopes)]))


def _describe_skewed_scope(scope: Scope, words: Mapping[Any, str]) -> str:
    index, share = find_commonest_category(scope.ratings)
    if share < SKEWED:
        return ""
    category = scope.ratings.categories[index]
    word = words.get(category, str(category))
    chance = share**2 + (1 - share) ** 2
    return (
        f"In {scope.label} {share:.0%} of the verdicts are “{word}”: two raters answering at random with that share "
        f"would agree on at least {chance:.0%} of the items, so kappa can be near 0 although they nearly always agree. "
        "Read the agreement and AC1 beside it."
    )


def _describe_pooled_kappa(table_scopes: Sequence[Scope]) -> str:
    shares = [
        float(np.mean(scope.ratings.verdict == find_commonest_category(table_scopes[0].ratings)[0]))
        for scope in table_scopes[1:]
    ]
    # 50 percentage points: docs/statistics.md has an example with a kappa of 0.64 over all sources and 0 within each.
    if not shares or max(shares) - min(shares) < 0.5:
        return ""
    return (
        f"The share of the commonest verdict lies between {min(shares):.0%} and {max(shares):.0%} by source: kappa over all "
        "sources together mostly shows that raters distinguish the sources. Read it within each source."
    )
