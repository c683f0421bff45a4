"""python -m bench.million: whether pages are as fast with a million ratings as with a thousand.

Two sites on the same machine: one with 1,000,000 ratings in 200 studies of 5,000 plus one study of 50,000, and as the baseline
one with a study of 1,000 ratings and 199 drafts, like a laboratory that is just starting. Each runs in its own process. The
same page is requested from both in turn through Django's test client, so that anything that slows the machine slows both. The
result is the ratio of the medians: at most 1.5. Two pages also have a limit in milliseconds: the list of studies, and the
page of an unblinded study with 50,000 ratings. Exits with 1 if a page with a promised limit takes longer, or if its number of
queries differs.
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
from bench.bulk_pages import PAGES, Measurement, Page
from bench.services import start_postgres

MAX_RATIO = 1.5  # times the baseline
STUDIES, RATINGS, LARGE, SMALL = 200, 5_000, 50_000, 1_000
MEASURED_STUDY, LARGEST_STUDY = "study-1", "large-study"


class SiteSizes(NamedTuple):
    """The studies of both sites: (slug, ratings, raters) of each."""

    small: list[tuple[str, int, int]]
    big: list[tuple[str, int, int]]


class PageComparison(NamedTuple):
    """One page: its measurements on the small site, on the large site, and in the largest study."""

    page: Page
    small: list[Measurement]
    big: list[Measurement]
    large: list[Measurement]

    @property
    def ratio(self) -> float:
        return compute_median(self.big) / compute_median(self.small)

    @property
    def has_same_queries(self) -> bool:
        return len({asked.queries for asked in (*self.small, *self.big, *self.large)}) == 1

    @property
    def is_fast_enough(self) -> bool:
        """Return whether the page meets its own limit, if it has one."""
        limited = self.large if self.page.status == "unblinded" else self.big
        return self.page.max_seconds is None or compute_median(limited) <= self.page.max_seconds

    def describe_excess(self) -> str:
        """Return which limit the page does not meet; "" if it meets all of them or has none."""
        if not self.page.promised:
            return ""
        if not self.is_fast_enough:
            return f"MORE THAN {1000 * (self.page.max_seconds or 0):.0f} ms"
        if self.ratio > MAX_RATIO:
            return f"MORE THAN {MAX_RATIO}"
        return "" if self.has_same_queries else "QUERIES DIFFER"


def choose_sizes(quick: bool) -> SiteSizes:
    """Return the sizes of both sites. Quick: a hundredth, to check that the benchmark runs; its ratios mean little."""
    part = 100 if quick else 1
    studies = [(f"study-{n}", RATINGS // part, 10) for n in range(1, STUDIES // part + 1)]
    drafts = [(f"study-{n}", 0, 10) for n in range(2, STUDIES // part + 1)]
    return SiteSizes(
        small=[(MEASURED_STUDY, SMALL // part, 10), *drafts],
        big=[*studies, (LARGEST_STUDY, LARGE // part, 100)],
    )


class SiteProcess:
    """A site in its own process."""

    def __init__(self, url: str, studies: Sequence[tuple[str, int, int]], folder: str) -> None:
        # Spawned, not forked: each site sets up Django for its own database.
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=bulk_pages.serve_requests, args=(url, list(studies), theirs, folder), daemon=True
        )
        self._process.start()
        theirs.close()  # otherwise recv() would wait forever for a site that failed
        self.said: str = self._ours.recv()

    def measure_page(self, page: Page, slug: str) -> Measurement:
        self._ours.send((page.name, slug))
        answer: Measurement = self._ours.recv()
        return answer

    def __enter__(self) -> "SiteProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join(60)


def iter_comparisons(small: SiteProcess, big: SiteProcess, rounds: int) -> Iterator[PageComparison]:
    """Compare page by page. A first round warms the caches and is not counted."""
    for page in PAGES:
        measurements: tuple[list[Measurement], list[Measurement], list[Measurement]] = ([], [], [])
        for number in range(rounds + 1):
            # In turn, so that a slow moment of the machine affects all three.
            answers = (
                small.measure_page(page, MEASURED_STUDY),
                big.measure_page(page, MEASURED_STUDY),
                big.measure_page(page, LARGEST_STUDY),
            )
            if number:
                for series, answer in zip(measurements, answers, strict=True):
                    series.append(answer)
        yield PageComparison(page, *measurements)


def format_report(lines: Sequence[PageComparison]) -> Iterator[str]:
    yield f"{'page':34} {'1,000':>9} {'1,000,000':>10} {'ratio':>6}  {'queries':>8}   {'50,000 in one study':>19}"
    for line in lines:
        queries = "/".join(str(one[-1].queries) for one in (line.small, line.big, line.large))
        yield (
            f"{line.page.name:34} {format_milliseconds(line.small)} {format_milliseconds(line.big):>10} {line.ratio:6.2f}  "
            f"{queries:>8}   {format_milliseconds(line.large):>11} {compute_median(line.large) / compute_median(line.small):6.2f}"
            f"{'' if line.page.promised else '  (no promise)'}  {line.describe_excess()}".rstrip()
        )


def compute_median(asked: Sequence[Measurement]) -> float:
    return median(one.seconds for one in asked)


def format_milliseconds(asked: Sequence[Measurement]) -> str:
    return f"{1000 * compute_median(asked):6.1f} ms"


def create_databases(stack: ExitStack, vendor: str, folder: Path) -> tuple[str, str]:
    if vendor == "postgresql":
        url = stack.enter_context(start_postgres("small")).url
        bulk_pages.create_database(url, "big")
        return url, url.removesuffix("small") + "big"
    return f"sqlite:///{folder / 'small.sqlite3'}", f"sqlite:///{folder / 'big.sqlite3'}"


def compare_sites(vendor: str, args: argparse.Namespace) -> list[PageComparison]:
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-bench-"))
        folder = args.keep or Path(scratch)
        requested = choose_sizes(args.quick)
        urls = create_databases(stack, vendor, folder)
        small, big = (stack.enter_context(SiteProcess(*one, scratch)) for one in zip(urls, requested, strict=True))
        print(f"\n{vendor}: {small.said}; {big.said}.", flush=True)
        lines = []
        print("\n".join(format_report(lines := list(iter_comparisons(small, big, args.rounds)))), flush=True)
        return lines


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=20, help="number of requests per page")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the ratings, to check that it runs")
    parser.add_argument("--keep", type=Path, help="a folder for the SQLite files, which the next run reuses")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    vendors = ["sqlite", "postgresql"] if args.database == "both" else [args.database]
    print("Median milliseconds per page. Baseline: the same page of a site with 1,000 ratings.")
    lines = [line for vendor in vendors for line in compare_sites(vendor, args)]
    exceeded = [f"{line.page.name} ({excess})" for line in lines if (excess := line.describe_excess())]
    print(f"\n{'Limit exceeded: ' + ', '.join(exceeded) if exceeded else 'All pages are within their limits'}.")
    return 1 if exceeded and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
