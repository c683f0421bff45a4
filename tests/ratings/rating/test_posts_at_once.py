"""Tests of concurrent posts of one rating form: they store one rating, and more only if lock and constraints are removed."""

import copy
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connection, models

from ratings.models import Assignment, Rating, RatingEvent
from ratings.rating import submit
from tests.support.rating_room import create_link, create_open_study
from tests.support.steps import run_concurrently
from tests.support.visitor import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

POSTS = 12


@pytest.fixture
def assignment() -> Assignment:
    return create_open_study(items=3, raters=1).raters.get().assignments.get(position=1)


@pytest.fixture(autouse=True)
def synchronise_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a thread that found no rating wait for a second such thread, so that a race happens wherever it is possible."""
    together, write = threading.Barrier(2), submit._create_rating

    def wait_and_write(*args: Any) -> Rating:
        with suppress(threading.BrokenBarrierError):  # no other thread passed the guard
            together.wait(timeout=1)
        return write(*args)

    monkeypatch.setattr(submit, "_create_rating", wait_and_write)


@pytest.fixture
def rater_browser(live_server: Any, assignment: Assignment) -> Visitor:
    """Return the rater's browser, signed in with their link to a multi-threaded server."""
    visitor = Visitor(str(live_server.url))
    assert visitor.submit_form(visitor.get(create_link(assignment.rater))).status == 200
    return visitor


def post_at_once(browser: Visitor, assignment: Assignment) -> list[int]:
    """Post the same form twelve times at once from one browser, and return the status of each response."""
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0"}
    token = next(cookie.value for cookie in browser.cookies if "csrf" in cookie.name) or ""
    headers = {"HX-Request": "true", "X-CSRFToken": token, "Origin": browser.site}
    results = run_concurrently(lambda: browser.post(f"/rate/{assignment.code}/", form, headers).status, POSTS)
    assert [result for result in results if isinstance(result, Exception)] == []
    return results


@pytest.mark.both_databases
def test_rating_form_posted_twelve_times_at_once_stores_one_rating(
    rater_browser: Visitor, assignment: Assignment
) -> None:
    assert post_at_once(rater_browser, assignment) == [200] * POSTS  # each gets the next item

    assert Rating.objects.count() == 1
    assert [(event.kind, event.revision) for event in RatingEvent.objects.all()] == [("answer", 1)]


@pytest.mark.both_databases
def test_control_concurrent_posts_store_several_ratings_without_lock_and_constraint(
    rater_browser: Visitor, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: without the guards more than one rating is stored, so the test above can fail."""
    remove_guards(monkeypatch)
    most = 0
    with drop_rating_constraints():
        for _ in range(5):  # threads collide by chance
            post_at_once(rater_browser, assignment)
            most = max(most, Rating.objects.count())
            Rating.objects.all().delete()
            RatingEvent.objects.all().delete()
            Assignment.objects.update(answered_at=None)
            if most > 1:
                break
    assert most > 1


def test_rating_constraint_alone_prevents_a_second_rating_if_the_lock_is_missing(
    assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_guards(monkeypatch)
    submission = uuid.uuid4()

    refused = [
        r
        for r in run_concurrently(lambda: submit.submit_rating(assignment, True, 4, submission), 2)
        if isinstance(r, Exception)
    ]

    assert {type(error).__name__ for error in refused} <= {"IntegrityError"}  # empty if the threads did not collide
    assert Rating.objects.count() == 1


def remove_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store answers step by step, without a transaction and without locks."""
    monkeypatch.setattr(submit, "_store_at_once", lambda *args: None)
    monkeypatch.setattr(submit, "_store_step_by_step", submit._store_step_by_step.__wrapped__)  # type: ignore[attr-defined]  # of the decorator
    monkeypatch.setattr(submit, "_lock_assignment", lambda assignment: assignment)


@contextmanager
def drop_rating_constraints() -> Iterator[None]:
    """Remove all unique constraints from the tables of ratings and rating events, and restore them afterwards."""
    once = next(c for c in RatingEvent._meta.constraints if c.name == "rating_event_once_per_revision")
    fields: list[tuple[type[models.Model], str]] = [
        (Rating, "assignment"), (Rating, "submission_id"), (RatingEvent, "submission_id"),
    ]  # fmt: skip
    constraints = RatingEvent._meta.constraints
    RatingEvent._meta.constraints = [c for c in constraints if c != once]
    with connection.schema_editor() as editor:
        for model, name in fields:
            alter_uniqueness(editor, model, name, unique=False)
        editor.remove_constraint(RatingEvent, once)
    for model, name in fields:  # only the tables change: Django still builds queries for unique fields
        set_unique(model, name, unique=True)
    try:
        yield
    finally:
        Rating.objects.all().delete()
        RatingEvent.objects.all().delete()
        RatingEvent._meta.constraints = constraints
        for model, name in fields:
            set_unique(model, name, unique=False)
        with connection.schema_editor() as editor:
            for model, name in fields:
                alter_uniqueness(editor, model, name, unique=True)
            editor.add_constraint(RatingEvent, once)


def alter_uniqueness(editor: Any, model: type[models.Model], name: str, unique: bool) -> None:
    """Change the column and the field, because SQLite rebuilds a table from the fields of its model."""
    field: Any = model._meta.get_field(name)
    before = copy.copy(field)
    set_unique(model, name, unique)
    editor._field_should_be_altered = lambda *args, **kwargs: True  # a one-to-one field would hide the change
    editor.alter_field(model, before, field)


def set_unique(model: type[models.Model], name: str, unique: bool) -> None:
    field: Any = model._meta.get_field(name)
    field._unique = field.unique = unique
