"""Estimate the agreement of any number of raters, where not every rater rates every item: Fleiss, Krippendorff,
Gwet, Brennan-Prediger.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats.agreement.pairwise import MIN_ITEMS_FOR_INTERVAL
from ratings.stats.estimates import Estimate, build_generator
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
from ratings.stats.rater_pairs import build_sum_matrix
from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings
from ratings.stats.resampling import compute_widening, iter_pattern_chunks

MAX_CATEGORIES = 200  # more distinct verdicts than this are free text, not categories
CHUNK_SIZE = 20_000  # ratings processed together, to limit the memory that their terms take
NO_PAIR = "no item has two ratings"
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
    is_linear: bool = False  # the coefficient is nearly a mean of ratings (see intervals.Uncertainty)
    uses_student_within_source: bool = False  # within one source, raters cause most of the variance: Student's t
    depends_on_scale_use: bool = (
        False  # raters use the scale differently: Student's t for new raters, Fisher's z for these raters
    )


# Notation in the docstrings below: N is the number of an item's ratings in each category, r the number of all its ratings;
# c and d are categories; q is the number of declared categories.


def _agreement_terms(counts: Floats) -> Floats:
    """Return for each item the terms [1 if r > 1, sum N(N-1) / r(r-1) if r > 1, 1 if r > 0, N/r for each category]."""
    return _weighted_terms(counts, np.eye(counts.shape[1]))


def _weighted_terms(counts: Floats, weights: Floats) -> Floats:
    """Return the terms of `_agreement_terms` with partial agreement between different categories.

    The second term is sum N(N* - 1) / r(r-1), where N* = N times the weights.
    """
    ratings = counts.sum(axis=1)
    has_two, has_one = ratings > 1, ratings > 0
    agreement = (counts * (counts @ weights - 1)).sum(axis=1) / np.where(has_two, ratings * (ratings - 1), 1)
    shares = counts / np.where(has_one, ratings, 1)[:, None]
    return np.column_stack([has_two, np.where(has_two, agreement, 0), has_one, shares])


def _compute_observed(sums: Floats) -> tuple[Floats, Floats]:
    """Return the mean agreement over items with two or more ratings, and each category's mean share over items with
    a rating.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[..., 1] / sums[..., 0], sums[..., 3:] / sums[..., 2, None]


def _correct_for_chance(observed: Floats, expected: Floats | float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where chance agreement is 1 the coefficient is 0/0; rounding errors can leave 1 - expected slightly above 0.
        room = 1 - np.asarray(expected)
        corrected: Floats = (observed - expected) / np.where(room > 1e-12, room, np.nan)
    return corrected


def _compute_fleiss(sums: Floats, q: int) -> Floats:
    observed, shares = _compute_observed(sums)
    return _correct_for_chance(observed, np.sum(shares**2, axis=-1))


def _compute_ac1(sums: Floats, q: int) -> Floats:
    observed, shares = _compute_observed(sums)
    return _correct_for_chance(observed, np.sum(shares * (1 - shares), axis=-1) / (q - 1))


def _compute_brennan_prediger(sums: Floats, q: int) -> Floats:
    return _correct_for_chance(_compute_observed(sums)[0], 1 / q)


def _build_ac2_formula(weights: Floats) -> Callable[[Floats, int], Floats]:
    def compute_ac2(sums: Floats, q: int) -> Floats:
        observed, shares = _compute_observed(sums)
        return _correct_for_chance(observed, weights.sum() * np.sum(shares * (1 - shares), axis=-1) / (q * (q - 1)))

    return compute_ac2


def compute_agreement_weights(q: int, kind: str) -> Floats:
    """Return the agreement weights of q ordered categories, shape (q, q).

    The weight is 1 for equal categories, 0 for the lowest against the highest, and falls with the distance of the two
    categories ("linear") or with its square ("quadratic").
    """
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
    """Return Krippendorff's alpha for ordered categories.

    The distance of two categories is the square of the number of values from one to the other, where the values in
    these two categories count half.
    """
    coincidences = sums.reshape(*sums.shape[:-1], q, q)
    values = coincidences.sum(axis=-1)
    middle = np.cumsum(values, axis=-1) - values / 2
    distance = (middle[..., :, None] - middle[..., None, :]) ** 2
    by_chance = np.sum(values[..., :, None] * values[..., None, :] * distance, axis=(-2, -1))
    return _compute_alpha(np.sum(coincidences * distance, axis=(-2, -1)), by_chance, values.sum(axis=-1))


def _compute_alpha(observed: Floats, by_chance: Floats, total: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # If all values are equal, the expected disagreement is 0 and alpha is 0/0; rounding can leave a tiny remainder.
        alpha: Floats = 1 - (total - 1) * observed / np.where(by_chance > 1e-9, by_chance, np.nan)
    return alpha


ALL_ALIKE = "0/0: all ratings are one and the same"


def _list_verdict_coefficients() -> list[Coefficient]:
    return [
        Coefficient("fleiss_kappa", {}, _agreement_terms, _compute_fleiss, ALL_ALIKE, is_sensitive_to_skew=True),
        Coefficient(
            ALPHA,
            {"level": "nominal", "of": "verdict"},
            _nominal_terms,
            _compute_nominal_alpha,
            ALL_ALIKE,
            is_sensitive_to_skew=True,
        ),
        Coefficient(
            "gwet_ac1", {}, _agreement_terms, _compute_ac1, NO_PAIR, is_linear=True, uses_student_within_source=True
        ),
        Coefficient(
            "brennan_prediger",
            {},
            _agreement_terms,
            _compute_brennan_prediger,
            NO_PAIR,
            is_linear=True,
            uses_student_within_source=True,
        ),
    ]


ALPHA = "krippendorff_alpha"


def _list_scale_coefficients(answer: str, q: int) -> list[Coefficient]:
    ordinal = Coefficient(
        ALPHA, {"level": "ordinal", "of": answer}, _coincidence_terms, _compute_ordinal_alpha, ALL_ALIKE
    )
    return [ordinal, *(build_gwet_ac2(answer, q, kind) for kind in ("linear", "quadratic") if answer != "signed")]


def build_gwet_ac2(answer: str, q: int, kind: str) -> Coefficient:
    """Return Gwet's AC2 of q ordered categories, with "linear" or "quadratic" weights."""
    weights = compute_agreement_weights(q, kind)
    args = {"of": answer, "weights": kind}
    return Coefficient(
        "gwet_ac2",
        args,
        lambda counts: _weighted_terms(counts, weights),
        _build_ac2_formula(weights),
        NO_PAIR,
        is_linear=True,
        depends_on_scale_use=True,
    )


class AnswerColumn(NamedTuple):
    """One kind of answer (such as the confidence) as codes 0 to q - 1, with its coefficients.

    `ratings` contains only the ratings that have this answer.
    """

    answer: str
    ratings: Ratings
    codes: Ints
    q: int
    coefficients: Sequence[Coefficient]


def list_answer_columns(table: Ratings) -> list[AnswerColumn]:
    """Return a column for the verdict and, if ratings have confidences, for the confidence (1 to 5) and signed rating (10 levels).

    If the verdicts are whole numbers in three or more categories, they are also treated as a scale: their column has the
    ordinal coefficients too.
    """
    q, of_verdicts = len(table.categories), _list_verdict_coefficients()
    if q > 2 and all(isinstance(category, int) for category in table.categories):
        of_verdicts += _list_scale_coefficients("verdict", q)
    answer_columns = [AnswerColumn("verdict", table, table.verdict, q, of_verdicts)]
    with_confidence = table.select_ratings(np.isfinite(table.confidence))
    if len(with_confidence):
        codes = with_confidence.confidence.astype(np.int64) - 1
        answer_columns.append(
            AnswerColumn(
                "confidence",
                with_confidence,
                codes,
                len(CONFIDENCE_LEVELS),
                _list_scale_coefficients("confidence", len(CONFIDENCE_LEVELS)),
            )
        )
    if len(with_confidence) and table.is_binary:
        codes = np.searchsorted(SIGNED_LEVELS, with_confidence.signed_ratings.astype(np.int64))
        answer_columns.append(
            AnswerColumn(
                "signed",
                with_confidence,
                codes,
                len(SIGNED_LEVELS),
                _list_scale_coefficients("signed", len(SIGNED_LEVELS)),
            )
        )
    return answer_columns


def estimate_coefficients(table: Ratings, *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """Return every coefficient over all sources, then within each source, with an interval for these raters and one for new raters.

    Verdicts have fleiss_kappa, krippendorff_alpha (nominal), gwet_ac1 and brennan_prediger. If ratings have confidences,
    krippendorff_alpha (ordinal) of the confidence and of the signed rating and gwet_ac2 of the confidence follow.
    `table.categories` has every declared category, whether or not a rating uses it.
    """
    return [row for column in list_answer_columns(table) for row in _estimate_column(column, seed, resamples)]


def compute_coefficient(coefficient: Coefficient, counts: Floats) -> float | None:
    """Return the coefficient of items with the given counts of ratings, shape (items, declared categories); None if
    undefined.
    """
    number = float(coefficient.formula(coefficient.terms(counts).sum(axis=0), counts.shape[1]))
    return None if np.isnan(number) else number


def _estimate_column(column: AnswerColumn, seed: int, resamples: int) -> Iterator[Estimate]:
    column_scopes = list_scopes(column.ratings)
    if reason := _explain_unusable_column(column):
        for coefficient in column.coefficients:
            point = PointEstimate(coefficient.stat, coefficient.args, None, column.ratings.sample_sizes, reason)
            yield from build_interval_rows(point, Uncertainty(np.empty(0), np.empty(0)))
        return
    counts = _count_categories(column)
    rng = build_generator(seed, "coefficients", {"of": column.answer})
    resampled = _resample_terms(column, counts, resamples, rng)
    for scope in column_scopes:
        for index, coefficient in enumerate(column.coefficients):
            sums = _sum_over_scope(resampled[index], scope, column)
            yield from _build_coefficient_rows(column, coefficient, scope, counts, coefficient.formula(sums, column.q))


def _explain_unusable_column(column: AnswerColumn) -> str:
    if not len(column.ratings):
        return "there are no ratings"
    if column.q < 2:
        return "only one category is declared"
    return f"there are more than {MAX_CATEGORIES} categories" if column.q > MAX_CATEGORIES else ""


def _count_categories(column: AnswerColumn) -> Floats:
    """Return the number of ratings of each item in each category, shape (items, q)."""
    shape = (len(column.ratings.items), column.q)
    flat = np.bincount(column.ratings.item * column.q + column.codes, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float64)


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
        for weights in iter_pattern_chunks(sizes, resamples, rng):
            resample = weights.astype(np.float64)
            for block, item_terms in zip(blocks, terms, strict=True):
                block.append(resample @ item_terms)
        for sums, block in zip(sums_by_source, blocks, strict=True):
            sums[int(source)] = np.concatenate(block)
    return sums_by_source


def _sum_over_scope(resampled: Mapping[int, Floats], scope: Scope, column: AnswerColumn) -> Floats:
    if "source" in scope.args:
        return resampled[column.ratings.sources.index(scope.args["source"])]
    total: Floats = np.sum(list(resampled.values()), axis=0)
    return total


def _build_coefficient_rows(
    column: AnswerColumn, coefficient: Coefficient, scope: Scope, counts: Floats, replicates: Floats
) -> Iterator[Estimate]:
    in_scope = np.ones(len(column.ratings), dtype=np.bool_)
    if "source" in scope.args:
        in_scope = column.ratings.source == column.ratings.sources.index(scope.args["source"])
    scope_counts = counts[np.unique(scope.ratings.item)]
    n = {**scope.ratings.sample_sizes, "items_with_two": int(np.sum(scope_counts.sum(axis=1) > 1))}
    args = {**coefficient.args, **scope.args}
    number = compute_coefficient(coefficient, scope_counts)
    reason = "" if number is not None else coefficient.undefined_reason if n["items_with_two"] else NO_PAIR
    leave_one_out = _compute_leave_one_out(column, coefficient, counts, scope_counts, in_scope)
    # In these cases raters contribute most of the variance, and with few raters the interval needs Student's t.
    use_student = coefficient.depends_on_scale_use or (
        coefficient.uses_student_within_source
        and ("source" in scope.args or find_commonest_category(scope.ratings)[1] >= SKEWED)
    )
    # Computed as for the kappa of a pair: the expected number of items on which two raters with these shares of verdicts
    # would both give the rarer verdict by chance.
    co_minority = n["items_with_two"] * (1 - find_commonest_category(scope.ratings)[1]) ** 2
    few_items = _explain_no_interval(n["items_with_two"])
    withheld = [
        few_items or (explain_rare_verdict(co_minority, floor) if coefficient.is_sensitive_to_skew else "")
        for floor in (CO_MINORITY, CO_MINORITY_NEW)
    ]
    uncertainty = Uncertainty(
        replicates,
        leave_one_out,
        use_student,
        fisher=coefficient.depends_on_scale_use,
        linear=coefficient.is_linear,
        widening=compute_widening(scope.ratings.sample_sizes["items"], len(np.unique(scope.ratings.source))),
        withheld=withheld[0],
        withheld_new=withheld[1],
    )
    yield from build_interval_rows(PointEstimate(coefficient.stat, args, number, n, reason), uncertainty)


def _explain_no_interval(items: int) -> str:
    """Return why this number of items with two ratings is too small for an interval; "" if it is large enough."""
    if items >= MIN_ITEMS_FOR_INTERVAL:
        return ""
    # The same limit as for the kappa of a pair.
    only = f"only {items} item{'s have' if items != 1 else ' has'} two ratings or more"
    return f"{only}; below {MIN_ITEMS_FOR_INTERVAL} no interval is reliable"


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
        sums += build_sum_matrix(rater[start : start + CHUNK_SIZE], len(raters)) @ (
            coefficient.terms(after) - coefficient.terms(before)
        )
    values: Floats = coefficient.formula(sums, column.q)
    return values
