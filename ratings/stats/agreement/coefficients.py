"""Agreement of any number of raters at once, ratings missing by design: Fleiss, Krippendorff, Gwet, Brennan-Prediger."""

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

MOST_CATEGORIES = 200  # more are free text rather than categories
CHUNK = 20_000  # ratings looked at together
NO_PAIR = "no item has two ratings"
CONFIDENCES = (1, 2, 3, 4, 5)
SIGNED = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)


class Coefficient(NamedTuple):
    """One coefficient as a function of sums over items, so resampling and leaving out are sums as well.

    terms: counts of an item's ratings by category, shape (items, categories), to what it adds, shape (items, terms).
    value: sums of the terms, shape (..., terms), and the number of declared categories, to the coefficient, shape (...);
    NaN where it is undefined. undefined: why it then is.
    """

    stat: str
    args: Mapping[str, Any]
    terms: Callable[[Floats], Floats]
    value: Callable[[Floats, int], Floats]
    undefined: str
    skews: bool = False  # its interval fails where one verdict is rare, as kappa's does
    linear: bool = False  # nearly a mean of ratings (intervals.Uncertainty)
    steady: bool = False  # within one source raters are what it varies with: Student's t for new ones
    scaled: bool = False  # of a scale that raters use differently: Student's t for new ones, Fisher's z for these


# N: ratings of an item in each category; r: their number; c, d: categories; q: how many are declared.


def _agreement_terms(counts: Floats) -> Floats:
    """[1 if r > 1, sum N(N-1) / r(r-1) if r > 1, 1 if r > 0, N/r for each category]."""
    return _weighted_terms(counts, np.eye(counts.shape[1]))


def _weighted_terms(counts: Floats, weights: Floats) -> Floats:
    """The same, with partial agreement of different categories: sum N(N* - 1) / r(r-1), N* = N times the weights."""
    given = counts.sum(axis=1)
    two, one = given > 1, given > 0
    agreed = (counts * (counts @ weights - 1)).sum(axis=1) / np.where(two, given * (given - 1), 1)
    shares = counts / np.where(one, given, 1)[:, None]
    return np.column_stack([two, np.where(two, agreed, 0), one, shares])


def _observed(sums: Floats) -> tuple[Floats, Floats]:
    """Mean agreement over items with two ratings or more; mean share of each category over items with one or more."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[..., 1] / sums[..., 0], sums[..., 3:] / sums[..., 2, None]


def _corrected(observed: Floats, expected: Floats | float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        room = 1 - np.asarray(expected)
        found: Floats = (observed - expected) / np.where(room > 1e-12, room, np.nan)
    return found


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
    """Partial agreement of q ordered categories, 1 on the diagonal and 0 at the ends: "linear" or "quadratic" between."""
    apart = np.abs(np.subtract.outer(np.arange(q), np.arange(q))) / max(1, q - 1)
    found: Floats = 1 - apart ** {"linear": 1, "quadratic": 2}[kind]
    return found


def _pairable(counts: Floats) -> tuple[Floats, Floats]:
    """Counts of items with two ratings or more (others 0), and r - 1."""
    given = counts.sum(axis=1)
    return counts * (given > 1)[:, None], np.where(given > 1, given - 1, 1)[:, None]


def _nominal_terms(counts: Floats) -> Floats:
    """Coincidences of a category with itself, N(N-1)/(r-1), then the pairable values, N."""
    own, others = _pairable(counts)
    return np.hstack([own * (own - 1) / others, own])


def _nominal_alpha(sums: Floats, q: int) -> Floats:
    same, values = sums[..., :q].sum(axis=-1), sums[..., q:]
    total = values.sum(axis=-1)
    return _alpha(total - same, total**2 - np.sum(values**2, axis=-1), total)


def _coincidence_terms(counts: Floats) -> Floats:
    """The coincidence matrix of each item, flat: (N_c N_d - N_c if c = d) / (r - 1)."""
    own, others = _pairable(counts)
    products = own[:, :, None] * own[:, None, :]
    at = np.arange(counts.shape[1])
    products[:, at, at] -= own
    found: Floats = products.reshape(len(counts), -1) / others
    return found


def _ordinal_alpha(sums: Floats, q: int) -> Floats:
    """Distance of two categories: the values from one to the other, those of the two themselves counted half; squared."""
    coincidences = sums.reshape(*sums.shape[:-1], q, q)
    values = coincidences.sum(axis=-1)
    middle = np.cumsum(values, axis=-1) - values / 2
    distance = (middle[..., :, None] - middle[..., None, :]) ** 2
    by_chance = np.sum(values[..., :, None] * values[..., None, :] * distance, axis=(-2, -1))
    return _alpha(np.sum(coincidences * distance, axis=(-2, -1)), by_chance, values.sum(axis=-1))


def _alpha(observed: Floats, by_chance: Floats, total: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = 1 - (total - 1) * observed / np.where(by_chance > 1e-9, by_chance, np.nan)
    return found


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
    """Gwet's AC2 of q ordered categories, with "linear" or "quadratic" weights."""
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
    """One answer of the ratings as codes 0 to q - 1, and the coefficients of it. `own` has only ratings with a code."""

    of: str
    own: Ratings
    codes: Ints
    q: int
    coefficients: Sequence[Coefficient]


def columns(table: Ratings) -> list[Column]:
    """The verdict, and where ratings have one the confidence (1 to 5) and the signed rating (10 levels).

    Verdicts that are three whole numbers or more are a scale as well: they have the ordered coefficients too.
    """
    q, of_verdicts = len(table.categories), _of_verdicts()
    if q > 2 and all(isinstance(category, int) for category in table.categories):
        of_verdicts += _of_scale("verdict", q)
    found = [Column("verdict", table, table.verdict, q, of_verdicts)]
    sure = table.where(np.isfinite(table.confidence))
    if len(sure):
        codes = sure.confidence.astype(np.int64) - 1
        found.append(Column("confidence", sure, codes, len(CONFIDENCES), _of_scale("confidence", len(CONFIDENCES))))
    if len(sure) and table.binary:
        codes = np.searchsorted(SIGNED, sure.signed.astype(np.int64))
        found.append(Column("signed", sure, codes, len(SIGNED), _of_scale("signed", len(SIGNED))))
    return found


def coefficients(table: Ratings, *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """Every coefficient over all sources, then in each, with an interval for these raters and one for new raters.

    fleiss_kappa, krippendorff_alpha (nominal, of the verdict), gwet_ac1, brennan_prediger; where there are confidences
    krippendorff_alpha (ordinal, of confidence and of the signed rating) and gwet_ac2 of confidence. `table.categories`
    are the declared ones, whether or not they occur.
    """
    return [row for column in columns(table) for row in _of_column(column, seed, resamples)]


def value(coefficient: Coefficient, counts: Floats) -> float | None:
    """The coefficient of items with these counts by category, shape (items, declared categories); None if undefined."""
    found = float(coefficient.value(coefficient.terms(counts).sum(axis=0), counts.shape[1]))
    return None if np.isnan(found) else found


def _of_column(column: Column, seed: int, resamples: int) -> Iterator[Estimate]:
    own = scopes(column.own)
    if why := _no_column(column):
        for coefficient in column.coefficients:
            found = Found(coefficient.stat, coefficient.args, None, column.own.n, why)
            yield from with_intervals(found, Uncertainty(np.empty(0), np.empty(0)))
        return
    counts = _counts(column)
    rng = generator(seed, "coefficients", {"of": column.of})
    drawn = _drawn(column, counts, resamples, rng)
    for scope in own:
        for at, coefficient in enumerate(column.coefficients):
            sums = _summed(drawn[at], scope, column)
            yield from _rows(column, coefficient, scope, counts, coefficient.value(sums, column.q))


def _no_column(column: Column) -> str:
    if not len(column.own):
        return "there are no ratings"
    if column.q < 2:
        return "only one category is declared"
    return f"there are more than {MOST_CATEGORIES} categories" if column.q > MOST_CATEGORIES else ""


def _counts(column: Column) -> Floats:
    """Ratings of each item in each category, shape (items, q)."""
    shape = (len(column.own.items), column.q)
    flat = np.bincount(column.own.item * column.q + column.codes, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float64)


def _drawn(column: Column, counts: Floats, resamples: int, rng: np.random.Generator) -> list[dict[int, Floats]]:
    """For each coefficient and source the sums of the terms in each resample, shape (resamples, terms)."""
    found: list[dict[int, Floats]] = [{} for _ in column.coefficients]
    item_source = column.own.item_source
    for source in np.unique(column.own.source):
        patterns, sizes = np.unique(counts[item_source == source], axis=0, return_counts=True)
        terms = [coefficient.terms(patterns) for coefficient in column.coefficients]
        parts: list[list[Floats]] = [[np.empty((0, one.shape[1]))] for one in terms]
        for weights in pattern_chunks(sizes, resamples, rng):
            drawn = weights.astype(np.float64)
            for part, one in zip(parts, terms, strict=True):
                part.append(drawn @ one)
        for sums, part in zip(found, parts, strict=True):
            sums[int(source)] = np.concatenate(part)
    return found


def _summed(drawn: Mapping[int, Floats], scope: Scope, column: Column) -> Floats:
    if "source" in scope.args:
        return drawn[column.own.sources.index(scope.args["source"])]
    found: Floats = np.sum(list(drawn.values()), axis=0)
    return found


def _rows(
    column: Column, coefficient: Coefficient, scope: Scope, counts: Floats, replicates: Floats
) -> Iterator[Estimate]:
    chosen = np.ones(len(column.own), dtype=np.bool_)
    if "source" in scope.args:
        chosen = column.own.source == column.own.sources.index(scope.args["source"])
    own = counts[np.unique(scope.own.item)]
    n = {**scope.own.n, "items_with_two": int(np.sum(own.sum(axis=1) > 1))}
    args = {**coefficient.args, **scope.args}
    found = value(coefficient, own)
    why = "" if found is not None else coefficient.undefined if n["items_with_two"] else NO_PAIR
    left_out = _left_out(column, coefficient, counts, own, chosen)
    student = coefficient.scaled or (
        coefficient.steady and ("source" in scope.args or commonest(scope.own)[1] >= SKEWED)
    )
    rare = n["items_with_two"] * (1 - commonest(scope.own)[1]) ** 2
    few = _too_few(n["items_with_two"])
    refused = [few or (too_rare(rare, floor) if coefficient.skews else "") for floor in (CO_MINORITY, CO_MINORITY_NEW)]
    by = Uncertainty(
        replicates,
        left_out,
        student,
        fisher=coefficient.scaled,
        linear=coefficient.linear,
        widening=widening(scope.own.n["items"], len(np.unique(scope.own.source))),
        refused=refused[0],
        refused_new=refused[1],
    )
    yield from with_intervals(Found(coefficient.stat, args, found, n, why), by)


def _too_few(items: int) -> str:
    """Why there is no interval of so few items with two ratings, as there is none of a pair's kappa; "" if there may be one."""
    if items >= LEAST_FOR_INTERVAL:
        return ""
    only = f"only {items} item{'s have' if items != 1 else ' has'} two ratings or more"
    return f"{only}; below {LEAST_FOR_INTERVAL} no interval holds"


def _left_out(column: Column, coefficient: Coefficient, counts: Floats, own: Floats, chosen: Bools) -> Floats:
    """The coefficient without each rater in turn, shape (raters,): the terms of the items they rated, counted anew."""
    ratings = np.flatnonzero(chosen)
    raters, rater = np.unique(column.own.rater[ratings], return_inverse=True)
    sums = np.repeat(coefficient.terms(own).sum(axis=0)[None, :], len(raters), axis=0)
    for start in range(0, len(ratings), CHUNK):
        at = ratings[start : start + CHUNK]
        before = counts[column.own.item[at]]
        after = before.copy()
        after[np.arange(len(at)), column.codes[at]] -= 1
        sums += adding(rater[start : start + CHUNK], len(raters)) @ (
            coefficient.terms(after) - coefficient.terms(before)
        )
    found: Floats = coefficient.value(sums, column.q)
    return found
