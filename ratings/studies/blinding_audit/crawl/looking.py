"""The crawl of an audit: every rater's browser with true and with swapped sources, then strangers.

Each visit is a transaction of its own that is rolled back, so that every visit begins with the unchanged study.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from django.urls import reverse

from ratings.models import Assignment, Rater, Study
from ratings.studies.blinding_audit.copy.guard import rolled_back
from ratings.studies.blinding_audit.crawl import visits, worlds
from ratings.studies.blinding_audit.crawl.browser import Browser
from ratings.studies.blinding_audit.crawl.pages import Page
from ratings.studies.blinding_audit.crawl.responses import Responses
from ratings.studies.blinding_audit.crawl.timing import LOOKS
from ratings.studies.blinding_audit.findings import Leak

_CRAWLED_AGAIN = 2  # raters all of whose pages are compared; for the others, only the pages about items
_CODES = 20  # items that strangers request in one transaction


class World(NamedTuple):
    """The pages that a rater was sent, and which items changed their truth for it: by item, whether it is truly a planted error."""

    pages: list[Page]
    moved: dict[int, bool]


def look(seen: Responses) -> Iterator[int]:
    """Visit every page of every rater and add it to the checks. Yield each rater's number when done, for progress."""
    study = seen.study
    for done, rater in enumerate(study.raters.order_by("number"), start=1):
        for page in _before(rater):
            seen.see(page)
        for number, places in enumerate(visits.chunks([place.pk for place in visits.work(rater)])):
            _compare(seen, *_own(rater, places, number == 0 and done <= _CRAWLED_AGAIN))
        yield done
    for items in visits.one_of_each_pair(visits.unclaimed(study)):
        _compare(seen, *_claimed(study, items))
    _strangers(seen)


def _before(rater: Rater) -> list[Page]:
    """Return the pages that a rater can open before the first answer."""
    with rolled_back():
        browser = Browser(visits.seated(rater))
        return [*visits.crawled(browser, rater), *visits.refusals(browser, rater)]


def _own(rater: Rater, places: Collection[int], every: bool) -> tuple[World, World]:
    """Visit some of the rater's own assignments with true and with swapped sources."""
    with rolled_back():
        return _both(rater, [place for place in visits.work(rater) if place.pk in places], every)


def _claimed(study: Study, items: dict[int, uuid.UUID]) -> tuple[World, World]:
    with rolled_back():
        rater = visits.another_seat(study)
        return _both(rater, visits.given(rater, items), every=False)


def _both(rater: Rater, places: Sequence[Assignment], every: bool) -> tuple[World, World]:
    """Return the visit with true sources and that with swapped ones."""
    browser = Browser(visits.seated(rater))
    # The order alternates between raters, so that caches do not make one of both faster throughout.
    swapped_order = (False, True) if rater.number % 2 else (True, False)
    visit_by_swapped = {moved: _world(browser, rater, places, every, moved) for moved in swapped_order}
    return visit_by_swapped[False], visit_by_swapped[True]


def _world(browser: Browser, rater: Rater, places: Sequence[Assignment], every: bool, moved: bool) -> World:
    with rolled_back(), browser.keep_cookies():
        study = rater.study
        changed_truth = worlds.another_world(study, study.seed, worlds.shown_to(rater)) if moved else {}
        pages = [*visits.rated(browser, places, LOOKS), *visits.afterwards(browser, rater, every)]
    return World(pages, changed_truth)


def _compare(seen: Responses, true: World, other: World) -> None:
    if [page.label for page in true.pages] != [page.label for page in other.pages]:
        # Not comparable page by page then, and itself a leak.
        seen.worlds.leaks.append(
            Leak("answer", "which requests a rater makes, and how often, depends on where the item came from")
        )
    for true_page, swapped_page in zip(true.pages, other.pages, strict=False):
        seen.see(true_page)
        seen.compare(true_page, swapped_page)
        planted = other.moved.get(true_page.asked_item)
        if planted is not None and true_page.label == swapped_page.label:
            seen.times.add(true_page, planted)
            seen.times.add(swapped_page, not planted)


def _strangers(seen: Responses) -> None:
    """Request every item as nobody, and as a rater who does not have it: both must be answered like an item that does not exist."""
    items = list(seen.study.items.order_by("code").values_list("pk", flat=True))
    for start in range(0, len(items), _CODES):
        for page, reference_page in _asked_for(seen.study, items[start : start + _CODES]):
            seen.words.saw(seen.told(page))
            sentence = f"answered differently from an item that does not exist ({page.status})"
            seen.doors.saw([] if page.steady() == reference_page.steady() else [Leak(page.label, sentence)])


def _asked_for(study: Study, items: Iterable[int]) -> list[tuple[Page, Page]]:
    """Return each answer with the same stranger's answer for an item that does not exist."""
    with rolled_back():
        # Unclaimed items have no assignment and so no URL; here they get one.
        visits.given(visits.another_seat(study), {item: uuid.uuid4() for item in visits.unclaimed(study)})
        codes = (
            Assignment.objects.filter(rater__study=study, item__in=items).order_by("pk").values_list("item_id", "code")
        )
        answers = []
        for browser in (Browser(), Browser(visits.seated(visits.another_seat(study)))):
            reference_page = browser.send("no item, a stranger", "get", _url(uuid.uuid4()))
            answers += [
                (browser.send("item, a stranger", "get", _url(code)), reference_page) for code in dict(codes).values()
            ]
        return answers


def _url(code: uuid.UUID) -> str:
    return reverse("ratings:rate", args=[code])
