"""What each rater's browser is sent: every page, fragment, refusal and file.

The visits write to the database that they read, so they need a scratch copy; each is rolled back, since the next one has to
find the study as it was.
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
    Draft,
    FirstLook,
    Rater,
    Rating,
    RatingEvent,
    Study,
)
from ratings.studies.blinding_audit.copy.guard import require_scratch_copy, rolled_back
from ratings.studies.blinding_audit.crawl.browser import HTMX, Browser
from ratings.studies.blinding_audit.crawl.pages import Page

CHUNK = 3  # assignments visited in one world: a page may not depend on the origin of any of them
MOST_CRAWLED = 40  # pages of one rater that are followed from link to link
Thing = TypeVar("Thing")
_PERSONAL = ("desk", "profile", "my_ratings")
_OF_SEAT = ("next", "guide", "practice", "done", "withdraw", "result", "agree")


def seated(rater: Rater) -> User:
    """Somebody in this seat who is ready to rate its untouched work, in an open study. Only inside `rolled_back`."""
    require_scratch_copy()
    user = User.objects.create(username=f"audit-{uuid.uuid4().hex}")
    now = timezone.now()
    Study.objects.filter(pk=rater.study_id).update(status="open")
    guide = rater.study.guide_version
    ready = {"consented_at": now, "practised_at": now, "started_at": now, "guide_seen": guide, "finished_at": None}
    gone = {"withdrawn_at": None, "dropped": False, "simulated": False, "imported_as": ""}
    Rater.objects.filter(pk=rater.pk).update(user=user, **ready, **gone)
    for answers in (Rating, RatingEvent, FirstLook, Draft):
        answers.objects.filter(assignment__rater=rater).delete()
    Assignment.objects.filter(rater=rater).update(opened_at=None)
    # Session 2 of a crossover is visited as if its washout were over: what was opened is not held back.
    Assignment.objects.filter(rater=rater, session=2).update(opened_at=now)
    return user


def another_seat(study: Study) -> Rater:
    """A seat more, with nothing to do. Only inside `rolled_back`."""
    require_scratch_copy()
    number = max(study.raters.values_list("number", flat=True), default=0) + 1
    return Rater.objects.create(study=study, number=number, label=f"R{number:02}")


def unclaimed(study: Study) -> dict[int, UUID]:
    """Items that nobody has been given yet, with their pairs: all of them in a pool study that has just been opened."""
    live = Assignment.objects.filter(item=OuterRef("pk"), released_at__isnull=True)
    return dict(study.items.exclude(Exists(live)).order_by("code").values_list("pk", "source__pair"))


def one_of_each_pair(items: Mapping[int, UUID]) -> list[dict[int, UUID]]:
    """The items in small chunks, in none of them two versions of one thing."""
    found: list[dict[int, UUID]] = []
    for item, pair in items.items():
        room = next((chunk for chunk in found if len(chunk) < CHUNK and pair not in chunk.values()), None)
        if room is None:
            found.append(room := {})
        room[item] = pair
    return found


def given(rater: Rater, items: Mapping[int, UUID]) -> list[Assignment]:
    """These items, as if the rater had claimed them. Only inside `rolled_back`."""
    require_scratch_copy()
    until = timezone.now() + timedelta(hours=1)
    rows = [
        Assignment(item_id=item, rater=rater, position=at, pair=pair, lease_until=until)
        for at, (item, pair) in enumerate(items.items(), start=1)
    ]
    Assignment.objects.bulk_create(rows)
    return work(rater)


def work(rater: Rater) -> list[Assignment]:
    """What this rater was given and has not been relieved of, in their order."""
    rows = Assignment.objects.filter(rater=rater, released_at__isnull=True).order_by("position")
    return list(rows.select_related("rater"))


def chunks(things: Sequence[Thing]) -> Iterator[Sequence[Thing]]:
    """A few at a time; one empty chunk of nothing, so that a rater without work is visited as well."""
    for at in range(0, max(len(things), 1), CHUNK):
        yield things[at : at + CHUNK]


def rated(browser: Browser, places: Sequence[Assignment], looks: int = 1) -> Iterator[Page]:
    """Each item shown whole and as a fragment, refused, kept as a draft, answered in each way, and shown again."""
    for place in places:
        url = reverse("ratings:rate", args=[place.code])
        for _ in range(looks):
            yield browser.send("item", "get", url, place)
        for method in ("head", "options"):
            yield browser.send(f"item, {method.upper()}", method, url, place)
        shown = browser.send("item fragment", "get", url, place, headers=HTMX)
        yield shown
        yield browser.send("answer without a verdict", "post", url, place, data={})
        kept = {"verdict": "no", "confidence": "2"}
        yield browser.send("draft", "post", reverse("ratings:draft", args=[place.code]), place, data=kept)
        yield from _only_tried(browser, url, place, shown)
        yield from _answered(browser, url, place, shown, "", HTMX)
        stale = {"verdict": "yes", "confidence": "1", "submission_id": str(uuid.uuid4())}
        yield browser.send("answer from an old form", "post", url, place, data=stale)
        yield browser.send("item answered", "get", url, place)


def _only_tried(browser: Browser, url: str, place: Assignment, shown: Page) -> list[Page]:
    """The answers that a browser without scripts gets; the item stays unanswered."""
    with rolled_back(), browser.keep_cookies():
        return list(_answered(browser, url, place, shown, "plain ", {}))


def _answered(
    browser: Browser, url: str, place: Assignment, shown: Page, how: str, headers: Mapping[str, str]
) -> Iterator[Page]:
    """As a person would: the final answer after the first look, where a study asks for two. What comes is the next item."""
    for label in ("answer", "final answer"):
        answer = {**shown.form(url), "verdict": "yes", "confidence": "3"}
        after = browser.send(how + label, "post", url, place, data=answer, headers=headers)
        yield _of_another(after)
        if after.headers.get("Location") == url:
            after = browser.send("item, second look", "get", url, place)
            yield after
        if after.form(url).get("stage") != "final":
            break
        shown = after


def _of_another(page: Page) -> Page:
    """The same page, but not counted among those about the item that was answered."""
    return replace(page, item=0, assignment=0)


def afterwards(browser: Browser, rater: Rater, every: bool) -> Iterator[Page]:
    """Own answers and the last page, before Finish and after it, as if no work were left; `every` for all other pages."""
    require_scratch_copy()
    yield browser.send("own ratings", "get", reverse("ratings:my_ratings"))
    Assignment.objects.filter(rater=rater, rating__isnull=True).update(released_at=timezone.now(), slot=None)
    Study.objects.filter(pk=rater.study_id).update(ratings_per_item=0)
    last = reverse("ratings:done", args=[rater.code])
    yield browser.send("last page", "get", last)
    yield browser.send("finish", "post", reverse("ratings:finish", args=[rater.code]))
    yield browser.send("last page, finished", "get", last)
    if every:
        yield from crawled(browser, rater)


def crawled(browser: Browser, rater: Rater) -> Iterator[Page]:
    """Every page that can be reached by links from the rater's own, items excepted."""
    waiting = [reverse(f"ratings:{name}") for name in _PERSONAL if _exists(name)]
    waiting += [reverse(f"ratings:{name}", args=[rater.code]) for name in _OF_SEAT if _exists(name, rater.code)]
    codes = Assignment.objects.filter(rater=rater).values_list("code", flat=True)
    items = {reverse("ratings:rate", args=[code]) for code in codes}
    met: set[str] = set()
    while waiting and len(met) < MOST_CRAWLED:
        url = waiting.pop(0).split("#")[0]
        if not url.startswith("/") or url in met or url in items or "logout" in url:
            continue
        met.add(url)
        page = browser.send("page", "get", url)
        yield page
        waiting += page.links()


def refusals(browser: Browser, rater: Rater) -> Iterator[Page]:
    """What the site says when something is wrong: no such item, no such method, no token."""
    nothing = reverse("ratings:rate", args=[uuid.uuid4()])
    yield browser.send("no such item", "get", nothing)
    yield browser.send("no such item, posted", "post", nothing, data={})
    yield browser.send("no such page", "get", "/rate/no-such-page/")
    if place := next(iter(work(rater)), None):
        yield browser.send("no such method", "put", reverse("ratings:rate", args=[place.code]), place)


def _exists(name: str, *args: Any) -> bool:
    try:
        reverse(f"ratings:{name}", args=args)
    except NoReverseMatch:
        return False
    return True
