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
from bench.coverage_attempts import Tasks
from bench.coverage_contrasts import contrasts
from bench.coverage_quantities import Interval
from bench.reader_worlds import Design

DESIGNS: Mapping[str, Design | Tasks] = {
    "R6 unbalanced": Design(6, shares=(0.8, 0.7, 0.6, 0.5, 0.4, 0.3)),
    "R6 full": Design(6),
    "R3 full": Design(3),
    "R12 unbalanced": Design(12, shares=(0.6, 0.6, 0.55, 0.5, 0.5, 0.45, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2)),
    "R2": Design(2),
    "small overlap": Design(8, each=3),
    "R6, 40 items": Design(6, (10, 10, 10, 10)),
    "18 x 5 attempts": Tasks(18, 5),
    "18 x 1 attempt": Tasks(18, 1),
    "60 x 3 attempts": Tasks(60, 3),
}
GROUPS = {**coverage_quantities.GROUPS, "contrasts": contrasts}
PASSES = "passes"
LEAST, MOST = 0.92, 0.99
FEWEST = 50  # with fewer intervals, the share is too uncertain to call it a failure
BLOCK = 25  # studies that a process simulates at a time
OUTPUT = Path(__file__).resolve().parent / "results" / "coverage.md"


class Cell(NamedTuple):
    """One row of the table. `naive`: the name of a naive method that the application's own replaces; "" for its own."""

    quantity: str
    target: str
    naive: str
    design: str


class Tally(NamedTuple):
    """The counts of one row's intervals; `width` is the sum of their half-widths."""

    studies: int = 0
    given: int = 0
    held: int = 0
    width: float = 0.0
    methods: frozenset[str] = frozenset()

    def plus(self, one: Interval) -> "Tally":
        if one.low is None or one.high is None:
            return self._replace(studies=self.studies + 1)
        covered = self.held + (one.low <= one.truth <= one.high)
        width = self.width + (one.high - one.low) / 2
        return Tally(self.studies + 1, self.given + 1, covered, width, self.methods | {one.method})

    def with_other(self, other: "Tally") -> "Tally":
        numbers = (mine + theirs for mine, theirs in zip(self[:4], other[:4], strict=True))
        return Tally(*numbers, methods=self.methods | other.methods)

    @property
    def coverage(self) -> float:
        return self.held / self.given

    @property
    def error(self) -> float:
        """Return the Monte Carlo standard error of the coverage."""
        return sqrt(self.coverage * (1 - self.coverage) / self.given)

    @property
    def withheld(self) -> float:
        return 1 - self.given / self.studies

    @property
    def said(self) -> str:
        if self.given < FEWEST:
            return "withheld" if not self.given else "few given"
        return "FAIL" if self.coverage < LEAST else "conservative" if self.coverage > MOST else "adequate"


Tallies = Mapping[Cell, Tally]


class Block(NamedTuple):
    """A range of study numbers of one design."""

    design: str
    first: int
    last: int


def measured(block: Block, *, groups: Sequence[str], resamples: int, seed: int) -> dict[Cell, Tally]:
    """Simulate and analyse the studies of a block. The result depends only on the numbers, not on the process."""
    tallies: dict[Cell, Tally] = {}
    for number in range(block.first, block.last):
        # One generator per study, so that the split into blocks and processes changes nothing.
        rng = np.random.default_rng([seed, list(DESIGNS).index(block.design), number])
        for interval in _intervals(DESIGNS[block.design], groups, resamples, rng):
            cell = Cell(interval.quantity, interval.target, interval.method if interval.naive else "", block.design)
            tallies[cell] = tallies.get(cell, Tally()).plus(interval)
    return tallies


def _intervals(
    design: Design | Tasks, groups: Sequence[str], resamples: int, rng: np.random.Generator
) -> Iterator[Interval]:
    if isinstance(design, Tasks):
        if PASSES in groups:
            yield from coverage_attempts.passes(coverage_attempts.play(design, rng), resamples)
        return
    study = reader_worlds.play(design, rng)
    for name, group in GROUPS.items():
        if name in groups:
            yield from group(study, resamples)


def together(parts: Iterable[Tallies]) -> dict[Cell, Tally]:
    """Merge all blocks. Rows are in the order of the quantities, then of the designs."""
    merged: dict[Cell, Tally] = {}
    for part in parts:
        for cell, tally in part.items():
            merged[cell] = merged.get(cell, Tally()).with_other(tally)
    lines = {name: at for at, name in enumerate(dict.fromkeys(cell[:3] for cell in merged))}
    designs = list(DESIGNS)
    return dict(sorted(merged.items(), key=lambda one: (lines[one[0][:3]], designs.index(one[0].design))))


HEAD = ("quantity", "target", "method", "design", "coverage", "half-width", "withheld", "")
SUMMARY = ("quantity", "target", "method", "lowest coverage", "highest coverage", "withheld", "")


def lines_of(found: Tallies) -> Iterator[tuple[str, ...]]:
    """Yield a row for each quantity, method and design."""
    for cell, tally in found.items():
        width = f"{tally.width / tally.given:.3f}" if tally.given else ""
        yield (cell.quantity, cell.target, _method(cell, [tally]), cell.design, _coverage(tally), width,
               f"{tally.withheld:.0%}", tally.said)  # fmt: skip


def summary_of(found: Tallies) -> Iterator[tuple[str, ...]]:
    """Yield a row for each quantity and method, with the designs of lowest and highest coverage."""
    for line in dict.fromkeys(cell[:3] for cell in found):
        row_tallies = {cell: tally for cell, tally in found.items() if cell[:3] == line}
        coverages = sorted(
            (tally.coverage, cell.design) for cell, tally in row_tallies.items() if tally.given >= FEWEST
        )
        extremes = (
            [f"{share:.1%} ({design})" for share, design in (coverages[0], coverages[-1])] if coverages else ["", ""]
        )
        withheld = [tally.withheld for tally in row_tallies.values()]
        words = [tally.said for tally in row_tallies.values()]
        worst = next((word for word in ("FAIL", "conservative", "adequate") if word in words), "withheld")
        withheld_range = (
            f"{min(withheld):.0%} to {max(withheld):.0%}" if max(withheld) > min(withheld) else f"{min(withheld):.0%}"
        )
        yield (*line[:2], _method(next(iter(row_tallies)), row_tallies.values()), *extremes, withheld_range, worst)


def _method(cell: Cell, tallies: Iterable[Tally]) -> str:
    return f"naive: {cell.naive}" if cell.naive else ", ".join(sorted(set().union(*(one.methods for one in tallies))))


def _coverage(tally: Tally) -> str:
    return f"{tally.coverage:.1%} ±{tally.error:.1%}" if tally.given else ""


def failures(found: Tallies) -> list[Cell]:
    """Return the rows of the application's own methods whose coverage is too low."""
    return [cell for cell, tally in found.items() if not cell.naive and tally.said == "FAIL"]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(found: Tallies, about: str) -> str:
    """Return the text of bench/results/coverage.md."""
    failed = [f"{cell.quantity}, {cell.target}, {cell.design}" for cell in failures(found)]
    verdict = (
        "Below 92%: " + "; ".join(failed) + "."
        if failed
        else f"In these designs no interval that the application gives in {FEWEST} studies or more covers less than 92%."
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
fewer than {FEWEST} intervals are not rated. *Naive* methods are in common use. The application shows one of them, labelled as such
and beside a better one: Wilson with ratings treated as independent.

## Summary

{markdown(SUMMARY, summary_of(found))}

## By design

{designs_said()}

{markdown(HEAD, lines_of(found))}
"""


def designs_said() -> str:
    return "\n".join(f"- {name}: {_said(design)}." for name, design in DESIGNS.items())


def _said(design: Design | Tasks) -> str:
    if isinstance(design, Tasks):
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


def _about(args: argparse.Namespace, seconds: float) -> str:
    with open("/proc/cpuinfo") as cpu_info:
        processor = next(
            (line.split(":")[1].strip() for line in cpu_info if line.startswith("model name")), platform.machine()
        )
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    return (
        f"{args.studies:,} studies of each design, {args.resamples} resamples, seed {args.seed}. "
        f"{date.today().isoformat()}, {processor}, {args.jobs} processes, {seconds / 60:.0f} minutes; "
        f"Python {platform.python_version()}, {packages}. Command: `{' '.join(_command())}`."
    )


def _command() -> list[str]:
    return ["python", "-m", "bench.coverage", *sys.argv[1:]]


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies per design")
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(DESIGNS), metavar="DESIGN")
    groups = [*GROUPS, PASSES]
    parser.add_argument(
        "--quantities", nargs="*", choices=groups, default=groups, help=", ".join(groups), metavar="GROUP"
    )
    parser.add_argument("--resamples", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="also write bench/results/coverage.md")
    return parser.parse_args()


def main() -> int:
    args = _asked()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each of the processes started below
    started = time.monotonic()
    ranges = [(first, min(first + BLOCK, args.studies)) for first in range(0, args.studies, BLOCK)]
    blocks = [Block(design, *numbers) for design in args.designs for numbers in ranges]
    measure = partial(measured, groups=args.quantities, resamples=args.resamples, seed=args.seed)
    with get_context("spawn").Pool(args.jobs) as pool:
        found = together(_watched(pool.imap(measure, blocks), len(blocks)))
    about = _about(args, time.monotonic() - started)
    for head, rows in ((HEAD, list(lines_of(found))), (SUMMARY, list(summary_of(found)))):
        print("\n".join(_aligned([head, *rows])), end="\n\n")
    print(about)
    failed = failures(found)
    print(
        f"{len(failed)} of the application's own intervals fail."
        if failed
        else "None of the application's own intervals fails."
    )
    if args.write:
        OUTPUT.write_text(page(found, about))
    return 1 if failed else 0


def _watched(parts: Iterable[Tallies], total: int) -> Iterator[Tallies]:
    for done, part in enumerate(parts, 1):
        print(f"\r{done} of {total} blocks", end="" if done < total else "\n", file=sys.stderr, flush=True)
        yield part


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


if __name__ == "__main__":
    sys.exit(main())
