"""python -m bench.million: whether pages are as quick with a million ratings as with a thousand.

Two sites on the same machine: 1,000,000 ratings in 200 studies of 5,000, and beside them one study of 50,000; and the
baseline, one study of 1,000 ratings and 199 drafts, as a laboratory has it that begins. Each lives in a process of its own, and the same
page is asked for in turn, through Django's own test client, so that whatever slows the machine slows both. What counts is
the ratio of the medians: it shall not be above 1.5. Ends with 1 if a page that the promise names takes longer, or if the
number of queries differs.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import bulk_pages
from bench.bulk_pages import PAGES, Asked, Page
from bench.services import postgres

MOST = 1.5  # times the baseline
STUDIES, RATINGS, LARGE, SMALL = 200, 5_000, 50_000, 1_000
MEASURED, LARGEST = "study-1", "large-study"


class Sizes(NamedTuple):
    """How the sites are made: (slug, ratings, raters) of each study."""

    small: list[tuple[str, int, int]]
    big: list[tuple[str, int, int]]


class Line(NamedTuple):
    """One page: seconds and queries with the thousand, the million, and in the large study (None where it is not asked)."""

    page: Page
    small: list[Asked]
    big: list[Asked]
    large: list[Asked]

    @property
    def ratio(self) -> float:
        return _middle(self.big) / _middle(self.small)

    @property
    def same_queries(self) -> bool:
        return {asked.queries for asked in self.small} == {asked.queries for asked in self.big}

    @property
    def holds(self) -> bool:
        return not self.page.promised or (self.ratio <= MOST and self.same_queries)


def sizes(quick: bool) -> Sizes:
    """Quick: a hundredth, to see that the benchmark runs; its ratios say little."""
    part = 100 if quick else 1
    studies = [(f"study-{n}", RATINGS // part, 10) for n in range(1, STUDIES // part + 1)]
    drafts = [(f"study-{n}", 0, 10) for n in range(2, STUDIES // part + 1)]
    return Sizes(
        small=[(MEASURED, SMALL // part, 10), *drafts],
        big=[*studies, (LARGEST, LARGE // part, 100)],
    )


class Site:
    """A site in a process of its own."""

    def __init__(self, url: str, studies: Sequence[tuple[str, int, int]], folder: str) -> None:
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=bulk_pages.serve, args=(url, list(studies), theirs, folder), daemon=True)
        self._process.start()
        theirs.close()  # else a site that fails would be waited for for ever
        self.said: str = self._ours.recv()

    def ask(self, page: Page, slug: str) -> Asked:
        self._ours.send((page.name, slug))
        answer: Asked = self._ours.recv()
        return answer

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join(60)


def measured(small: Site, big: Site, rounds: int) -> Iterator[Line]:
    """Page by page; a first round of each warms what is kept in memory, and is not counted."""
    for page in PAGES:
        found: tuple[list[Asked], list[Asked], list[Asked]] = ([], [], [])
        for number in range(rounds + 1):
            answers = small.ask(page, MEASURED), big.ask(page, MEASURED), big.ask(page, LARGEST)
            if number:
                for one, answer in zip(found, answers, strict=True):
                    one.append(answer)
        yield Line(page, *found)


def report(lines: Sequence[Line]) -> Iterator[str]:
    yield f"{'page':34} {'1,000':>9} {'1,000,000':>10} {'ratio':>6}  {'queries':>8}   {'50,000 in one study':>19}"
    for line in lines:
        queries = "/".join(str(one[-1].queries) for one in (line.small, line.big))
        mark = "" if line.holds else f"  MORE THAN {MOST}" if line.ratio > MOST else "  QUERIES DIFFER"
        yield (
            f"{line.page.name:34} {_milliseconds(line.small)} {_milliseconds(line.big):>10} {line.ratio:6.2f}  "
            f"{queries:>8}   {_milliseconds(line.large):>11} {_middle(line.large) / _middle(line.small):6.2f}"
            f"{'' if line.page.promised else '  (no promise)'}{mark}"
        )


def _middle(asked: Sequence[Asked]) -> float:
    return median(one.seconds for one in asked)


def _milliseconds(asked: Sequence[Asked]) -> str:
    return f"{1000 * _middle(asked):6.1f} ms"


def _databases(stack: ExitStack, vendor: str, folder: Path) -> tuple[str, str]:
    if vendor == "postgresql":
        url = stack.enter_context(postgres("small")).url
        bulk_pages.create_beside(url, "big")
        return url, url.removesuffix("small") + "big"
    return f"sqlite:///{folder / 'small.sqlite3'}", f"sqlite:///{folder / 'big.sqlite3'}"


def _run(vendor: str, args: argparse.Namespace) -> list[Line]:
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-bench-"))
        folder = args.keep or Path(scratch)
        wanted = sizes(args.quick)
        urls = _databases(stack, vendor, folder)
        small, big = (stack.enter_context(Site(*one, scratch)) for one in zip(urls, wanted, strict=True))
        print(f"\n{vendor}: {small.said}; {big.said}.", flush=True)
        lines = []
        print("\n".join(report(lines := list(measured(small, big, args.rounds)))), flush=True)
        return lines


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=20, help="times each page is asked for")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the ratings: only that it runs")
    parser.add_argument("--keep", type=Path, help="a folder for the SQLite files, used again the next time")
    return parser.parse_args()


def main() -> int:
    args = _asked()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    vendors = ["sqlite", "postgresql"] if args.database == "both" else [args.database]
    print("Milliseconds of a page, median. Baseline: the same page of a site with 1,000 ratings.")
    lines = [line for vendor in vendors for line in _run(vendor, args)]
    bad = [line.page.name for line in lines if not line.holds]
    print(f"\n{'Not held: ' + ', '.join(bad) if bad else 'Every promise holds'}.")
    return 1 if bad and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
