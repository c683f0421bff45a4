"""One form posted twelve times at once leaves one rating; with the guards taken away the same test finds more."""

import copy
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connection, models

from ratings.models import Assignment, Rating, RatingEvent
from ratings.rating import answering
from tests.support.rating_room import link, open_study
from tests.support.steps import race
from tests.support.visitor import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

POSTS = 12


@pytest.fixture
def place() -> Assignment:
    return open_study(items=3, raters=1).raters.get().assignments.get(position=1)


@pytest.fixture(autouse=True)
def all_answers_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has found no rating waits for a second one to find none: where two can get there, two do."""
    together, write = threading.Barrier(2), answering._answer

    def wait_and_write(*args: Any) -> Rating:
        with suppress(threading.BrokenBarrierError):  # nobody else got past the guard
            together.wait(timeout=1)
        return write(*args)

    monkeypatch.setattr(answering, "_answer", wait_and_write)


@pytest.fixture
def at_work(live_server: Any, place: Assignment) -> Visitor:
    """The rater's browser, signed in by their link to a server of many threads."""
    visitor = Visitor(str(live_server.url))
    assert visitor.submit(visitor.get(link(place.rater))).status == 200
    return visitor


def post_at_once(browser: Visitor, place: Assignment) -> list[int]:
    """The same filled-in form twelve times from one browser; the status each got."""
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0"}
    token = next(cookie.value for cookie in browser.cookies if "csrf" in cookie.name) or ""
    headers = {"HX-Request": "true", "X-CSRFToken": token, "Origin": browser.site}
    results = race(lambda: browser.post(f"/rate/{place.code}/", form, headers).status, POSTS)
    assert [result for result in results if isinstance(result, Exception)] == []
    return results


@pytest.mark.both_databases
def test_twelve_posts_of_one_form_leave_one_rating(at_work: Visitor, place: Assignment) -> None:
    assert post_at_once(at_work, place) == [200] * POSTS  # each gets the next item

    assert Rating.objects.count() == 1
    assert [(event.kind, event.revision) for event in RatingEvent.objects.all()] == [("answer", 1)]


@pytest.mark.both_databases
def test_without_lock_and_constraint_the_same_posts_leave_more(
    at_work: Visitor, place: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: were this to leave one as well, the test above would prove nothing."""
    monkeypatch.setattr(answering, "rate", answering.rate.__wrapped__)  # type: ignore[attr-defined]  # without its transaction
    monkeypatch.setattr(answering, "_locked", lambda place: place)
    most = 0
    with unconstrained():
        for _ in range(5):  # threads meet by chance
            post_at_once(at_work, place)
            most = max(most, Rating.objects.count())
            Rating.objects.all().delete()
            RatingEvent.objects.all().delete()
            if most > 1:
                break
    assert most > 1


def test_without_the_lock_the_constraint_alone_still_leaves_one(
    place: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "rate", answering.rate.__wrapped__)  # type: ignore[attr-defined]  # without its transaction
    monkeypatch.setattr(answering, "_locked", lambda place: place)
    submission = uuid.uuid4()

    refused = [r for r in race(lambda: answering.rate(place, True, 4, submission), 2) if isinstance(r, Exception)]

    assert {type(error).__name__ for error in refused} <= {"IntegrityError"}  # none if they did not meet
    assert Rating.objects.count() == 1


@contextmanager
def unconstrained() -> Iterator[None]:
    """The tables of ratings and their versions without anything that makes them unique."""
    once = next(c for c in RatingEvent._meta.constraints if c.name == "rating_event_once_per_revision")
    fields: list[tuple[type[models.Model], str]] = [
        (Rating, "assignment"), (Rating, "submission_id"), (RatingEvent, "submission_id"),
    ]  # fmt: skip
    constraints = RatingEvent._meta.constraints
    RatingEvent._meta.constraints = [c for c in constraints if c != once]
    with connection.schema_editor() as editor:
        for model, name in fields:
            _alter(editor, model, name, unique=False)
        editor.remove_constraint(RatingEvent, once)
    for model, name in fields:  # only the tables differ: queries go on as they are written
        _as_if(model, name, unique=True)
    try:
        yield
    finally:
        Rating.objects.all().delete()
        RatingEvent.objects.all().delete()
        RatingEvent._meta.constraints = constraints
        for model, name in fields:
            _as_if(model, name, unique=False)
        with connection.schema_editor() as editor:
            for model, name in fields:
                _alter(editor, model, name, unique=True)
            editor.add_constraint(RatingEvent, once)


def _alter(editor: Any, model: type[models.Model], name: str, unique: bool) -> None:
    """Change the column and the field: SQLite makes each table anew from what the fields say."""
    field: Any = model._meta.get_field(name)
    before = copy.copy(field)
    _as_if(model, name, unique)
    editor._field_should_be_altered = lambda *args, **kwargs: True  # a one-to-one field's own word hides the change
    editor.alter_field(model, before, field)


def _as_if(model: type[models.Model], name: str, unique: bool) -> None:
    field: Any = model._meta.get_field(name)
    field._unique = field.unique = unique
