"""Shares with intervals: of yes answers, with items and raters as clusters, and of experiments solved (pass@k)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from ratings.stats.estimates import LEVEL, NORMAL, Estimate, build_estimate, build_generator, student_quantile
from ratings.stats.ratings_table import Floats, Ints, Ratings
from ratings.stats.resampling import EQUAL_WITHIN, compute_percentile_interval, compute_percentile_p, compute_widening

RATE = "plausibility_rate"
MEAN_CONFIDENCE = "mean_confidence"
NO_RATINGS = "there are no ratings"
ONE_ITEM = "a single item says nothing about other items"
CLUSTERED, PER_RATER = "wilson_cluster", "wilson_items"


class Rate(NamedTuple):
    """The share k of n, its 95% Wilson interval (ratings as independent), or why there is none."""

    value: float | None
    low: float | None
    high: float | None
    k: int
    n: int
    reason: str = ""


class ClusteredInterval(NamedTuple):
    """The interval of clustered answers, or the reason; `deff` is n / effective n, NaN if all are alike."""

    interval: tuple[float, float] | None
    method: str
    deff: float
    reason: str = ""


def estimate_rate(answers: Sequence[bool]) -> Rate:
    """Return the share of the answers that are True, with its Wilson interval."""
    k, n = sum(answers), len(answers)
    if n == 0:
        return Rate(None, None, None, 0, 0, NO_RATINGS)
    interval = binomtest(k, n).proportion_ci(confidence_level=LEVEL, method="wilson")
    return Rate(k / n, float(interval.low), float(interval.high), k, n)


def compute_wilson_interval(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's score interval (1927); n may be an effective n, `quantile` one of Student's t."""
    square = quantile**2 / n
    centre = (share + square / 2) / (1 + square)
    half_width = quantile * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    # For a share of 0 or 1, one bound equals the share exactly; rounding must not change it.
    low = 0.0 if share == 0 else max(0.0, centre - half_width)
    return low, 1.0 if share == 1 else min(1.0, centre + half_width)


def compute_clustered_interval(answers: Floats, item: Ints, rater: Ints, *, deff: float = 1.0) -> ClusteredInterval:
    """Return the interval of mean(answers) for new items and new raters; if all answers are by one rater, for new items only.

    The variance of the mean, with items and raters as clusters, is V = V_item + V_rater - V_rating (Cameron, Gelbach and
    Miller 2011), but at least V_item and V_rater. The interval is Wilson's with n_eff = p(1-p)/V, but at most n, and Student's
    t with one degree of freedom less than items or raters, whichever are fewer. If all answers are alike, V is 0, and n_eff
    is n / `deff`.
    """
    n, share = len(answers), float(answers.mean())
    one_rater = len(np.unique(rater)) == 1
    method = PER_RATER if one_rater else CLUSTERED
    # The answers of a single rater are clustered by items only.
    clusters = min(len(np.unique(item)), n if one_rater else len(np.unique(rater)))
    if clusters < 2:
        return ClusteredInterval(None, method, math.nan, ONE_ITEM)
    # Answers that are all alike have no variance, and therefore no design effect of their own.
    own_deff = math.nan
    if share not in (0.0, 1.0):
        own_deff = deff = _compute_variance(answers - share, item, rater, one_rater) * n / (share * (1 - share))
    interval = compute_wilson_interval(share, n / max(1.0, deff), student_quantile(clusters - 1))
    return ClusteredInterval(interval, method, own_deff)


def _compute_variance(residuals: Floats, item: Ints, rater: Ints, one_rater: bool) -> float:
    item_variance = _compute_cluster_variance(residuals, item)
    if one_rater:
        return item_variance
    rater_variance = _compute_cluster_variance(residuals, rater)
    rating_variance = _compute_cluster_variance(residuals, np.arange(len(residuals)))
    # By chance, the combined variance can be smaller than one of its parts, or negative.
    return max(item_variance + rater_variance - rating_variance, item_variance, rater_variance)


def _compute_cluster_variance(residuals: Floats, cluster: Ints) -> float:
    """Return the variance of the mean of residuals of g sampled clusters, corrected by g / (g - 1)."""
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=residuals)
    return float(len(sums) / (len(sums) - 1) * np.sum(sums**2) / len(residuals) ** 2)


class _Group(NamedTuple):
    args: Mapping[str, str]
    ratings: Ratings

    @property
    def yes_answers(self) -> Floats:
        return self.ratings.verdict.astype(np.float64)

    def compute_interval(self, deff: float = 1.0) -> ClusteredInterval:
        return compute_clustered_interval(self.yes_answers, self.ratings.item, self.ratings.rater, deff=deff)


def estimate_rates(table: Ratings, by: str | None = "source") -> list[Estimate]:
    """Return the share of verdict 1 for each group: by source, rater, a factor, or all (`by` None); none if not binary.

    Each has a clustered interval and one (args interval: wilson) for independent ratings. KeyError for an unknown
    factor.
    """
    if not table.is_binary:
        return []
    groups = list(_iter_groups(table, by))
    intervals = [group.compute_interval() for group in groups]
    weighted = [(max(1.0, i.deff), len(g.ratings)) for i, g in zip(intervals, groups, strict=True) if i.deff == i.deff]
    shared = sum(deff * n for deff, n in weighted) / sum(n for _, n in weighted) if weighted else 1.0
    rows: list[Estimate] = []
    for group, interval in zip(groups, intervals, strict=True):
        if math.isnan(interval.deff) and interval.interval is not None:
            interval = group.compute_interval(shared)._replace(reason=explain_constant(shared, "other groups"))
        n, share = _count_verdicts(group.ratings), float(group.yes_answers.mean())
        rows.append(build_estimate(RATE, share, n, group.args, interval.interval, interval.method, interval.reason))
        # Most publications report this interval. It is shown for comparison, although it is too narrow for new raters.
        wilson = compute_wilson_interval(share, len(group.ratings), NORMAL)
        rows.append(build_estimate(RATE, share, n, {**group.args, "interval": "wilson"}, wilson, "wilson"))
    return rows or [build_estimate(RATE, None, _count_verdicts(table), reason=NO_RATINGS)]


def explain_constant(deff: float, origin: str) -> str:
    """Return what an interval of verdicts that are all alike assumes: the design effect of `origin`, if above 1."""
    effect = f"uses the design effect of the {origin}, {deff:.1f}"
    return f"all verdicts are alike; the interval {effect if deff > 1 else 'treats the ratings as independent'}"


def estimate_mean_confidences(table: Ratings, by: str | None = "source") -> list[Estimate]:
    """Return the mean confidence, 1 to 5, of each group, its variance clustered by items and raters."""
    with_confidence = table.select_ratings(np.isfinite(table.confidence))
    n, reason = with_confidence.sample_sizes, "no rating has a confidence"
    rows = [_estimate_mean_confidence(group) for group in _iter_groups(with_confidence, by)]
    return rows or [build_estimate(MEAN_CONFIDENCE, None, n, reason=reason)]


def _estimate_mean_confidence(group: _Group) -> Estimate:
    ratings = group.ratings
    mean, one_rater = float(ratings.confidence.mean()), ratings.sample_sizes["raters"] == 1
    n = ratings.sample_sizes
    clusters = n["items"] if one_rater else min(n["items"], n["raters"])
    method = "mean_items" if one_rater else "mean_cluster"
    interval, reason = None, ONE_ITEM
    if clusters > 1:
        variance = _compute_variance(ratings.confidence - mean, ratings.item, ratings.rater, one_rater)
        half_width = student_quantile(clusters - 1) * math.sqrt(variance)
        interval, reason = (max(1.0, mean - half_width), min(5.0, mean + half_width)), ""
        if half_width == 0:
            interval, reason = None, "all confidences are the same value, so there is no interval"
    return build_estimate(MEAN_CONFIDENCE, mean, n, group.args, interval, method, reason)


def estimate_weighted_rates(table: Ratings, by: str | None = "source") -> list[Estimate]:
    """Return the shares of `estimate_rates` with items, and with raters, weighted equally."""
    if not table.is_binary:
        return []
    reason = "beside the rate by ratings, which has the interval"
    rows = []
    for group in _iter_groups(table, by):
        n = _count_verdicts(group.ratings)
        for kind, cluster in (("item", group.ratings.item), ("rater", group.ratings.rater)):
            codes = np.unique(cluster, return_inverse=True)[1]
            share = float(np.mean(np.bincount(codes, weights=group.yes_answers) / np.bincount(codes)))
            rows.append(build_estimate(f"{RATE}_{kind}_weighted", share, n, group.args, reason=reason))
    return rows


def _count_verdicts(table: Ratings) -> dict[str, int]:
    return {**table.sample_sizes, "yes": int(np.sum(table.verdict == 1))}


def _iter_groups(table: Ratings, by: str | None) -> Iterator[_Group]:
    if not len(table):
        return
    if by is None:
        yield _Group({}, table)
        return
    columns = {"source": (table.source, table.sources), "rater": (table.rater, table.raters)}
    codes, names = columns[by] if by in columns else table.factors[by]
    for code in np.unique(codes):
        yield _Group({by: names[code]}, table.select_ratings(codes == code))


MIN_TASKS = 5  # fewer tasks do not show how tasks differ
_MAX_SAMPLED = 2_000_000  # most sampled numbers in memory at once: 16 MB


class TaskReplicates(NamedTuple):
    """An agent's replicates of one experiment (the task), and how many reached the goal."""

    task: str
    n: int
    successes: int


def compute_pass_at_k(n: int, successes: int, k: int) -> float | None:
    """Return 1 - C(n-c, k) / C(n, k), unbiased (Chen et al. 2021, arXiv 2107.03374); None if n < k.

    Raises ValueError unless 0 <= successes <= n and k >= 1.
    """
    if not 0 <= successes <= n or k < 1:
        raise ValueError(f"pass@{k} is not defined for {successes} successes in {n} replicates")
    # The estimator 1 - (1 - c/n)^k could extrapolate to n < k, but it is biased.
    if n < k:
        return None
    if n - successes < k:
        return 1.0
    # A product is used, because the binomial coefficients overflow a float for large n.
    return 1.0 - prod(1.0 - k / i for i in range(n - successes + 1, n + 1))


def estimate_mean_pass_at_k(agent: str, tasks: Sequence[TaskReplicates], k: int) -> Estimate:
    """Return the mean of an agent's pass@k over tasks. It is undefined if a task has fewer than k replicates.

    The interval is for new tasks with the same number of replicates. It is the Wilson interval with the effective number
    of tasks, n_eff = p(1-p) / V, where V is the variance of the mean of the tasks' values, and Student's t with one degree
    of freedom less than tasks. If all values are 0, or all are 1, it is the Clopper-Pearson interval.
    """
    args = {"agent": agent, "k": k}
    short_tasks = sum(task.n < k for task in tasks)
    attempts, successes = sum(task.n for task in tasks), sum(task.successes for task in tasks)
    n = {"tasks": len(tasks), "tasks_short": short_tasks, "attempts": attempts, "successes": successes}
    if not tasks or short_tasks:
        return build_estimate("pass_at_k", None, n, args=args, reason=_explain_short_tasks(tasks, short_tasks, k))
    values = _compute_task_values(tasks, k)
    value = float(values.mean())
    # If all values are 0, or all are 1, their variance is 0; the exact binomial interval needs no variance.
    if value in (0.0, 1.0):
        low, high = binomtest(round(value) * len(tasks), len(tasks)).proportion_ci(LEVEL)
        return build_estimate("pass_at_k", value, n, args, (low, high), "clopper_pearson")
    if len(tasks) < MIN_TASKS:
        return build_estimate("pass_at_k", value, n, args, reason=f"an interval needs {MIN_TASKS} experiments")
    if np.ptp(values) == 0:
        reason = "all experiments have the same value, which does not show how others would differ"
        return build_estimate("pass_at_k", value, n, args, reason=reason)
    # The variance between the tasks' values already includes the variance between replicates, so nothing is added for it.
    # Percentile intervals from resampled tasks had lower coverage near 1.
    effective_tasks = value * (1 - value) * len(values) / float(np.var(values, ddof=1))
    interval = compute_wilson_interval(value, effective_tasks, student_quantile(len(values) - 1))
    return build_estimate("pass_at_k", value, n, args, interval, "wilson_tasks")


def compare_agents(
    first: str,
    second: str,
    by_agent: Mapping[str, Sequence[TaskReplicates]],
    k: int,
    *,
    seed: int,
    resamples: int = 10_000,
) -> list[Estimate]:
    """Return the difference in mean pass@k and its p-value over experiments with k replicates by both agents.

    If k is 1 and each agent has one replicate on every experiment, McNemar's exact test is added.
    """
    args = {"agents": [first, second], "k": k}
    first_tasks, second_tasks = (
        {task.task: task for task in by_agent[agent] if task.n >= k} for agent in (first, second)
    )
    common = sorted(first_tasks.keys() & second_tasks.keys())
    n = {"tasks": len(common), "tasks_not_common": len(first_tasks.keys() ^ second_tasks.keys())}
    names = ("pass_at_k_difference", "pass_at_k_difference_p")
    if not common:
        reason = f"no experiment has {'a replicate' if k == 1 else f'{k} replicates'} by both agents"
        return [build_estimate(name, None, n, args=args, reason=reason) for name in names]
    sides = [first_tasks[task] for task in common], [second_tasks[task] for task in common]
    differences = _compute_task_values(sides[0], k) - _compute_task_values(sides[1], k)
    difference = float(differences.mean())
    exact = _test_mcnemar(*sides, args) if k == 1 and all(task.n == 1 for side in sides for task in side) else []
    reason, p = "", None
    if len(common) < MIN_TASKS or not resamples:
        reason = f"an interval needs {MIN_TASKS} experiments" if resamples else "the interval needs resampling"
    elif not differences.any():
        reason, difference, p = "both agents did equally well on every experiment", 0.0, 1.0
    elif np.ptp(differences) < EQUAL_WITHIN:
        reason = "the difference is the same on every experiment, so resampling shows no uncertainty"
    if reason:
        # McNemar's test is exact, so it is also given for few tasks.
        values = zip(names, (difference, p), strict=True)
        return [build_estimate(name, value, n, args, reason=reason) for name, value in values] + exact
    # Tasks are resampled together for both agents, because difficult tasks are difficult for both. The means are rounded,
    # because summing the same tasks in another order changes the last digit. The interval and p use the same widening, so
    # that they are consistent.
    replicates = np.round(_resample_means(differences, resamples, build_generator(seed, names[0], args)), 12)
    widening = compute_widening(len(differences))
    interval, _, reason = compute_percentile_interval(replicates, widening=widening)
    p = compute_percentile_p(replicates, widening=widening)
    difference_row = build_estimate(names[0], difference, n, args, interval, "paired_bootstrap", reason)
    return [difference_row, build_estimate(names[1], p, n, args), *exact]


def _test_mcnemar(
    first: Sequence[TaskReplicates], second: Sequence[TaskReplicates], args: Mapping[str, object]
) -> list[Estimate]:
    """Return McNemar's exact test (1947), from experiments in which only one agent succeeded."""
    only_first = sum(a.successes > b.successes for a, b in zip(first, second, strict=True))
    only_second = sum(a.successes < b.successes for a, b in zip(first, second, strict=True))
    discordant = only_first + only_second
    n = {"tasks": len(first), "only_first": only_first, "only_second": only_second}
    value = float(binomtest(only_first, discordant).pvalue) if discordant else 1.0
    reason = "" if discordant else "both agents did equally well on every experiment"
    return [build_estimate("mcnemar_p", value, n, args=args, reason=reason)]


def _compute_task_values(tasks: Sequence[TaskReplicates], k: int) -> Floats:
    values = [compute_pass_at_k(task.n, task.successes, k) for task in tasks]
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _explain_short_tasks(tasks: Sequence[TaskReplicates], short: int, k: int) -> str:
    if not tasks:
        return "there are no replicates"
    if k == 1:
        return f"{short} of {len(tasks)} experiments have no replicate"
    smallest = min(task.n for task in tasks)
    return f"{short} of {len(tasks)} experiments have fewer than {k} replicates; the smallest number is {smallest}"


def _resample_means(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    block_size = max(1, _MAX_SAMPLED // len(values))
    sizes = [min(block_size, resamples - done) for done in range(0, resamples, block_size)]
    return np.concatenate([values[rng.integers(0, len(values), (size, len(values)))].mean(axis=1) for size in sizes])
