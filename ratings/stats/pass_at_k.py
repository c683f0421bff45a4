"""Estimate how often an agent reaches a goal within k replicates, and how two agents differ on the same experiments."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, t

from ratings.stats.estimates import LEVEL, Estimate, build_estimate, build_generator
from ratings.stats.proportions import compute_wilson_interval
from ratings.stats.ratings_table import Floats
from ratings.stats.resampling import EQUAL_WITHIN, compute_percentile_interval, compute_percentile_p, compute_widening

MIN_TASKS = 5  # fewer tasks do not show how tasks differ
_MAX_SAMPLED = 2_000_000  # most sampled numbers in memory at once: 16 MB


class TaskReplicates(NamedTuple):
    """An agent's replicates of one experiment (the task), and how many reached the goal."""

    task: str
    n: int
    successes: int


def compute_pass_at_k(n: int, successes: int, k: int) -> float | None:
    """Return pass@k = 1 - C(n-c, k) / C(n, k) for c successes in n replicates; None if n is less than k.

    This is the share of all subsets of k replicates that contain a success: the unbiased estimator of Chen et al. 2021 (arXiv
    2107.03374, equation 1), in its product form. Raises ValueError unless 0 <= successes <= n and k >= 1.
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
    n = {
        "tasks": len(tasks),
        "tasks_short": short_tasks,
        "attempts": sum(task.n for task in tasks),
        "successes": sum(task.successes for task in tasks),
    }
    if not tasks or short_tasks:
        return build_estimate("pass_at_k", None, n, args=args, reason=_explain_short_tasks(tasks, short_tasks, k))
    values = _compute_task_values(tasks, k)
    value = float(values.mean())
    # If all values are 0, or all are 1, their variance is 0; the exact binomial interval needs no variance.
    if value in (0.0, 1.0):
        low, high = binomtest(round(value) * len(tasks), len(tasks)).proportion_ci(LEVEL)
        return build_estimate("pass_at_k", value, n, args, (low, high), "clopper_pearson")
    if len(tasks) < MIN_TASKS:
        reason = f"an interval needs {MIN_TASKS} experiments"
        return build_estimate("pass_at_k", value, n, args=args, reason=reason)
    if np.ptp(values) == 0:
        reason = "all experiments have the same value, which does not show how others would differ"
        return build_estimate("pass_at_k", value, n, args=args, reason=reason)
    # The variance between the tasks' values already includes the variance between replicates, so nothing is added for it.
    # Percentile intervals from resampled tasks had lower coverage near 1.
    effective_tasks = value * (1 - value) * len(values) / float(np.var(values, ddof=1))
    interval = compute_wilson_interval(value, effective_tasks, float(t.ppf((1 + LEVEL) / 2, len(values) - 1)))
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
    """Return the difference in mean pass@k, first agent minus second agent, and its two-sided p-value.

    Only experiments with at least k replicates by both agents count. If k is 1 and each agent has one replicate on every
    experiment, McNemar's exact test is added.
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
    task_pairs = [first_tasks[task] for task in common], [second_tasks[task] for task in common]
    differences = _compute_task_values(task_pairs[0], k) - _compute_task_values(task_pairs[1], k)
    difference = float(differences.mean())
    exact = (
        _test_mcnemar(*task_pairs, args) if k == 1 and all(task.n == 1 for side in task_pairs for task in side) else []
    )
    # McNemar's test is exact, so it is also given for few tasks.
    if len(common) < MIN_TASKS or not resamples:
        reason = f"an interval needs {MIN_TASKS} experiments" if resamples else "the interval needs resampling"
        rows = [
            build_estimate(names[0], difference, n, args=args, reason=reason),
            build_estimate(names[1], None, n, args=args, reason=reason),
        ]
        return rows + exact
    if not differences.any():
        reason = "both agents did equally well on every experiment"
        return [
            build_estimate(names[0], 0.0, n, args=args, reason=reason),
            build_estimate(names[1], 1.0, n, args=args, reason=reason),
            *exact,
        ]
    if np.ptp(differences) < EQUAL_WITHIN:
        reason = "the difference is the same on every experiment, so resampling shows no uncertainty"
        return [
            build_estimate(names[0], difference, n, args=args, reason=reason),
            build_estimate(names[1], None, n, args=args, reason=reason),
            *exact,
        ]
    # The means are rounded, because summing the same tasks in another order changes the last digit.
    # Tasks are resampled together for both agents, because difficult tasks are difficult for both. The interval and p use
    # the same widening, so that they are consistent.
    replicates = np.round(_resample_means(differences, resamples, build_generator(seed, names[0], args)), 12)
    widening_factor = compute_widening(len(differences))
    resampled = compute_percentile_interval(replicates, widening=widening_factor)
    return [
        build_estimate(names[0], difference, n, args, resampled.interval, "paired_bootstrap", resampled.reason),
        build_estimate(names[1], compute_percentile_p(replicates, widening=widening_factor), n, args=args),
        *exact,
    ]


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
    portions = _split_resamples(resamples, len(values))
    return np.concatenate([values[rng.integers(0, len(values), (size, len(values)))].mean(axis=1) for size in portions])


def _split_resamples(resamples: int, width: int) -> list[int]:
    block_size = max(1, _MAX_SAMPLED // width)
    return [min(block_size, resamples - done) for done in range(0, resamples, block_size)]
