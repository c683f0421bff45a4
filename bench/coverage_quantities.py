"""What bench/coverage.py measures: intervals as the application gives them, each with what it claims to hold.

A group computes one simulated study by the application's own functions and yields its intervals with the true values of
their targets. `naive` intervals are those that the application's replace.
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
    """One interval of one study, and the true value it should hold. None: withheld. `value`: what it is around."""

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
    """Rows of the application's, found by name and args."""

    def __init__(self, rows: Sequence[Estimate]) -> None:
        self.rows = {_key(row.stat, row.args): row for row in rows}

    def __call__(self, stat: str, **args: object) -> Estimate:
        return self.rows[_key(stat, args)]


def _key(stat: str, args: Mapping[str, object]) -> str:
    return f"{stat} {sorted((name, str(value)) for name, value in args.items())}"


def rates(study: Played, resamples: int) -> Iterator[Interval]:
    """The rate of each source and of the genuine ones together, for new raters; of one rater in one source."""
    found = _Found(proportions.rates(study.table))
    for at, source in enumerate(SOURCES):
        name = f"rate, {source}"
        yield _as(name, NEW, RATES[at], found("plausibility_rate", source=source))
        naive = found("plausibility_rate", source=source, interval="wilson")
        yield _as(name, NEW, RATES[at], naive, naive="Wilson, ratings as independent")
    means = _Found(proportions.mean_confidences(study.table))
    for at in (0, SUBTLE):
        true = everyone().marginal[:, at].mean(axis=0) @ CONFIDENCE
        yield _as(f"mean confidence, {SOURCES[at]}", NEW, true, means(proportions.MEAN_CONFIDENCE, source=SOURCES[at]))
    own = study.table.of_source(SOURCES[SUBTLE])
    yield _drawn_items(own.verdict.astype(np.float64), own.item, resamples)
    mine = study.table.of_rater("R1").of_source(SOURCES[SUBTLE])
    row = proportions.rates(mine)[0]
    truth = study.raters.marginal[0, SUBTLE, YES].sum()
    yield _as("rate of one rater, subtle error", THIS, truth, row)


def _drawn_items(answers: Floats, item: Floats, resamples: int) -> Interval:
    """Items drawn again, raters not: what is often done."""
    codes = np.unique(item, return_inverse=True)[1]
    sums, sizes = np.bincount(codes, weights=answers), np.bincount(codes)
    weights = item_weights(np.zeros(len(sums), dtype=np.int64), resamples, np.random.default_rng(len(answers)))
    interval = percentile((weights @ sums) / (weights @ sizes)).interval or (None, None)
    return Interval("rate, subtle error", "item bootstrap", NEW, *interval, RATES[SUBTLE], naive=True)


def agreements(study: Played, resamples: int) -> Iterator[Interval]:
    """Means over pairs of raters, over all sources and in two of them; one pair of raters."""
    rows = agreement.average(study.table, resamples=resamples)
    few = agreement.average(study.table, 1, resamples=resamples)
    found = _Found([*rows, *few, *agreement.pairs(study.table)[:2]])
    for scope, mix in _scopes(study):
        name, args = _said(scope)
        raters = study.raters
        true = {
            "avg_pairwise_kappa": (pair_kappas(raters, raters, mix), _new_kappa(scope, tuple(mix))),
            "avg_pairwise_agreement": (pair_agreements(raters, raters, mix), _new_agreement(scope, tuple(mix))),
        }
        for stat, (these, new) in true.items():
            for least in (agreement.MIN_OVERLAP, 1):
                quantity = f"{stat}, {name}" + (", min overlap 1" if least == 1 else "")
                if least == 1 and stat == "avg_pairwise_agreement":
                    continue
                row = found(stat, min_overlap=least, **args)
                used = _sharing(study, scope, least)
                yield _as(quantity, THESE, these[used].mean() if used.any() else np.nan, row)
                yield _as(quantity, NEW, new, found(stat, min_overlap=least, **args, **NEWS))
                if least > 1:
                    yield _as(quantity, NEW, new, row, naive="item bootstrap")
    pair = ["R1", "R2"]
    mix = study.design.mix
    kappa = pair_kappas(study.raters, study.raters, mix)[0, 1]
    yield _as("cohen_kappa of a pair, pooled", THESE, kappa, found("cohen_kappa", raters=pair))
    same = pair_agreements(study.raters, study.raters, mix)[0, 1]
    yield _as("percent_agreement of a pair, pooled", THESE, same, found("percent_agreement", raters=pair))


def _sharing(study: Played, scope: str, least: int) -> Bools:
    """The pairs of raters with so many items in common, each once; shape (raters, raters). How many is chance of the design."""
    own = study.table.of_source(scope) if scope else study.table
    rated = np.isfinite(own.grid()).astype(np.int64)
    found: Bools = np.triu(rated.T @ rated >= least, 1)
    return found


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
    """Coefficients of any number of raters."""
    found = _Found(coefficients.coefficients(study.table, resamples=resamples))
    for scope, mix in _scopes(study):
        name, args = _said(scope)
        weights = study.design.weights
        own = joint(study.raters, mix, weights.pair), joint(study.raters, mix, weights.alpha)
        shares = np.einsum("jsl,s,j->l", study.raters.marginal, mix, weights.rater)
        these = _coefficients(*own, shares)
        new = _new_coefficients(scope, tuple(mix))
        for quantity, (stat, wanted) in _MANY.items():
            if scope and quantity not in _WITHIN:
                continue
            row = found(stat, **wanted, **args)
            yield _as(f"{quantity}, {name}", THESE, these[quantity], row)
            yield _as(f"{quantity}, {name}", NEW, new[quantity], found(stat, **wanted, **args, **NEWS))
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
    both = joint(everyone(), np.array(mix))
    return _coefficients(both, both, both.sum(axis=1))


def _coefficients(pair: Floats, alpha: Floats, shares: Floats) -> dict[str, float]:
    """From the chances of two raters' levels on an item, as the coefficients weight pairs, and of one rater's."""
    verdict, sure = np.eye(2)[YES.astype(int)], np.eye(5)[CONFIDENCE - 1]
    two, p = verdict.T @ pair @ verdict, shares @ verdict
    agreed = np.trace(two)
    gap = np.subtract.outer(np.arange(5), np.arange(5)) / 4
    near, c = np.sum((sure.T @ pair @ sure) * (1 - gap**2)), shares @ sure
    chance = np.sum(1 - gap**2) * np.sum(c * (1 - c)) / 20
    return {
        "fleiss_kappa": (agreed - p @ p) / (1 - p @ p),
        "krippendorff_alpha, verdict": _alpha(verdict.T @ alpha @ verdict, 1 - np.eye(2)),
        "gwet_ac1": (agreed - p @ (1 - p)) / (1 - p @ (1 - p)),
        "brennan_prediger": 2 * agreed - 1,
        "krippendorff_alpha, confidence": _ordinal(sure.T @ alpha @ sure),
        "krippendorff_alpha, signed": _ordinal(alpha),
        "gwet_ac2, confidence": (near - chance) / (1 - chance),
    }


def _ordinal(both: Floats) -> float:
    shares = both.sum(axis=1)
    middle = np.cumsum(shares) - shares / 2
    return _alpha(both, np.subtract.outer(middle, middle) ** 2)


def _alpha(both: Floats, distance: Floats) -> float:
    shares = both.sum(axis=1)
    return float(1 - np.sum(both * distance) / np.sum(np.outer(shares, shares) * distance))


def areas(study: Played, resamples: int) -> Iterator[Interval]:
    """The areas: of each error source (mean over raters, pooled, one rater), of confidence, of one rater's confidence."""
    for at in np.flatnonzero(TRUTH == 0):
        source = SOURCES[at]
        these, new = (signed_areas(raters, study, int(at)) for raters in (study.raters, everyone()))
        main, fixed = mrmc.mean_auc(study.table, source)
        yield _as(f"mrmc_mean_auc, {source}", NEW, new.mean(), main)
        yield _as(f"mrmc_mean_auc, {source}", THESE, these.mean(), fixed)
        yield _as(f"mrmc_mean_auc, {source}", NEW, new.mean(), fixed, naive="items alone")
        truth = area(*(one.mean(axis=0) for one in _classes(everyone(), study, int(at))))
        own = study.table.against_unperturbed(source)
        yield _as_independent(f"auc_signed, {source}", own.signed, own.reference == 1, float(truth))
        mine = auc.signed(study.table.of_rater("R1"), source)
        yield _as(f"auc_signed of one rater, {source}", THIS, these[0], mine)
    row = auc.confidence_correct(study.table, 0, resamples)
    right, wrong = _by_correctness(everyone(), study)
    truth = float(area(right.mean(axis=0), wrong.mean(axis=0)))
    target = NEW if row.method != "item_bootstrap" else THESE
    own = _by_correctness(study.raters, study)
    here = truth if target == NEW else float(area(own[0].mean(axis=0), own[1].mean(axis=0)))
    if study.design.raters > 2:
        yield _as("auc_confidence_correct", NEW, here, row)
    else:
        yield _as("auc_confidence_correct", THESE, here, row)
    rated = study.table.where(np.isfinite(study.table.confidence))
    naive = delong.area(rated.confidence, rated.correct)
    interval = naive.interval or (None, None)
    yield Interval("auc_confidence_correct", "DeLong, ratings as independent", NEW, *interval, truth, naive=True)
    rows = auc.type2(study.table, 0, resamples)
    yield _as("type2_auc of one rater", THIS, float(area(own[0][0], own[1][0])), rows[0])
    few = study.design.raters < 3
    mean = area(*(own if few else (right, wrong))).mean()
    yield _as("type2_auc, mean over raters", THESE if few else NEW, float(mean), rows[-1])


def _as_independent(quantity: str, scores: Floats, positive: Bools, truth: float) -> Interval:
    """DeLong's normal interval with all ratings taken as independent: what is often done."""
    known = np.isfinite(scores)
    scores, positive = scores[known], positive[known]
    placed = delong.placements(scores[positive], scores[~positive])
    refused = delong.no_interval(placed.area, placed.variance)
    interval = (None, None) if refused else around(placed.area, placed.variance, within=(0, 1))
    return Interval(quantity, "DeLong, ratings as independent", NEW, *interval, truth, naive=True, value=placed.area)


def _classes(raters: Raters, study: Played, error: int) -> tuple[Floats, Floats]:
    """Chances of the levels in genuine items and in those of this error, shape (raters, 10) each."""
    genuine = study.design.mix * TRUTH
    return raters.marginal.swapaxes(1, 2) @ (genuine / genuine.sum()), raters.marginal[:, error]


def signed_areas(raters: Raters, study: Played, error: int) -> Floats:
    return area(*_classes(raters, study, error))


def _by_correctness(raters: Raters, study: Played) -> tuple[Floats, Floats]:
    """Chances of the confidences together with being right, and with being wrong, shape (raters, 5) each."""
    weighted = raters.marginal * study.design.mix[:, None]
    right = YES[None, :] == (TRUTH[:, None] == 1)
    sure = np.eye(5)[CONFIDENCE - 1]
    return (weighted * right).sum(axis=1) @ sure, (weighted * ~right).sum(axis=1) @ sure


def signals(study: Played, resamples: int) -> Iterator[Interval]:
    """Specificity, d' and criterion: mean over raters, and one rater's."""
    found = _Found(detection.detection(study.table))
    genuine = study.design.mix * TRUTH / (study.design.mix @ TRUTH)
    yield _as("specificity, both genuine sources", NEW, RATES @ genuine, found("specificity"))
    over = {"source": SOURCES[SUBTLE], "mean_over": "raters"}
    for stat, value in (("dprime", d_prime), ("criterion_c", _criterion)):
        these, new = (value(raters, genuine, SUBTLE) for raters in (study.raters, everyone()))
        yield _as(f"{stat}, mean over raters, subtle", NEW, new.mean(), found(stat, **over))
        own = found(stat, source=SOURCES[SUBTLE], rater="R1")
        yield _as(f"{stat} of one rater, subtle", THIS, these[0], own)
    obvious = SOURCES.index("obvious error")
    new = d_prime(everyone(), genuine, obvious).mean()
    over = {"source": SOURCES[obvious], "mean_over": "raters"}
    yield _as("dprime, mean over raters, obvious", NEW, new, found("dprime", **over))


def d_prime(raters: Raters, genuine: Floats, error: int) -> Floats:
    found: Floats = ndtri(raters.yes(genuine)) - ndtri(raters.yes(np.eye(len(SOURCES))[error]))
    return found


def _criterion(raters: Raters, genuine: Floats, error: int) -> Floats:
    found: Floats = (ndtri(raters.yes(genuine)) + ndtri(raters.yes(np.eye(len(SOURCES))[error]))) / 2
    return found


def models(study: Played, resamples: int) -> Iterator[Interval]:
    """A model beside the raters, who stay the same."""
    rows = human_model.standings(study.table, {"model": study.model}, resamples=resamples)
    model = next(row for row in rows if row.who == "model")
    mix, n = study.design.mix, study.design.raters
    with_model = pair_kappas(study.raters, MODEL_RATER, mix)[:, 0]
    together = pair_kappas(study.raters, study.raters, mix)
    others = (together.sum(axis=1) - np.diag(together)) / (n - 1)
    yield _as("model_agreement", THESE, pair_agreements(study.raters, MODEL_RATER, mix).mean(), model.agreement)
    yield _as("model_kappa", THESE, with_model.mean(), model.kappa)
    yield _as("model_difference", THESE, (with_model - others).mean(), model.difference)
    left_out = next(row for row in rows if row.who == human_model.LEAVE_ONE_OUT)
    yield _as("leave_one_out_kappa", THESE, others.mean(), left_out.kappa)


def repeats(study: Played, resamples: int) -> Iterator[Interval]:
    """Items judged twice by the same rater."""
    found = _Found(retest.retest(study.repeats, resamples=resamples))
    mix = study.design.mix
    new = _same(everyone(), mix).mean()
    row = found("retest_agreement")
    yield _as("retest_agreement", NEW, new, row)
    interval = proportions.rate([one.first == one.second for one in study.repeats])
    yield Interval(
        "retest_agreement", "Wilson, ratings as independent", NEW, interval.low, interval.high, new, naive=True
    )
    yes = study.raters.yes(mix).mean()
    chance = yes**2 + (1 - yes) ** 2
    kappa = (_same(study.raters, mix).mean() - chance) / (1 - chance)
    yield _as("retest_kappa", THESE, kappa, found("retest_kappa"))
    mine = _same(study.raters, mix)[0]
    yield _as("retest_agreement of one rater", THIS, mine, found("retest_agreement", rater="R1"))


def _same(raters: Raters, mix: Floats) -> Floats:
    found: Floats = 1 + 2 * raters.same_twice(mix) - 2 * raters.yes(mix)
    return found


GROUPS: Mapping[str, Group] = {
    "rates": rates,
    "agreement": agreements,
    "coefficients": many,
    "areas": areas,
    "detection": signals,
    "models": models,
    "retest": repeats,
}
