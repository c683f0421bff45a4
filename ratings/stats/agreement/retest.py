"""Estimate test-retest agreement: how often raters repeat their verdict on items that they judged twice."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.intervals import CO_MINORITY
from ratings.stats.proportions import compute_clustered_interval
from ratings.stats.ratings_table import Floats, Ints, RepeatedRating, natural_sort_key
from ratings.stats.resampling import (
    ResampledInterval,
    compute_percentile_interval,
    compute_widening,
    iter_weight_chunks,
)

NO_REPEATS = "no item was judged twice"
ONE_ANSWER = "0/0: one and the same verdict throughout"
ALL_ALIKE = "all repeats are alike; the interval treats them as independent"
MIN_REPEATS = 10  # repeats; with fewer, intervals of kappa did not reach 95% coverage


class RepeatAnswers(NamedTuple):
    """Repeated answers as columns, one entry per item and rater.

    `item` and `rater` are indices, `first` and `second` are the category codes of the two verdicts; `q` is the number of
    categories.
    """

    item: Ints
    rater: Ints
    first: Ints
    second: Ints
    raters: tuple[str, ...]
    q: int

    def select_rater(self, rater: int) -> "RepeatAnswers":
        is_rater = self.rater == rater
        return self._replace(**{name: getattr(self, name)[is_rater] for name in self._fields[:4]})


def estimate_retest(repeats: Sequence[RepeatedRating], *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """Return retest_agreement and retest_kappa of first and second verdicts: for all repeats together, then for each rater (args).

    The interval of the agreement is the clustered Wilson interval; that of kappa comes from resampled items.
    The means over raters follow (args mean_over: raters); raters without a kappa are left out of the mean kappa.
    """
    if not repeats:
        return [
            build_estimate(stat, None, _count_repeats(None), reason=NO_REPEATS)
            for stat in ("retest_agreement", "retest_kappa")
        ]
    answers = _encode_repeats(repeats)
    by_rater = [answers.select_rater(index) for index in range(len(answers.raters))]
    rng = build_generator(seed, "retest_kappa")
    rows = list(_estimate_agreement_and_kappa(answers, {}, rng, resamples))
    estimates = [
        _estimate_agreement_and_kappa(rater_answers, {"rater": answers.raters[index]}, rng, resamples)
        for index, rater_answers in enumerate(by_rater)
    ]
    pairs = [list(rater_rows) for rater_rows in estimates]
    rows += [row for rater_rows in pairs for row in rater_rows]
    return [*rows, *(_average_over_raters([rater_rows[index] for rater_rows in pairs], answers) for index in (0, 1))]


def _encode_repeats(repeats: Iterable[RepeatedRating]) -> RepeatAnswers:
    ordered = sorted(repeats, key=lambda repeat: (natural_sort_key(repeat.rater), repeat.item))
    items = {name: index for index, name in enumerate(sorted({repeat.item for repeat in ordered}))}
    raters = tuple(sorted({repeat.rater for repeat in ordered}, key=natural_sort_key))
    codes: dict[Any, int] = {}
    for repeat in ordered:
        codes.setdefault(repeat.first, len(codes))
        codes.setdefault(repeat.second, len(codes))
    columns = [
        (items[repeat.item], raters.index(repeat.rater), codes[repeat.first], codes[repeat.second])
        for repeat in ordered
    ]
    item, rater, first, second = np.array(columns, dtype=np.int64).T
    return RepeatAnswers(item, rater, first, second, raters, len(codes))


def _count_repeats(answers: RepeatAnswers | None) -> dict[str, int]:
    if answers is None:
        return {"items": 0, "raters": 0, "repeats": 0}
    raters = len(np.unique(answers.rater))
    return {"items": len(np.unique(answers.item)), "raters": raters, "repeats": len(answers.item)}


def _estimate_agreement_and_kappa(
    answers: RepeatAnswers, args: dict[str, str], rng: np.random.Generator, resamples: int
) -> Iterator[Estimate]:
    n = _count_repeats(answers)
    is_same = (answers.first == answers.second).astype(np.float64)
    agreement = compute_clustered_interval(is_same, answers.item, answers.rater)
    reason = agreement.reason or (ALL_ALIKE if np.isnan(agreement.deff) else "")
    yield build_estimate(
        "retest_agreement",
        is_same.mean(),
        n,
        args=args,
        interval=agreement.interval,
        method=agreement.method,
        reason=reason,
    )
    kappa = float(_compute_kappas(answers, np.ones((1, n["repeats"])))[0])
    if np.isnan(kappa):
        yield build_estimate("retest_kappa", None, n, args=args, reason=ONE_ANSWER)
        return
    resampled = _resample_kappa(answers, rng, resamples)
    yield build_estimate(
        "retest_kappa",
        kappa,
        n,
        args=args,
        interval=resampled.interval,
        method="item_bootstrap_any",
        reason=resampled.reason,
    )


def _resample_kappa(answers: RepeatAnswers, rng: np.random.Generator, resamples: int) -> ResampledInterval:
    n, commonest = len(answers.item), np.argmax(np.bincount(np.concatenate([answers.first, answers.second])))
    co_minority = float(np.sum(answers.first != commonest) * np.sum(answers.second != commonest) / n)
    if n < MIN_REPEATS or co_minority < CO_MINORITY:
        return ResampledInterval(None, reason="too few repeats with the rarer verdict for an interval of kappa")
    items, item = np.unique(answers.item, return_inverse=True)
    # All items form one stratum: the number of repeated items per source is random, not part of the design, and intervals
    # resampled within sources included the true value less often.
    strata = np.zeros(len(items), dtype=np.int64)
    chunks = [
        _compute_kappas(answers, weights[:, item].astype(np.float64))
        for weights in iter_weight_chunks(strata, resamples, rng)
    ]
    return compute_percentile_interval(np.concatenate([np.empty(0), *chunks]), widening=compute_widening(len(items)))


def _compute_kappas(answers: RepeatAnswers, weights: Floats) -> Floats:
    """Return Cohen's kappa of first and second verdicts for each row of weights, shape (rows, repeats); NaN for 0/0."""
    n = weights.sum(axis=1)
    shares = [weights @ np.equal.outer(codes, np.arange(answers.q)) for codes in (answers.first, answers.second)]
    by_chance = np.sum(shares[0] * shares[1], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappas: Floats = ((weights @ (answers.first == answers.second)) * n - by_chance) / (n**2 - by_chance)
    return kappas


def _average_over_raters(rows: Sequence[Estimate], answers: RepeatAnswers) -> Estimate:
    values = [row.value for row in rows if row.value is not None]
    n = {**_count_repeats(answers), "raters_used": len(values), "raters_undefined": len(rows) - len(values)}
    reason = "unweighted mean of the raters' values, without an interval" if values else "undefined for every rater"
    return build_estimate(
        rows[0].stat, float(np.mean(values)) if values else None, n, args={"mean_over": "raters"}, reason=reason
    )
