"""Simulated benchmarks for bench/coverage.py: agents attempting experiments, some hard, some easy, alike for both agents."""

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

AGENTS = {"first": (0.8, 0.8), "second": (0.5, 0.9)}  # Beta: how the chance of success varies over experiments
TOGETHER = 0.6  # correlation of what two agents find hard
NEW_TASKS = "new experiments"


@dataclass(frozen=True)
class Tasks:
    """So many experiments, each attempted so often by each agent."""

    tasks: int
    attempts: int


@dataclass(frozen=True)
class Attempted:
    """One simulated benchmark."""

    design: Tasks
    agents: dict[str, list[Attempts]]


def play(design: Tasks, rng: np.random.Generator) -> Attempted:
    shared = rng.standard_normal(design.tasks)
    found = {}
    for agent, shape in AGENTS.items():
        place = ndtr(sqrt(TOGETHER) * shared + sqrt(1 - TOGETHER) * rng.standard_normal(design.tasks))
        done = rng.binomial(design.attempts, beta.ppf(place, *shape))
        found[agent] = [Attempts(f"task {at:03}", design.attempts, int(n)) for at, n in enumerate(done)]
    return Attempted(design, found)


def passes(study: Attempted, resamples: int) -> Iterator[Interval]:
    """pass@k of one agent, and the difference of two on the same experiments."""
    tasks, n = study.agents["first"], study.design.attempts
    for k in sorted({1, min(3, n), n}):
        row = pass_at_k.mean_pass_at_k("first", tasks, k)
        truth = _true("first", k)
        yield Interval(f"pass@{k}", row.method or "wilson_tasks", NEW_TASKS, row.low, row.high, truth)
        drawn = _drawn_tasks([pass_at_k.pass_at_k(*task[1:], k) or 0.0 for task in tasks], resamples)
        yield Interval(f"pass@{k}", "experiments resampled", NEW_TASKS, *drawn, truth, True)
        found = pass_at_k.compare("first", "second", study.agents, k, seed=0, resamples=resamples)[0]
        apart = truth - _true("second", k)
        method = found.method or "paired_bootstrap"
        yield Interval(f"pass@{k}, difference", method, NEW_TASKS, found.low, found.high, apart)
    successes = sum(task.successes for task in tasks)
    naive = proportions.rate([True] * successes + [False] * (sum(task.n for task in tasks) - successes))
    yield Interval(
        "pass@1", "Wilson, attempts as independent", NEW_TASKS, naive.low, naive.high, _true("first", 1), True
    )


def _drawn_tasks(values: Sequence[float], resamples: int) -> tuple[float | None, float | None]:
    """Percentiles of the mean of tasks drawn again: what is often done."""
    rng = np.random.default_rng(len(values))
    drawn = np.array(values)[rng.integers(0, len(values), (resamples, len(values)))].mean(axis=1)
    return percentile(drawn).interval or (None, None)


def _true(agent: str, k: int) -> float:
    """1 - E(1-p)^k of a Beta: the product of (b + i) / (a + b + i) over i below k."""
    a, b = AGENTS[agent]
    return 1 - prod((b + i) / (a + b + i) for i in range(k))
