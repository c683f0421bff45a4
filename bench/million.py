"""python -m bench.million: whether pages are as fast with a million ratings as with a thousand.

Two sites on the same machine: one with 1,000,000 ratings in 200 studies of 5,000 plus one study of 50,000, and as the baseline
one with a study of 1,000 ratings and 199 drafts, like a laboratory that is just starting. Each runs in its own process. The
same page is requested from both in turn through Django's test client, so that anything that slows the machine slows both. The
result is the ratio of the medians: at most 1.5. Exits with 1 if a page with a promised limit takes longer, or if its
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
    """The studies of both sites: (slug, ratings, raters) of each."""

    small: list[tuple[str, int, int]]
    big: list[tuple[str, int, int]]


class Line(NamedTuple):
    """One page: its measurements on the small site, on the large site, and in the largest study."""

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
    """Return the sizes of both sites. Quick: a hundredth, to check that the benchmark runs; its ratios mean little."""
    part = 100 if quick else 1
    studies = [(f"study-{n}", RATINGS // part, 10) for n in range(1, STUDIES // part + 1)]
    drafts = [(f"study-{n}", 0, 10) for n in range(2, STUDIES // part + 1)]
    return Sizes(
        small=[(MEASURED, SMALL // part, 10), *drafts],
        big=[*studies, (LARGEST, LARGE // part, 100)],
    )


class Site:
    """A site in its own process."""

    def __init__(self, url: str, studies: Sequence[tuple[str, int, int]], folder: str) -> None:
        # Spawned, not forked: each site sets up Django for its own database.
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=bulk_pages.serve, args=(url, list(studies), theirs, folder), daemon=True)
        self._process.start()
        theirs.close()  # otherwise recv() would wait forever for a site that failed
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
    """Compare page by page. A first round warms the caches and is not counted."""
    for page in PAGES:
        measurements: tuple[list[Asked], list[Asked], list[Asked]] = ([], [], [])
        for number in range(rounds + 1):
            # In turn, so that a slow moment of the machine affects all three.
            answers = small.ask(page, MEASURED), big.ask(page, MEASURED), big.ask(page, LARGEST)
            if number:
                for series, answer in zip(measurements, answers, strict=True):
                    series.append(answer)
        yield Line(page, *measurements)


def report(lines: Sequence[Line]) -> Iterator[str]:
    yield f"{'page':34} {'1,000':>9} {'1,000,000':>10} {'ratio':>6}  {'queries':>8}   {'50,000 in one study':>19}"
    for line in lines:
        queries = "/".join(str(one[-1].queries) for one in (line.small, line.big))
        remark = "" if line.holds else f"  MORE THAN {MOST}" if line.ratio > MOST else "  QUERIES DIFFER"
        yield (
            f"{line.page.name:34} {_milliseconds(line.small)} {_milliseconds(line.big):>10} {line.ratio:6.2f}  "
            f"{queries:>8}   {_milliseconds(line.large):>11} {_middle(line.large) / _middle(line.small):6.2f}"
            f"{'' if line.page.promised else '  (no promise)'}{remark}"
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
        requested = sizes(args.quick)
        urls = _databases(stack, vendor, folder)
        small, big = (stack.enter_context(Site(*one, scratch)) for one in zip(urls, requested, strict=True))
        print(f"\n{vendor}: {small.said}; {big.said}.", flush=True)
        lines = []
        print("\n".join(report(lines := list(measured(small, big, args.rounds)))), flush=True)
        return lines


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=20, help="number of requests per page")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the ratings, to check that it runs")
    parser.add_argument("--keep", type=Path, help="a folder for the SQLite files, which the next run reuses")
    return parser.parse_args()


def main() -> int:
    args = _asked()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    vendors = ["sqlite", "postgresql"] if args.database == "both" else [args.database]
    print("Median milliseconds per page. Baseline: the same page of a site with 1,000 ratings.")
    lines = [line for vendor in vendors for line in _run(vendor, args)]
    exceeded = [line.page.name for line in lines if not line.holds]
    print(f"\n{'Limit exceeded: ' + ', '.join(exceeded) if exceeded else 'All pages are within their limits'}.")
    return 1 if exceeded and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
