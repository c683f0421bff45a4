"""python -m bench.statistics: the cost of the full analysis of 100,000 ratings, with 2,000 resamples, on one core.

The analysis is what a study's page stores: read from the database, with every table and interval. Baseline in the same run:
plain NumPy that resamples the items of the same arrays 2,000 times for three of its quantities: the share of verdicts 1, the
AUC of the signed rating, and the mean kappa over pairs of raters. For comparison, scikit-learn in a loop over the resamples, as it
is often written: measured on a few resamples and extrapolated.
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
CHUNK = 200  # resamples at once, to limit memory


def resample_with_numpy(table: Any, resamples: int) -> np.ndarray:
    """Return share, AUC and mean kappa of every resample of the items, shape (resamples, 3), from weighted counts of items."""
    rng, items = np.random.default_rng(0), len(table.items)
    yes = np.bincount(table.item, table.verdict, items)
    ratings_per_item = np.bincount(table.item, minlength=items).astype(float)
    level_counts = [count_levels(table, truth, items) for truth in (1, 0)]
    cells = count_pair_cells(table, items)
    blocks = []
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        drawn = np.array(
            [np.bincount(rng.integers(0, items, items), minlength=items) for _ in range(size)], dtype=float
        )
        share = drawn @ yes / (drawn @ ratings_per_item)
        blocks.append(
            np.column_stack(
                [share, compute_areas(*(drawn @ one for one in level_counts)), compute_mean_kappas(drawn @ cells)]
            )
        )
    return np.concatenate(blocks)


def count_levels(table: Any, truth: int, items: int) -> np.ndarray:
    """Return how often each item of this truth got each signed rating, shape (items, 10)."""
    selected = (table.reference == truth) & np.isfinite(table.confidence)
    level = np.searchsorted(LEVELS, table.signed[selected])
    return np.bincount(table.item[selected] * 10 + level, minlength=items * 10).reshape(items, 10).astype(float)


def compute_areas(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    below = np.cumsum(negative, axis=1) - negative / 2
    return (positive * below).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))


def count_pair_cells(table: Any, items: int) -> np.ndarray:
    """Return the four outcomes of each item for each pair of raters, shape (items, pairs * 4)."""
    grid = table.grid()
    pairs = np.array(list(combinations(range(grid.shape[1]), 2)))
    first, second = grid[:, pairs[:, 0]], grid[:, pairs[:, 1]]
    outcomes = [(first == a) & (second == b) for a in (0, 1) for b in (0, 1)]
    return np.stack(outcomes, axis=2).reshape(items, -1).astype(float)


def compute_mean_kappas(cells: np.ndarray) -> np.ndarray:
    n = cells.reshape(len(cells), -1, 4)
    total = n.sum(axis=2)
    # A resample without any shared item of a pair has no kappa: it is NaN and left out of the mean.
    with np.errstate(divide="ignore", invalid="ignore"):
        first_yes, second_yes = (n[..., 2] + n[..., 3]) / total, (n[..., 1] + n[..., 3]) / total
        agreement, chance = (n[..., 0] + n[..., 3]) / total, first_yes * second_yes + (1 - first_yes) * (1 - second_yes)
        return np.nanmean((agreement - chance) / (1 - chance), axis=1)


def resample_with_sklearn(table: Any, resamples: int) -> np.ndarray:
    """Return the same three, with one call per number and resample."""
    rng, grid, values = np.random.default_rng(0), table.grid(), []
    rows = np.split(np.arange(len(table)), np.cumsum(np.bincount(table.item, minlength=len(table.items)))[:-1])
    for _ in range(resamples):
        drawn = rng.integers(0, len(table.items), len(table.items))
        drawn_rows = np.concatenate([rows[item] for item in drawn])
        kappas, drawn_grid = [], grid[drawn]
        for one, two in combinations(range(grid.shape[1]), 2):
            shared = np.isfinite(drawn_grid[:, one]) & np.isfinite(drawn_grid[:, two])
            if shared.any():
                kappas.append(cohen_kappa_score(drawn_grid[shared, one], drawn_grid[shared, two]))
        values.append(
            [
                table.verdict[drawn_rows].mean(),
                roc_auc_score(table.reference[drawn_rows], table.signed[drawn_rows]),
                np.mean(kappas),
            ]
        )
    return np.array(values)


def compute_same_quantities(table: Any, resamples: int) -> None:
    """Compute only these quantities with our code, including what the application adds: by source, and intervals for new raters."""
    from ratings.stats import areas, pairwise, proportions

    proportions.estimate_rates(table, by="source")
    areas.estimate_areas(table, 0, resamples)
    pairwise.estimate_pair_means(table, 20, seed=0, resamples=resamples)


def create_study(ratings: int) -> Any:
    from django.core.management import call_command

    from bench import bulk_site
    from ratings.models import Study

    call_command("migrate", verbosity=0)
    bulk_site.create_site([bulk_site.StudyPlan("study", ratings, RATERS)])
    Study.objects.update(status="unblinded")
    return Study.objects.get()


def measure_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of the work and its result; other users of the machine do not affect it."""
    started = time.process_time()
    result = function()
    return time.process_time() - started, result


def measure_analysis(ratings: int, resamples: int, naive: int) -> None:
    from ratings.results.analyses import document
    from ratings.results.analyses.filters import Filters
    from ratings.results.analyses.rating_columns import load_analysis_data
    from ratings.stats import summary

    study, filters = create_study(ratings), Filters()
    reading, columns = measure_seconds(lambda: load_analysis_data(study, filters))
    table = columns.table
    baseline, numbers = measure_seconds(lambda: resample_with_numpy(table, resamples))
    sklearn_time, _ = measure_seconds(lambda: resample_with_sklearn(table, naive))
    same_time, _ = measure_seconds(lambda: compute_same_quantities(table, resamples))
    summary_time, results = measure_seconds(
        lambda: summary.compute_summary(table, columns.repeats, resamples=resamples)
    )
    document_time, _ = measure_seconds(
        lambda: document.assemble_document(study, filters, "", columns, seed=0, resamples=resamples)
    )
    low, high = np.quantile(numbers[:, 2], [0.025, 0.975])
    print(
        f"{len(table):,} ratings of {table.n['items']:,} items by {RATERS} raters, {resamples:,} resamples; seconds of one core."
    )
    print(f"Baseline: plain NumPy, three quantities, {baseline:.1f} s (mean kappa {low:.3f} to {high:.3f}).\n")
    lines = (
        ("plain NumPy, three quantities", baseline, "baseline"),
        (f"scikit-learn in a loop, the same (from {naive} resamples)", sklearn_time / naive * resamples, ""),
        ("ours, the same three, also by source and for new raters", same_time, ""),
        (f"ours, the complete summary ({len(results):,} numbers)", summary_time, ""),
        ("ours, the document that a page stores", document_time, ""),
        ("reading the ratings for it", reading, ""),
    )
    for name, seconds, remark in lines:
        print(f"{name:56} {seconds:9.1f} s  {seconds / baseline:8.2f}  {remark}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.statistics", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="1,000 ratings and 50 resamples, to check that it runs")
    args = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "wetbench_site.settings"
    with tempfile.TemporaryDirectory(prefix="wetbench-bench-") as folder:
        os.environ |= {"WETBENCH_VAR_DIR": folder, "DATABASE_URL": f"sqlite:///{Path(folder) / 'statistics.sqlite3'}"}
        import django

        django.setup()
        # NumPy's libraries would otherwise use all cores, and processor times would not be comparable.
        with threadpool_limits(1):
            measure_analysis(*((1_000, 50, 1) if args.quick else (RATINGS, RESAMPLES, 3)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
