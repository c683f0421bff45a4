"""python -m bench.coverage: how often the application's 95% intervals contain their true values in simulated studies.

For every design and quantity: the share of studies whose interval contains the true value of its target, with its Monte Carlo
error, the mean half-width, and the share of studies in which the interval was withheld; beside them, the same for the naive
intervals that it replaces. FAIL is less than 92% (the interval should have been withheld), conservative more than 99%. Exits
with 1 if one of the application's own intervals fails. With --write, the output is stored in bench/results/coverage.md.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from importlib.metadata import version
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench import coverage_attempts, coverage_quantities, reader_worlds
from bench.coverage_attempts import BenchmarkDesign
from bench.coverage_contrasts import compute_contrasts
from bench.coverage_quantities import MeasuredInterval
from bench.reader_worlds import StudyDesign

DESIGNS: Mapping[str, StudyDesign | BenchmarkDesign] = {
    "R6 unbalanced": StudyDesign(6, shares=(0.8, 0.7, 0.6, 0.5, 0.4, 0.3)),
    "R6 full": StudyDesign(6),
    "R3 full": StudyDesign(3),
    "R12 unbalanced": StudyDesign(12, shares=(0.6, 0.6, 0.55, 0.5, 0.5, 0.45, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2)),
    "R2": StudyDesign(2),
    "small overlap": StudyDesign(8, each=3),
    "R6, 40 items": StudyDesign(6, (10, 10, 10, 10)),
    "18 x 5 attempts": BenchmarkDesign(18, 5),
    "18 x 1 attempt": BenchmarkDesign(18, 1),
    "60 x 3 attempts": BenchmarkDesign(60, 3),
}
GROUPS = {**coverage_quantities.GROUPS, "contrasts": compute_contrasts}
PASS_GROUP = "passes"
MIN_COVERAGE, CONSERVATIVE_ABOVE = 0.92, 0.99
MIN_INTERVALS = 50  # with fewer intervals, the share is too uncertain to call it a failure
BLOCK_SIZE = 25  # studies that a process simulates at a time
OUTPUT = Path(__file__).resolve().parent / "results" / "coverage.md"


class ResultKey(NamedTuple):
    """One row of the table. `naive`: the name of a naive method that the application's own replaces; "" for its own."""

    quantity: str
    target: str
    naive: str
    design: str


class IntervalTally(NamedTuple):
    """The counts of one row's intervals; `width` is the sum of their half-widths."""

    studies: int = 0
    reported: int = 0
    covered: int = 0
    width: float = 0.0
    methods: frozenset[str] = frozenset()

    def add_interval(self, interval: MeasuredInterval) -> "IntervalTally":
        if interval.low is None or interval.high is None:
            return self._replace(studies=self.studies + 1)
        covered = self.covered + (interval.low <= interval.truth <= interval.high)
        width = self.width + (interval.high - interval.low) / 2
        return IntervalTally(self.studies + 1, self.reported + 1, covered, width, self.methods | {interval.method})

    def add_tally(self, other: "IntervalTally") -> "IntervalTally":
        numbers = (mine + theirs for mine, theirs in zip(self[:4], other[:4], strict=True))
        return IntervalTally(*numbers, methods=self.methods | other.methods)

    @property
    def coverage_share(self) -> float:
        return self.covered / self.reported

    @property
    def standard_error(self) -> float:
        """Return the Monte Carlo standard error of the coverage."""
        return sqrt(self.coverage_share * (1 - self.coverage_share) / self.reported)

    @property
    def withheld_share(self) -> float:
        return 1 - self.reported / self.studies

    @property
    def rating_word(self) -> str:
        if self.reported < MIN_INTERVALS:
            return "withheld" if not self.reported else "few given"
        return (
            "FAIL"
            if self.coverage_share < MIN_COVERAGE
            else "conservative"
            if self.coverage_share > CONSERVATIVE_ABOVE
            else "adequate"
        )


Tallies = Mapping[ResultKey, IntervalTally]


class StudyBlock(NamedTuple):
    """A range of study numbers of one design."""

    design: str
    first: int
    last: int


def measure_block(
    block: StudyBlock, *, groups: Sequence[str], resamples: int, seed: int
) -> dict[ResultKey, IntervalTally]:
    """Simulate and analyse the studies of a block. The result depends only on the numbers, not on the process."""
    tallies: dict[ResultKey, IntervalTally] = {}
    for number in range(block.first, block.last):
        # One generator per study, so that the split into blocks and processes changes nothing.
        rng = np.random.default_rng([seed, list(DESIGNS).index(block.design), number])
        for interval in iter_intervals(DESIGNS[block.design], groups, resamples, rng):
            cell = ResultKey(
                interval.quantity, interval.target, interval.method if interval.naive else "", block.design
            )
            tallies[cell] = tallies.get(cell, IntervalTally()).add_interval(interval)
    return tallies


def iter_intervals(
    design: StudyDesign | BenchmarkDesign, groups: Sequence[str], resamples: int, rng: np.random.Generator
) -> Iterator[MeasuredInterval]:
    if isinstance(design, BenchmarkDesign):
        if PASS_GROUP in groups:
            yield from coverage_attempts.compute_pass_intervals(
                coverage_attempts.simulate_benchmark(design, rng), resamples
            )
        return
    study = reader_worlds.simulate_study(design, rng)
    for name, group in GROUPS.items():
        if name in groups:
            yield from group(study, resamples)


def merge_tallies(parts: Iterable[Tallies]) -> dict[ResultKey, IntervalTally]:
    """Merge all blocks. Rows are in the order of the quantities, then of the designs."""
    merged: dict[ResultKey, IntervalTally] = {}
    for part in parts:
        for cell, tally in part.items():
            merged[cell] = merged.get(cell, IntervalTally()).add_tally(tally)
    lines = {name: at for at, name in enumerate(dict.fromkeys(cell[:3] for cell in merged))}
    designs = list(DESIGNS)
    return dict(sorted(merged.items(), key=lambda one: (lines[one[0][:3]], designs.index(one[0].design))))


TABLE_HEADINGS = ("quantity", "target", "method", "design", "coverage", "half-width", "withheld", "")
SUMMARY_HEADINGS = ("quantity", "target", "method", "lowest coverage", "highest coverage", "withheld", "")


def iter_table_rows(tallies: Tallies) -> Iterator[tuple[str, ...]]:
    """Yield a row for each quantity, method and design."""
    for cell, tally in tallies.items():
        width = f"{tally.width / tally.reported:.3f}" if tally.reported else ""
        yield (cell.quantity, cell.target, describe_method(cell, [tally]), cell.design, format_coverage(tally), width,
               f"{tally.withheld_share:.0%}", tally.rating_word)  # fmt: skip


def iter_summary_rows(found: Tallies) -> Iterator[tuple[str, ...]]:
    """Yield a row for each quantity and method, with the designs of lowest and highest coverage."""
    for line in dict.fromkeys(cell[:3] for cell in found):
        row_tallies = {cell: tally for cell, tally in found.items() if cell[:3] == line}
        coverages = sorted(
            (tally.coverage_share, cell.design)
            for cell, tally in row_tallies.items()
            if tally.reported >= MIN_INTERVALS
        )
        extremes = (
            [f"{share:.1%} ({design})" for share, design in (coverages[0], coverages[-1])] if coverages else ["", ""]
        )
        withheld = [tally.withheld_share for tally in row_tallies.values()]
        words = [tally.rating_word for tally in row_tallies.values()]
        worst = next((word for word in ("FAIL", "conservative", "adequate") if word in words), "withheld")
        withheld_range = (
            f"{min(withheld):.0%} to {max(withheld):.0%}" if max(withheld) > min(withheld) else f"{min(withheld):.0%}"
        )
        yield (
            *line[:2],
            describe_method(next(iter(row_tallies)), row_tallies.values()),
            *extremes,
            withheld_range,
            worst,
        )


def describe_method(cell: ResultKey, tallies: Iterable[IntervalTally]) -> str:
    return f"naive: {cell.naive}" if cell.naive else ", ".join(sorted(set().union(*(one.methods for one in tallies))))


def format_coverage(tally: IntervalTally) -> str:
    return f"{tally.coverage_share:.1%} ±{tally.standard_error:.1%}" if tally.reported else ""


def find_failures(found: Tallies) -> list[ResultKey]:
    """Return the rows of the application's own methods whose coverage is too low."""
    return [cell for cell, tally in found.items() if not cell.naive and tally.rating_word == "FAIL"]


def format_markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_page(found: Tallies, about: str) -> str:
    """Return the text of bench/results/coverage.md."""
    failed = [f"{cell.quantity}, {cell.target}, {cell.design}" for cell in find_failures(found)]
    verdict = (
        "Below 92%: " + "; ".join(failed) + "."
        if failed
        else f"In these designs no interval that the application gives in {MIN_INTERVALS} studies or more covers less than 92%."
    )
    return f"""# Coverage of the intervals

How often nominal 95% intervals contain the true value of their target, in simulated studies whose truth is known.
Every interval is computed by the functions that the application calls. The simulation is described in
`bench/reader_worlds.py` and `bench/coverage_attempts.py`; targets and methods are described in [statistics.md](../../docs/statistics.md).

{about}

{verdict}

How to read it. *These raters*: the same raters and infinitely many new items. *New raters*: new items and new raters. ± is the
Monte Carlo standard error. *Withheld* is the share of studies in which the application gives a reason instead of an interval; the
coverage is that of the other studies. Below 92% is FAIL, above 99% conservative (wider than necessary), in between adequate; rows with
fewer than {MIN_INTERVALS} intervals are not rated. *Naive* methods are in common use. The application shows one of them, labelled as such
and beside a better one: Wilson with ratings treated as independent.

## Summary

{format_markdown_table(SUMMARY_HEADINGS, iter_summary_rows(found))}

## By design

{describe_designs()}

{format_markdown_table(TABLE_HEADINGS, iter_table_rows(found))}
"""


def describe_designs() -> str:
    return "\n".join(f"- {name}: {describe_design(design)}." for name, design in DESIGNS.items())


def describe_design(design: StudyDesign | BenchmarkDesign) -> str:
    if isinstance(design, BenchmarkDesign):
        return (
            f"{design.tasks} experiments, {design.attempts} attempt{'s' * (design.attempts != 1)} at each by two agents"
        )
    sizes = ", ".join(map(str, design.sizes))
    if design.each:
        assignment = f"{design.each} of them, drawn at random, rate each item"
    else:
        assignment = (
            f"who rate {', '.join(f'{share:.0%}' for share in design.shares)} of the items"
            if design.shares
            else "who rate all items"
        )
    return f"{design.raters} raters; {assignment}; items by source: {sizes}"


def describe_measurement(args: argparse.Namespace, seconds: float) -> str:
    with open("/proc/cpuinfo") as cpu_info:
        processor = next(
            (line.split(":")[1].strip() for line in cpu_info if line.startswith("model name")), platform.machine()
        )
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    return (
        f"{args.studies:,} studies of each design, {args.resamples} resamples, seed {args.seed}. "
        f"{date.today().isoformat()}, {processor}, {args.jobs} processes, {seconds / 60:.0f} minutes; "
        f"Python {platform.python_version()}, {packages}. Command: `{' '.join(build_command())}`."
    )


def build_command() -> list[str]:
    return ["python", "-m", "bench.coverage", *sys.argv[1:]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies per design")
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(DESIGNS), metavar="DESIGN")
    groups = [*GROUPS, PASS_GROUP]
    parser.add_argument(
        "--quantities", nargs="*", choices=groups, default=groups, help=", ".join(groups), metavar="GROUP"
    )
    parser.add_argument("--resamples", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="also write bench/results/coverage.md")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each of the processes started below
    started = time.monotonic()
    ranges = [(first, min(first + BLOCK_SIZE, args.studies)) for first in range(0, args.studies, BLOCK_SIZE)]
    blocks = [StudyBlock(design, *numbers) for design in args.designs for numbers in ranges]
    measure = partial(measure_block, groups=args.quantities, resamples=args.resamples, seed=args.seed)
    with get_context("spawn").Pool(args.jobs) as pool:
        found = merge_tallies(show_progress(pool.imap(measure, blocks), len(blocks)))
    about = describe_measurement(args, time.monotonic() - started)
    for head, rows in (
        (TABLE_HEADINGS, list(iter_table_rows(found))),
        (SUMMARY_HEADINGS, list(iter_summary_rows(found))),
    ):
        print("\n".join(align_columns([head, *rows])), end="\n\n")
    print(about)
    failed = find_failures(found)
    print(
        f"{len(failed)} of the application's own intervals fail."
        if failed
        else "None of the application's own intervals fails."
    )
    if args.write:
        OUTPUT.write_text(format_page(found, about))
    return 1 if failed else 0


def show_progress(parts: Iterable[Tallies], total: int) -> Iterator[Tallies]:
    for done, part in enumerate(parts, 1):
        print(f"\r{done} of {total} blocks", end="" if done < total else "\n", file=sys.stderr, flush=True)
        yield part


def align_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


if __name__ == "__main__":
    sys.exit(main())
