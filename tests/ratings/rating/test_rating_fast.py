"""What a rating may cost: so many queries and no more, no waiting for other raters, and no item drawn twice."""

import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ratings.models import Assignment, ItemSource, Rater, Rating
from ratings.rating import answering, serving
from ratings.studies import lifecycle
from ratings.web.rater import drawn_items
from tests.support.rating_room import open_study
from tests.support.steps import race

HTMX = {"HX-Request": "true"}
WAY = 4  # session, user, seat; next
SHOWN = 7  # session, user, item; opened; last answer, progress, keys
ANSWERED = (
    14  # session, user, item; begin, study, place, known?, rating, version, draft, next, opened, commit; progress
)


def at(rater: Rater, position: int) -> Assignment:
    return rater.assignments.select_related("item").get(position=position)


def asked(client: Client, how: str, place: Assignment, **sent: Any) -> int:
    """The number of statements, those that begin and end a transaction included; none of them reads a source."""
    with CaptureQueriesContext(connection) as statements:
        response = getattr(client, how)(f"/rate/{place.code}/", **sent)
    assert response.status_code == 200
    assert not any(ItemSource._meta.db_table in query["sql"] for query in statements.captured_queries)
    return len(statements)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("items", [10, 20])
def test_an_item_and_an_answer_take_as_many_queries_in_a_study_twice_as_long(client: Client, items: int) -> None:
    seat = open_study(items=items, raters=2).raters.get(number=1)
    client.force_login(seat.user)  # type: ignore[arg-type]  # every seat of this study is held
    answers = {"verdict": "yes", "confidence": "4", "revision": "0"}

    for position in (1, 2, 3):
        with CaptureQueriesContext(connection) as on_the_way:
            sent_on = client.get(f"/rate/study/{seat.code}/")
        assert (sent_on["Location"], len(on_the_way)) == (f"/rate/{at(seat, position).code}/", WAY)
        sent = {"data": answers | {"submission_id": str(uuid.uuid4())}, "headers": HTMX}
        shown = asked(client, "get", at(seat, position))
        answered = asked(client, "post", at(seat, position), **sent)
        assert (shown <= SHOWN, answered) == (True, ANSWERED)


@pytest.mark.django_db
def test_the_next_item_is_opened_with_the_answer(client: Client) -> None:
    seat = open_study(items=4, raters=1).raters.get()

    result = answering.rate(at(seat, 1), True, 4, uuid.uuid4(), go_on=True)

    assert result.following == at(seat, 2) and at(seat, 2).opened_at and not at(seat, 3).opened_at


@pytest.mark.django_db
def test_a_newer_guide_comes_before_the_next_item_is_opened() -> None:
    seat = open_study(items=4, raters=1).raters.get()
    lifecycle.revise_guide(seat.study, "Look at the units.")

    assert answering.rate(at(seat, 1), True, 4, uuid.uuid4(), go_on=True).following is None
    assert not at(seat, 2).opened_at


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_raters_of_a_study_answer_at_once_and_closing_waits_for_them() -> None:
    """On PostgreSQL both are inside their transactions together; SQLite has one writer, and the second waits."""
    study = open_study(items=3, raters=2)
    seats = list(study.raters.all())
    together = threading.Barrier(2, timeout=5)

    def answer() -> str:
        place = at(seats.pop(), 1)
        with transaction.atomic():
            answering.rate(place, True, 4, uuid.uuid4())
            if connection.vendor == "postgresql":
                together.wait()
        return "answered"

    assert race(answer, 2) == ["answered"] * 2
    lifecycle.close(study)
    assert Rating.objects.count() == 2


@pytest.mark.django_db
def test_an_item_is_drawn_alike_for_its_next_rater_and_a_mark_stays_its_raters_own() -> None:
    one, other = open_study(items=3, raters=2, marks="always").raters.all()
    first = drawn_items.drawn(at(one, 1), "final", [])

    assert drawn_items.drawn(at(other, 1), "final", []) == first
    assert drawn_items.drawn(at(one, 1), "final", ["missing"]).count(" checked") == 1
    assert " checked" not in drawn_items.drawn(at(other, 1), "final", [])


@pytest.mark.django_db
def test_what_is_kept_of_one_item_is_shown_for_no_other_and_in_no_other_layout() -> None:
    seat = open_study(items=3, raters=1, layout="balance", with_context=True).raters.get()
    place, kinds = at(seat, 1), set()
    for layout in ("plain", "aligned", "balance"):
        for with_context in (True, False):
            for marks in ("off", "always"):
                place.layout, place.with_context, place.marks = layout, with_context, marks
                kinds.add(drawn_items.drawn(place, "final", []))
    assert len(kinds) == 3 * 2 * 2
    assert drawn_items.drawn(at(seat, 2), "final", []) not in kinds

    place.item.payload = {**place.item.payload, "rejected": "the vial is cracked"}
    assert "the vial is cracked" in drawn_items.drawn(place, "final", [])


@pytest.mark.django_db
def test_who_waits_for_the_next_item_is_told_of_the_answer_just_saved(client: Client) -> None:
    seat = open_study(items=4, raters=1).raters.get()
    client.force_login(seat.user)  # type: ignore[arg-type]  # the seat is held
    sent = {"verdict": "yes", "confidence": "4", "revision": "0", "submission_id": str(uuid.uuid4())}

    page = client.post(f"/rate/{at(seat, 1).code}/", sent, headers=HTMX).content.decode()

    assert "1 saved" in page and f'id="previous" href="/rate/{at(seat, 1).code}/"' in page
    assert serving.progress(seat) == (1, 4)


@pytest.mark.thorough
def test_the_benchmark_of_the_rater_loop_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.rater_loop", "--quick"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert all(
        f"SQLite,  2, {journey}, {name} " in done.stdout
        for journey in ("htmx", "plain")
        for name in ("site", "floor", "bare")
    )
