"""Whether an item takes longer to show because of where it came from: each beside itself with another origin."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from django.urls import reverse
from scipy.stats import wilcoxon

from ratings.audit import visits
from ratings.audit.findings import Check, Leak
from ratings.audit.pages import Page
from ratings.audit.visits import Browser
from ratings.models import ItemSource, Study

SLOWER = 0.002  # seconds that nobody could use
LOOKS = 3
_FEWEST = 8  # the fewest items of which the signed rank test can say anything at 0.01
_ALPHA = 0.01


class Times:
    """Seconds by assignment, as a planted error and as a genuine item."""

    def __init__(self) -> None:
        self._seconds: dict[int, dict[bool, list[float]]] = defaultdict(lambda: {True: [], False: []})

    def add(self, page: Page, planted: bool) -> None:
        if page.label == "item" and page.status == 200:
            self._seconds[page.assignment][planted].append(page.seconds)

    @property
    def gaps(self) -> list[float]:
        """How much longer each took as a planted error, both at their quickest, when nothing else was in the way."""
        both = (times for times in self._seconds.values() if times[True] and times[False])
        return [min(times[True]) - min(times[False]) for times in both]

    def told(self) -> str:
        """What they tell, or ""."""
        gaps = self.gaps
        middle, p = median(gaps), float(wilcoxon(gaps).pvalue) if any(gaps) else 1.0
        if p >= _ALPHA or abs(middle) < SLOWER:
            return ""
        word = "longer" if middle > 0 else "less"
        return f"planted errors take {abs(middle) * 1000:.1f} ms {word} than the same item unplanted (p = {p:.2g})"


def check(study: Study, times: Times) -> Check:
    """A busy computer can slow one world and not the other: what is found is measured anew, item by item, to stand."""
    check = Check("timing", "Does an item take longer to show because of where it came from?")
    gaps = times.gaps
    if len(gaps) < _FEWEST:
        check.skipped = f"{len(gaps)} items whose origin could be changed are too few; {_FEWEST} would do"
        return check
    check.looked_at = len(gaps)
    check.measured = {"median_ms": round(median(gaps) * 1000, 3), "measured_anew": bool(times.told())}
    if times.told() and (again := _anew(study)).gaps and (told := again.told()):
        check.leaks.append(Leak("timing", told))
    return check


def _anew(study: Study) -> Times:
    """Each item in both worlds at once, in turns."""
    times = Times()
    kinds = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "perturbation"))
    for rater in study.raters.order_by("number"):
        for places in visits.chunks(visits.work(rater)):
            with visits.undone():
                browser = Browser(visits.seated(rater))
                for turn, place in enumerate(place for place in places for _ in range(LOOKS)):
                    url = reverse("ratings:rate", args=[place.code])
                    for moved in _in_turns(turn):
                        with visits.undone():
                            changed = visits.another_world(study, study.seed) if moved else {}
                            page = browser.send("item", "get", url, place)
                        if not moved or place.item_id in changed:
                            times.add(page, (kinds[place.item_id] != "none") != moved)
    return times


def _in_turns(turn: int) -> Sequence[bool]:
    return (False, True) if turn % 2 else (True, False)
