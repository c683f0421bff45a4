"""Simulated benchmarks for bench/coverage.py: two agents attempt experiments of varying difficulty, which is correlated between the agents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from bench.coverage_quantities import MeasuredInterval
from ratings.stats import proportions
from ratings.stats.proportions import TaskReplicates
from ratings.stats.resampling import compute_percentile_interval

AGENTS = {"first": (0.8, 0.8), "second": (0.5, 0.9)}  # Beta parameters of the probability of success over experiments
DIFFICULTY_CORRELATION = 0.6  # correlation of difficulty between the two agents
NEW_TASKS = "new experiments"


@dataclass(frozen=True)
class BenchmarkDesign:
    """The number of experiments, and of attempts per experiment and agent."""

    tasks: int
    attempts: int


@dataclass(frozen=True)
class SimulatedBenchmark:
    """One simulated benchmark."""

    design: BenchmarkDesign
    agents: dict[str, list[TaskReplicates]]


def simulate_benchmark(design: BenchmarkDesign, rng: np.random.Generator) -> SimulatedBenchmark:
    shared = rng.standard_normal(design.tasks)
    attempts = {}
    for agent, shape in AGENTS.items():
        # A Gaussian copula: correlated normal deviates, transformed to the Beta distribution of each agent.
        quantile = ndtr(
            sqrt(DIFFICULTY_CORRELATION) * shared + sqrt(1 - DIFFICULTY_CORRELATION) * rng.standard_normal(design.tasks)
        )
        successes = rng.binomial(design.attempts, beta.ppf(quantile, *shape))
        attempts[agent] = [TaskReplicates(f"task {at:03}", design.attempts, int(n)) for at, n in enumerate(successes)]
    return SimulatedBenchmark(design, attempts)


def compute_pass_intervals(study: SimulatedBenchmark, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the intervals of pass@k of one agent, and of the difference of two agents on the same experiments."""
    tasks, n = study.agents["first"], study.design.attempts
    for k in sorted({1, min(3, n), n}):
        row = proportions.estimate_mean_pass_at_k("first", tasks, k)
        truth = compute_true_pass("first", k)
        yield MeasuredInterval(f"pass@{k}", row.method or "wilson_tasks", NEW_TASKS, row.low, row.high, truth)
        interval = resample_tasks([proportions.compute_pass_at_k(*task[1:], k) or 0.0 for task in tasks], resamples)
        yield MeasuredInterval(f"pass@{k}", "experiments resampled", NEW_TASKS, *interval, truth, True)
        comparison = proportions.compare_agents("first", "second", study.agents, k, seed=0, resamples=resamples)[0]
        difference = truth - compute_true_pass("second", k)
        method = comparison.method or "paired_bootstrap"
        yield MeasuredInterval(f"pass@{k}, difference", method, NEW_TASKS, comparison.low, comparison.high, difference)
    successes = sum(task.successes for task in tasks)
    naive = proportions.estimate_rate([True] * successes + [False] * (sum(task.n for task in tasks) - successes))
    yield MeasuredInterval(
        "pass@1",
        "Wilson, attempts as independent",
        NEW_TASKS,
        naive.low,
        naive.high,
        compute_true_pass("first", 1),
        True,
    )


def resample_tasks(values: Sequence[float], resamples: int) -> tuple[float | None, float | None]:
    """Return percentiles of the mean over resampled experiments, a naive method in common use."""
    rng = np.random.default_rng(len(values))
    means = np.array(values)[rng.integers(0, len(values), (resamples, len(values)))].mean(axis=1)
    return compute_percentile_interval(means).interval or (None, None)


def compute_true_pass(agent: str, k: int) -> float:
    """Return 1 - E[(1-p)^k] for a Beta distribution: 1 minus the product of (b + i) / (a + b + i) over i < k."""
    a, b = AGENTS[agent]
    return 1 - prod((b + i) / (a + b + i) for i in range(k))
