"""Agreement of pairs of raters: Cohen's kappa of each pair, and its mean over pairs with enough shared items."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ratings.stats import rater_pairs, resampling
from ratings.stats.estimates import FEW_ITEMS, NORMAL, Estimate, build_estimate, build_generator
from ratings.stats.proportions import compute_wilson_interval
from ratings.stats.ratings_table import Bools, Floats, Ratings
from wetbench_site.text import format_count

MIN_OVERLAP = 20
MAX_DISJOINT_LISTED = 20_000  # most pairs without a shared item that are listed one by one: all pairs of 200 raters
MIN_ITEMS_FOR_INTERVAL = 10  # items that two raters share; with fewer, intervals of kappa did not reach 95% coverage
PAIR_STATISTICS = ("percent_agreement", "cohen_kappa")
NO_COMMON_ITEM = "no item was rated by both"
NO_PAIRS = "there are fewer than two raters with ratings"
ONE_ANSWER = "0/0: both gave one and the same answer throughout"
NO_VARIATION = "the sample does not vary, so there is no interval"


def estimate_pairs(table: Ratings, min_overlap: int = MIN_OVERLAP, *, show_unstable: bool = False) -> list[Estimate]:
    """Return percent_agreement and cohen_kappa of every pair of raters, over all sources.

    Below `min_overlap` shared items there is no interval, unless `show_unstable`. More than MAX_DISJOINT_LISTED pairs without a shared item
    are counted in one row.
    """
    pairs = rater_pairs.tabulate_pairs(table)
    index_of = {pair: index for index, pair in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))}
    lists_all = pairs.disjoint_pairs <= MAX_DISJOINT_LISTED
    rows: list[Estimate] = []
    for pair in combinations(pairs.raters.tolist(), 2) if lists_all else index_of:
        args = {"raters": [table.raters[index] for index in pair]}
        if pair in index_of:
            rows += _estimate_pair(pairs, index_of[pair], args, min_overlap, show_unstable)
        else:
            rows += _list_undefined({"items": 0, "raters": 2, "ratings": 0}, args, NO_COMMON_ITEM)
    if lists_all:
        return rows
    reason = f"{NO_COMMON_ITEM}; more than {MAX_DISJOINT_LISTED:,} such pairs are counted, not listed"
    n = {"items": 0, "pairs": pairs.disjoint_pairs}
    return rows + _list_undefined(n, {"pairs": "without an item in common"}, reason)


def _list_undefined(n: Mapping[str, int], args: Mapping[str, Any], reason: str) -> list[Estimate]:
    return [build_estimate(stat, None, n, args, reason=reason) for stat in PAIR_STATISTICS]


def _estimate_pair(
    pairs: rater_pairs.RaterPairs, index: int, args: Mapping[str, Any], min_overlap: int, show_unstable: bool
) -> list[Estimate]:
    shared_items = int(pairs.shared_items[index])
    n = {"items": shared_items, "raters": 2, "ratings": 2 * shared_items}
    agreement = float(pairs.percent_agreement[index])
    too_few = explain_little_overlap(shared_items, min_overlap)
    interval = compute_wilson_interval(agreement, shared_items, NORMAL) if show_unstable or not too_few else None
    row = build_estimate("percent_agreement", agreement, n, args, interval, "wilson", too_few)
    kappa_row = estimate_kappa_of_pair("cohen_kappa", pairs, index, args, min_overlap, show_unstable=show_unstable)
    return [row._replace(withheld=bool(too_few)), kappa_row]


def estimate_kappa_of_pair(
    stat: str,
    pairs: rater_pairs.RaterPairs,
    index: int,
    args: Mapping[str, Any],
    min_overlap: int,
    *,
    show_unstable: bool = False,
) -> Estimate:
    """Return the kappa of one pair, weighted if the pairs have weights, with its large-sample interval."""
    shared_items = int(pairs.shared_items[index])
    n = {"items": shared_items, "raters": 2, "ratings": 2 * shared_items}
    kappa = float(pairs.cohen_kappa[index])
    if math.isnan(kappa):
        return build_estimate(stat, None, n, args, reason=ONE_ANSWER)
    withheld = explain_little_overlap(shared_items, min_overlap)
    withheld = withheld or _explain_no_kappa_interval(shared_items, pairs.co_minority[index])
    half_width = NORMAL * math.sqrt(pairs.kappa_variance[index])
    if not half_width:
        return build_estimate(stat, kappa, n, args, reason=withheld or NO_VARIATION)
    interval = (max(-1.0, kappa - half_width), min(1.0, kappa + half_width))
    given = interval if show_unstable or not withheld else None
    return build_estimate(stat, kappa, n, args, given, "normal", withheld)._replace(withheld=bool(withheld))


def explain_little_overlap(shared_items: int, min_overlap: int) -> str:
    """Return that two raters share fewer than `min_overlap` items; "" if they share enough."""
    if shared_items >= min_overlap:
        return ""
    return f"{FEW_ITEMS}: {format_count(shared_items, 'item')} in common, fewer than {min_overlap}"


def _explain_no_kappa_interval(fewest_items: float, co_minority: float, floor: float = resampling.CO_MINORITY) -> str:
    """Return why a kappa is given without an interval; "" if an interval may be given."""
    # In simulated studies, the 95% intervals of such samples included the true value in fewer than 95% of the studies.
    if fewest_items < MIN_ITEMS_FOR_INTERVAL:
        return f"a pair shares only {format_count(int(fewest_items), 'item')}; below {MIN_ITEMS_FOR_INTERVAL} no interval is reliable"
    return resampling.explain_rare_verdict(co_minority, floor)


def choose_pairs(shared_items: Floats, min_overlap: int) -> Bools:
    """Return the mask of the pairs that share `min_overlap` items or, if none does, of all pairs that share an item."""
    enough: Bools = shared_items >= max(1, min_overlap)
    return enough if enough.any() else shared_items >= 1


def explain_few_items(shared_items: Floats, min_overlap: int) -> str:
    """Return why the mean over these pairs has no interval; "" if a pair shares `min_overlap` items or none shares any."""
    largest = int(shared_items.max(initial=0))
    if not largest or largest >= min_overlap:
        return ""
    return f"{FEW_ITEMS}: no pair shares {format_count(min_overlap, 'item')}, the most is {largest}; no interval is reliable"


class PairScope:
    """The pairs of raters in one scope. `used`: those that are averaged. `weights`: see RaterPairs."""

    def __init__(
        self,
        scope: resampling.Scope,
        min_overlap: int,
        *,
        weights: Floats | None = None,
        show_unstable: bool = False,
    ) -> None:
        self.ratings, self.min_overlap, self.show_unstable = scope.ratings, min_overlap, show_unstable
        self.args = {"min_overlap": min_overlap, **scope.args}
        self.pairs = replace(rater_pairs.tabulate_pairs(scope.ratings), weights=weights)
        chosen = choose_pairs(self.pairs.shared_items, min_overlap)
        self.used = self.pairs.select_pairs(chosen)
        self.few_items = explain_few_items(self.pairs.shared_items, min_overlap)
        self.fewest_items = float(self.used.shared_items.min(initial=np.inf))
        is_stable = not self.few_items and self.fewest_items >= MIN_ITEMS_FOR_INTERVAL
        # A scope without an interval is resampled without any pairs: this costs nothing and does not change the random draws
        # of the other scopes.
        has_interval = len(self.used) > 0 and (is_stable or show_unstable)
        self.resampled_pairs = self.used if has_interval else self.pairs.select_pairs(chosen & False)
        self.widening = resampling.compute_widening(
            len(np.unique(self.ratings.item)), len(np.unique(self.ratings.source))
        )

    def build_rows(self, resampled: rater_pairs.PairMeans) -> Iterator[Estimate]:
        """Yield the rows of the mean agreement and the mean kappa, and of the weighted mean and the largest kappa."""
        used, args, n = self.used, self.args, self.sample_sizes
        values = used.percent_agreement, used.cohen_kappa
        agreement, _, weighted = map(_number_or_none, rater_pairs.compute_pair_means(used.shared_items, *values))
        # A pair with an undefined kappa (0/0) still has an agreement.
        agreement_n = {**n, "pairs_used": len(used), "pairs_undefined": 0}
        # The floor for agreement is 0, because its interval stays reliable where one verdict is rare.
        withheld = self.explain_no_interval(0)
        without_rater = rater_pairs.compute_leave_one_out_means(used, values[0])
        basis = self._build_uncertainty(resampled.agreement, without_rater, withheld, withheld)._replace(linear=True)
        point = resampling.PointEstimate(
            "avg_pairwise_agreement", args, agreement, agreement_n, self._explain_no_pairs()
        )
        yield from resampling.build_interval_rows(point, basis)
        yield from self.build_kappa_rows("avg_pairwise_kappa", args, resampled.kappa)
        largest = _number_or_none(rater_pairs.compute_defined_mean(used.kappa_max))
        for stat, value in (("avg_pairwise_kappa_weighted", weighted), ("kappa_max", largest)):
            reason = self.few_items or "beside avg_pairwise_kappa, which has the interval"
            yield build_estimate(stat, value, n, args, reason=self._explain_no_kappa() or reason)

    def build_kappa_rows(self, stat: str, args: Mapping[str, Any], replicates: Floats) -> Iterator[Estimate]:
        """Yield the mean kappa of the used pairs for these raters, then for new raters."""
        kappas = self.used.cohen_kappa
        mean = _number_or_none(rater_pairs.compute_defined_mean(kappas))
        floors = (resampling.CO_MINORITY, resampling.CO_MINORITY_NEW)
        without_rater = rater_pairs.compute_leave_one_out_means(self.used, kappas)
        basis = self._build_uncertainty(replicates, without_rater, *map(self.explain_no_interval, floors))
        point = resampling.PointEstimate(stat, args, mean, self.sample_sizes, self._explain_no_kappa())
        yield from resampling.build_interval_rows(point, basis._replace(bias_corrected=True))

    @property
    def sample_sizes(self) -> dict[str, int]:
        """Return the numbers of items, raters, ratings and pairs; a pair counts as used if its kappa is defined."""
        defined = int(np.isfinite(self.used.cohen_kappa).sum())
        below = int((self.pairs.shared_items < self.min_overlap).sum()) + self.pairs.disjoint_pairs
        counts = {"pairs_used": defined, "pairs_undefined": len(self.used) - defined, "pairs_below_overlap": below}
        return {**self.ratings.sample_sizes, **counts}

    def explain_no_interval(self, floor: float) -> str:
        """Return why there is no interval, given the least co-minority count; "" if there is one."""
        if self.few_items or not len(self.used):
            return self.few_items
        return _explain_no_kappa_interval(self.fewest_items, float(np.mean(self.used.co_minority)), floor)

    def _build_uncertainty(
        self, replicates: Floats, without_rater: Floats, withheld: str, withheld_new: str
    ) -> resampling.Uncertainty:
        return resampling.Uncertainty(
            replicates,
            without_rater,
            widening=self.widening,
            withheld=withheld,
            withheld_new=withheld_new,
            show_unstable=self.show_unstable,
        )

    def _explain_no_pairs(self) -> str:
        if len(self.pairs.raters) < 2:
            return NO_PAIRS
        return "" if len(self.used) else "no pair of raters has an item in common"

    def _explain_no_kappa(self) -> str:
        is_defined = np.isfinite(self.used.cohen_kappa).any()
        all_constant = "" if is_defined else "0/0 in every pair: both raters gave one and the same answer throughout"
        return self._explain_no_pairs() or all_constant


def estimate_pair_means(
    table: Ratings,
    min_overlap: int = MIN_OVERLAP,
    *,
    seed: int = 0,
    resamples: int = 2000,
    show_unstable: bool = False,
) -> list[Estimate]:
    """Return means of agreement and kappa over the pairs of raters with at least `min_overlap` shared items (Light 1971).

    If no pair shares that many items, the means are over all pairs with a shared item; they have no interval (unless
    `show_unstable`), and a reason that starts with FEW_ITEMS.

    The rows are for all sources together, then for each source: avg_pairwise_agreement (including pairs with an undefined
    kappa) and avg_pairwise_kappa, each with an interval for these raters and one for new raters; avg_pairwise_kappa_weighted,
    in which each pair is weighted by its number of shared items; and kappa_max, the mean over pairs of the largest kappa
    possible with the pair's shares of verdicts.
    """
    scopes = [PairScope(scope, min_overlap, show_unstable=show_unstable) for scope in resampling.list_scopes(table)]
    scoped = [rater_pairs.ScopedPairs(scope.ratings, scope.resampled_pairs) for scope in scopes]
    rng = build_generator(seed, "avg_pairwise_kappa")
    resampled = rater_pairs.resample_pair_means(scoped, table.item_source, resamples, rng)
    return [row for scope, means in zip(scopes, resampled, strict=True) for row in scope.build_rows(means)]


def _number_or_none(value: Floats | float) -> float | None:
    return None if np.isnan(value) else float(value)


def estimate_prevalence(table: Ratings) -> list[Estimate]:
    """Return the share of verdict 1 overall and by source; of each category (args) if not binary."""
    reason = "beside plausibility_rate, which has the interval"
    if not table.is_binary:
        reason = "no interval is computed for the share of a category"
    rows = []
    for scope in resampling.list_scopes(table):
        counts = np.bincount(scope.ratings.verdict, minlength=len(table.categories))
        n = scope.ratings.sample_sizes
        for index in [1] if table.is_binary else range(len(table.categories)):
            args = scope.args if table.is_binary else {"category": table.categories[index], **scope.args}
            share = counts[index] / len(scope.ratings) if len(scope.ratings) else None
            rows.append(build_estimate("prevalence", share, n, args, reason=reason if len(table) else "no ratings"))
    return rows


def describe_skew(table: Ratings, words: Mapping[Any, str] | None = None) -> str:
    """Return sentences that warn of a misleading kappa, or "".

    Kappa is near 0 where nearly all verdicts are alike, and high over sources whose shares of verdicts differ widely.
    `words`: the word for each category.
    """
    if not len(table):
        return ""
    (of_all, *by_source), warnings = resampling.list_scopes(table), []
    for scope in by_source or [of_all]:
        index, share = resampling.find_commonest_category(scope.ratings)
        category, chance = table.categories[index], share**2 + (1 - share) ** 2
        if share >= resampling.SKEWED:
            warnings.append(
                f"In {scope.label} {share:.0%} of the verdicts are “{(words or {}).get(category, category)}”: two raters "
                f"answering at random with that share would agree on at least {chance:.0%} of the items, so kappa can be "
                "near 0 although they nearly always agree. Read the agreement and AC1 beside it."
            )
    commonest = resampling.find_commonest_category(table)[0]
    shares = [float(np.mean(scope.ratings.verdict == commonest)) for scope in by_source]
    # 50 percentage points: docs/statistics.md has an example with a kappa of 0.64 over all sources and 0 within each.
    if shares and max(shares) - min(shares) >= 0.5:
        warnings.append(
            f"The share of the commonest verdict lies between {min(shares):.0%} and {max(shares):.0%} by source: kappa over "
            "all sources together mostly shows that raters distinguish the sources. Read it within each source."
        )
    return " ".join(warnings)
