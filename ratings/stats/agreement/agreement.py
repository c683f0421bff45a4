"""How far raters agree: Cohen's kappa of two, and its mean over all pairs with enough items in common."""

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
MOST_APART = 20_000  # pairs without an item in common that are listed; 200 raters have no more pairs than that
LEAST_FOR_INTERVAL = 10  # items two raters share: with fewer, no interval of a kappa covers
OF_TWO = ("percent_agreement", "cohen_kappa")
QUANTILE = float(norm.ppf((1 + LEVEL) / 2))
NO_COMMON = "no item was rated by both"
NO_PAIRS = "there are fewer than two raters with ratings"
NO_SPREAD = "the sample has no spread, so there is no interval"
ONE_ANSWER = "0/0: both gave one and the same answer throughout"


def pairs(table: Ratings, min_overlap: int = MIN_OVERLAP) -> list[Estimate]:
    """percent_agreement and cohen_kappa of every pair of raters, over all sources.

    Pairs with fewer than `min_overlap` items in common have their values, no interval, and a reason that starts with
    FEW_ITEMS. Where more than MOST_APART have
    none in common they are not listed: one row counts them.
    """
    found = pairs_of(table)
    place = {pair: at for at, pair in enumerate(zip(found.first.tolist(), found.second.tolist(), strict=True))}
    rows = []
    for pair in combinations(found.raters.tolist(), 2) if found.apart <= MOST_APART else place:
        args = {"raters": [table.raters[at] for at in pair]}
        rows += _pair(found, place[pair], args, min_overlap) if pair in place else _apart(args)
    return rows if found.apart <= MOST_APART else [*rows, *_all_apart(found.apart)]


def _apart(args: Mapping[str, Any]) -> list[Estimate]:
    n = {"items": 0, "raters": 2, "ratings": 0}
    return [estimate(stat, None, n, args=args, reason=NO_COMMON) for stat in OF_TWO]


def _all_apart(pairs: int) -> list[Estimate]:
    why = f"{NO_COMMON}; more than {MOST_APART:,} such pairs are counted, not listed"
    args = {"pairs": "without an item in common"}
    return [estimate(stat, None, {"items": 0, "pairs": pairs}, args=args, reason=why) for stat in OF_TWO]


def _pair(found: Pairs, at: int, args: Mapping[str, Any], min_overlap: int) -> list[Estimate]:
    common = int(found.n[at])
    n = {"items": common, "raters": 2, "ratings": 2 * common}
    few = f"{FEW_ITEMS}: {counted(common, 'item')} in common, fewer than {min_overlap}"
    short = few if common < min_overlap else ""
    agreement, kappa = float(found.agreement[at]), float(found.kappa[at])
    interval = None if short else wilson(agreement, common, QUANTILE)
    observed = estimate("percent_agreement", agreement, n, args=args, interval=interval, method="wilson", reason=short)
    if math.isnan(kappa):
        return [observed, estimate("cohen_kappa", None, n, args=args, reason=ONE_ANSWER)]
    half = QUANTILE * math.sqrt(found.variance[at])
    why = short or _too_few(common, found.minority[at]) or ("" if half else NO_SPREAD)
    around = None if why else (max(-1.0, kappa - half), min(1.0, kappa + half))
    return [observed, estimate("cohen_kappa", kappa, n, args=args, interval=around, method="normal", reason=why)]


def _too_few(least: float, minority: float, floor: float = CO_MINORITY) -> str:
    """Why no interval of a kappa is given: it was measured not to cover in such samples. "" if it may be."""
    if least < LEAST_FOR_INTERVAL:
        return f"a pair shares only {counted(int(least), 'item')}; below {LEAST_FOR_INTERVAL} no interval holds"
    return too_rare(minority, floor)


def choose_pairs(shared: Floats, min_overlap: int) -> Bools:
    """Return which pairs a mean is over, shape (pairs,): those that share at least `min_overlap` items, or, where none
    does, all that share an item. `shared` are the items that each pair shares.
    """
    enough: Bools = shared >= max(1, min_overlap)
    return enough if enough.any() else shared >= 1


def explain_few(shared: Floats, min_overlap: int) -> str:
    """Return why a mean over these pairs is a point estimate from few items; "" where one pair shares `min_overlap`."""
    most = int(shared.max(initial=0))
    if not most or most >= min_overlap:
        return ""
    return f"{FEW_ITEMS}: no pair shares {counted(min_overlap, 'item')}, the most is {most}; no interval holds"


class _Average(NamedTuple):
    """One scope's pairs. chosen: those the mean is over, shape (pairs,); few: why they are a point estimate, or ""."""

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
    """Unweighted mean of agreement and kappa over pairs with at least `min_overlap` items in common (Light 1971).

    Where no pair has so many, the mean is over all pairs with an item in common, without interval, and its reason starts
    with FEW_ITEMS.

    Over all sources together, then in each: avg_pairwise_agreement (pairs with an undefined kappa included) and
    avg_pairwise_kappa, each with an interval for these raters and one for new raters; avg_pairwise_kappa_weighted by the
    items of a pair; kappa_max, the mean of the largest kappas these shares of verdicts allow.
    """
    found = []
    for scope in scopes(table):
        own = pairs_of(scope.own)
        few = explain_few(own.n, min_overlap)
        args = {"min_overlap": min_overlap, **scope.args}
        found.append(_Average(scope, own, choose_pairs(own.n, min_overlap), few, args))
    drawn = _drawn(table, found, seed, resamples)
    return [row for one, again in zip(found, drawn, strict=True) for row in _averages(one, again)]


def _drawn(table: Ratings, found: Sequence[_Average], seed: int, resamples: int) -> list[Means]:
    nobody = [np.zeros(len(one.pairs), dtype=np.bool_) for one in found]
    scoped = [
        Scoped(one.scope.own, one.used if one.is_estimable else one.pairs.where(none))
        for one, none in zip(found, nobody, strict=True)
    ]
    return replicates(scoped, table.item_source, resamples, generator(seed, "avg_pairwise_kappa"))


def _averages(one: _Average, drawn: Means) -> Iterator[Estimate]:
    used = one.used
    defined = int(np.isfinite(used.kappa).sum())
    n = {
        **one.scope.own.n,
        "pairs_used": defined,
        "pairs_undefined": len(used) - defined,
        "pairs_below_overlap": int((one.pairs.n < one.args["min_overlap"]).sum()) + one.pairs.apart,
    }
    why = _why_none(one)
    agreed = means(used.n, used.agreement, used.agreement)
    kappas = means(used.n, used.agreement, used.kappa)
    refused = [
        one.few or (_too_few(one.least, one.minority, floor) if len(used) else "")
        for floor in (0, CO_MINORITY, CO_MINORITY_NEW)
    ]
    left = left_out(used, used.agreement)
    every = {**n, "pairs_used": len(used), "pairs_undefined": 0}
    found = Found("avg_pairwise_agreement", one.args, _number(agreed.kappa), every, why)
    wide = widening(one.scope.own.n["items"], len(np.unique(one.scope.own.source)))
    by = Uncertainty(drawn.agreement, left, linear=True, widening=wide, refused=refused[0], refused_new=refused[0])
    yield from with_intervals(found, by)
    found = Found("avg_pairwise_kappa", one.args, _number(kappas.kappa), n, why or _why_undefined(one))
    left = left_out(used, used.kappa)
    by = Uncertainty(drawn.kappa, left, corrected=True, widening=wide, refused=refused[1], refused_new=refused[2])
    yield from with_intervals(found, by)
    for stat, value in (
        ("avg_pairwise_kappa_weighted", kappas.weighted),
        ("kappa_max", means(used.n, used.agreement, used.kappa_max).kappa),
    ):
        reason = why or (
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
    """The share of ratings with verdict 1, over all sources and in each; in other tables that of every category (args)."""
    rate, none = "beside plausibility_rate, which has the interval", "no interval is made of a category's share"
    why, rows = rate if table.binary else none, []
    for scope in scopes(table):
        counts = np.bincount(scope.own.verdict, minlength=len(table.categories))
        for at in [1] if table.binary else range(len(table.categories)):
            args = scope.args if table.binary else {"category": table.categories[at], **scope.args}
            share = counts[at] / len(scope.own) if len(scope.own) else None
            rows.append(
                estimate("prevalence", share, scope.own.n, args=args, reason=why if len(table) else "no ratings")
            )
    return rows


def skew_note(table: Ratings, words: Mapping[Any, str] | None = None) -> str:
    """Plain sentences where the shares of verdicts make kappa misleading; "" where they do not.

    In a source where nearly all verdicts are alike kappa can be near 0 although raters agree; over sources of very
    different shares it can be high although raters hardly agree within any. `words` says categories for people.
    """
    if not len(table):
        return ""
    own = scopes(table)
    said = [_skewed(scope, words or {}) for scope in (own[1:] or own)]
    return " ".join(filter(None, [*said, _pooled(own)]))


def _skewed(scope: Scope, words: Mapping[Any, str]) -> str:
    at, share = commonest(scope.own)
    if share < SKEWED:
        return ""
    category = scope.own.categories[at]
    word = words.get(category, str(category))
    chance = share**2 + (1 - share) ** 2
    return (
        f"In {scope.name} {share:.0%} of the verdicts are “{word}”: two raters who answered at random with that share "
        f"would agree on at least {chance:.0%} of the items, so kappa can be near 0 although they nearly always agree. "
        "Read the agreement and AC1 beside it."
    )


def _pooled(own: Sequence[Scope]) -> str:
    shares = [float(np.mean(scope.own.verdict == commonest(own[0].own)[0])) for scope in own[1:]]
    if not shares or max(shares) - min(shares) < 0.5:
        return ""
    return (
        f"The share of the commonest verdict lies between {min(shares):.0%} and {max(shares):.0%} by source: kappa over all "
        "sources together mostly shows that raters tell the sources apart. Read it within each source."
    )
