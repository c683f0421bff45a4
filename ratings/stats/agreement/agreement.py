"""Estimate how far pairs of raters agree: Cohen's kappa of two raters, and its mean over all pairs with enough items in common."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from ratings.stats.estimates import FEW_ITEMS, LEVEL, Estimate, estimate, generator
from ratings.stats.intervals import (
    CO_MINORITY,
    CO_MINORITY_NEW,
    SKEWED,
    Found,
    Scope,
    Uncertainty,
    commonest,
    scopes,
    too_rare,
    with_intervals,
)
from ratings.stats.nouns import counted
from ratings.stats.pair_resampling import Means, Scoped, means, replicates
from ratings.stats.pairing import Pairs, left_out, pairs_of
from ratings.stats.proportions import wilson
from ratings.stats.resampling import widening
from ratings.stats.table import Bools, Floats, Ratings

MIN_OVERLAP = 20
MOST_APART = 20_000  # pairs without an item in common that are listed one by one: all pairs of 200 raters
LEAST_FOR_INTERVAL = 10  # items that two raters share; with fewer, no interval of kappa reached its coverage
OF_TWO = ("percent_agreement", "cohen_kappa")
QUANTILE = float(norm.ppf((1 + LEVEL) / 2))
NO_COMMON = "no item was rated by both"
NO_PAIRS = "there are fewer than two raters with ratings"
NO_SPREAD = "the sample does not vary, so there is no interval"
ONE_ANSWER = "0/0: both gave one and the same answer throughout"


def pairs(table: Ratings, min_overlap: int = MIN_OVERLAP) -> list[Estimate]:
    """Return percent_agreement and cohen_kappa of every pair of raters, over all sources.

    Pairs with fewer than `min_overlap` items in common have values without an interval and a reason that starts with FEW_ITEMS.
    If more than MAX_DISJOINT_LISTED pairs have no item in common, one row counts them and they are not listed.
    """
    rater_pairs = pairs_of(table)
    pair_index = {
        pair: index
        for index, pair in enumerate(zip(rater_pairs.first.tolist(), rater_pairs.second.tolist(), strict=True))
    }
    rows = []
    for pair in combinations(rater_pairs.raters.tolist(), 2) if rater_pairs.apart <= MOST_APART else pair_index:
        args = {"raters": [table.raters[index] for index in pair]}
        rows += _pair(rater_pairs, pair_index[pair], args, min_overlap) if pair in pair_index else _apart(args)
    return rows if rater_pairs.apart <= MOST_APART else [*rows, *_all_apart(rater_pairs.apart)]


def _apart(args: Mapping[str, Any]) -> list[Estimate]:
    n = {"items": 0, "raters": 2, "ratings": 0}
    return [estimate(stat, None, n, args=args, reason=NO_COMMON) for stat in OF_TWO]


def _all_apart(pairs: int) -> list[Estimate]:
    reason = f"{NO_COMMON}; more than {MOST_APART:,} such pairs are counted, not listed"
    args = {"pairs": "without an item in common"}
    return [estimate(stat, None, {"items": 0, "pairs": pairs}, args=args, reason=reason) for stat in OF_TWO]


def _pair(found: Pairs, at: int, args: Mapping[str, Any], min_overlap: int) -> list[Estimate]:
    shared_items = int(found.n[at])
    n = {"items": shared_items, "raters": 2, "ratings": 2 * shared_items}
    few_items = f"{FEW_ITEMS}: {counted(shared_items, 'item')} in common, fewer than {min_overlap}"
    too_few = few_items if shared_items < min_overlap else ""
    agreement, kappa = float(found.agreement[at]), float(found.kappa[at])
    interval = None if too_few else wilson(agreement, shared_items, QUANTILE)
    agreement_row = estimate(
        "percent_agreement", agreement, n, args=args, interval=interval, method="wilson", reason=too_few
    )
    if math.isnan(kappa):
        return [agreement_row, estimate("cohen_kappa", None, n, args=args, reason=ONE_ANSWER)]
    half_width = QUANTILE * math.sqrt(found.variance[at])
    reason = too_few or _too_few(shared_items, found.minority[at]) or ("" if half_width else NO_SPREAD)
    kappa_interval = None if reason else (max(-1.0, kappa - half_width), min(1.0, kappa + half_width))
    return [
        agreement_row,
        estimate("cohen_kappa", kappa, n, args=args, interval=kappa_interval, method="normal", reason=reason),
    ]


def _too_few(least: float, minority: float, floor: float = CO_MINORITY) -> str:
    """Return why no interval of a kappa is given; "" if it may be given."""
    # In simulated studies the intervals of such samples did not reach their coverage.
    if least < LEAST_FOR_INTERVAL:
        return f"a pair shares only {counted(int(least), 'item')}; below {LEAST_FOR_INTERVAL} no interval is reliable"
    return too_rare(minority, floor)


def choose_pairs(shared: Floats, min_overlap: int) -> Bools:
    """Return which pairs a mean is over, shape (pairs,).

    Those that share at least `min_overlap` items or, if there are none, all that share an item. `shared`: items that each pair shares.
    """
    enough: Bools = shared >= max(1, min_overlap)
    return enough if enough.any() else shared >= 1


def explain_few(shared: Floats, min_overlap: int) -> str:
    """Return why a mean over these pairs is a point estimate from few items; "" where a pair shares `min_overlap`."""
    largest = int(shared.max(initial=0))
    if not largest or largest >= min_overlap:
        return ""
    return f"{FEW_ITEMS}: no pair shares {counted(min_overlap, 'item')}, the most is {largest}; no interval is reliable"


class _Average(NamedTuple):
    """The pairs of one scope. chosen: those that the mean is over, shape (pairs,); few: why it is a point estimate, or ""."""

    scope: Scope
    pairs: Pairs
    chosen: Bools
    few: str
    args: Mapping[str, Any]

    @property
    def used(self) -> Pairs:
        return self.pairs.where(self.chosen)

    @property
    def minority(self) -> float:
        """Mean over the pairs of the items on which both would give the rarer verdict by chance."""
        return float(np.mean(self.pairs.minority[self.chosen]))

    @property
    def least(self) -> float:
        return float(np.min(self.pairs.n[self.chosen]))

    @property
    def is_estimable(self) -> bool:
        """Whether an interval of the mean agreement may be given."""
        return bool(self.chosen.any()) and not self.few and self.least >= LEAST_FOR_INTERVAL


def average(table: Ratings, min_overlap: int = MIN_OVERLAP, *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """Return unweighted means of agreement and kappa over pairs with at least `min_overlap` items in common (Light 1971).

    If no pair has that many, the mean is over all pairs with an item in common, without interval, and its reason starts with
    FEW_ITEMS.

    For all sources together, then for each: avg_pairwise_agreement (including pairs with an undefined kappa) and
    avg_pairwise_kappa, each with an interval for these raters and one for new raters; avg_pairwise_kappa_weighted by the
    items of a pair; kappa_max, the mean of the largest kappas possible with these shares of verdicts.
    """
    pair_scopes = []
    for scope in scopes(table):
        rater_pairs = pairs_of(scope.own)
        few_items = explain_few(rater_pairs.n, min_overlap)
        args = {"min_overlap": min_overlap, **scope.args}
        pair_scopes.append(_Average(scope, rater_pairs, choose_pairs(rater_pairs.n, min_overlap), few_items, args))
    resampled = _drawn(table, pair_scopes, seed, resamples)
    return [
        row
        for pair_scope, replicates in zip(pair_scopes, resampled, strict=True)
        for row in _averages(pair_scope, replicates)
    ]


def _drawn(table: Ratings, found: Sequence[_Average], seed: int, resamples: int) -> list[Means]:
    # Scopes without an interval are resampled without pairs: that costs nothing and leaves the draws of the
    # others as they are.
    no_pair = [np.zeros(len(pair_scope.pairs), dtype=np.bool_) for pair_scope in found]
    scoped = [
        Scoped(pair_scope.scope.own, pair_scope.used if pair_scope.is_estimable else pair_scope.pairs.where(mask))
        for pair_scope, mask in zip(found, no_pair, strict=True)
    ]
    return replicates(scoped, table.item_source, resamples, generator(seed, "avg_pairwise_kappa"))


def _averages(one: _Average, drawn: Means) -> Iterator[Estimate]:
    used_pairs = one.used
    defined = int(np.isfinite(used_pairs.kappa).sum())
    n = {
        **one.scope.own.n,
        "pairs_used": defined,
        "pairs_undefined": len(used_pairs) - defined,
        "pairs_below_overlap": int((one.pairs.n < one.args["min_overlap"]).sum()) + one.pairs.apart,
    }
    no_pairs = _why_none(one)
    mean_agreement = means(used_pairs.n, used_pairs.agreement, used_pairs.agreement)
    mean_kappa = means(used_pairs.n, used_pairs.agreement, used_pairs.kappa)
    # Agreement, kappa of these raters, kappa of new raters: agreement is no worse where one verdict is rare.
    withheld = [
        one.few or (_too_few(one.least, one.minority, floor) if len(used_pairs) else "")
        for floor in (0, CO_MINORITY, CO_MINORITY_NEW)
    ]
    leave_one_out = left_out(used_pairs, used_pairs.agreement)
    # A pair with an undefined kappa (0/0) still has an agreement.
    agreement_n = {**n, "pairs_used": len(used_pairs), "pairs_undefined": 0}
    point = Found("avg_pairwise_agreement", one.args, _number(mean_agreement.kappa), agreement_n, no_pairs)
    widening_factor = widening(one.scope.own.n["items"], len(np.unique(one.scope.own.source)))
    uncertainty = Uncertainty(
        drawn.agreement,
        leave_one_out,
        linear=True,
        widening=widening_factor,
        refused=withheld[0],
        refused_new=withheld[0],
    )
    yield from with_intervals(point, uncertainty)
    point = Found("avg_pairwise_kappa", one.args, _number(mean_kappa.kappa), n, no_pairs or _why_undefined(one))
    leave_one_out = left_out(used_pairs, used_pairs.kappa)
    uncertainty = Uncertainty(
        drawn.kappa,
        leave_one_out,
        corrected=True,
        widening=widening_factor,
        refused=withheld[1],
        refused_new=withheld[2],
    )
    yield from with_intervals(point, uncertainty)
    for stat, value in (
        ("avg_pairwise_kappa_weighted", mean_kappa.weighted),
        ("kappa_max", means(used_pairs.n, used_pairs.agreement, used_pairs.kappa_max).kappa),
    ):
        reason = no_pairs or (
            _why_undefined(one) if np.isnan(value) else one.few or "beside avg_pairwise_kappa, which has the interval"
        )
        yield estimate(stat, _number(value), n, args=one.args, reason=reason)


def _number(value: Floats | float) -> float | None:
    return None if np.isnan(value) else float(value)


def _why_none(one: _Average) -> str:
    if len(one.pairs.raters) < 2:
        return NO_PAIRS
    return "" if one.chosen.any() else "no pair of raters has an item in common"


def _why_undefined(one: _Average) -> str:
    undefined = bool(one.chosen.any()) and not np.isfinite(one.used.kappa).any()
    return "0/0 in every pair: both raters gave one and the same answer throughout" if undefined else ""


def prevalence(table: Ratings) -> list[Estimate]:
    """Return the share of ratings with verdict 1, over all sources and in each; in tables that are not binary, that of every category (args)."""
    binary_reason, category_reason = (
        "beside plausibility_rate, which has the interval",
        "no interval is computed for the share of a category",
    )
    reason, rows = binary_reason if table.binary else category_reason, []
    for scope in scopes(table):
        category_counts = np.bincount(scope.own.verdict, minlength=len(table.categories))
        for index in [1] if table.binary else range(len(table.categories)):
            args = scope.args if table.binary else {"category": table.categories[index], **scope.args}
            share = category_counts[index] / len(scope.own) if len(scope.own) else None
            rows.append(
                estimate("prevalence", share, scope.own.n, args=args, reason=reason if len(table) else "no ratings")
            )
    return rows


def skew_note(table: Ratings, words: Mapping[Any, str] | None = None) -> str:
    """Return sentences that warn where the shares of verdicts make kappa misleading; "" where they do not.

    Where nearly all verdicts of a source are alike, kappa can be near 0 although raters agree. Over sources of very different
    shares, kappa can be high although raters hardly agree within any of them. `words` maps categories to words for people.
    """
    if not len(table):
        return ""
    table_scopes = scopes(table)
    warnings = [_skewed(scope, words or {}) for scope in (table_scopes[1:] or table_scopes)]
    return " ".join(filter(None, [*warnings, _pooled(table_scopes)]))


def _skewed(scope: Scope, words: Mapping[Any, str]) -> str:
    index, share = commonest(scope.own)
    if share < SKEWED:
        return ""
    category = scope.own.categories[index]
    word = words.get(category, str(category))
    chance = share**2 + (1 - share) ** 2
    return (
        f"In {scope.name} {share:.0%} of the verdicts are “{word}”: two raters answering at random with that share "
        f"would agree on at least {chance:.0%} of the items, so kappa can be near 0 although they nearly always agree. "
        "Read the agreement and AC1 beside it."
    )


def _pooled(own: Sequence[Scope]) -> str:
    shares = [float(np.mean(scope.own.verdict == commonest(own[0].own)[0])) for scope in own[1:]]
    # 50 points: docs/statistics.md has an example with kappa 0.64 over all sources and 0 within each.
    if not shares or max(shares) - min(shares) < 0.5:
        return ""
    return (
        f"The share of the commonest verdict lies between {min(shares):.0%} and {max(shares):.0%} by source: kappa over all "
        "sources together mostly shows that raters distinguish the sources. Read it within each source."
    )
