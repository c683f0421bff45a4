"""The crawl of an audit: every rater's browser with true and with swapped sources, then strangers.

Each visit is a transaction of its own that is rolled back, so that every visit begins with the unchanged study.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from django.urls import reverse

from ratings.models import Assignment, Rater, Study
from ratings.studies.blinding_audit.copy.guard import roll_back_changes
from ratings.studies.blinding_audit.crawl import source_swap, visits
from ratings.studies.blinding_audit.crawl.browser import Browser
from ratings.studies.blinding_audit.crawl.pages import Page
from ratings.studies.blinding_audit.crawl.responses import ResponseChecks
from ratings.studies.blinding_audit.crawl.timing import REQUESTS_PER_ITEM
from ratings.studies.blinding_audit.findings import Leak

_FULLY_COMPARED_RATERS = 2  # raters all of whose pages are compared; for the others, only the pages about items
_ITEMS_PER_VISIT = 20  # items that strangers request in one transaction


class Visit(NamedTuple):
    """The pages that a rater was sent.

    `changed_truth` has the items that the swap made a planted error or no planted error, and whether each truly is
    one.
    """

    pages: list[Page]
    changed_truth: dict[int, bool]


def visit_all_raters(responses: ResponseChecks) -> Iterator[int]:
    """Visit every page of every rater and add it to the checks. Yield, for progress, how many raters are done."""
    study = responses.study
    for done, rater in enumerate(study.raters.order_by("number"), start=1):
        for page in _visit_before_rating(rater):
            responses.inspect_page(page)
        for number, places in enumerate(
            visits.split_into_chunks([assignment.pk for assignment in visits.list_assignments(rater)])
        ):
            _compare_visits(responses, *_visit_own_items(rater, places, number == 0 and done <= _FULLY_COMPARED_RATERS))
        yield done
    for items in visits.chunk_without_pairs(visits.find_unclaimed_items(study)):
        _compare_visits(responses, *_visit_claimed_items(study, items))
    _visit_as_strangers(responses)


def _visit_before_rating(rater: Rater) -> list[Page]:
    """Return the pages that a rater can open before the first answer."""
    with roll_back_changes():
        browser = Browser(visits.prepare_user(rater))
        return [*visits.crawl_links(browser, rater), *visits.visit_refusals(browser, rater)]


def _visit_own_items(rater: Rater, places: Collection[int], with_all_pages: bool) -> tuple[Visit, Visit]:
    """Visit some of the rater's own assignments with true and with swapped sources."""
    with roll_back_changes():
        return _visit_both_origins(
            rater,
            [assignment for assignment in visits.list_assignments(rater) if assignment.pk in places],
            with_all_pages,
        )


def _visit_claimed_items(study: Study, items: dict[int, uuid.UUID]) -> tuple[Visit, Visit]:
    with roll_back_changes():
        rater = visits.create_rater(study)
        return _visit_both_origins(rater, visits.assign_items(rater, items), with_all_pages=False)


def _visit_both_origins(rater: Rater, assignments: Sequence[Assignment], with_all_pages: bool) -> tuple[Visit, Visit]:
    """Return two visits to the same assignments: one with true sources and one with swapped sources."""
    browser = Browser(visits.prepare_user(rater))
    # The order alternates between raters, so that caches do not make one of the two visits faster throughout.
    swapped_order = (False, True) if rater.number % 2 else (True, False)
    visit_by_swapped = {
        moved: _visit_items(browser, rater, assignments, with_all_pages, moved) for moved in swapped_order
    }
    return visit_by_swapped[False], visit_by_swapped[True]


def _visit_items(
    browser: Browser, rater: Rater, assignments: Sequence[Assignment], with_all_pages: bool, is_swapped: bool
) -> Visit:
    with roll_back_changes(), browser.restore_cookies():
        study = rater.study
        changed_truth = (
            source_swap.swap_sources(study, study.seed, source_swap.find_items_of(rater)) if is_swapped else {}
        )
        pages = [
            *visits.visit_items(browser, assignments, REQUESTS_PER_ITEM),
            *visits.visit_after_rating(browser, rater, with_all_pages),
        ]
    return Visit(pages, changed_truth)


def _compare_visits(responses: ResponseChecks, true_visit: Visit, swapped_visit: Visit) -> None:
    if [page.label for page in true_visit.pages] != [page.label for page in swapped_visit.pages]:
        # The pages then cannot be compared one by one, and the difference is itself a leak.
        responses.worlds.leaks.append(
            Leak("answer", "which requests a rater makes, and how often, depends on where the item came from")
        )
    for true_page, swapped_page in zip(true_visit.pages, swapped_visit.pages, strict=False):
        responses.inspect_page(true_page)
        responses.compare_pages(true_page, swapped_page)
        planted = swapped_visit.changed_truth.get(true_page.asked_item)
        if planted is not None and true_page.label == swapped_page.label:
            responses.times.add_page(true_page, planted)
            responses.times.add_page(swapped_page, not planted)


def _visit_as_strangers(responses: ResponseChecks) -> None:
    """Request every item without signing in, and as a rater without assignments.

    Both requests must be answered as if the item did not exist.
    """
    items = list(responses.study.items.order_by("code").values_list("pk", flat=True))
    for start in range(0, len(items), _ITEMS_PER_VISIT):
        for page, reference_page in _request_as_stranger(responses.study, items[start : start + _ITEMS_PER_VISIT]):
            responses.words.add_leaks(responses.find_sealed_words(page))
            sentence = f"answered differently from an item that does not exist ({page.status})"
            responses.doors.add_leaks(
                [] if page.split_stable_parts() == reference_page.split_stable_parts() else [Leak(page.label, sentence)]
            )


def _request_as_stranger(study: Study, items: Iterable[int]) -> list[tuple[Page, Page]]:
    """Return each response, paired with the response that the same stranger gets for an item that does not exist."""
    with roll_back_changes():
        # Unclaimed items have no assignment and so no URL; here they get one.
        visits.assign_items(
            visits.create_rater(study), {item: uuid.uuid4() for item in visits.find_unclaimed_items(study)}
        )
        codes = (
            Assignment.objects.filter(rater__study=study, item__in=items).order_by("pk").values_list("item_id", "code")
        )
        answers = []
        for browser in (Browser(), Browser(visits.prepare_user(visits.create_rater(study)))):
            reference_page = browser.send_request("no item, a stranger", "get", _rating_url(uuid.uuid4()))
            answers += [
                (browser.send_request("item, a stranger", "get", _rating_url(code)), reference_page)
                for code in dict(codes).values()
            ]
        return answers


def _rating_url(code: uuid.UUID) -> str:
    return reverse("ratings:rate", args=[code])
