"""The quantities that bench/coverage.py measures: intervals as the application gives them, each with its true value.

A group computes one simulated study with the application's own functions and yields the intervals with the true values of
their targets. `naive` intervals are those that the application's own replace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bench.reader_worlds import (
    CONFIDENCE,
    MODEL_RATER,
    RATES,
    SOURCES,
    TRUTH,
    YES,
    Played,
    Raters,
    all_raters,
    area,
    joint,
    pair_agreements,
    pair_kappas,
)
from ratings.stats import Estimate, detection, human_model, proportions
from ratings.stats.agreement import agreement, coefficients, retest
from ratings.stats.areas import auc, delong, mrmc
from ratings.stats.resampling import around, item_weights, percentile
from ratings.stats.table import Bools, Floats

NEW, THESE, THIS = "new raters", "these raters", "this rater"
SUBTLE = SOURCES.index("subtle error")
NEWS = {"target": NEW}


class Interval(NamedTuple):
    """One interval of one study, and the true value it should contain. None: withheld. `value`: the estimate."""

    quantity: str
    method: str
    target: str
    low: float | None
    high: float | None
    truth: float
    naive: bool = False
    value: float | None = None


Group = Callable[[Played, int], Iterator[Interval]]


def _as(quantity: str, target: str, truth: float, row: Estimate, *, naive: str = "") -> Interval:
    return Interval(quantity, naive or row.method, target, row.low, row.high, float(truth), bool(naive), row.value)


class _Found:
    """The application's rows, indexed by name and args."""

    def __init__(self, rows: Sequence[Estimate]) -> None:
        self.rows = {_key(row.stat, row.args): row for row in rows}

    def __call__(self, stat: str, **args: object) -> Estimate:
        return self.rows[_key(stat, args)]


def _key(stat: str, args: Mapping[str, object]) -> str:
    return f"{stat} {sorted((name, str(value)) for name, value in args.items())}"


def rates(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield the rate of each source and of both genuine sources for new raters, and of one rater in one source."""
    estimates = _Found(proportions.rates(study.table))
    for at, source in enumerate(SOURCES):
        name = f"rate, {source}"
        yield _as(name, NEW, RATES[at], estimates("plausibility_rate", source=source))
        naive = estimates("plausibility_rate", source=source, interval="wilson")
        yield _as(name, NEW, RATES[at], naive, naive="Wilson, ratings as independent")
    means = _Found(proportions.mean_confidences(study.table))
    for at in (0, SUBTLE):
        true_mean = everyone().marginal[:, at].mean(axis=0) @ CONFIDENCE
        yield _as(
            f"mean confidence, {SOURCES[at]}", NEW, true_mean, means(proportions.MEAN_CONFIDENCE, source=SOURCES[at])
        )
    subtle_ratings = study.table.of_source(SOURCES[SUBTLE])
    yield _drawn_items(subtle_ratings.verdict.astype(np.float64), subtle_ratings.item, resamples)
    one_rater = study.table.of_rater("R1").of_source(SOURCES[SUBTLE])
    row = proportions.rates(one_rater)[0]
    truth = study.raters.marginal[0, SUBTLE, YES].sum()
    yield _as("rate of one rater, subtle error", THIS, truth, row)


def _drawn_items(answers: Floats, item: Floats, resamples: int) -> Interval:
    """Resample items and not raters, a naive method in common use."""
    codes = np.unique(item, return_inverse=True)[1]
    sums, sizes = np.bincount(codes, weights=answers), np.bincount(codes)
    # Raters stay fixed: this ignores that new raters differ, which is what makes it naive.
    weights = item_weights(np.zeros(len(sums), dtype=np.int64), resamples, np.random.default_rng(len(answers)))
    interval = percentile((weights @ sums) / (weights @ sizes)).interval or (None, None)
    return Interval("rate, subtle error", "item bootstrap", NEW, *interval, RATES[SUBTLE], naive=True)


def agreements(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield means over pairs of raters, over all sources and within two of them, and the values of one pair."""
    rows = agreement.average(study.table, resamples=resamples)
    small_overlap_rows = agreement.average(study.table, 1, resamples=resamples)
    estimates = _Found([*rows, *small_overlap_rows, *agreement.pairs(study.table)[:2]])
    for scope, mix in _scopes(study):
        name, args = _said(scope)
        raters = study.raters
        true_values = {
            "avg_pairwise_kappa": (pair_kappas(raters, raters, mix), _new_kappa(scope, tuple(mix))),
            "avg_pairwise_agreement": (pair_agreements(raters, raters, mix), _new_agreement(scope, tuple(mix))),
        }
        for stat, (these, new) in true_values.items():
            for least in (agreement.MIN_OVERLAP, 1):
                quantity = f"{stat}, {name}" + (", min overlap 1" if least == 1 else "")
                if least == 1 and stat == "avg_pairwise_agreement":
                    continue
                row = estimates(stat, min_overlap=least, **args)
                # Which pairs share enough items is a chance result of the design, so the true mean covers the
                # same pairs.
                is_used = _sharing(study, scope, least)
                yield _as(quantity, THESE, these[is_used].mean() if is_used.any() else np.nan, row)
                yield _as(quantity, NEW, new, estimates(stat, min_overlap=least, **args, **NEWS))
                if least > 1:
                    yield _as(quantity, NEW, new, row, naive="item bootstrap")
    pair = ["R1", "R2"]
    mix = study.design.mix
    kappa = pair_kappas(study.raters, study.raters, mix)[0, 1]
    yield _as("cohen_kappa of a pair, pooled", THESE, kappa, estimates("cohen_kappa", raters=pair))
    same = pair_agreements(study.raters, study.raters, mix)[0, 1]
    yield _as("percent_agreement of a pair, pooled", THESE, same, estimates("percent_agreement", raters=pair))


def _sharing(study: Played, scope: str, least: int) -> Bools:
    """Return the pairs of raters that share at least this many items, each pair once; shape (raters, raters)."""
    table = study.table.of_source(scope) if scope else study.table
    rated = np.isfinite(table.grid()).astype(np.int64)
    sharing: Bools = np.triu(rated.T @ rated >= least, 1)
    return sharing


def _scopes(study: Played) -> Iterator[tuple[str, Floats]]:
    yield "", study.design.mix
    for source in (SOURCES[0], SOURCES[SUBTLE]):
        yield source, np.eye(len(SOURCES))[SOURCES.index(source)]


def _said(scope: str) -> tuple[str, dict[str, str]]:
    return (f"within {scope}", {"source": scope}) if scope else ("pooled", {})


@cache
def everyone() -> Raters:
    return all_raters()


@cache
def _new_kappa(scope: str, mix: tuple[float, ...]) -> float:
    return _off_diagonal(pair_kappas(everyone(), everyone(), np.array(mix)))


@cache
def _new_agreement(scope: str, mix: tuple[float, ...]) -> float:
    return _off_diagonal(pair_agreements(everyone(), everyone(), np.array(mix)))


def _off_diagonal(values: Floats) -> float:
    return float(values[~np.eye(len(values), dtype=np.bool_)].mean())


def many(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield the coefficients for any number of raters."""
    estimates = _Found(coefficients.coefficients(study.table, resamples=resamples))
    for scope, mix in _scopes(study):
        name, args = _said(scope)
        weights = study.design.weights
        joint_levels = joint(study.raters, mix, weights.pair), joint(study.raters, mix, weights.alpha)
        shares = np.einsum("jsl,s,j->l", study.raters.marginal, mix, weights.rater)
        these = _coefficients(*joint_levels, shares)
        new = _new_coefficients(scope, tuple(mix))
        for quantity, (stat, stat_args) in _MANY.items():
            if scope and quantity not in _WITHIN:
                continue
            row = estimates(stat, **stat_args, **args)
            yield _as(f"{quantity}, {name}", THESE, these[quantity], row)
            yield _as(f"{quantity}, {name}", NEW, new[quantity], estimates(stat, **stat_args, **args, **NEWS))
            yield _as(f"{quantity}, {name}", NEW, new[quantity], row, naive="item bootstrap")


_MANY: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "fleiss_kappa": ("fleiss_kappa", {}),
    "krippendorff_alpha, verdict": ("krippendorff_alpha", {"level": "nominal", "of": "verdict"}),
    "gwet_ac1": ("gwet_ac1", {}),
    "brennan_prediger": ("brennan_prediger", {}),
    "krippendorff_alpha, confidence": ("krippendorff_alpha", {"level": "ordinal", "of": "confidence"}),
    "krippendorff_alpha, signed": ("krippendorff_alpha", {"level": "ordinal", "of": "signed"}),
    "gwet_ac2, confidence": ("gwet_ac2", {"of": "confidence", "weights": "quadratic"}),
}
_WITHIN = ("krippendorff_alpha, verdict", "gwet_ac1", "gwet_ac2, confidence")


@cache
def _new_coefficients(scope: str, mix: tuple[float, ...]) -> dict[str, float]:
    joint_levels = joint(everyone(), np.array(mix))
    return _coefficients(joint_levels, joint_levels, joint_levels.sum(axis=1))


def _coefficients(pair: Floats, alpha: Floats, shares: Floats) -> dict[str, float]:
    """Return the coefficients from the joint levels of two raters, as each coefficient weights pairs, and the shares of levels of one rater."""
    verdict, confidence_levels = np.eye(2)[YES.astype(int)], np.eye(5)[CONFIDENCE - 1]
    joint_verdicts, p = verdict.T @ pair @ verdict, shares @ verdict
    observed = np.trace(joint_verdicts)
    gap = np.subtract.outer(np.arange(5), np.arange(5)) / 4
    weighted_agreement, c = (
        np.sum((confidence_levels.T @ pair @ confidence_levels) * (1 - gap**2)),
        shares @ confidence_levels,
    )
    chance = np.sum(1 - gap**2) * np.sum(c * (1 - c)) / 20
    return {
        "fleiss_kappa": (observed - p @ p) / (1 - p @ p),
        "krippendorff_alpha, verdict": _alpha(verdict.T @ alpha @ verdict, 1 - np.eye(2)),
        "gwet_ac1": (observed - p @ (1 - p)) / (1 - p @ (1 - p)),
        "brennan_prediger": 2 * observed - 1,
        "krippendorff_alpha, confidence": _ordinal(confidence_levels.T @ alpha @ confidence_levels),
        "krippendorff_alpha, signed": _ordinal(alpha),
        "gwet_ac2, confidence": (weighted_agreement - chance) / (1 - chance),
    }


def _ordinal(both: Floats) -> float:
    shares = both.sum(axis=1)
    middle = np.cumsum(shares) - shares / 2
    return _alpha(both, np.subtract.outer(middle, middle) ** 2)


def _alpha(both: Floats, distance: Floats) -> float:
    shares = both.sum(axis=1)
    return float(1 - np.sum(both * distance) / np.sum(np.outer(shares, shares) * distance))


def areas(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield the areas: of each error source (mean over raters, pooled, one rater), of confidence, and of one rater's confidence."""
    for at in np.flatnonzero(TRUTH == 0):
        source = SOURCES[at]
        these, new = (signed_areas(raters, study, int(at)) for raters in (study.raters, everyone()))
        main, fixed_raters = mrmc.mean_auc(study.table, source)
        yield _as(f"mrmc_mean_auc, {source}", NEW, new.mean(), main)
        yield _as(f"mrmc_mean_auc, {source}", THESE, these.mean(), fixed_raters)
        yield _as(f"mrmc_mean_auc, {source}", NEW, new.mean(), fixed_raters, naive="items alone")
        # The pooled area: levels are averaged over raters before the area is computed.
        truth = area(*(one.mean(axis=0) for one in _classes(everyone(), study, int(at))))
        own = study.table.against_unperturbed(source)
        yield _as_independent(f"auc_signed, {source}", own.signed, own.reference == 1, float(truth))
        one_rater = auc.signed(study.table.of_rater("R1"), source)
        yield _as(f"auc_signed of one rater, {source}", THIS, these[0], one_rater)
    row = auc.confidence_correct(study.table, 0, resamples)
    right, wrong = _by_correctness(everyone(), study)
    truth = float(area(right.mean(axis=0), wrong.mean(axis=0)))
    target = NEW if row.method != "item_bootstrap" else THESE
    own = _by_correctness(study.raters, study)
    target_truth = truth if target == NEW else float(area(own[0].mean(axis=0), own[1].mean(axis=0)))
    if study.design.raters > 2:
        yield _as("auc_confidence_correct", NEW, target_truth, row)
    else:
        yield _as("auc_confidence_correct", THESE, target_truth, row)
    rated = study.table.where(np.isfinite(study.table.confidence))
    naive = delong.area(rated.confidence, rated.correct)
    interval = naive.interval or (None, None)
    yield Interval("auc_confidence_correct", "DeLong, ratings as independent", NEW, *interval, truth, naive=True)
    rows = auc.type2(study.table, 0, resamples)
    yield _as("type2_auc of one rater", THIS, float(area(own[0][0], own[1][0])), rows[0])
    is_small = study.design.raters < 3
    mean = area(*(own if is_small else (right, wrong))).mean()
    yield _as("type2_auc, mean over raters", THESE if is_small else NEW, float(mean), rows[-1])


def _as_independent(quantity: str, scores: Floats, positive: Bools, truth: float) -> Interval:
    """Return DeLong's normal interval with all ratings treated as independent, a naive method in common use."""
    known = np.isfinite(scores)
    scores, positive = scores[known], positive[known]
    placed = delong.placements(scores[positive], scores[~positive])
    reason = delong.no_interval(placed.area, placed.variance)
    interval = (None, None) if reason else around(placed.area, placed.variance, within=(0, 1))
    return Interval(quantity, "DeLong, ratings as independent", NEW, *interval, truth, naive=True, value=placed.area)


def _classes(raters: Raters, study: Played, error: int) -> tuple[Floats, Floats]:
    """Return the probabilities of the levels in genuine items and in items with this error, shape (raters, 10) each."""
    genuine = study.design.mix * TRUTH
    return raters.marginal.swapaxes(1, 2) @ (genuine / genuine.sum()), raters.marginal[:, error]


def signed_areas(raters: Raters, study: Played, error: int) -> Floats:
    return area(*_classes(raters, study, error))


def _by_correctness(raters: Raters, study: Played) -> tuple[Floats, Floats]:
    """Return the probabilities of each confidence together with being right, and with being wrong, shape (raters, 5) each."""
    weighted = raters.marginal * study.design.mix[:, None]
    right = YES[None, :] == (TRUTH[:, None] == 1)
    confidence_levels = np.eye(5)[CONFIDENCE - 1]
    return (weighted * right).sum(axis=1) @ confidence_levels, (weighted * ~right).sum(axis=1) @ confidence_levels


def signals(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield specificity, d' and criterion: the mean over raters, and one rater's."""
    estimates = _Found(detection.detection(study.table))
    genuine = study.design.mix * TRUTH / (study.design.mix @ TRUTH)
    yield _as("specificity, both genuine sources", NEW, RATES @ genuine, estimates("specificity"))
    args = {"source": SOURCES[SUBTLE], "mean_over": "raters"}
    for stat, value in (("dprime", d_prime), ("criterion_c", _criterion)):
        these, new = (value(raters, genuine, SUBTLE) for raters in (study.raters, everyone()))
        yield _as(f"{stat}, mean over raters, subtle", NEW, new.mean(), estimates(stat, **args))
        one_rater = estimates(stat, source=SOURCES[SUBTLE], rater="R1")
        yield _as(f"{stat} of one rater, subtle", THIS, these[0], one_rater)
    obvious = SOURCES.index("obvious error")
    new = d_prime(everyone(), genuine, obvious).mean()
    args = {"source": SOURCES[obvious], "mean_over": "raters"}
    yield _as("dprime, mean over raters, obvious", NEW, new, estimates("dprime", **args))


def d_prime(raters: Raters, genuine: Floats, error: int) -> Floats:
    values: Floats = ndtri(raters.yes(genuine)) - ndtri(raters.yes(np.eye(len(SOURCES))[error]))
    return values


def _criterion(raters: Raters, genuine: Floats, error: int) -> Floats:
    values: Floats = (ndtri(raters.yes(genuine)) + ndtri(raters.yes(np.eye(len(SOURCES))[error]))) / 2
    return values


def models(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield the intervals of a model beside the raters, for these raters."""
    rows = human_model.standings(study.table, {"model": study.model}, resamples=resamples)
    model = next(row for row in rows if row.who == "model")
    mix, n = study.design.mix, study.design.raters
    with_model = pair_kappas(study.raters, MODEL_RATER, mix)[:, 0]
    rater_kappas = pair_kappas(study.raters, study.raters, mix)
    others = (rater_kappas.sum(axis=1) - np.diag(rater_kappas)) / (n - 1)
    yield _as("model_agreement", THESE, pair_agreements(study.raters, MODEL_RATER, mix).mean(), model.agreement)
    yield _as("model_kappa", THESE, with_model.mean(), model.kappa)
    yield _as("model_difference", THESE, (with_model - others).mean(), model.difference)
    left_out = next(row for row in rows if row.who == human_model.LEAVE_ONE_OUT)
    yield _as("leave_one_out_kappa", THESE, others.mean(), left_out.kappa)


def repeats(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield the intervals for items rated twice by the same rater."""
    estimates = _Found(retest.retest(study.repeats, resamples=resamples))
    mix = study.design.mix
    new = _same(everyone(), mix).mean()
    row = estimates("retest_agreement")
    yield _as("retest_agreement", NEW, new, row)
    # Naive: the repeats of one rater are treated as independent.
    interval = proportions.rate([one.first == one.second for one in study.repeats])
    yield Interval(
        "retest_agreement", "Wilson, ratings as independent", NEW, interval.low, interval.high, new, naive=True
    )
    yes = study.raters.yes(mix).mean()
    chance = yes**2 + (1 - yes) ** 2
    kappa = (_same(study.raters, mix).mean() - chance) / (1 - chance)
    yield _as("retest_kappa", THESE, kappa, estimates("retest_kappa"))
    one_rater = _same(study.raters, mix)[0]
    yield _as("retest_agreement of one rater", THIS, one_rater, estimates("retest_agreement", rater="R1"))


def _same(raters: Raters, mix: Floats) -> Floats:
    values: Floats = 1 + 2 * raters.same_twice(mix) - 2 * raters.yes(mix)
    return values


GROUPS: Mapping[str, Group] = {
    "rates": rates,
    "agreement": agreements,
    "coefficients": many,
    "areas": areas,
    "detection": signals,
    "models": models,
    "retest": repeats,
}
