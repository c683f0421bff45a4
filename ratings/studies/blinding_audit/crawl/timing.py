"""Test whether response times depend on the source of an item: requests are timed with its true and with a swapped
source.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import median

from scipy.stats import wilcoxon

from ratings.models import Assignment, Rater, Study
from ratings.studies.blinding_audit.copy.guard import roll_back_changes
from ratings.studies.blinding_audit.crawl import source_swap, visits
from ratings.studies.blinding_audit.crawl.browser import Browser
from ratings.studies.blinding_audit.crawl.pages import Page
from ratings.studies.blinding_audit.findings import Check, Leak

MIN_DIFFERENCE = 0.002  # seconds; a smaller difference is of no use to a rater
REQUESTS_PER_ITEM = 2  # requests of each item in one visit: the first may fill a cache
_REPETITIONS = 3  # repetitions when a difference is measured again
_MIN_ITEMS = 8  # the fewest items for which the signed rank test can be significant at 0.01
_MAX_REPEATED_ITEMS = 40  # items that are measured again, which are enough to confirm a difference
_ALPHA = 0.01


class RequestTimes:
    """Response times in seconds, by request and assignment: with the item as a planted error and as an unperturbed
    item.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, dict[int, dict[bool, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: {True: [], False: []})
        )

    def add_page(self, page: Page, planted: bool) -> None:
        if page.asked_assignment:
            self._seconds[page.label][page.asked_assignment][planted].append(page.seconds)

    @property
    def time_gaps(self) -> dict[str, list[float]]:
        """Return for each request how many seconds longer each item took as a planted error.

        Requests for fewer than _MIN_ITEMS items are left out.
        """
        gaps_by_label = {label: list(_compute_gaps(places.values())) for label, places in self._seconds.items()}
        return {label: gaps for label, gaps in gaps_by_label.items() if len(gaps) >= _MIN_ITEMS}

    def find_slow_requests(self) -> dict[str, str]:
        """Return a description of each request whose times differ significantly and by at least MIN_DIFFERENCE."""
        gaps = self.time_gaps
        # Not corrected over requests: a difference has to be found twice, see `check_timing`.
        p_values = [float(wilcoxon(times).pvalue) if any(times) else 1.0 for times in gaps.values()]
        summaries = zip(gaps, map(median, gaps.values()), p_values, strict=True)
        return {
            label: _describe_gap(middle, p)
            for label, middle, p in summaries
            if p < _ALPHA and abs(middle) >= MIN_DIFFERENCE
        }


def _compute_gaps(places: Iterable[Mapping[bool, Sequence[float]]]) -> Iterator[float]:
    # The fastest of each: whatever else the computer does only makes a request slower.
    return (min(times[True]) - min(times[False]) for times in places if times[True] and times[False])


def _describe_gap(middle: float, p: float) -> str:
    direction = "longer" if middle > 0 else "shorter"
    return f"planted errors take {abs(middle) * 1000:.1f} ms {direction} than the same item without its error (p = {p:.2g})"


def check_timing(study: Study, times: RequestTimes) -> Check:
    """Return the check whether response times depend on the source of an item."""
    check = Check("timing", "Does any answer take longer because of where the item came from?")
    gaps = times.time_gaps
    if "item" not in gaps:
        check.skipped = f"the origin of too few items could be swapped; at least {_MIN_ITEMS} are needed"
        return check
    first_findings = times.find_slow_requests()
    check.looked_at = sum(map(len, gaps.values()))
    medians = {label: round(median(item_gaps) * 1000, 3) for label, item_gaps in gaps.items()}
    check.measured = {"median_ms": medians, "measured_anew": sorted(first_findings)}
    if first_findings:
        # A busy computer can slow one visit and not the other, so a difference must be confirmed item by item.
        confirmed = _measure_again(study, first_findings).find_slow_requests()
        check.leaks = [Leak(f"timing of {label}", sentence) for label, sentence in confirmed.items()]
    return check


def _measure_again(study: Study, labels: Collection[str]) -> RequestTimes:
    """Measure these requests again, alternating between true and swapped sources."""
    times = RequestTimes()
    for rater, assignment in islice(_iter_assignments(study), _MAX_REPEATED_ITEMS):
        for page, planted in _visit_in_turns(rater, assignment, labels):
            times.add_page(page, planted)
    return times


def _iter_assignments(study: Study) -> Iterator[tuple[Rater, Assignment]]:
    return (
        (rater, assignment)
        for rater in study.raters.order_by("number")
        for assignment in visits.list_assignments(rater)
    )


def _visit_in_turns(rater: Rater, assignment: Assignment, labels: Collection[str]) -> list[tuple[Page, bool]]:
    """Return pages of one item with true and swapped sources, each with whether the item was a planted error at that
    time.

    Return [] if the swap does not change whether the item is a planted error.
    """
    with roll_back_changes():
        browser, study = Browser(visits.prepare_user(rater)), rater.study
        pages: list[tuple[Page, bool]] = []
        for turn in range(_REPETITIONS):
            # In turns, so that neither has the warmer caches throughout.
            for is_swapped in (False, True) if turn % 2 else (True, False):
                with roll_back_changes(), browser.restore_cookies():
                    changed_truth = (
                        source_swap.swap_sources(study, study.seed, source_swap.find_items_of(rater))
                        if is_swapped
                        else {}
                    )
                    if is_swapped and assignment.item_id not in changed_truth:
                        return []
                    pages += [
                        (page, is_swapped) for page in _collect_pages(visits.visit_items(browser, [assignment]), labels)
                    ]
        with roll_back_changes():
            planted = source_swap.swap_sources(study, study.seed, source_swap.find_items_of(rater))[assignment.item_id]
        return [(page, planted != is_swapped) for page, is_swapped in pages]


def _collect_pages(pages: Iterator[Page], labels: Collection[str]) -> list[Page]:
    """Return the pages with these labels. Stop requesting pages once every label has occurred."""
    collected: list[Page] = []
    for page in pages:
        collected += [page] if page.label in labels else []
        if {page.label for page in collected} == set(labels):
            break
    return collected
