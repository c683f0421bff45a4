"""Simulated benchmarks for bench/coverage.py: two agents attempt experiments of varying difficulty, which is correlated between the agents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from bench.coverage_quantities import Interval
from ratings.stats import pass_at_k, proportions
from ratings.stats.pass_at_k import Attempts
from ratings.stats.resampling import percentile

AGENTS = {"first": (0.8, 0.8), "second": (0.5, 0.9)}  # Beta parameters of the probability of success over experiments
TOGETHER = 0.6  # correlation of difficulty between the two agents
NEW_TASKS = "new experiments"


@dataclass(frozen=True)
class Tasks:
    """The number of experiments, and of attempts per experiment and agent."""

    tasks: int
    attempts: int


@dataclass(frozen=True)
class Attempted:
    """One simulated benchmark."""

    design: Tasks
    agents: dict[str, list[Attempts]]


def play(design: Tasks, rng: np.random.Generator) -> Attempted:
    shared = rng.standard_normal(design.tasks)
    attempts = {}
    for agent, shape in AGENTS.items():
        # A Gaussian copula: correlated normal deviates, transformed to the Beta distribution of each agent.
        quantile = ndtr(sqrt(TOGETHER) * shared + sqrt(1 - TOGETHER) * rng.standard_normal(design.tasks))
        successes = rng.binomial(design.attempts, beta.ppf(quantile, *shape))
        attempts[agent] = [Attempts(f"task {at:03}", design.attempts, int(n)) for at, n in enumerate(successes)]
    return Attempted(design, attempts)


def passes(study: Attempted, resamples: int) -> Iterator[Interval]:
    """Yield the intervals of pass@k of one agent, and of the difference of two agents on the same experiments."""
    tasks, n = study.agents["first"], study.design.attempts
    for k in sorted({1, min(3, n), n}):
        row = pass_at_k.mean_pass_at_k("first", tasks, k)
        truth = _true("first", k)
        yield Interval(f"pass@{k}", row.method or "wilson_tasks", NEW_TASKS, row.low, row.high, truth)
        interval = _drawn_tasks([pass_at_k.pass_at_k(*task[1:], k) or 0.0 for task in tasks], resamples)
        yield Interval(f"pass@{k}", "experiments resampled", NEW_TASKS, *interval, truth, True)
        comparison = pass_at_k.compare("first", "second", study.agents, k, seed=0, resamples=resamples)[0]
        difference = truth - _true("second", k)
        method = comparison.method or "paired_bootstrap"
        yield Interval(f"pass@{k}, difference", method, NEW_TASKS, comparison.low, comparison.high, difference)
    successes = sum(task.successes for task in tasks)
    naive = proportions.rate([True] * successes + [False] * (sum(task.n for task in tasks) - successes))
    yield Interval(
        "pass@1", "Wilson, attempts as independent", NEW_TASKS, naive.low, naive.high, _true("first", 1), True
    )


def _drawn_tasks(values: Sequence[float], resamples: int) -> tuple[float | None, float | None]:
    """Return percentiles of the mean over resampled experiments, a naive method in common use."""
    rng = np.random.default_rng(len(values))
    means = np.array(values)[rng.integers(0, len(values), (resamples, len(values)))].mean(axis=1)
    return percentile(means).interval or (None, None)


def _true(agent: str, k: int) -> float:
    """Return 1 - E[(1-p)^k] for a Beta distribution: 1 minus the product of (b + i) / (a + b + i) over i < k."""
    a, b = AGENTS[agent]
    return 1 - prod((b + i) / (a + b + i) for i in range(k))
