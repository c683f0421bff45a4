"""Whether an answer takes longer because of where an item came from: each request beside itself with another origin."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import median

from scipy.stats import wilcoxon

from ratings.models import Assignment, Rater, Study
from ratings.studies.blinding_audit.copy.guard import rolled_back
from ratings.studies.blinding_audit.crawl import visits, worlds
from ratings.studies.blinding_audit.crawl.browser import Browser
from ratings.studies.blinding_audit.crawl.pages import Page
from ratings.studies.blinding_audit.findings import Check, Leak

SLOWER = 0.002  # seconds that nobody could use
LOOKS = 2
_LOOKS_ANEW = 3
_FEWEST = 8  # the fewest items of which the signed rank test can say anything at 0.01
_MOST_ANEW = 40  # items are enough to say whether a difference stands
_ALPHA = 0.01


class Times:
    """Seconds by request and assignment, as a planted error and as a genuine item."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[int, dict[bool, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: {True: [], False: []})
        )

    def add(self, page: Page, planted: bool) -> None:
        if page.asked:
            self._seconds[page.label][page.asked][planted].append(page.seconds)

    @property
    def gaps(self) -> dict[str, list[float]]:
        """Of each request: how much longer each item took as a planted error, both at their quickest, when nothing else
        was in the way. Requests that were made of too few items are left out."""
        found = {label: list(_gaps(places.values())) for label, places in self._seconds.items()}
        return {label: gaps for label, gaps in found.items() if len(gaps) >= _FEWEST}

    def told(self) -> dict[str, str]:
        """What they tell, by request. Not corrected over requests: it has to be found twice, see `check`."""
        gaps = self.gaps
        values = [float(wilcoxon(times).pvalue) if any(times) else 1.0 for times in gaps.values()]
        found = zip(gaps, map(median, gaps.values()), values, strict=True)
        return {label: _said(middle, p) for label, middle, p in found if p < _ALPHA and abs(middle) >= SLOWER}


def _gaps(places: Iterable[Mapping[bool, Sequence[float]]]) -> Iterator[float]:
    return (min(times[True]) - min(times[False]) for times in places if times[True] and times[False])


def _said(middle: float, p: float) -> str:
    word = "longer" if middle > 0 else "less"
    return f"planted errors take {abs(middle) * 1000:.1f} ms {word} than the same item unplanted (p = {p:.2g})"


def check(study: Study, times: Times) -> Check:
    """A busy computer can slow one world and not the other: what is found is measured anew, item by item, to stand."""
    check = Check("timing", "Does any answer take longer because of where the item came from?")
    gaps = times.gaps
    if "item" not in gaps:
        check.skipped = f"the origin of too few items could be changed; {_FEWEST} would do"
        return check
    suspected = times.told()
    check.looked_at = sum(map(len, gaps.values()))
    middles = {label: round(median(found) * 1000, 3) for label, found in gaps.items()}
    check.measured = {"median_ms": middles, "measured_anew": sorted(suspected)}
    if suspected:
        again = _anew(study, suspected).told()
        check.leaks = [Leak(f"timing of {label}", told) for label, told in again.items()]
    return check


def _anew(study: Study, labels: Collection[str]) -> Times:
    """Those requests, in both worlds at once, in turns."""
    times = Times()
    for rater, place in islice(_every(study), _MOST_ANEW):
        for page, planted in _one(rater, place, labels):
            times.add(page, planted)
    return times


def _every(study: Study) -> Iterator[tuple[Rater, Assignment]]:
    return ((rater, place) for rater in study.raters.order_by("number") for place in visits.work(rater))


def _one(rater: Rater, place: Assignment, labels: Collection[str]) -> list[tuple[Page, bool]]:
    """Pages of one item in both worlds; nothing where its truth is the same in both."""
    with rolled_back():
        browser, study = Browser(visits.seated(rater)), rater.study
        found: list[tuple[Page, bool]] = []
        for turn in range(_LOOKS_ANEW):
            for other in (False, True) if turn % 2 else (True, False):
                with rolled_back(), browser.keep_cookies():
                    moved = worlds.another_world(study, study.seed, worlds.shown_to(rater)) if other else {}
                    if other and place.item_id not in moved:
                        return []
                    found += [(page, other) for page in _until_last(visits.rated(browser, [place]), labels)]
        with rolled_back():
            planted = worlds.another_world(study, study.seed, worlds.shown_to(rater))[place.item_id]
        return [(page, planted != other) for page, other in found]


def _until_last(pages: Iterator[Page], labels: Collection[str]) -> list[Page]:
    """Pages of these labels; nothing is asked for when each was met."""
    found: list[Page] = []
    for page in pages:
        found += [page] if page.label in labels else []
        if {page.label for page in found} == set(labels):
            break
    return found
