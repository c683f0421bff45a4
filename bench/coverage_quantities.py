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
    IS_YES,
    MODEL_RATER,
    RATES,
    SOURCES,
    TRUTH,
    RaterEffects,
    SimulatedStudy,
    build_rater_population,
    compute_area,
    compute_joint_levels,
    compute_pair_agreements,
    compute_pair_kappas,
)
from ratings.stats import Estimate, areas, coefficients, detection, human_model, mrmc, pairwise, proportions, retest
from ratings.stats.ratings_table import Bools, Floats
from ratings.stats.resampling import compute_percentile_interval, compute_symmetric_interval, sample_item_weights

NEW, THESE, THIS = "new raters", "these raters", "this rater"
SUBTLE = SOURCES.index("subtle error")
NEW_RATERS_ARGS = {"target": NEW}


class MeasuredInterval(NamedTuple):
    """One interval of one study, and the true value it should contain. None: withheld. `value`: the estimate."""

    quantity: str
    method: str
    target: str
    low: float | None
    high: float | None
    truth: float
    naive: bool = False
    value: float | None = None


Group = Callable[[SimulatedStudy, int], Iterator[MeasuredInterval]]


def to_interval(quantity: str, target: str, truth: float, row: Estimate, *, naive: str = "") -> MeasuredInterval:
    return MeasuredInterval(
        quantity, naive or row.method, target, row.low, row.high, float(truth), bool(naive), row.value
    )


class EstimateIndex:
    """The application's rows, indexed by name and args."""

    def __init__(self, rows: Sequence[Estimate]) -> None:
        self.rows = {format_key(row.stat, row.args): row for row in rows}

    def __call__(self, stat: str, **args: object) -> Estimate:
        return self.rows[format_key(stat, args)]


def format_key(stat: str, args: Mapping[str, object]) -> str:
    return f"{stat} {sorted((name, str(value)) for name, value in args.items())}"


def compute_rate_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the rate of each source and of both genuine sources for new raters, and of one rater in one source."""
    estimates = EstimateIndex(proportions.estimate_rates(study.table))
    for at, source in enumerate(SOURCES):
        name = f"rate, {source}"
        yield to_interval(name, NEW, RATES[at], estimates("plausibility_rate", source=source))
        naive = estimates("plausibility_rate", source=source, interval="wilson")
        yield to_interval(name, NEW, RATES[at], naive, naive="Wilson, ratings as independent")
    means = EstimateIndex(proportions.estimate_mean_confidences(study.table))
    for at in (0, SUBTLE):
        true_mean = get_population().marginal_probabilities[:, at].mean(axis=0) @ CONFIDENCE
        yield to_interval(
            f"mean confidence, {SOURCES[at]}", NEW, true_mean, means(proportions.MEAN_CONFIDENCE, source=SOURCES[at])
        )
    subtle_ratings = study.table.select_source(SOURCES[SUBTLE])
    yield resample_items(subtle_ratings.verdict.astype(np.float64), subtle_ratings.item, resamples)
    one_rater = study.table.select_rater("R1").select_source(SOURCES[SUBTLE])
    row = proportions.estimate_rates(one_rater)[0]
    truth = study.raters.marginal_probabilities[0, SUBTLE, IS_YES].sum()
    yield to_interval("rate of one rater, subtle error", THIS, truth, row)


def resample_items(answers: Floats, item: Floats, resamples: int) -> MeasuredInterval:
    """Resample items and not raters, a naive method in common use."""
    codes = np.unique(item, return_inverse=True)[1]
    sums, sizes = np.bincount(codes, weights=answers), np.bincount(codes)
    # Raters stay fixed: this ignores that new raters differ, which is what makes it naive.
    weights = sample_item_weights(np.zeros(len(sums), dtype=np.int64), resamples, np.random.default_rng(len(answers)))
    interval = compute_percentile_interval((weights @ sums) / (weights @ sizes)).interval or (None, None)
    return MeasuredInterval("rate, subtle error", "item bootstrap", NEW, *interval, RATES[SUBTLE], naive=True)


def compute_agreement_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield means over pairs of raters, over all sources and within two of them, and the values of one pair."""
    rows = pairwise.estimate_pair_means(study.table, resamples=resamples)
    small_overlap_rows = pairwise.estimate_pair_means(study.table, 1, resamples=resamples)
    estimates = EstimateIndex([*rows, *small_overlap_rows, *pairwise.estimate_pairs(study.table)[:2]])
    for scope, mix in iter_scopes(study):
        name, args = describe_scope(scope)
        raters = study.raters
        true_values = {
            "avg_pairwise_kappa": (compute_pair_kappas(raters, raters, mix), compute_new_kappa(scope, tuple(mix))),
            "avg_pairwise_agreement": (
                compute_pair_agreements(raters, raters, mix),
                compute_new_agreement(scope, tuple(mix)),
            ),
        }
        for stat, (these, new) in true_values.items():
            for least in (pairwise.MIN_OVERLAP, 1):
                quantity = f"{stat}, {name}" + (", min overlap 1" if least == 1 else "")
                if least == 1 and stat == "avg_pairwise_agreement":
                    continue
                row = estimates(stat, min_overlap=least, **args)
                # Which pairs share enough items is a chance result of the design, so the true mean covers the
                # same pairs.
                is_used = find_sharing_pairs(study, scope, least)
                yield to_interval(quantity, THESE, these[is_used].mean() if is_used.any() else np.nan, row)
                yield to_interval(quantity, NEW, new, estimates(stat, min_overlap=least, **args, **NEW_RATERS_ARGS))
                if least > 1:
                    yield to_interval(quantity, NEW, new, row, naive="item bootstrap")
    pair = ["R1", "R2"]
    mix = study.design.source_shares
    kappa = compute_pair_kappas(study.raters, study.raters, mix)[0, 1]
    yield to_interval("cohen_kappa of a pair, pooled", THESE, kappa, estimates("cohen_kappa", raters=pair))
    same = compute_pair_agreements(study.raters, study.raters, mix)[0, 1]
    yield to_interval("percent_agreement of a pair, pooled", THESE, same, estimates("percent_agreement", raters=pair))


def find_sharing_pairs(study: SimulatedStudy, scope: str, least: int) -> Bools:
    """Return the pairs of raters that share at least this many items, each pair once; shape (raters, raters)."""
    table = study.table.select_source(scope) if scope else study.table
    rated = np.isfinite(table.build_grid()).astype(np.int64)
    sharing: Bools = np.triu(rated.T @ rated >= least, 1)
    return sharing


def iter_scopes(study: SimulatedStudy) -> Iterator[tuple[str, Floats]]:
    yield "", study.design.source_shares
    for source in (SOURCES[0], SOURCES[SUBTLE]):
        yield source, np.eye(len(SOURCES))[SOURCES.index(source)]


def describe_scope(scope: str) -> tuple[str, dict[str, str]]:
    return (f"within {scope}", {"source": scope}) if scope else ("pooled", {})


@cache
def get_population() -> RaterEffects:
    return build_rater_population()


@cache
def compute_new_kappa(scope: str, mix: tuple[float, ...]) -> float:
    return mean_off_diagonal(compute_pair_kappas(get_population(), get_population(), np.array(mix)))


@cache
def compute_new_agreement(scope: str, mix: tuple[float, ...]) -> float:
    return mean_off_diagonal(compute_pair_agreements(get_population(), get_population(), np.array(mix)))


def mean_off_diagonal(values: Floats) -> float:
    return float(values[~np.eye(len(values), dtype=np.bool_)].mean())


def compute_coefficient_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the coefficients for any number of raters."""
    estimates = EstimateIndex(coefficients.estimate_coefficients(study.table, resamples=resamples))
    for scope, mix in iter_scopes(study):
        name, args = describe_scope(scope)
        weights = study.design.coefficient_weights
        joint_levels = (
            compute_joint_levels(study.raters, mix, weights.pair),
            compute_joint_levels(study.raters, mix, weights.alpha),
        )
        shares = np.einsum("jsl,s,j->l", study.raters.marginal_probabilities, mix, weights.rater)
        these = compute_coefficients(*joint_levels, shares)
        new = compute_new_coefficients(scope, tuple(mix))
        for quantity, (stat, stat_args) in COEFFICIENTS.items():
            if scope and quantity not in COEFFICIENTS_WITHIN_SOURCES:
                continue
            row = estimates(stat, **stat_args, **args)
            yield to_interval(f"{quantity}, {name}", THESE, these[quantity], row)
            yield to_interval(
                f"{quantity}, {name}", NEW, new[quantity], estimates(stat, **stat_args, **args, **NEW_RATERS_ARGS)
            )
            yield to_interval(f"{quantity}, {name}", NEW, new[quantity], row, naive="item bootstrap")


COEFFICIENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "fleiss_kappa": ("fleiss_kappa", {}),
    "krippendorff_alpha, verdict": ("krippendorff_alpha", {"level": "nominal", "of": "verdict"}),
    "gwet_ac1": ("gwet_ac1", {}),
    "brennan_prediger": ("brennan_prediger", {}),
    "krippendorff_alpha, confidence": ("krippendorff_alpha", {"level": "ordinal", "of": "confidence"}),
    "krippendorff_alpha, signed": ("krippendorff_alpha", {"level": "ordinal", "of": "signed"}),
    "gwet_ac2, confidence": ("gwet_ac2", {"of": "confidence", "weights": "quadratic"}),
}
COEFFICIENTS_WITHIN_SOURCES = ("krippendorff_alpha, verdict", "gwet_ac1", "gwet_ac2, confidence")


@cache
def compute_new_coefficients(scope: str, mix: tuple[float, ...]) -> dict[str, float]:
    joint_levels = compute_joint_levels(get_population(), np.array(mix))
    return compute_coefficients(joint_levels, joint_levels, joint_levels.sum(axis=1))


def compute_coefficients(pair: Floats, alpha: Floats, shares: Floats) -> dict[str, float]:
    """Return the coefficients from the joint levels of two raters, as each coefficient weights pairs, and the shares of levels of one rater."""
    verdict, confidence_levels = np.eye(2)[IS_YES.astype(int)], np.eye(5)[CONFIDENCE - 1]
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
        "krippendorff_alpha, verdict": compute_alpha(verdict.T @ alpha @ verdict, 1 - np.eye(2)),
        "gwet_ac1": (observed - p @ (1 - p)) / (1 - p @ (1 - p)),
        "brennan_prediger": 2 * observed - 1,
        "krippendorff_alpha, confidence": compute_ordinal_alpha(confidence_levels.T @ alpha @ confidence_levels),
        "krippendorff_alpha, signed": compute_ordinal_alpha(alpha),
        "gwet_ac2, confidence": (weighted_agreement - chance) / (1 - chance),
    }


def compute_ordinal_alpha(both: Floats) -> float:
    shares = both.sum(axis=1)
    middle = np.cumsum(shares) - shares / 2
    return compute_alpha(both, np.subtract.outer(middle, middle) ** 2)


def compute_alpha(both: Floats, distance: Floats) -> float:
    shares = both.sum(axis=1)
    return float(1 - np.sum(both * distance) / np.sum(np.outer(shares, shares) * distance))


def compute_area_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the areas: of each error source (mean over raters, pooled, one rater), of confidence, and of one rater's confidence."""
    for at in np.flatnonzero(TRUTH == 0):
        source = SOURCES[at]
        these, new = (compute_signed_areas(raters, study, int(at)) for raters in (study.raters, get_population()))
        main, fixed_raters = mrmc.estimate_mean_auc(study.table, source)
        yield to_interval(f"mrmc_mean_auc, {source}", NEW, new.mean(), main)
        yield to_interval(f"mrmc_mean_auc, {source}", THESE, these.mean(), fixed_raters)
        yield to_interval(f"mrmc_mean_auc, {source}", NEW, new.mean(), fixed_raters, naive="items alone")
        # The pooled area: levels are averaged over raters before the area is computed.
        truth = compute_area(*(one.mean(axis=0) for one in split_by_truth(get_population(), study, int(at))))
        own = study.table.select_against_unperturbed(source)
        yield compute_independent_interval(
            f"auc_signed, {source}", own.signed_ratings, own.reference == 1, float(truth)
        )
        one_rater = areas.estimate_signed(study.table.select_rater("R1"), source)
        yield to_interval(f"auc_signed of one rater, {source}", THIS, these[0], one_rater)
    row = areas.estimate_confidence_correct(study.table, 0, resamples)
    right, wrong = split_by_correctness(get_population(), study)
    truth = float(compute_area(right.mean(axis=0), wrong.mean(axis=0)))
    target = NEW if row.method != "item_bootstrap" else THESE
    own = split_by_correctness(study.raters, study)
    target_truth = truth if target == NEW else float(compute_area(own[0].mean(axis=0), own[1].mean(axis=0)))
    if study.design.raters > 2:
        yield to_interval("auc_confidence_correct", NEW, target_truth, row)
    else:
        yield to_interval("auc_confidence_correct", THESE, target_truth, row)
    rated = study.table.select_ratings(np.isfinite(study.table.confidence))
    naive = mrmc.estimate_area(rated.confidence, rated.is_correct)
    interval = naive.interval or (None, None)
    yield MeasuredInterval(
        "auc_confidence_correct", "DeLong, ratings as independent", NEW, *interval, truth, naive=True
    )
    rows = areas.estimate_type2(study.table, 0, resamples)
    yield to_interval("type2_auc of one rater", THIS, float(compute_area(own[0][0], own[1][0])), rows[0])
    is_small = study.design.raters < 3
    mean = compute_area(*(own if is_small else (right, wrong))).mean()
    yield to_interval("type2_auc, mean over raters", THESE if is_small else NEW, float(mean), rows[-1])


def compute_independent_interval(quantity: str, scores: Floats, positive: Bools, truth: float) -> MeasuredInterval:
    """Return DeLong's normal interval with all ratings treated as independent, a naive method in common use."""
    known = np.isfinite(scores)
    scores, positive = scores[known], positive[known]
    placed = mrmc.compute_placements(scores[positive], scores[~positive])
    reason = mrmc.explain_no_interval(placed.area, placed.area_variance)
    interval = (None, None) if reason else compute_symmetric_interval(placed.area, placed.area_variance, within=(0, 1))
    return MeasuredInterval(
        quantity, "DeLong, ratings as independent", NEW, *interval, truth, naive=True, value=placed.area
    )


def split_by_truth(raters: RaterEffects, study: SimulatedStudy, error: int) -> tuple[Floats, Floats]:
    """Return the probabilities of the levels in genuine items and in items with this error, shape (raters, 10) each."""
    genuine = study.design.source_shares * TRUTH
    return raters.marginal_probabilities.swapaxes(1, 2) @ (genuine / genuine.sum()), raters.marginal_probabilities[
        :, error
    ]


def compute_signed_areas(raters: RaterEffects, study: SimulatedStudy, error: int) -> Floats:
    return compute_area(*split_by_truth(raters, study, error))


def split_by_correctness(raters: RaterEffects, study: SimulatedStudy) -> tuple[Floats, Floats]:
    """Return the probabilities of each confidence together with being right, and with being wrong, shape (raters, 5) each."""
    weighted = raters.marginal_probabilities * study.design.source_shares[:, None]
    right = IS_YES[None, :] == (TRUTH[:, None] == 1)
    confidence_levels = np.eye(5)[CONFIDENCE - 1]
    return (weighted * right).sum(axis=1) @ confidence_levels, (weighted * ~right).sum(axis=1) @ confidence_levels


def compute_signal_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield specificity, d' and criterion: the mean over raters, and one rater's."""
    estimates = EstimateIndex(detection.estimate_detection(study.table))
    genuine = study.design.source_shares * TRUTH / (study.design.source_shares @ TRUTH)
    yield to_interval("specificity, both genuine sources", NEW, RATES @ genuine, estimates("specificity"))
    args = {"source": SOURCES[SUBTLE], "mean_over": "raters"}
    for stat, value in (("dprime", compute_d_prime), ("criterion_c", compute_criterion)):
        these, new = (value(raters, genuine, SUBTLE) for raters in (study.raters, get_population()))
        yield to_interval(f"{stat}, mean over raters, subtle", NEW, new.mean(), estimates(stat, **args))
        one_rater = estimates(stat, source=SOURCES[SUBTLE], rater="R1")
        yield to_interval(f"{stat} of one rater, subtle", THIS, these[0], one_rater)
    obvious = SOURCES.index("obvious error")
    new = compute_d_prime(get_population(), genuine, obvious).mean()
    args = {"source": SOURCES[obvious], "mean_over": "raters"}
    yield to_interval("dprime, mean over raters, obvious", NEW, new, estimates("dprime", **args))


def compute_d_prime(raters: RaterEffects, genuine: Floats, error: int) -> Floats:
    values: Floats = ndtri(raters.yes_probability(genuine)) - ndtri(raters.yes_probability(np.eye(len(SOURCES))[error]))
    return values


def compute_criterion(raters: RaterEffects, genuine: Floats, error: int) -> Floats:
    values: Floats = (
        ndtri(raters.yes_probability(genuine)) + ndtri(raters.yes_probability(np.eye(len(SOURCES))[error]))
    ) / 2
    return values


def compute_model_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the intervals of a model beside the raters, for these raters."""
    rows = human_model.compare_models(study.table, {"model": study.model}, resamples=resamples)
    model = next(row for row in rows if row.name == "model")
    mix, n = study.design.source_shares, study.design.raters
    with_model = compute_pair_kappas(study.raters, MODEL_RATER, mix)[:, 0]
    rater_kappas = compute_pair_kappas(study.raters, study.raters, mix)
    others = (rater_kappas.sum(axis=1) - np.diag(rater_kappas)) / (n - 1)
    yield to_interval(
        "model_agreement", THESE, compute_pair_agreements(study.raters, MODEL_RATER, mix).mean(), model.agreement
    )
    yield to_interval("model_kappa", THESE, with_model.mean(), model.kappa)
    yield to_interval("model_difference", THESE, (with_model - others).mean(), model.difference)
    left_out = next(row for row in rows if row.name == human_model.LEAVE_ONE_OUT)
    yield to_interval("leave_one_out_kappa", THESE, others.mean(), left_out.kappa)


def compute_retest_intervals(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the intervals for items rated twice by the same rater."""
    estimates = EstimateIndex(retest.estimate_retest(study.repeats, resamples=resamples))
    mix = study.design.source_shares
    new = compute_same_verdict(get_population(), mix).mean()
    row = estimates("retest_agreement")
    yield to_interval("retest_agreement", NEW, new, row)
    # Naive: the repeats of one rater are treated as independent.
    interval = proportions.estimate_rate([one.first == one.second for one in study.repeats])
    yield MeasuredInterval(
        "retest_agreement", "Wilson, ratings as independent", NEW, interval.low, interval.high, new, naive=True
    )
    yes = study.raters.yes_probability(mix).mean()
    chance = yes**2 + (1 - yes) ** 2
    kappa = (compute_same_verdict(study.raters, mix).mean() - chance) / (1 - chance)
    yield to_interval("retest_kappa", THESE, kappa, estimates("retest_kappa"))
    one_rater = compute_same_verdict(study.raters, mix)[0]
    yield to_interval("retest_agreement of one rater", THIS, one_rater, estimates("retest_agreement", rater="R1"))


def compute_same_verdict(raters: RaterEffects, mix: Floats) -> Floats:
    values: Floats = 1 + 2 * raters.both_yes_probability(mix) - 2 * raters.yes_probability(mix)
    return values


GROUPS: Mapping[str, Group] = {
    "rates": compute_rate_intervals,
    "agreement": compute_agreement_intervals,
    "coefficients": compute_coefficient_intervals,
    "areas": compute_area_intervals,
    "detection": compute_signal_intervals,
    "models": compute_model_intervals,
    "retest": compute_retest_intervals,
}
