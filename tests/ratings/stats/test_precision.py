import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import multivariate_normal, norm
from statsmodels.stats.inter_rater import cohens_kappa

from ratings.stats import mrmc, pairwise
from ratings.stats.planning import precision
from ratings.stats.planning.precision import AucComponents, Design, VarianceComponents
from ratings.stats.proportions import estimate_rates
from ratings.stats.rater_pairs import tabulate_pairs
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table


def count_balanced(items: int, per_item: int, raters: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(items, per_item), np.full(raters, items * per_item // raters)


def simulate_study(items: int = 40, raters: int = 6, seed: int = 1) -> Ratings:
    rng = np.random.default_rng(seed)
    rows = []
    for source, share, truth in (("right", 0.85, 1), ("wrong", 0.4, 0)):
        for item in range(items):
            shift = rng.normal(0, 0.15)
            for rater in range(raters):
                verdict = int(rng.random() < share + shift)
                rows.append(
                    RatingRecord(f"{source}{item}", f"R{rater}", verdict, int(rng.integers(1, 6)), truth, source)
                )
    return build_ratings_table(rows)


def find_latent_correlation(share: float, rho: float) -> float:
    """Return the correlation of two normal variables that gives correlation rho after dichotomising them at this share."""
    if rho <= 0:
        return 0.0
    cut, wanted = norm.ppf(share), share**2 + rho * share * (1 - share)

    def excess(correlation: float) -> float:
        both = multivariate_normal.cdf([cut, cut], mean=[0, 0], cov=[[1, correlation], [correlation, 1]])
        return float(both) - wanted

    return brentq(excess, 0.0, 0.99999, xtol=1e-4)


def simulate_ratings(found: VarianceComponents, design: Design, rng: np.random.Generator) -> Ratings:
    """A study in which verdicts are a threshold on the sum of an item's, a rater's and a rating's normal deviate, whose
    variances give the components. Raters take the items in turn."""
    item, rater = (find_latent_correlation(found.share, rho) for rho in (found.rho_item, found.rho_rater))
    deviate = math.sqrt(item) * rng.standard_normal((design.items, 1))
    deviate = deviate + math.sqrt(rater) * rng.standard_normal((1, design.raters))
    deviate = deviate + math.sqrt(1 - item - rater) * rng.standard_normal((design.items, design.raters))
    yes = deviate < norm.ppf(found.share)
    each = int(design.per_item)
    turns = [(i, (i * each + turn) % design.raters) for i in range(design.items) for turn in range(each)]
    return build_ratings_table([RatingRecord(str(i), str(j), int(yes[i, j])) for i, j in turns])


def simulate_half_width(what: str, found: VarianceComponents, design: Design, studies: int) -> float:
    """1.96 standard deviations of a rate, or of the mean pairwise kappa, over simulated studies of this shape."""
    rng = np.random.default_rng([0, design.raters, design.items])
    own = [simulate_ratings(found, design, rng) for _ in range(studies)]
    values = [one.verdict.mean() if what == "rate" else np.nanmean(tabulate_pairs(one).cohen_kappa) for one in own]
    return 1.96 * float(np.std(values, ddof=1))


def test_variance_of_a_rate_equals_the_one_computed_shown_to_admin() -> None:
    # Two items, two raters, all rate all: N = 4, sums m(m-1) = 2 + 2, n(n-1) = 2 + 2.
    # p(1-p)/16 [4 + 0.5 * 4 + 0.25 * 4] = 0.25/16 * 7
    assert precision.compute_rate_variance(0.5, 0.5, 0.25, *count_balanced(2, 2, 2)) == pytest.approx(0.25 * 7 / 16)


def test_rate_half_width_above_100_items_shrinks_only_with_raters() -> None:
    def half(items: int, per_item: int, raters: int, rho_rater: float) -> float:
        return (
            1.96
            * precision.compute_rate_variance(0.9, 0.12, rho_rater, *count_balanced(items, per_item, raters)) ** 0.5
        )

    # p(1-p)[rho_I/I + rho_R/R + (1 - rho_I - rho_R)/N], rho_I .12, I = 60, 3 ratings an item, 6 raters, rho_R .02:
    # .09 [.002 + .003333 + .86/180] = .00091; 1.96 sqrt = .0591
    assert half(60, 3, 6, 0.02) == pytest.approx(0.0591, abs=1e-4)
    assert half(400, 3, 6, 0.02) / half(100, 3, 6, 0.02) > 0.75
    assert half(400, 3, 6, 0) / half(100, 3, 6, 0) == pytest.approx(0.5)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("kappa", [0.3, 0.526, 0.811])
def test_kappa_variance_of_two_raters_equals_that_of_fleiss_cohen_and_everitt(share, kappa) -> None:
    # Equal margins and this kappa: P(both 1) = p^2 + kappa pq; the oracle's large-sample variance, computed, not published.
    both, n = share**2 + kappa * share * (1 - share), 1e6
    counts = n * np.array([[both, share - both], [share - both, 1 - 2 * share + both]])
    expected = cohens_kappa(counts).var_kappa * n
    assert precision.compute_kappa_variance(share, kappa, 1, 2) == pytest.approx(expected, rel=1e-4)


def test_kappa_variance_decreases_with_ratings_per_item_and_is_interpolated_between_whole_numbers() -> None:
    two, half, three = (precision.compute_kappa_variance(0.8, 0.4, 100, m) for m in (2, 2.5, 3))
    assert two > half > three
    assert half == pytest.approx((two + three) / 2)
    # 1.5 ratings an item: half the items have two.
    assert precision.compute_kappa_variance(0.8, 0.4, 100, 1.5) == pytest.approx(
        precision.compute_kappa_variance(0.8, 0.4, 50, 2)
    )


def test_hanley_and_mcneils_variance_of_an_area_equals_the_one_computed_shown_to_admin() -> None:
    # AUC 3/4, 2 and 2: Q1 = .75/1.25 = .6, Q2 = 1.125/1.75; [.1875 + (.6 - .5625) + (.642857 - .5625)]/4
    assert precision.compute_auc_variance(0.75, 2, 2) == pytest.approx((0.1875 + 0.0375 + 1.125 / 1.75 - 0.5625) / 4)
    assert precision.compute_auc_variance(0.75, 2, 2, 3, 0.5) == pytest.approx(
        2 * precision.compute_auc_variance(0.75, 2, 2)
    )


def test_variance_components_are_0_or_1_if_ratings_depend_only_on_the_item_or_only_on_the_rater() -> None:
    of_items = build_ratings_table([RatingRecord(str(i), f"R{j}", i % 2) for i in range(20) for j in range(4)])
    of_raters = build_ratings_table([RatingRecord(str(i), f"R{j}", j % 2) for i in range(20) for j in range(4)])
    items, raters = precision.estimate_components(of_items), precision.estimate_components(of_raters)
    assert (items.rho_item, items.rho_rater, items.kappa) == (1, 0, 1)
    # Each rater is constant: every pair of two ratings of a rater agrees.
    assert (raters.rho_item, raters.rho_rater) == (0, 1)


def test_variance_components_of_simulated_ratings_are_recovered() -> None:
    wanted = VarianceComponents(0.8, 0.3, 0.05, None, 0)
    own = simulate_ratings(wanted, Design(30, 400, 30), np.random.default_rng(5))
    found = precision.estimate_components(own)
    assert (found.share, found.rho_item, found.rho_rater) == pytest.approx(wanted[:3], abs=0.05)


@pytest.mark.parametrize("design", [Design(6, 50, 3), Design(3, 50, 1)])
def test_rate_half_width_agrees_with_simulated_studies(design) -> None:
    found = VarianceComponents(0.9, 0.12, 0.02, None, 0)
    shape = count_balanced(design.items, int(design.per_item), design.raters)
    formula = 1.96 * precision.compute_rate_variance(0.9, 0.12, 0.02, *shape) ** 0.5
    # The standard deviation of 600 draws is known to 1 in sqrt(2 * 600) = 3 %.
    assert simulate_half_width("rate", found, design, 600) == pytest.approx(formula, rel=0.08)


@pytest.mark.parametrize("raters", [3, 5])
def test_kappa_half_width_agrees_with_simulated_studies(raters) -> None:
    found = VarianceComponents(0.6, 0.526, 0, 0.526, 0)
    design = Design(raters, 100, raters)
    assert simulate_half_width("kappa", found, design, 300) == pytest.approx(
        precision.compute_kappa_half_width(found, design), rel=0.12
    )


def test_planned_half_width_of_a_rate_for_the_present_ratings_is_near_that_of_the_result() -> None:
    own = simulate_study()
    now = {step.source: step for step in precision.list_next_steps(own) if step.quantity == "rate" and step.is_present}
    for row in estimate_rates(own, by="source"):
        if "interval" not in row.args:
            assert now[row.args["source"]].half_width == pytest.approx(row.half_width, rel=0.35)


def test_next_steps_describe_more_raters_and_items() -> None:
    steps = precision.list_next_steps(simulate_study())
    own = [step for step in steps if (step.quantity, step.source) == ("rate", "wrong")]
    assert [(step.raters, step.items, step.is_present) for step in own] == [
        (6, 40, True), (8, 40, False), (10, 40, False), (6, 60, False), (6, 80, False),
    ]  # fmt: skip
    assert all(step.half_width < own[0].half_width for step in own[1:])
    assert own[1].description == f"two more raters: {own[0].half_width:.2f} to {own[1].half_width:.2f}"
    assert {(step.quantity, step.source) for step in steps} == {
        ("rate", "right"), ("rate", "wrong"), ("kappa", ""), ("kappa", "right"), ("kappa", "wrong"), ("auc", "wrong"),
    }  # fmt: skip


def test_auc_half_width_follows_from_the_ratings_so_far() -> None:
    own = simulate_study()
    found = precision.estimate_auc_components(own, "wrong")
    now = precision.measure_design(own)
    # OR: SE^2 = [MSR + J Cov2]/J, and MSR is between + error - cov2 at the present number of items.
    msr = found.between + found.error - found.cov2
    df = (msr + 6 * found.cov2) ** 2 / (msr**2 / 5)
    assert df > 5
    assert precision.compute_auc_half_width(found, now) > 1.96 * ((msr + 6 * found.cov2) / 6) ** 0.5
    assert precision.compute_auc_half_width(found, now.scale_items(4)) < precision.compute_auc_half_width(found, now)


def test_auc_half_width_near_1_is_half_of_the_logit_interval() -> None:
    # 4 raters, no covariance: MSR = between + error = .0004 + .0005, SE^2 = .0009/4, df = 3, t = 3.1824;
    # the logit's standard error is .015/(.95 * .05).
    found, design = AucComponents(0.95, 0.0004, 0.0, 0.0005, 80, 4), Design(4, 80, 4)
    half = 3.182446 * 0.015 / (0.95 * 0.05)
    expected = (expit(logit(0.95) + half) - expit(logit(0.95) - half)) / 2
    assert precision.compute_auc_half_width(found, design) == pytest.approx(expected)
    # Just below .9 it is t * SE: 3.1824 * .015.
    assert precision.compute_auc_half_width(found._replace(value=0.89), design) == pytest.approx(3.182446 * 0.015)


def test_planning_and_results_state_the_same_reason_why_two_raters_have_no_kappa_or_area() -> None:
    own = simulate_study(raters=2)
    said = {step.quantity: step for step in precision.list_next_steps(own) if step.quantity != "rate"}
    assert {what: (step.half_width, step.is_present) for what, step in said.items()} == {
        "kappa": (None, True), "auc": (None, True),
    }  # fmt: skip
    kappa = [
        row for row in pairwise.estimate_pair_means(own, resamples=20) if dict(row.args).get("target") == "new raters"
    ]
    assert said["kappa"].description == kappa[-1].reason == "an interval for new raters needs at least three raters"
    assert said["auc"].description == mrmc.estimate_mean_auc(own, "wrong")[0].reason


def test_planning_has_no_kappa_with_too_few_rare_verdicts() -> None:
    # 40 items, 3 raters, one "no" each and never on one item: q = 3/120, 40 q^2 = .025.
    rows = [RatingRecord(f"i{at:02}", f"R{rater}", int(at != rater)) for at in range(40) for rater in range(3)]
    (kappa,) = [step for step in precision.list_next_steps(build_ratings_table(rows)) if step.quantity == "kappa"]
    assert kappa.half_width is None and kappa.description == (
        "by chance two raters would both give the rarer verdict on 0.0 items; below 1 no interval is reliable"
    )
    # At q = 1/4 sixteen items are enough, fifteen are not.
    found = VarianceComponents(0.75, 0.2, 0.1, 0.3, 0.01)
    assert precision.compute_kappa_half_width(found, Design(3, 16, 3)) is not None
    assert precision.compute_kappa_half_width(found, Design(3, 15, 3)) is None


def test_planning_has_no_kappa_half_width_if_kappa_is_undefined_without_one_of_the_raters() -> None:
    # R1 and R2 say yes throughout, R3 not always: without R3 only their 0/0 is left.
    verdicts = {"R1": "1" * 20, "R2": "1" * 20, "R3": "10" * 10}
    own = build_ratings_table(
        [RatingRecord(str(at), who, int(mark)) for who, marks in verdicts.items() for at, mark in enumerate(marks)]
    )
    (kappa,) = [step for step in precision.list_next_steps(own) if step.quantity == "kappa"]
    assert kappa.description == "undefined without one of the raters, so there is no interval for new raters"


def test_planned_auc_steps_use_planning_values_while_the_study_is_sealed() -> None:
    blind = build_ratings_table([row._replace(reference=None, source="all") for row in simulate_study().to_records()])
    assert {step.quantity for step in precision.list_next_steps(blind)} == {"rate", "kappa"}
    planned = precision.list_planned_auc_steps(precision.measure_design(blind))
    assert planned[0].is_present and planned[0].half_width > planned[1].half_width


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([RatingRecord("1", "a", 1)], "all verdicts are alike so far"),
        ([RatingRecord("1", "a", 1), RatingRecord("1", "b", 0)], "two raters and two items are needed first"),
    ],
)
def test_planning_states_a_reason_for_each_missing_half_width(rows, said) -> None:
    steps = precision.list_next_steps(build_ratings_table(rows))
    assert [(step.half_width, step.description) for step in steps if step.quantity == "rate"] == [(None, said)]


def test_added_raters_rate_as_many_items_and_no_item_twice() -> None:
    assert Design(4, 100, 2).add_raters(2) == Design(6, 100, 3)
    assert Design(4, 100, 4).add_raters(2) == Design(6, 100, 6)
    assert Design(4, 30, 2).scale_items(1.5) == Design(4, 45, 2)


def test_next_steps_of_an_empty_or_non_binary_table_are_empty() -> None:
    assert precision.list_next_steps(build_ratings_table([])) == []
    assert precision.list_next_steps(build_ratings_table([RatingRecord("1", "a", "x")], ("x", "y"))) == []


def test_next_steps_hide_half_widths_as_wide_as_the_scale_and_compare_one_rater_with_none() -> None:
    # Four items and three raters: the kappa of so few could be anything.
    verdicts = {"R1": "1100", "R2": "1010", "R3": "0011"}
    few = build_ratings_table(
        [RatingRecord(str(at), who, int(mark)) for who, marks in verdicts.items() for at, mark in enumerate(marks)]
    )
    kappas = [step for step in precision.list_next_steps(few) if step.quantity == "kappa"]
    assert (
        kappas[0].half_width is None and kappas[0].description == "now: as wide as the whole scale, so it shows nothing"
    )
    one = build_ratings_table([RatingRecord(f"i{at}", "R1", int(at % 4 > 0)) for at in range(40)])
    rates = [step for step in precision.list_next_steps(one) if step.quantity == "rate"]
    assert rates[0].description.startswith("now ±0.1") and rates[0].description.endswith(" for this rater alone")
    assert all(step.description.endswith("for new raters") for step in rates[1:] if step.raters > 1)
