"""An answer whose confirmation was lost on the way is sent again and taken once; a database that is away says when to come."""

import random
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.test import Client

from ratings.models import Rater, Rating, RatingEvent
from ratings.rating import answering
from tests.support import cutting_proxy
from tests.support.cutting_proxy import Cut
from tests.support.rating_room import link, open_study
from tests.support.soaking import confirmed
from tests.support.soaking.journal import Journal
from tests.support.soaking.rater import GaveUp
from tests.support.soaking.rater import Rater as Person
from tests.support.steps import Away
from tests.support.visitor import Visitor

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def rater() -> Rater:
    return open_study(items=4, raters=1).raters.get()


@pytest.fixture
def cut(live_server: Any) -> Iterator[Cut]:
    with cutting_proxy.before(urlsplit(live_server.url).port or 0) as cut:
        yield cut


def at_work(cut: Cut, rater: Rater, folder: Path) -> Person:
    """This rater behind the proxy, signed in by a link."""
    visitor = Visitor(cut.site)
    assert visitor.submit(visitor.get(link(rater))).status == 200
    journal = Journal(folder / "journal.jsonl")
    return Person(visitor, str(rater.code), journal, (0, 0), random.Random(2), threading.Event(), (0.05,))


def histories(person: Person) -> dict[str, list[str]]:
    def query(sql: str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    return confirmed.wrong(
        list(person.journal.entries()), *(confirmed.rows(query, sql) for sql in (confirmed.EVENTS, confirmed.RATINGS))
    )


def rate_until_done(person: Person, items: int) -> None:
    page = person._next()
    while person.counts.confirmed < items:
        page = person._turn(page)


@pytest.mark.both_databases
def test_an_answer_cut_off_between_commit_and_confirmation_is_taken_once(
    cut: Cut, rater: Rater, tmp_path: Path
) -> None:
    person = at_work(cut, rater, tmp_path)
    cut.left = 3

    rate_until_done(person, 4)

    assert cut.lost == ["HTTP/1.1 200 OK"] * 3  # committed, rendered, and never seen
    assert person.counts.retries == 3 and not person.counts.errors
    assert histories(person) == {} and Rating.objects.count() == 4 == RatingEvent.objects.count()


def test_without_the_guard_that_knows_a_form_by_its_id_the_same_loss_leaves_a_rater_unconfirmed(
    cut: Cut, rater: Rater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control. That the answer is not doubled even then is the database's doing: a form's id is unique there."""
    monkeypatch.setattr(answering, "_settled", lambda *args: None)
    person = at_work(cut, rater, tmp_path)
    cut.left = 1

    with pytest.raises(GaveUp, match="POST: 500 12 times"):
        rate_until_done(person, 1)

    assert list(histories(person)) == ["an answer was sent and never confirmed"]


@pytest.mark.both_databases
@pytest.mark.parametrize("statement", ["SELECT", "INSERT", "UPDATE"])  # the session, the rating, who was seen last
def test_while_the_database_is_away_the_answer_is_503_with_a_time_and_the_next_try_saves(
    rater: Rater, statement: str
) -> None:
    browser, place = Client(raise_request_exception=False), rater.assignments.get(position=1)
    assert rater.user is not None
    browser.force_login(rater.user)
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0"}

    with connection.execute_wrapper(Away(statement, 1)):
        away = browser.post(f"/rate/{place.code}/", form, headers=HTMX)
    again = browser.post(f"/rate/{place.code}/", form, headers=HTMX)

    assert (away.status_code, away["Retry-After"]) == (503, "2")
    assert again.status_code == 200
    assert [(event.revision, event.confidence) for event in RatingEvent.objects.all()] == [(1, 4)]


def test_a_fault_of_our_own_is_no_503(rater: Rater, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*args: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(answering, "_locked", break_down)
    browser, place = Client(raise_request_exception=False), rater.assignments.get(position=1)
    assert rater.user is not None
    browser.force_login(rater.user)
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4())}
    assert browser.post(f"/rate/{place.code}/", form).status_code == 500
