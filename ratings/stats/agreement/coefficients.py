"""Estimate the agreement of any number of raters, with ratings missing by design: Fleiss, Krippendorff, Gwet, Brennan-Prediger."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats.agreement.agreement import LEAST_FOR_INTERVAL
from ratings.stats.estimates import Estimate, generator
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
from ratings.stats.pairing import adding
from ratings.stats.resampling import pattern_chunks, widening
from ratings.stats.table import Bools, Floats, Ints, Ratings

MOST_CATEGORIES = 200  # with more, verdicts are free text and no categories
CHUNK = 20_000  # ratings processed together, to bound the memory of their terms
NO_PAIR = "no item has two ratings"
CONFIDENCES = (1, 2, 3, 4, 5)
SIGNED = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)


class Coefficient(NamedTuple):
    """One coefficient as a function of sums over items, so that resampling and leaving raters out are sums as well.

    terms: counts of an item's ratings by category, shape (items, categories), to what the item adds, shape (items, terms).
    formula: sums of the terms, shape (..., terms), and the number of declared categories, to the coefficient, shape (...);
    NaN where it is undefined. undefined_reason: why it then is.
    """

    stat: str
    args: Mapping[str, Any]
    terms: Callable[[Floats], Floats]
    value: Callable[[Floats, int], Floats]
    undefined: str
    skews: bool = False  # like kappa, it has no reliable interval where one verdict is rare
    linear: bool = False  # nearly a mean of ratings (intervals.Uncertainty)
    steady: bool = False  # within one source it varies mostly with raters: Student's t for new ones
    scaled: bool = False  # raters use the scale differently: Student's t for new raters, Fisher's z for these


# Notation of the docstrings: N, ratings of an item in each category; r, their number; c, d, categories; q, declared categories.


def _agreement_terms(counts: Floats) -> Floats:
    """Return [1 if r > 1, sum N(N-1) / r(r-1) if r > 1, 1 if r > 0, N/r for each category]."""
    return _weighted_terms(counts, np.eye(counts.shape[1]))


def _weighted_terms(counts: Floats, weights: Floats) -> Floats:
    """Return the same with partial agreement of different categories: sum N(N* - 1) / r(r-1), N* = N times the weights."""
    ratings = counts.sum(axis=1)
    has_two, has_one = ratings > 1, ratings > 0
    agreement = (counts * (counts @ weights - 1)).sum(axis=1) / np.where(has_two, ratings * (ratings - 1), 1)
    shares = counts / np.where(has_one, ratings, 1)[:, None]
    return np.column_stack([has_two, np.where(has_two, agreement, 0), has_one, shares])


def _observed(sums: Floats) -> tuple[Floats, Floats]:
    """Return the mean agreement over items with two ratings or more, and the mean share of each category over items with a rating."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[..., 1] / sums[..., 0], sums[..., 3:] / sums[..., 2, None]


def _corrected(observed: Floats, expected: Floats | float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where chance agreement is 1 the coefficient is 0/0; rounding leaves 1 - expected near but not at 0.
        room = 1 - np.asarray(expected)
        corrected: Floats = (observed - expected) / np.where(room > 1e-12, room, np.nan)
    return corrected


def _fleiss(sums: Floats, q: int) -> Floats:
    observed, shares = _observed(sums)
    return _corrected(observed, np.sum(shares**2, axis=-1))


def _ac1(sums: Floats, q: int) -> Floats:
    observed, shares = _observed(sums)
    return _corrected(observed, np.sum(shares * (1 - shares), axis=-1) / (q - 1))


def _brennan_prediger(sums: Floats, q: int) -> Floats:
    return _corrected(_observed(sums)[0], 1 / q)


def _ac2(weights: Floats) -> Callable[[Floats, int], Floats]:
    def value(sums: Floats, q: int) -> Floats:
        observed, shares = _observed(sums)
        return _corrected(observed, weights.sum() * np.sum(shares * (1 - shares), axis=-1) / (q * (q - 1)))

    return value


def agreement_weights(q: int, kind: str) -> Floats:
    """Return the partial agreement of q ordered categories, 1 on the diagonal and 0 at the ends, "linear" or "quadratic" between."""
    distance = np.abs(np.subtract.outer(np.arange(q), np.arange(q))) / max(1, q - 1)
    weights: Floats = 1 - distance ** {"linear": 1, "quadratic": 2}[kind]
    return weights


def _pairable(counts: Floats) -> tuple[Floats, Floats]:
    """Return the counts of items with two ratings or more (0 for others), and r - 1."""
    ratings = counts.sum(axis=1)
    # An item with one rating has no pair of values; the divisor 1 avoids 0/0 for its counts of 0.
    return counts * (ratings > 1)[:, None], np.where(ratings > 1, ratings - 1, 1)[:, None]


def _nominal_terms(counts: Floats) -> Floats:
    """Return the coincidences of a category with itself, N(N-1)/(r-1), then the pairable values, N."""
    pairable, others = _pairable(counts)
    return np.hstack([pairable * (pairable - 1) / others, pairable])


def _nominal_alpha(sums: Floats, q: int) -> Floats:
    same, values = sums[..., :q].sum(axis=-1), sums[..., q:]
    total = values.sum(axis=-1)
    return _alpha(total - same, total**2 - np.sum(values**2, axis=-1), total)


def _coincidence_terms(counts: Floats) -> Floats:
    """Return the coincidence matrix of each item, flattened: (N_c N_d - N_c if c = d) / (r - 1)."""
    pairable, others = _pairable(counts)
    products = pairable[:, :, None] * pairable[:, None, :]
    diagonal = np.arange(counts.shape[1])
    products[:, diagonal, diagonal] -= pairable
    flat: Floats = products.reshape(len(counts), -1) / others
    return flat


def _ordinal_alpha(sums: Floats, q: int) -> Floats:
    """Return ordinal alpha; the distance of two categories is the squared number of values between them, the two counting half each."""
    coincidences = sums.reshape(*sums.shape[:-1], q, q)
    values = coincidences.sum(axis=-1)
    middle = np.cumsum(values, axis=-1) - values / 2
    distance = (middle[..., :, None] - middle[..., None, :]) ** 2
    by_chance = np.sum(values[..., :, None] * values[..., None, :] * distance, axis=(-2, -1))
    return _alpha(np.sum(coincidences * distance, axis=(-2, -1)), by_chance, values.sum(axis=-1))


def _alpha(observed: Floats, by_chance: Floats, total: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without expected disagreement (all values alike) alpha is 0/0; rounding can leave a tiny remainder.
        alpha: Floats = 1 - (total - 1) * observed / np.where(by_chance > 1e-9, by_chance, np.nan)
    return alpha


ALL_ALIKE = "0/0: all ratings are one and the same"


def _of_verdicts() -> list[Coefficient]:
    return [
        Coefficient("fleiss_kappa", {}, _agreement_terms, _fleiss, ALL_ALIKE, skews=True),
        Coefficient(
            ALPHA, {"level": "nominal", "of": "verdict"}, _nominal_terms, _nominal_alpha, ALL_ALIKE, skews=True
        ),
        Coefficient("gwet_ac1", {}, _agreement_terms, _ac1, NO_PAIR, linear=True, steady=True),
        Coefficient("brennan_prediger", {}, _agreement_terms, _brennan_prediger, NO_PAIR, linear=True, steady=True),
    ]


ALPHA = "krippendorff_alpha"


def _of_scale(of: str, q: int) -> list[Coefficient]:
    ordinal = Coefficient(ALPHA, {"level": "ordinal", "of": of}, _coincidence_terms, _ordinal_alpha, ALL_ALIKE)
    return [ordinal, *(gwet_ac2(of, q, kind) for kind in ("linear", "quadratic") if of != "signed")]


def gwet_ac2(of: str, q: int, kind: str) -> Coefficient:
    """Return Gwet's AC2 of q ordered categories, with "linear" or "quadratic" weights."""
    weights = agreement_weights(q, kind)
    args = {"of": of, "weights": kind}
    return Coefficient(
        "gwet_ac2",
        args,
        lambda counts: _weighted_terms(counts, weights),
        _ac2(weights),
        NO_PAIR,
        linear=True,
        scaled=True,
    )


class Column(NamedTuple):
    """One answer of the ratings as codes 0 to q - 1, with its coefficients. `ratings` has only those with a code."""

    of: str
    own: Ratings
    codes: Ints
    q: int
    coefficients: Sequence[Coefficient]


def columns(table: Ratings) -> list[Column]:
    """Return the verdict and, where ratings have them, the confidence (1 to 5) and the signed rating (10 levels).

    Verdicts that are three or more whole numbers are a scale as well and have the ordinal coefficients too.
    """
    q, of_verdicts = len(table.categories), _of_verdicts()
    if q > 2 and all(isinstance(category, int) for category in table.categories):
        of_verdicts += _of_scale("verdict", q)
    answer_columns = [Column("verdict", table, table.verdict, q, of_verdicts)]
    with_confidence = table.where(np.isfinite(table.confidence))
    if len(with_confidence):
        codes = with_confidence.confidence.astype(np.int64) - 1
        answer_columns.append(
            Column("confidence", with_confidence, codes, len(CONFIDENCES), _of_scale("confidence", len(CONFIDENCES)))
        )
    if len(with_confidence) and table.binary:
        codes = np.searchsorted(SIGNED, with_confidence.signed.astype(np.int64))
        answer_columns.append(Column("signed", with_confidence, codes, len(SIGNED), _of_scale("signed", len(SIGNED))))
    return answer_columns


def coefficients(table: Ratings, *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """Return every coefficient over all sources, then in each, with an interval for these raters and one for new raters.

    fleiss_kappa, krippendorff_alpha (nominal, of the verdict), gwet_ac1, brennan_prediger; where there are confidences
    krippendorff_alpha (ordinal, of confidence and of the signed rating) and gwet_ac2 of confidence. `table.categories`
    are the declared ones, whether or not they occur.
    """
    return [row for column in columns(table) for row in _of_column(column, seed, resamples)]


def value(coefficient: Coefficient, counts: Floats) -> float | None:
    """Return the coefficient of items with these counts, shape (items, declared categories); None if undefined."""
    number = float(coefficient.value(coefficient.terms(counts).sum(axis=0), counts.shape[1]))
    return None if np.isnan(number) else number


def _of_column(column: Column, seed: int, resamples: int) -> Iterator[Estimate]:
    column_scopes = scopes(column.own)
    if reason := _no_column(column):
        for coefficient in column.coefficients:
            point = Found(coefficient.stat, coefficient.args, None, column.own.n, reason)
            yield from with_intervals(point, Uncertainty(np.empty(0), np.empty(0)))
        return
    counts = _counts(column)
    rng = generator(seed, "coefficients", {"of": column.of})
    resampled = _drawn(column, counts, resamples, rng)
    for scope in column_scopes:
        for index, coefficient in enumerate(column.coefficients):
            sums = _summed(resampled[index], scope, column)
            yield from _rows(column, coefficient, scope, counts, coefficient.value(sums, column.q))


def _no_column(column: Column) -> str:
    if not len(column.own):
        return "there are no ratings"
    if column.q < 2:
        return "only one category is declared"
    return f"there are more than {MOST_CATEGORIES} categories" if column.q > MOST_CATEGORIES else ""


def _counts(column: Column) -> Floats:
    """Return the ratings of each item in each category, shape (items, q)."""
    shape = (len(column.own.items), column.q)
    flat = np.bincount(column.own.item * column.q + column.codes, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float64)


def _drawn(column: Column, counts: Floats, resamples: int, rng: np.random.Generator) -> list[dict[int, Floats]]:
    """Return for each coefficient and source the sums of the terms in each resample, shape (resamples, terms)."""
    sums_by_source: list[dict[int, Floats]] = [{} for _ in column.coefficients]
    item_source = column.own.item_source
    for source in np.unique(column.own.source):
        # Items with the same counts add the same terms, so it is enough to sample how often each pattern occurs.
        patterns, sizes = np.unique(counts[item_source == source], axis=0, return_counts=True)
        terms = [coefficient.terms(patterns) for coefficient in column.coefficients]
        blocks: list[list[Floats]] = [[np.empty((0, item_terms.shape[1]))] for item_terms in terms]
        for weights in pattern_chunks(sizes, resamples, rng):
            resample = weights.astype(np.float64)
            for block, item_terms in zip(blocks, terms, strict=True):
                block.append(resample @ item_terms)
        for sums, block in zip(sums_by_source, blocks, strict=True):
            sums[int(source)] = np.concatenate(block)
    return sums_by_source


def _summed(drawn: Mapping[int, Floats], scope: Scope, column: Column) -> Floats:
    if "source" in scope.args:
        return drawn[column.own.sources.index(scope.args["source"])]
    total: Floats = np.sum(list(drawn.values()), axis=0)
    return total


def _rows(
    column: Column, coefficient: Coefficient, scope: Scope, counts: Floats, replicates: Floats
) -> Iterator[Estimate]:
    in_scope = np.ones(len(column.own), dtype=np.bool_)
    if "source" in scope.args:
        in_scope = column.own.source == column.own.sources.index(scope.args["source"])
    scope_counts = counts[np.unique(scope.own.item)]
    n = {**scope.own.n, "items_with_two": int(np.sum(scope_counts.sum(axis=1) > 1))}
    args = {**coefficient.args, **scope.args}
    number = value(coefficient, scope_counts)
    reason = "" if number is not None else coefficient.undefined if n["items_with_two"] else NO_PAIR
    leave_one_out = _left_out(column, coefficient, counts, scope_counts, in_scope)
    # There the raters contribute most of the variance, and few of them need Student's t.
    use_student = coefficient.scaled or (
        coefficient.steady and ("source" in scope.args or commonest(scope.own)[1] >= SKEWED)
    )
    # As for a pair's kappa: items on which two raters with these shares would both give the rarer verdict by
    # chance.
    co_minority = n["items_with_two"] * (1 - commonest(scope.own)[1]) ** 2
    few_items = _too_few(n["items_with_two"])
    withheld = [
        few_items or (too_rare(co_minority, floor) if coefficient.skews else "")
        for floor in (CO_MINORITY, CO_MINORITY_NEW)
    ]
    uncertainty = Uncertainty(
        replicates,
        leave_one_out,
        use_student,
        fisher=coefficient.scaled,
        linear=coefficient.linear,
        widening=widening(scope.own.n["items"], len(np.unique(scope.own.source))),
        refused=withheld[0],
        refused_new=withheld[1],
    )
    yield from with_intervals(Found(coefficient.stat, args, number, n, reason), uncertainty)


def _too_few(items: int) -> str:
    """Return why there is no interval of so few items with two ratings; "" if there may be one."""
    if items >= LEAST_FOR_INTERVAL:
        return ""
    # The same limit as for the kappa of a pair.
    only = f"only {items} item{'s have' if items != 1 else ' has'} two ratings or more"
    return f"{only}; below {LEAST_FOR_INTERVAL} no interval is reliable"


def _left_out(column: Column, coefficient: Coefficient, counts: Floats, own: Floats, chosen: Bools) -> Floats:
    """Return the coefficient without each rater in turn, shape (raters,)."""
    ratings = np.flatnonzero(chosen)
    raters, rater = np.unique(column.own.rater[ratings], return_inverse=True)
    sums = np.repeat(coefficient.terms(own).sum(axis=0)[None, :], len(raters), axis=0)
    # Only the items of the rater change, so their terms are replaced in the sum instead of summing all items per
    # rater.
    for start in range(0, len(ratings), CHUNK):
        chunk = ratings[start : start + CHUNK]
        before = counts[column.own.item[chunk]]
        after = before.copy()
        after[np.arange(len(chunk)), column.codes[chunk]] -= 1
        sums += adding(rater[start : start + CHUNK], len(raters)) @ (
            coefficient.terms(after) - coefficient.terms(before)
        )
    values: Floats = coefficient.value(sums, column.q)
    return values
