"""How often an agent reaches a goal within k attempts, and how two agents differ on the same experiments."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, t

from ratings.stats.estimates import LEVEL, Estimate, estimate, generator
from ratings.stats.proportions import wilson
from ratings.stats.resampling import SAME, percentile, percentile_p, widening
from ratings.stats.table import Floats

LEAST_TASKS = 5  # fewer say too little of how tasks differ
_AT_ONCE = 2_000_000  # drawn numbers that are held at once


class Attempts(NamedTuple):
    """One experiment (task): `n` attempts of an agent, `successes` of them reached the goal."""

    task: str
    n: int
    successes: int


def pass_at_k(n: int, successes: int, k: int) -> float | None:
    """1 - C(n-c, k) / C(n, k): the share of k-subsets of n attempts with a success in them; None below k attempts.

    The unbiased estimator of Chen et al. 2021 (arXiv 2107.03374, equation 1), in its product form. ValueError unless
    0 <= successes <= n and k >= 1.
    """
    if not 0 <= successes <= n or k < 1:
        raise ValueError(f"pass@{k} of {successes} successes in {n} attempts")
    if n < k:
        return None
    if n - successes < k:
        return 1.0
    return 1.0 - prod(1.0 - k / i for i in range(n - successes + 1, n + 1))


def mean_pass_at_k(agent: str, tasks: Sequence[Attempts], k: int) -> Estimate:
    """The mean over tasks. Undefined as soon as one task has fewer than k attempts.

    Interval for new tasks, attempted as often: Wilson with the effective number of tasks, n_eff = p(1-p) / V with V the
    variance of the mean of their values, which already vary as the attempts do, and Student's t with one degree less than
    tasks. Percentiles of resampled tasks were found to hold less often near 1. Where every task has the same 0 or 1,
    Clopper-Pearson.
    """
    args = {"agent": agent, "k": k}
    short = sum(task.n < k for task in tasks)
    n = {
        "tasks": len(tasks),
        "tasks_short": short,
        "attempts": sum(task.n for task in tasks),
        "successes": sum(task.successes for task in tasks),
    }
    if not tasks or short:
        return estimate("pass_at_k", None, n, args=args, reason=_too_few(tasks, short, k))
    values = _values(tasks, k)
    value = float(values.mean())
    if value in (0.0, 1.0):
        low, high = binomtest(round(value) * len(tasks), len(tasks)).proportion_ci(LEVEL)
        return estimate("pass_at_k", value, n, args=args, interval=(low, high), method="clopper_pearson")
    if len(tasks) < LEAST_TASKS:
        why = f"an interval needs {LEAST_TASKS} experiments"
        return estimate("pass_at_k", value, n, args=args, reason=why)
    if np.ptp(values) == 0:
        why = "all experiments have the same value, which does not say how others would differ"
        return estimate("pass_at_k", value, n, args=args, reason=why)
    effective = value * (1 - value) * len(values) / float(np.var(values, ddof=1))
    interval = wilson(value, effective, float(t.ppf((1 + LEVEL) / 2, len(values) - 1)))
    return estimate("pass_at_k", value, n, args=args, interval=interval, method="wilson_tasks")


def compare(
    first: str, second: str, by_agent: Mapping[str, Sequence[Attempts]], k: int, *, seed: int, resamples: int = 10_000
) -> list[Estimate]:
    """First minus second over the experiments both have with k attempts: the difference, and its two-sided p-value.

    Tasks are resampled, both agents on the same ones. Interval and p widen the draws alike for few tasks (percentile_p).
    With one attempt of each on every task McNemar's exact test is added.
    """
    args = {"agents": [first, second], "k": k}
    mine, theirs = ({task.task: task for task in by_agent[agent] if task.n >= k} for agent in (first, second))
    common = sorted(mine.keys() & theirs.keys())
    n = {"tasks": len(common), "tasks_not_common": len(mine.keys() ^ theirs.keys())}
    names = ("pass_at_k_difference", "pass_at_k_difference_p")
    if not common:
        why = f"no experiment has {'an attempt' if k == 1 else f'{k} attempts'} of both agents"
        return [estimate(name, None, n, args=args, reason=why) for name in names]
    pairs = [mine[task] for task in common], [theirs[task] for task in common]
    each = _values(pairs[0], k) - _values(pairs[1], k)
    difference = float(each.mean())
    exact = _mcnemar(*pairs, args) if k == 1 and all(task.n == 1 for side in pairs for task in side) else []
    if len(common) < LEAST_TASKS or not resamples:
        why = f"an interval needs {LEAST_TASKS} experiments" if resamples else "the interval needs resampling"
        found = [
            estimate(names[0], difference, n, args=args, reason=why),
            estimate(names[1], None, n, args=args, reason=why),
        ]
        return found + exact
    if not each.any():
        why = "both agents did alike on every experiment"
        return [
            estimate(names[0], 0.0, n, args=args, reason=why),
            estimate(names[1], 1.0, n, args=args, reason=why),
            *exact,
        ]
    if np.ptp(each) < SAME:
        why = "the difference is the same on every experiment, so that resampling tells nothing"
        return [
            estimate(names[0], difference, n, args=args, reason=why),
            estimate(names[1], None, n, args=args, reason=why),
            *exact,
        ]
    # Sums of the same tasks in another order differ in the last digit: that is no difference.
    drawn = np.round(_means(each, resamples, generator(seed, names[0], args)), 12)
    wide = widening(len(each))
    apart = percentile(drawn, widening=wide)
    return [
        estimate(
            names[0], difference, n, args=args, interval=apart.interval, method="paired_bootstrap", reason=apart.reason
        ),
        estimate(names[1], percentile_p(drawn, widening=wide), n, args=args),
        *exact,
    ]


def _mcnemar(first: Sequence[Attempts], second: Sequence[Attempts], args: Mapping[str, object]) -> list[Estimate]:
    """McNemar 1947, exact: of the experiments where only one of the two got there, how uneven is the split?"""
    only_first = sum(a.successes > b.successes for a, b in zip(first, second, strict=True))
    only_second = sum(a.successes < b.successes for a, b in zip(first, second, strict=True))
    apart = only_first + only_second
    n = {"tasks": len(first), "only_first": only_first, "only_second": only_second}
    value = float(binomtest(only_first, apart).pvalue) if apart else 1.0
    reason = "" if apart else "both agents did alike on every experiment"
    return [estimate("mcnemar_p", value, n, args=args, reason=reason)]


def _values(tasks: Sequence[Attempts], k: int) -> Floats:
    found = [pass_at_k(task.n, task.successes, k) for task in tasks]
    return np.array([value for value in found if value is not None], dtype=np.float64)


def _too_few(tasks: Sequence[Attempts], short: int, k: int) -> str:
    if not tasks:
        return "there are no attempts"
    if k == 1:
        return f"{short} of {len(tasks)} experiments have no attempt"
    least = min(task.n for task in tasks)
    return f"{short} of {len(tasks)} experiments have fewer than {k} attempts; the least is {least}"


def _means(each: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    portions = _portions(resamples, len(each))
    return np.concatenate([each[rng.integers(0, len(each), (size, len(each)))].mean(axis=1) for size in portions])


def _portions(resamples: int, width: int) -> list[int]:
    each = max(1, _AT_ONCE // width)
    return [min(each, resamples - done) for done in range(0, resamples, each)]
