"""The tour of an audit: every rater's browser in the true world and in another one, then strangers.

Each visit is a transaction of its own that is rolled back, so that every visit begins with the study as it was.
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

_CRAWLED_AGAIN = 2  # raters whose every page is held beside its double; of all others, those that items have a part in
_CODES = 20  # items that strangers ask for in one transaction


class World(NamedTuple):
    """What a rater was sent, and whether items that changed their truth for it are planted errors in the true world."""

    pages: list[Page]
    moved: dict[int, bool]


def look(seen: Responses) -> Iterator[int]:
    """Everything there is to look at. After each rater their number, so that a command can tell how far it is."""
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
    """The pages that a rater finds before the first answer."""
    with rolled_back():
        browser = Browser(visits.seated(rater))
        return [*visits.crawled(browser, rater), *visits.refusals(browser, rater)]


def _own(rater: Rater, places: Collection[int], every: bool) -> tuple[World, World]:
    """Some of what the rater has to do."""
    with rolled_back():
        return _both(rater, [place for place in visits.work(rater) if place.pk in places], every)


def _claimed(study: Study, items: dict[int, uuid.UUID]) -> tuple[World, World]:
    with rolled_back():
        rater = visits.another_seat(study)
        return _both(rater, visits.given(rater, items), every=False)


def _both(rater: Rater, places: Sequence[Assignment], every: bool) -> tuple[World, World]:
    """The true world and another; which of them comes first alternates from rater to rater."""
    browser = Browser(visits.seated(rater))
    order = (False, True) if rater.number % 2 else (True, False)
    found = {moved: _world(browser, rater, places, every, moved) for moved in order}
    return found[False], found[True]


def _world(browser: Browser, rater: Rater, places: Sequence[Assignment], every: bool, moved: bool) -> World:
    with rolled_back(), browser.keep_cookies():
        study = rater.study
        changed = worlds.another_world(study, study.seed, worlds.shown_to(rater)) if moved else {}
        pages = [*visits.rated(browser, places, LOOKS), *visits.afterwards(browser, rater, every)]
    return World(pages, changed)


def _compare(seen: Responses, true: World, other: World) -> None:
    if [page.label for page in true.pages] != [page.label for page in other.pages]:
        seen.worlds.leaks.append(
            Leak("answer", "what a rater is asked, and how often, depends on where the item came from")
        )
    for one, its_double in zip(true.pages, other.pages, strict=False):
        seen.see(one)
        seen.compare(one, its_double)
        planted = other.moved.get(one.asked_item)
        if planted is not None and one.label == its_double.label:
            seen.times.add(one, planted)
            seen.times.add(its_double, not planted)


def _strangers(seen: Responses) -> None:
    """Every item asked for by nobody, and by a rater whose item it is not: as if there were no such item."""
    items = list(seen.study.items.order_by("code").values_list("pk", flat=True))
    for at in range(0, len(items), _CODES):
        for page, like in _asked_for(seen.study, items[at : at + _CODES]):
            seen.words.saw(seen.told(page))
            told = f"told apart from an item that does not exist ({page.status})"
            seen.doors.saw([] if page.steady() == like.steady() else [Leak(page.label, told)])


def _asked_for(study: Study, items: Iterable[int]) -> list[tuple[Page, Page]]:
    """Each answer, beside the same stranger's for an item that there is not."""
    with rolled_back():
        visits.given(visits.another_seat(study), {item: uuid.uuid4() for item in visits.unclaimed(study)})
        codes = (
            Assignment.objects.filter(rater__study=study, item__in=items).order_by("pk").values_list("item_id", "code")
        )
        found = []
        for browser in (Browser(), Browser(visits.seated(visits.another_seat(study)))):
            like = browser.send("no item, a stranger", "get", _url(uuid.uuid4()))
            found += [(browser.send("item, a stranger", "get", _url(code)), like) for code in dict(codes).values()]
        return found


def _url(code: uuid.UUID) -> str:
    return reverse("ratings:rate", args=[code])
