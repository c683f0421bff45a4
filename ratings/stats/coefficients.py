"""Agreement of any number of raters, with missing ratings (Fleiss, Krippendorff, Gwet, Brennan-Prediger)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import resampling
from ratings.stats.estimates import Estimate, build_generator
from ratings.stats.pairwise import MIN_ITEMS_FOR_INTERVAL
from ratings.stats.rater_pairs import build_sum_matrix
from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings

MAX_CATEGORIES = 200  # more distinct verdicts than this are free text, not categories
CHUNK_SIZE = 20_000  # ratings processed together, to limit the memory that their terms take
NO_PAIR = "no item has two ratings"
ALL_ALIKE = "0/0: all ratings are one and the same"
ALPHA = "krippendorff_alpha"
WEIGHTS = ("linear", "quadratic")
CONFIDENCE_LEVELS = (1, 2, 3, 4, 5)
SIGNED_LEVELS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)


class Coefficient(NamedTuple):
    """An agreement coefficient, written as a function of sums over items so that resampling needs sums only.

    `terms` maps the counts of each item's ratings by category, shape (items, categories), to the terms that the item
    adds to the sums, shape (items, terms). `formula` maps the sums, shape (..., terms), and the number of declared
    categories to the coefficient, shape (...), which is NaN where undefined. `undefined_reason` states why it is undefined.
    """

    stat: str
    args: Mapping[str, Any]
    terms: Callable[[Floats], Floats]
    formula: Callable[[Floats, int], Floats]
    undefined_reason: str
    is_sensitive_to_skew: bool = False  # like kappa, the coefficient has no reliable interval where one verdict is rare
    is_linear: bool = False  # the coefficient is nearly a mean of ratings (see Uncertainty)
    uses_student_within_source: bool = False  # within one source, raters cause most of the variance: Student's t
    depends_on_scale_use: bool = False  # raters use it differently: Student's t for new raters, Fisher's z for these


# Notation in the docstrings below: N is the number of an item's ratings in each category, r the number of all its ratings;
# c and d are categories; q is the number of declared categories.


def _agreement_terms(counts: Floats) -> Floats:
    """Return for each item the terms [1 if r > 1, sum N(N-1) / r(r-1) if r > 1, 1 if r > 0, N/r for each category]."""
    return _weighted_terms(counts, np.eye(counts.shape[1]))


def _weighted_terms(counts: Floats, weights: Floats) -> Floats:
    """Return `_agreement_terms` with partial agreement: sum N(N* - 1) / r(r-1), where N* = N times the weights."""
    ratings = counts.sum(axis=1)
    has_two, has_one = ratings > 1, ratings > 0
    agreement = (counts * (counts @ weights - 1)).sum(axis=1) / np.where(has_two, ratings * (ratings - 1), 1)
    shares = counts / np.where(has_one, ratings, 1)[:, None]
    return np.column_stack([has_two, np.where(has_two, agreement, 0), has_one, shares])


def _correct_observed(chance: Callable[[Floats, int], Floats | float]) -> Callable[[Floats, int], Floats]:
    """Return the formula of the observed agreement corrected for the chance agreement of the categories' mean shares."""

    def compute(sums: Floats, q: int) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            # Mean agreement of items with two or more ratings, and mean shares of the categories over rated items.
            observed, shares = sums[..., 1] / sums[..., 0], sums[..., 3:] / sums[..., 2, None]
            # Where chance agreement is 1 the coefficient is 0/0; rounding errors can leave 1 - expected slightly above 0.
            expected = chance(shares, q)
            room = 1 - np.asarray(expected)
            corrected: Floats = (observed - expected) / np.where(room > 1e-12, room, np.nan)
        return corrected

    return compute


def _sum_products(shares: Floats) -> Floats:
    products: Floats = np.sum(shares * (1 - shares), axis=-1)
    return products


def compute_agreement_weights(q: int, kind: str) -> Floats:
    """Return the weights of q ordered categories, shape (q, q): 1 minus their distance, linear or quadratic."""
    distance = np.abs(np.subtract.outer(np.arange(q), np.arange(q))) / max(1, q - 1)
    weights: Floats = 1 - distance ** {"linear": 1, "quadratic": 2}[kind]
    return weights


def _select_pairable(counts: Floats) -> tuple[Floats, Floats]:
    """Return the counts of each item with two or more ratings (0 for other items), and r - 1."""
    ratings = counts.sum(axis=1)
    # An item with one rating has no pair of values; the divisor 1 avoids 0/0 for its counts of 0.
    return counts * (ratings > 1)[:, None], np.where(ratings > 1, ratings - 1, 1)[:, None]


def _nominal_terms(counts: Floats) -> Floats:
    """Return for each item the coincidences of each category with itself, N(N-1)/(r-1), then its pairable values, N."""
    pairable, others = _select_pairable(counts)
    return np.hstack([pairable * (pairable - 1) / others, pairable])


def _compute_nominal_alpha(sums: Floats, q: int) -> Floats:
    same, values = sums[..., :q].sum(axis=-1), sums[..., q:]
    total = values.sum(axis=-1)
    return _compute_alpha(total - same, total**2 - np.sum(values**2, axis=-1), total)


def _coincidence_terms(counts: Floats) -> Floats:
    """Return the coincidence matrix of each item, flattened: (N_c N_d - N_c if c = d) / (r - 1)."""
    pairable, others = _select_pairable(counts)
    products = pairable[:, :, None] * pairable[:, None, :]
    diagonal = np.arange(counts.shape[1])
    products[:, diagonal, diagonal] -= pairable
    flat: Floats = products.reshape(len(counts), -1) / others
    return flat


def _compute_ordinal_alpha(sums: Floats, q: int) -> Floats:
    """Return ordinal alpha: distances are squared numbers of values between categories, ends counting half."""
    values = sums.reshape(*sums.shape[:-1], q, q).sum(axis=-1)
    middle = np.cumsum(values, axis=-1) - values / 2
    return _compute_metric_alpha(sums, q, (middle[..., :, None] - middle[..., None, :]) ** 2)


def _compute_metric_alpha(sums: Floats, q: int, distance: Floats) -> Floats:
    """Return alpha from coincidences with these squared distances between categories, shape (q, q) or (..., q, q)."""
    coincidences = sums.reshape(*sums.shape[:-1], q, q)
    values = coincidences.sum(axis=-1)
    by_chance = np.sum(values[..., :, None] * values[..., None, :] * distance, axis=(-2, -1))
    return _compute_alpha(np.sum(coincidences * distance, axis=(-2, -1)), by_chance, values.sum(axis=-1))


def compute_squared_distances(numbers: Sequence[int], level: str) -> Floats:
    """Return Krippendorff's squared distances between numbers, shape (q, q): (c - d)^2, or its ratio to (c + d)^2.

    `level` is interval or ratio; two zeros have the ratio distance 0.
    """
    values = np.array(numbers, dtype=np.float64)
    distance: Floats = np.subtract.outer(values, values) ** 2
    if level == "ratio":
        total = np.add.outer(values, values)
        # Two equal values have no distance, also two zeros, whose ratio is 0/0.
        distance = np.divide(distance, total**2, out=np.zeros_like(distance), where=total != 0)
    return distance


def _compute_alpha(observed: Floats, by_chance: Floats, total: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # If all values are equal, the expected disagreement is 0 and alpha is 0/0; rounding can leave a tiny remainder.
        alpha: Floats = 1 - (total - 1) * observed / np.where(by_chance > 1e-9, by_chance, np.nan)
    return alpha


def _list_verdict_coefficients() -> list[Coefficient]:
    fleiss = _correct_observed(lambda shares, q: np.sum(shares**2, axis=-1))
    ac1 = _correct_observed(lambda shares, q: _sum_products(shares) / (q - 1))
    brennan_prediger = _correct_observed(lambda shares, q: 1 / q)
    nominal = {"level": "nominal", "of": "verdict"}
    skewed, linear = {"is_sensitive_to_skew": True}, {"is_linear": True, "uses_student_within_source": True}
    return [
        Coefficient("fleiss_kappa", {}, _agreement_terms, fleiss, ALL_ALIKE, **skewed),
        Coefficient(ALPHA, nominal, _nominal_terms, _compute_nominal_alpha, ALL_ALIKE, **skewed),
        Coefficient("gwet_ac1", {}, _agreement_terms, ac1, NO_PAIR, **linear),
        Coefficient("brennan_prediger", {}, _agreement_terms, brennan_prediger, NO_PAIR, **linear),
    ]


def _list_scale_coefficients(answer: str, numbers: Sequence[int]) -> list[Coefficient]:
    """Return the coefficients of answers that are numbers: alpha by level, and AC2 unless the answer is the signed rating."""
    args = {"level": "ordinal", "of": answer}
    coefficients = [Coefficient(ALPHA, args, _coincidence_terms, _compute_ordinal_alpha, ALL_ALIKE)]
    coefficients.append(build_alpha(answer, numbers, "interval"))
    # Ratios need a true zero, which counts and amounts can have. A confidence from 1 to 5 has none.
    if answer == "verdict" and min(numbers) >= 0:
        coefficients.append(build_alpha(answer, numbers, "ratio"))
    kinds = () if answer == "signed" else WEIGHTS
    return [*coefficients, *(build_gwet_ac2(answer, len(numbers), kind) for kind in kinds)]


def build_alpha(answer: str, numbers: Sequence[int], level: str) -> Coefficient:
    """Return Krippendorff's alpha of numbers, at the "interval" or "ratio" level."""
    distance = compute_squared_distances(numbers, level)
    args = {"level": level, "of": answer}
    return Coefficient(
        ALPHA, args, _coincidence_terms, lambda sums, q: _compute_metric_alpha(sums, q, distance), ALL_ALIKE
    )


def build_gwet_ac2(answer: str, q: int, kind: str) -> Coefficient:
    """Return Gwet's AC2 of q ordered categories, with "linear" or "quadratic" weights."""
    weights = compute_agreement_weights(q, kind)
    formula = _correct_observed(lambda shares, q: weights.sum() * _sum_products(shares) / (q * (q - 1)))
    args, flags = {"of": answer, "weights": kind}, {"is_linear": True, "depends_on_scale_use": True}
    return Coefficient("gwet_ac2", args, lambda counts: _weighted_terms(counts, weights), formula, NO_PAIR, **flags)


class AnswerColumn(NamedTuple):
    """One kind of answer as codes 0 to q - 1, with its coefficients and the ratings that have it.

    `is_scale`: the codes are in the order of a scale.
    """

    answer: str
    ratings: Ratings
    codes: Ints
    q: int
    coefficients: Sequence[Coefficient]
    is_scale: bool


def list_answer_columns(table: Ratings) -> list[AnswerColumn]:
    """Return a column for the verdict and, if ratings have confidences, for the confidence and signed rating (10 levels)."""
    q, of_verdicts = len(table.categories), _list_verdict_coefficients()
    # Verdicts that are whole numbers in three or more categories are also a scale.
    if is_scale := q > 2 and all(isinstance(category, int) for category in table.categories):
        of_verdicts += _list_scale_coefficients("verdict", table.categories)
    columns = [AnswerColumn("verdict", table, table.verdict, q, of_verdicts, is_scale)]
    rated = table.select_ratings(np.isfinite(table.confidence))
    if len(rated):
        codes = rated.confidence.astype(np.int64) - 1
        of_confidence = _list_scale_coefficients("confidence", CONFIDENCE_LEVELS)
        columns.append(AnswerColumn("confidence", rated, codes, len(CONFIDENCE_LEVELS), of_confidence, True))
    if len(rated) and table.is_binary:
        codes, q = np.searchsorted(SIGNED_LEVELS, rated.signed_ratings.astype(np.int64)), len(SIGNED_LEVELS)
        of_signed = _list_scale_coefficients("signed", SIGNED_LEVELS)
        columns.append(AnswerColumn("signed", rated, codes, q, of_signed, True))
    return columns


def estimate_coefficients(
    table: Ratings, *, seed: int = 0, resamples: int = 2000, show_unstable: bool = False
) -> list[Estimate]:
    """Return every coefficient over all sources and within each, for these raters and for new raters.

    `table.categories` has every declared category, used or not. Ratings with confidences add ordinal and interval alpha of
    confidence and signed rating, and AC2. `show_unstable` gives the intervals that are otherwise withheld.
    """
    return [
        row for column in list_answer_columns(table) for row in _estimate_column(column, seed, resamples, show_unstable)
    ]


def compute_coefficient(coefficient: Coefficient, counts: Floats) -> float | None:
    """Return the coefficient for counts of shape (items, declared categories); None if undefined."""
    number = float(coefficient.formula(coefficient.terms(counts).sum(axis=0), counts.shape[1]))
    return None if np.isnan(number) else number


def _estimate_column(column: AnswerColumn, seed: int, resamples: int, show_unstable: bool) -> Iterator[Estimate]:
    reason = "" if len(column.ratings) else "there are no ratings"
    if not 2 <= column.q <= MAX_CATEGORIES:
        few = "only one category is declared"
        reason = reason or (few if column.q < 2 else f"there are more than {MAX_CATEGORIES} categories")
    if reason:
        for coefficient in column.coefficients:
            point = resampling.PointEstimate(
                coefficient.stat, coefficient.args, None, column.ratings.sample_sizes, reason
            )
            yield from resampling.build_interval_rows(point, resampling.Uncertainty(np.empty(0), np.empty(0)))
        return
    # The number of ratings of each item in each category, shape (items, q).
    shape = (len(column.ratings.items), column.q)
    flat = np.bincount(column.ratings.item * column.q + column.codes, minlength=shape[0] * shape[1])
    counts = flat.reshape(shape).astype(np.float64)
    rng = build_generator(seed, "coefficients", {"of": column.answer})
    resampled = _resample_terms(column, counts, resamples, rng)
    for scope in resampling.list_scopes(column.ratings):
        for coefficient, by_source in zip(column.coefficients, resampled, strict=True):
            # A scope without a source is the sum over all sources.
            of_scope = [by_source[column.ratings.sources.index(name)] for name in scope.args.values()]
            sums: Floats = np.sum(of_scope or list(by_source.values()), axis=0)
            replicates = coefficient.formula(sums, column.q)
            yield from _build_coefficient_rows(column, coefficient, scope, counts, replicates, show_unstable)


def _resample_terms(
    column: AnswerColumn, counts: Floats, resamples: int, rng: np.random.Generator
) -> list[dict[int, Floats]]:
    """Return for each coefficient and source the sums of the terms in each resample, shape (resamples, terms)."""
    sums_by_source: list[dict[int, Floats]] = [{} for _ in column.coefficients]
    item_source = column.ratings.item_source
    for source in np.unique(column.ratings.source):
        # Items with the same counts add the same terms, so it is enough to sample how often each pattern occurs.
        patterns, sizes = np.unique(counts[item_source == source], axis=0, return_counts=True)
        terms = [coefficient.terms(patterns) for coefficient in column.coefficients]
        blocks: list[list[Floats]] = [[np.empty((0, item_terms.shape[1]))] for item_terms in terms]
        for weights in resampling.iter_pattern_chunks(sizes, resamples, rng):
            resample = weights.astype(np.float64)
            for block, item_terms in zip(blocks, terms, strict=True):
                block.append(resample @ item_terms)
        for sums, block in zip(sums_by_source, blocks, strict=True):
            sums[int(source)] = np.concatenate(block)
    return sums_by_source


def _build_coefficient_rows(
    column: AnswerColumn,
    coefficient: Coefficient,
    scope: resampling.Scope,
    counts: Floats,
    replicates: Floats,
    show_unstable: bool,
) -> Iterator[Estimate]:
    in_scope = np.ones(len(column.ratings), dtype=np.bool_)
    if "source" in scope.args:
        in_scope = column.ratings.source == column.ratings.sources.index(scope.args["source"])
    scope_counts = counts[np.unique(scope.ratings.item)]
    items_with_two = int(np.sum(scope_counts.sum(axis=1) > 1))
    n = {**scope.ratings.sample_sizes, "items_with_two": items_with_two}
    value = compute_coefficient(coefficient, scope_counts)
    reason = "" if value is not None else coefficient.undefined_reason if items_with_two else NO_PAIR
    commonest_share = resampling.find_commonest_category(scope.ratings)[1]
    # In these cases raters contribute most of the variance, and with few raters the interval needs Student's t.
    is_rater_bound = "source" in scope.args or commonest_share >= resampling.SKEWED
    few_items = ""
    if items_with_two < MIN_ITEMS_FOR_INTERVAL:  # the same limit as for the kappa of a pair
        only = f"only {items_with_two} item{'s have' if items_with_two != 1 else ' has'} two ratings or more"
        few_items = f"{only}; below {MIN_ITEMS_FOR_INTERVAL} no interval is reliable"
    # Computed as for the kappa of a pair: the expected number of items on which two raters with these shares of verdicts
    # would both give the rarer verdict by chance.
    co_minority = items_with_two * (1 - commonest_share) ** 2
    withheld, withheld_new = (
        few_items or (resampling.explain_rare_verdict(co_minority, floor) if coefficient.is_sensitive_to_skew else "")
        for floor in (resampling.CO_MINORITY, resampling.CO_MINORITY_NEW)
    )
    uncertainty = resampling.Uncertainty(
        replicates,
        _compute_leave_one_out(column, coefficient, counts, scope_counts, in_scope),
        coefficient.depends_on_scale_use or (coefficient.uses_student_within_source and is_rater_bound),
        fisher=coefficient.depends_on_scale_use,
        linear=coefficient.is_linear,
        widening=resampling.compute_widening(n["items"], len(np.unique(scope.ratings.source))),
        withheld=withheld,
        withheld_new=withheld_new,
        show_unstable=show_unstable,
    )
    point = resampling.PointEstimate(coefficient.stat, {**coefficient.args, **scope.args}, value, n, reason)
    yield from resampling.build_interval_rows(point, uncertainty)


def _compute_leave_one_out(
    column: AnswerColumn, coefficient: Coefficient, counts: Floats, scope_counts: Floats, in_scope: Bools
) -> Floats:
    """Return for each rater the coefficient of the other raters' ratings, shape (raters,)."""
    ratings = np.flatnonzero(in_scope)
    raters, rater = np.unique(column.ratings.rater[ratings], return_inverse=True)
    sums = np.repeat(coefficient.terms(scope_counts).sum(axis=0)[None, :], len(raters), axis=0)
    # Leaving out a rater changes only that rater's items, so only their terms are replaced in the sum.
    for start in range(0, len(ratings), CHUNK_SIZE):
        chunk = ratings[start : start + CHUNK_SIZE]
        before = counts[column.ratings.item[chunk]]
        after = before.copy()
        after[np.arange(len(chunk)), column.codes[chunk]] -= 1
        change = coefficient.terms(after) - coefficient.terms(before)
        sums += build_sum_matrix(rater[start : start + CHUNK_SIZE], len(raters)) @ change
    return coefficient.formula(sums, column.q)
