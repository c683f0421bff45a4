"""An answer whose confirmation is lost is sent again and saved once; a database that is down is answered with a time to retry."""

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
from ratings.rating import submit
from tests.support import cutting_proxy
from tests.support.cutting_proxy import CuttingProxy
from tests.support.rating_room import create_link, create_open_study
from tests.support.soaking import answer_checks
from tests.support.soaking.answer_log import AnswerLog
from tests.support.soaking.rater import RequestRejected
from tests.support.soaking.rater import SoakRater as Person
from tests.support.steps import DatabaseOutage
from tests.support.visitor import Visitor

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def rater() -> Rater:
    return create_open_study(items=4, raters=1).raters.get()


@pytest.fixture
def proxy(live_server: Any) -> Iterator[CuttingProxy]:
    with cutting_proxy.run_proxy(urlsplit(live_server.url).port or 0) as running:
        yield running


def create_person(proxy: CuttingProxy, rater: Rater, folder: Path) -> Person:
    """Return this rater behind the proxy, signed in by a link."""
    visitor = Visitor(proxy.site)
    assert visitor.submit_form(visitor.get(create_link(rater))).status == 200
    journal = AnswerLog(folder / "journal.jsonl")
    return Person(visitor, str(rater.code), journal, (0, 0), random.Random(2), threading.Event(), (0.05,))


def find_wrong_answers(person: Person) -> dict[str, list[str]]:
    def query(sql: str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    return answer_checks.find_wrong_answers(
        list(person.journal.iter_entries()),
        *(answer_checks.select_answers(query, sql) for sql in (answer_checks.EVENTS, answer_checks.RATINGS)),
    )


def rate_until_done(person: Person, items: int) -> None:
    page = person._open_next_item()
    while person.counts.confirmed < items:
        page = person._rate_one(page)


@pytest.mark.both_databases
def test_answer_whose_response_is_lost_after_the_commit_is_saved_once(
    proxy: CuttingProxy, rater: Rater, tmp_path: Path
) -> None:
    person = create_person(proxy, rater, tmp_path)
    proxy.n_left = 3

    rate_until_done(person, 4)

    assert proxy.lost_statuses == ["HTTP/1.1 200 OK"] * 3  # committed and rendered, but not received
    assert person.counts.retries == 3 and not person.counts.errors
    assert find_wrong_answers(person) == {} and Rating.objects.count() == 4 == RatingEvent.objects.count()


def test_lost_response_without_the_submission_id_check_leaves_the_answer_unconfirmed(
    proxy: CuttingProxy, rater: Rater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control. Even then the answer is not stored twice, because the database requires unique submission ids."""
    monkeypatch.setattr(submit, "_find_stored_result", lambda *args: None)
    person = create_person(proxy, rater, tmp_path)
    proxy.n_left = 1

    with pytest.raises(RequestRejected, match="POST: 500 12 times"):
        rate_until_done(person, 1)

    assert list(find_wrong_answers(person)) == ["an answer was sent and never confirmed"]


@pytest.mark.both_databases
@pytest.mark.parametrize("statement", ["SELECT", "INSERT", "UPDATE"])  # session, rating, time of the last visit
def test_answer_while_the_database_is_down_gets_503_with_retry_after_and_the_retry_saves(
    rater: Rater, statement: str
) -> None:
    client, assignment = Client(raise_request_exception=False), rater.assignments.get(position=1)
    assert rater.user is not None
    client.force_login(rater.user)
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0"}

    with connection.execute_wrapper(DatabaseOutage(statement, 1)):
        failed = client.post(f"/rate/{assignment.code}/", form, headers=HTMX)
    retried = client.post(f"/rate/{assignment.code}/", form, headers=HTMX)

    assert (failed.status_code, failed["Retry-After"]) == (503, "2")
    assert retried.status_code == 200
    assert [(event.revision, event.confidence) for event in RatingEvent.objects.all()] == [(1, 4)]


def test_answer_during_an_unexpected_exception_gets_500_and_not_503(
    rater: Rater, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error(*args: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(submit, "_lock_assignment", raise_error)
    client, assignment = Client(raise_request_exception=False), rater.assignments.get(position=1)
    assert rater.user is not None
    client.force_login(rater.user)
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4())}
    assert client.post(f"/rate/{assignment.code}/", form).status_code == 500
