"""Request what each rater's browser can be sent: every page, fragment, refusal and file.

The visits write to the database that they read, so they need a scratch copy. Each is rolled back, since the next one
has to begin with the unchanged study.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from ratings.models import (
    Assignment,
    InitialRating,
    Rater,
    Rating,
    RatingEvent,
    Study,
    UnsavedAnswer,
)
from ratings.studies.blinding_audit.copy.guard import require_scratch_copy, roll_back_changes
from ratings.studies.blinding_audit.crawl.browser import HTMX, Browser
from ratings.studies.blinding_audit.crawl.pages import Page

CHUNK_SIZE = 3  # assignments visited together: a page may not depend on the origin of any of them
MAX_CRAWLED_PAGES = 40  # pages of one rater that are reached by links
Thing = TypeVar("Thing")
_PERSONAL_PAGES = ("desk", "profile", "my_ratings")
_RATER_PAGES = ("next", "guide", "practice", "done", "withdraw", "result", "agree")


def prepare_user(rater: Rater) -> User:
    """Create a user who takes this rater's place, with nothing answered and the study open. Call it inside
    `roll_back_changes` only.
    """
    require_scratch_copy()
    user = User.objects.create(username=f"audit-{uuid.uuid4().hex}")
    now = timezone.now()
    # By queries and not through `lifecycle`: no event and no message may follow.
    Study.objects.filter(pk=rater.study_id).update(status="open")
    guide = rater.study.guide_version
    prepared = {"consented_at": now, "practised_at": now, "started_at": now, "guide_seen": guide, "finished_at": None}
    active = {"withdrawn_at": None, "dropped": False, "simulated": False, "imported_as": ""}
    Rater.objects.filter(pk=rater.pk).update(user=user, **prepared, **active)
    for answers in (Rating, RatingEvent, InitialRating, UnsavedAnswer):
        answers.objects.filter(assignment__rater=rater).delete()
    Assignment.objects.filter(rater=rater).update(opened_at=None)
    # Session 2 of a crossover is visited as if its washout were over: opened items are shown at once.
    Assignment.objects.filter(rater=rater, session=2).update(opened_at=now)
    return user


def create_rater(study: Study) -> Rater:
    """Create another rater without assignments. Call it inside `roll_back_changes` only."""
    require_scratch_copy()
    number = max(study.raters.values_list("number", flat=True), default=0) + 1
    return Rater.objects.create(study=study, number=number, label=f"R{number:02}")


def find_unclaimed_items(study: Study) -> dict[int, UUID]:
    """Return the items that are assigned to nobody, with their pairs. In a pool study that was just opened, these are
    all.
    """
    assigned = Assignment.objects.filter(item=OuterRef("pk"), released_at__isnull=True)
    return dict(study.items.exclude(Exists(assigned)).order_by("code").values_list("pk", "source__pair"))


def chunk_without_pairs(items: Mapping[int, UUID]) -> list[dict[int, UUID]]:
    """Return the items in small chunks, none of which has two versions of one thing."""
    item_chunks: list[dict[int, UUID]] = []
    for item, pair in items.items():
        # No rater may have two versions, so none may be visited with them.
        free_chunk = next(
            (chunk for chunk in item_chunks if len(chunk) < CHUNK_SIZE and pair not in chunk.values()), None
        )
        if free_chunk is None:
            item_chunks.append(free_chunk := {})
        free_chunk[item] = pair
    return item_chunks


def assign_items(rater: Rater, items: Mapping[int, UUID]) -> list[Assignment]:
    """Assign these items as if the rater had reserved them. Call it inside `roll_back_changes` only."""
    require_scratch_copy()
    reserved_until = timezone.now() + timedelta(hours=1)
    rows = [
        Assignment(item_id=item, rater=rater, position=number, pair=pair, reserved_until=reserved_until)
        for number, (item, pair) in enumerate(items.items(), start=1)
    ]
    Assignment.objects.bulk_create(rows)
    return list_assignments(rater)


def list_assignments(rater: Rater) -> list[Assignment]:
    """Return this rater's assignments that were not released, in their order."""
    rows = Assignment.objects.filter(rater=rater, released_at__isnull=True).order_by("position")
    return list(rows.select_related("rater"))


def split_into_chunks(things: Sequence[Thing]) -> Iterator[Sequence[Thing]]:
    """Yield the things in chunks of at most CHUNK_SIZE."""
    # At least one chunk, possibly empty, so that a rater without assignments is visited as well.
    for start in range(0, max(len(things), 1), CHUNK_SIZE):
        yield things[start : start + CHUNK_SIZE]


def visit_items(browser: Browser, assignments: Sequence[Assignment], requests: int = 1) -> Iterator[Page]:
    """Yield the pages of each item: the item, its fragment, a refused answer, an unsaved one, each way to answer, the
    rated item.
    """
    for assignment in assignments:
        url = reverse("ratings:rate", args=[assignment.code])
        for _ in range(requests):
            yield browser.send_request("item", "get", url, assignment)
        for method in ("head", "options"):
            yield browser.send_request(f"item, {method.upper()}", method, url, assignment)
        fragment = browser.send_request("item fragment", "get", url, assignment, headers=HTMX)
        yield fragment
        yield browser.send_request("answer without a verdict", "post", url, assignment, data={})
        unsaved_answer = {"verdict": "no", "confidence": "2"}
        yield browser.send_request(
            "draft", "post", reverse("ratings:draft", args=[assignment.code]), assignment, data=unsaved_answer
        )
        yield from _answer_without_scripts(browser, url, assignment, fragment)
        yield from _answer_item(browser, url, assignment, fragment, "", HTMX)
        old_form = {"verdict": "yes", "confidence": "1", "submission_id": str(uuid.uuid4())}
        yield browser.send_request("answer from an old form", "post", url, assignment, data=old_form)
        yield browser.send_request("item answered", "get", url, assignment)


def _answer_without_scripts(browser: Browser, url: str, assignment: Assignment, fragment: Page) -> list[Page]:
    """Return the responses to the answers of a browser without scripts."""
    with roll_back_changes(), browser.restore_cookies():
        # Rolled back: the item has to be unanswered for the answers with scripts.
        return list(_answer_item(browser, url, assignment, fragment, "plain ", {}))


def _answer_item(
    browser: Browser, url: str, assignment: Assignment, item_page: Page, prefix: str, headers: Mapping[str, str]
) -> Iterator[Page]:
    """Yield the responses to a rating that is submitted as a person would submit it."""
    # A study may ask for an initial rating and then a final one.
    for label in ("answer", "final answer"):
        values = {**item_page.find_form_fields(url), "verdict": "yes", "confidence": "3"}
        result_page = browser.send_request(prefix + label, "post", url, assignment, data=values, headers=headers)
        # The answer contains the next item, so it must not be compared with pages about this one.
        yield _detach_from_item(result_page)
        if result_page.headers.get("Location") == url:
            result_page = browser.send_request("item, second look", "get", url, assignment)
            yield result_page
        if result_page.find_form_fields(url).get("stage") != "final":
            break
        item_page = result_page


def _detach_from_item(page: Page) -> Page:
    """Return the page as one that is not about the item."""
    return replace(page, item=0, assignment=0)


def visit_after_rating(browser: Browser, rater: Rater, with_all_pages: bool) -> Iterator[Page]:
    """Yield the page of the rater's own answers, and the last page before and after Finish.

    With `with_all_pages`, also yield all other pages.
    """
    require_scratch_copy()
    yield browser.send_request("own ratings", "get", reverse("ratings:my_ratings"))
    # As if nothing were left to rate, neither assigned nor in the pool: otherwise the last page leads to the next
    # item.
    Assignment.objects.filter(rater=rater, rating__isnull=True).update(released_at=timezone.now(), slot=None)
    Study.objects.filter(pk=rater.study_id).update(ratings_per_item=0)
    last_url = reverse("ratings:done", args=[rater.code])
    yield browser.send_request("last page", "get", last_url)
    yield browser.send_request("finish", "post", reverse("ratings:finish", args=[rater.code]))
    yield browser.send_request("last page, finished", "get", last_url)
    if with_all_pages:
        yield from crawl_links(browser, rater)


def crawl_links(browser: Browser, rater: Rater) -> Iterator[Page]:
    """Yield every page that can be reached by links from the rater's own pages, except items."""
    queue = [reverse(f"ratings:{name}") for name in _PERSONAL_PAGES if _has_url(name)]
    queue += [reverse(f"ratings:{name}", args=[rater.code]) for name in _RATER_PAGES if _has_url(name, rater.code)]
    codes = Assignment.objects.filter(rater=rater).values_list("code", flat=True)
    items = {reverse("ratings:rate", args=[code]) for code in codes}
    visited: set[str] = set()
    while queue and len(visited) < MAX_CRAWLED_PAGES:
        url = queue.pop(0).split("#")[0]
        # Signing out would end the visit.
        if not url.startswith("/") or url in visited or url in items or "logout" in url:
            continue
        visited.add(url)
        page = browser.send_request("page", "get", url)
        yield page
        queue += page.list_links()


def visit_refusals(browser: Browser, rater: Rater) -> Iterator[Page]:
    """Yield the responses to wrong requests: an unknown item, an unknown page, an unsupported method."""
    unknown_url = reverse("ratings:rate", args=[uuid.uuid4()])
    yield browser.send_request("no such item", "get", unknown_url)
    yield browser.send_request("no such item, posted", "post", unknown_url, data={})
    yield browser.send_request("no such page", "get", "/rate/no-such-page/")
    if assignment := next(iter(list_assignments(rater)), None):
        yield browser.send_request("no such method", "put", reverse("ratings:rate", args=[assignment.code]), assignment)


def _has_url(name: str, *args: Any) -> bool:
    try:
        reverse(f"ratings:{name}", args=args)
    except NoReverseMatch:
        return False
    return True
