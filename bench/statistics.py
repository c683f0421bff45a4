"""python -m bench.statistics: what the full analysis of 100,000 ratings costs, with 2,000 resamples, on one core.

The analysis is what a study's page stores: read from the database, every table and interval. Baseline in the same run: plain
NumPy resampling the items of the same arrays 2,000 times for three of its quantities, the share of verdicts 1, the AUC of
the signed rating and the mean kappa over pairs of raters. Beside it scikit-learn in a loop over the resamples, the way it is
often written: measured on a few of them and multiplied up.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score, roc_auc_score
from threadpoolctl import threadpool_limits

RATINGS, RATERS, RESAMPLES = 100_000, 20, 2_000
LEVELS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)
CHUNK = 200  # resamples at once


def of_numpy(table: Any, resamples: int) -> np.ndarray:
    """Share, AUC and mean kappa of every resample of the items, shape (resamples, 3): counts of items, weighted."""
    rng, items = np.random.default_rng(0), len(table.items)
    yes = np.bincount(table.item, table.verdict, items)
    given = np.bincount(table.item, minlength=items).astype(float)
    levels = [_counts(table, truth, items) for truth in (1, 0)]
    cells = _pair_cells(table, items)
    found = []
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        drawn = np.array(
            [np.bincount(rng.integers(0, items, items), minlength=items) for _ in range(size)], dtype=float
        )
        share = drawn @ yes / (drawn @ given)
        found.append(np.column_stack([share, _areas(*(drawn @ one for one in levels)), _kappas(drawn @ cells)]))
    return np.concatenate(found)


def _counts(table: Any, truth: int, items: int) -> np.ndarray:
    """How often each item of this truth got each signed rating, shape (items, 10)."""
    own = (table.reference == truth) & np.isfinite(table.confidence)
    level = np.searchsorted(LEVELS, table.signed[own])
    return np.bincount(table.item[own] * 10 + level, minlength=items * 10).reshape(items, 10).astype(float)


def _areas(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    below = np.cumsum(negative, axis=1) - negative / 2
    return (positive * below).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))


def _pair_cells(table: Any, items: int) -> np.ndarray:
    """For each pair of raters the four outcomes of each item, shape (items, pairs * 4)."""
    grid = table.grid()
    pairs = np.array(list(combinations(range(grid.shape[1]), 2)))
    one, two = grid[:, pairs[:, 0]], grid[:, pairs[:, 1]]
    outcomes = [(one == a) & (two == b) for a in (0, 1) for b in (0, 1)]
    return np.stack(outcomes, axis=2).reshape(items, -1).astype(float)


def _kappas(cells: np.ndarray) -> np.ndarray:
    n = cells.reshape(len(cells), -1, 4)
    total = n.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        one, two = (n[..., 2] + n[..., 3]) / total, (n[..., 1] + n[..., 3]) / total
        agreed, chance = (n[..., 0] + n[..., 3]) / total, one * two + (1 - one) * (1 - two)
        return np.nanmean((agreed - chance) / (1 - chance), axis=1)


def of_sklearn(table: Any, resamples: int) -> np.ndarray:
    """The same three, with one call for each number and resample."""
    rng, grid, found = np.random.default_rng(0), table.grid(), []
    rows = np.split(np.arange(len(table)), np.cumsum(np.bincount(table.item, minlength=len(table.items)))[:-1])
    for _ in range(resamples):
        drawn = rng.integers(0, len(table.items), len(table.items))
        own = np.concatenate([rows[item] for item in drawn])
        kappas, again = [], grid[drawn]
        for one, two in combinations(range(grid.shape[1]), 2):
            both = np.isfinite(again[:, one]) & np.isfinite(again[:, two])
            if both.any():
                kappas.append(cohen_kappa_score(again[both, one], again[both, two]))
        found.append(
            [table.verdict[own].mean(), roc_auc_score(table.reference[own], table.signed[own]), np.mean(kappas)]
        )
    return np.array(found)


def the_same_three(table: Any, resamples: int) -> None:
    """Ours of those quantities alone, with what the application adds: by source, and intervals for new raters."""
    from ratings.stats import proportions
    from ratings.stats.agreement import agreement
    from ratings.stats.areas import auc

    proportions.rates(table, by="source")
    auc.panel(table, 0, resamples)
    agreement.average(table, 20, seed=0, resamples=resamples)


def _study(ratings: int) -> Any:
    from django.core.management import call_command

    from bench import bulk_site
    from ratings.models import Study

    call_command("migrate", verbosity=0)
    bulk_site.make([bulk_site.Plan("study", ratings, RATERS)])
    Study.objects.update(status="unblinded")
    return Study.objects.get()


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Of the processor, so that whoever shares the machine does not count."""
    started = time.process_time()
    made = work()
    return time.process_time() - started, made


def measure(ratings: int, resamples: int, naive: int) -> None:
    from ratings.results.analyses import document
    from ratings.results.analyses.filters import Filters
    from ratings.results.analyses.reading import read
    from ratings.stats import panel

    study, filters = _study(ratings), Filters()
    reading, found = _seconds(lambda: read(study, filters))
    table = found.table
    base, numbers = _seconds(lambda: of_numpy(table, resamples))
    few, _ = _seconds(lambda: of_sklearn(table, naive))
    same, _ = _seconds(lambda: the_same_three(table, resamples))
    whole, results = _seconds(lambda: panel.panel(table, found.repeats, resamples=resamples))
    every, _ = _seconds(lambda: document.written(study, filters, "", found, seed=0, resamples=resamples))
    low, high = np.quantile(numbers[:, 2], [0.025, 0.975])
    print(
        f"{len(table):,} ratings of {table.n['items']:,} items by {RATERS} raters, {resamples:,} resamples; seconds of one core."
    )
    print(f"Baseline: plain NumPy, three quantities, {base:.1f} s (mean kappa {low:.3f} to {high:.3f}).\n")
    lines = (
        ("plain NumPy, three quantities", base, "baseline"),
        (f"scikit-learn in a loop, the same (from {naive} resamples)", few / naive * resamples, ""),
        ("ours, the same three, by source and for new raters", same, ""),
        (f"ours, the whole panel ({len(results):,} numbers)", whole, ""),
        ("ours, the document that a page stores", every, ""),
        ("reading the ratings for it", reading, ""),
    )
    for name, seconds, said in lines:
        print(f"{name:56} {seconds:9.1f} s  {seconds / base:8.2f}  {said}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.statistics", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 ratings and 50 resamples: only that it runs")
    args = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "wetbench_site.settings"
    with tempfile.TemporaryDirectory(prefix="wetbench-bench-") as folder:
        os.environ |= {"WETBENCH_VAR_DIR": folder, "DATABASE_URL": f"sqlite:///{Path(folder) / 'statistics.sqlite3'}"}
        import django

        django.setup()
        with threadpool_limits(1):
            measure(*((1_000, 50, 1) if args.quick else (RATINGS, RESAMPLES, 3)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
