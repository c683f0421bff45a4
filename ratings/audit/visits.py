"""What each rater's browser is sent: every page, fragment, refusal and file, fetched inside a transaction that is undone."""

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import perf_counter
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from ratings.audit.pages import Page
from ratings.models import (
    Assignment,
    Draft,
    FirstLook,
    ItemSource,
    Rater,
    Rating,
    RatingEvent,
    Study,
)

CHUNK = 8  # assignments visited in one transaction: no writer waits long for it
MOST_CRAWLED = 40  # pages of one rater that are followed from link to link
Thing = TypeVar("Thing")
HTMX = {"HX-Request": "true"}
_PERSONAL = ("desk", "profile", "my_ratings")
_OF_SEAT = ("next", "guide", "practice", "done", "withdraw", "result", "agree")


@contextmanager
def undone() -> Iterator[None]:
    """A transaction of which nothing stays."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class Browser:
    """A rater's, or a stranger's. An error of the site is an answer like any other."""

    def __init__(self, user: User | None = None, strict: bool = False) -> None:
        self.client = Client(enforce_csrf_checks=strict, raise_request_exception=False, SERVER_NAME=_host())
        if user is not None:
            self.client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])

    def send(self, label: str, method: str, url: str, place: Assignment | None = None, **sent: Any) -> Page:
        begin = perf_counter()
        response = getattr(self.client, method)(url, secure=settings.SESSION_COOKIE_SECURE, **sent)
        text = _text(response)
        took = perf_counter() - begin
        item, assignment = (place.item_id, place.pk) if place else (0, 0)
        return Page(label, url, response.status_code, dict(response.items()), text, item, assignment, took)


def _host() -> str:
    named = [host for host in settings.ALLOWED_HOSTS if host.strip("*.")]
    return named[0].lstrip(".") if named else "localhost"


def _text(response: HttpResponse | StreamingHttpResponse) -> str:
    body = response.getvalue() if hasattr(response, "getvalue") else b""
    return bytes(body).decode(response.charset or "utf-8", "replace")


def seated(rater: Rater) -> User:
    """Somebody in this seat who is ready to rate its untouched work, in an open study. Only inside `undone`."""
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
    return user


def another_seat(study: Study) -> Rater:
    """A seat more, with nothing to do. Only inside `undone`."""
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
    """These items, as if the rater had claimed them. Only inside `undone`."""
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
    """Each item shown whole and as a fragment, refused, answered, shown again, answered anew from an old form."""
    for place in places:
        url = reverse("ratings:rate", args=[place.code])
        for _ in range(looks):
            yield browser.send("item", "get", url, place)
        shown = browser.send("item fragment", "get", url, place, headers=HTMX)
        yield shown
        yield browser.send("answer without a verdict", "post", url, place, data={})
        yield from _answered(browser, url, place, shown)
        yield browser.send("item answered", "get", url, place)
    yield browser.send("own ratings", "get", reverse("ratings:my_ratings"))


def _answered(browser: Browser, url: str, place: Assignment, shown: Page) -> Iterator[Page]:
    """As a person would: the final answer after the first look, where a study asks for two. What comes is the next item."""
    for label in ("answer", "final answer"):
        answer = {**shown.form(url), "verdict": "yes", "confidence": "3"}
        after = browser.send(label, "post", url, place, data=answer, headers=HTMX)
        yield _of_another(after)
        if after.form(url).get("stage") != "final" or label == "final answer":
            break
        shown = after
    stale = {**answer, "confidence": "1", "submission_id": str(uuid.uuid4())}
    yield browser.send("answer from an old form", "post", url, place, data=stale)


def _of_another(page: Page) -> Page:
    """The same page, but not counted among those about the item that was answered."""
    return Page(page.label, page.url, page.status, page.headers, page.text)


def crawled(browser: Browser, rater: Rater) -> Iterator[Page]:
    """Every page that can be reached by links from the rater's own, items excepted."""
    waiting = [reverse(f"ratings:{name}") for name in _PERSONAL if _exists(name)]
    waiting += [reverse(f"ratings:{name}", args=[rater.code]) for name in _OF_SEAT if _exists(name, rater.code)]
    items = {reverse("ratings:rate", args=[place.code]) for place in work(rater)}
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


_SWAPPED = ("pair", "label", "perturbation", "truth", "experiment", "action", "transition_id", "twin_id", "review_id",
            "imported_id", "target", "verdicts")  # fmt: skip


def another_world(study: Study, seed: int) -> dict[int, bool]:
    """Give every item the origin of another one, of another kind where there is any; which items changed their truth.

    What raters are sent may not change by this at all. Only inside `undone`.
    """
    rows = list(ItemSource.objects.filter(item__study=study).order_by("pk"))
    random.Random(f"audit/{seed}").shuffle(rows)
    rows.sort(key=_kind)
    planted = sum(row.perturbation != "none" for row in rows)
    most = max(planted, len(rows) - planted)
    step = most if most < len(rows) else 1
    origins = [{name: getattr(row, name) for name in _SWAPPED} for row in rows]
    moved = {}
    for at, row in enumerate(rows):  # moved on by the size of the largest kind, so that few keep their kind
        given = origins[(at + step) % len(rows)]
        planted = row.perturbation != "none"
        if planted != (given["perturbation"] != "none"):
            moved[row.item_id] = planted
        for name, value in given.items():
            setattr(row, name, value)
    ItemSource.objects.bulk_update(rows, list(_SWAPPED), batch_size=200)
    return moved


def _kind(row: ItemSource) -> tuple[bool, str, str]:
    return row.perturbation != "none", row.perturbation, row.label
