"""What each rater's browser is sent: every page, fragment, refusal and file, fetched inside a transaction that is undone."""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from http.cookies import SimpleCookie
from time import perf_counter
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import BigIntegerField, Count, Exists, F, Max, OuterRef, Sum
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client
from django.test.client import ClientHandler
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from ratings import sessions
from ratings.audit.pages import Page
from ratings.models import (
    Assignment,
    Draft,
    FirstLook,
    Rater,
    Rating,
    RatingEvent,
    Study,
)
from wetbench_site.request_facts import REHEARSED

CHUNK = 3  # assignments visited in one transaction: on SQLite all writers wait for it
MOST_CRAWLED = 40  # pages of one rater that are followed from link to link
Thing = TypeVar("Thing")
HTMX = {"HX-Request": "true"}
_PERSONAL = ("desk", "profile", "my_ratings")
_OF_SEAT = ("next", "guide", "practice", "done", "withdraw", "result", "agree")


class ChangedError(RuntimeError):
    """The study is being worked on: what was found may come of that, and nothing can be said."""


@contextmanager
def undone() -> Iterator[None]:
    """A transaction of which nothing stays."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def state(study: Study) -> tuple[Any, ...]:
    """A digest of what pages are made of: when it stays the same, differences between two visits mean something."""
    places = Assignment.objects.filter(rater__study=study)
    order = Sum(F("pk") * F("position"), output_field=BigIntegerField())
    dealt = places.aggregate(n=Count("pk"), ids=Sum("pk"), gone=Count("released_at"), order=order)
    answers = Rating.objects.filter(assignment__rater__study=study).aggregate(n=Count("pk"), changes=Sum("revision"))
    begun = [kept.objects.filter(assignment__rater__study=study).count() for kept in (FirstLook, Draft)]
    known = Study.objects.filter(pk=study.pk).values_list("status", "guide_version").first()
    seats = study.raters.aggregate(n=Count("pk"), last=Max("finished_at"), gone=Count("withdrawn_at"))
    return *dealt.values(), *answers.values(), *begun, known, *seats.values()


def steadily(study: Study, visit: Callable[[], Thing]) -> Thing:
    """What a visit finds while nobody changes the study; once more if somebody did. It is undone each time."""
    for _ in range(2):
        before = state(study)
        with undone():
            found = visit()
        if state(study) == before:
            return found
    raise ChangedError(study.name)


@lru_cache(maxsize=4)
def _handler(strict: bool, middleware: tuple[str, ...]) -> ClientHandler:
    """One chain of middleware for all browsers: loading it takes longer than most answers do."""
    return ClientHandler(enforce_csrf_checks=strict)


class Browser:
    """A rater's, or a stranger's. An error of the site is an answer like any other."""

    def __init__(self, user: User | None = None, strict: bool = False) -> None:
        own: dict[str, Any] = {"SERVER_NAME": _host(), REHEARSED: True}
        self.client = Client(enforce_csrf_checks=strict, raise_request_exception=False, **own)
        self.client.handler = _handler(strict, tuple(settings.MIDDLEWARE))
        if user is not None:
            self.client.cookies[settings.SESSION_COOKIE_NAME] = _session(user)

    def send(self, label: str, method: str, url: str, place: Assignment | None = None, **sent: Any) -> Page:
        begin = perf_counter()
        response = getattr(self.client, method)(url, secure=settings.SESSION_COOKIE_SECURE, **sent)
        text = _text(response)
        took = perf_counter() - begin
        item, assignment = (place.item_id, place.pk) if place else (0, 0)
        headers = {name: "(random)" if _is_random(name, value) else value for name, value in response.items()}
        return Page(
            label, url, response.status_code, headers, text, item, assignment, took,
            asked_item=item, asked=assignment, cookies=_cookies(response),
        )  # fmt: skip

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """Afterwards it has the cookies that it has now."""
        kept = SimpleCookie(self.client.cookies.output(header="", sep=";"))
        try:
            yield
        finally:
            self.client.cookies = kept


def _is_random(name: str, value: str) -> bool:
    """The id of a request is drawn anew for every answer (wetbench_site/tracing.py); one of another form is looked at."""
    return name == "X-Request-ID" and re.fullmatch("[0-9a-f]{32}", value) is not None


def _session(user: User) -> str:
    """The key of a session of theirs, as their sign-in would make one; nobody has signed in, and nothing says so."""
    session = sessions.SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session.create()
    return str(session.session_key)


def _host() -> str:
    named = [host for host in settings.ALLOWED_HOSTS if host.strip("*.")]
    return named[0].lstrip(".") if named else "localhost"


def _cookies(response: HttpResponse | StreamingHttpResponse) -> tuple[str, ...]:
    """All that are set but those of the session and of forms, whose values are random."""
    own = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    return tuple(morsel.OutputString() for name, morsel in sorted(response.cookies.items()) if name not in own)


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
    # Session 2 of a crossover is visited as if its washout were over: what was opened is not held back.
    Assignment.objects.filter(rater=rater, session=2).update(opened_at=now)
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
    with undone(), browser.as_it_is():
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
