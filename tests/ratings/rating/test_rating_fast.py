"""Tests of the cost of a rating: number of queries, no waiting for other raters, and stored HTML of items."""

import re
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ratings.models import (
    EVIDENCE,
    TRANSITION,
    Assignment,
    Item,
    ItemSource,
    Rater,
    Rating,
    RenderedItem,
    Study,
    UnsavedAnswer,
)
from ratings.protocol import Arm
from ratings.rating import next_item, submit
from ratings.rating.first_answer import NextAction
from ratings.studies import lifecycle, rendered_items
from ratings.web.rater import rating_page
from tests.support.rating_room import create_open_study
from tests.support.steps import run_concurrently

HTMX = {"HX-Request": "true"}
REDIRECT_QUERIES = 3  # session with its user, rater; next
ITEM_QUERIES = 6  # session with its user, item; opened; last answer, progress, keys
# Session with its user, item; the answer and the next item. On SQLite these take seven: begin, place, rating, version,
# counts, next, commit.
ANSWER_QUERIES = {"postgresql": 3, "sqlite": 9}


def get_assignment(rater: Rater, position: int) -> Assignment:
    return rater.assignments.select_related("item").get(position=position)


def count_statements(client: Client, how: str, assignment: Assignment, **sent: Any) -> int:
    """Return the number of statements, including begin and commit, and check that none of them reads an item source."""
    with CaptureQueriesContext(connection) as statements:
        response = getattr(client, how)(f"/rate/{assignment.code}/", **sent)
    assert response.status_code == 200
    assert not any(ItemSource._meta.db_table in query["sql"] for query in statements.captured_queries)
    return len(statements)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.parametrize("items", [10, 20])
def test_rating_page_needs_the_same_number_of_queries_in_a_study_twice_as_long(client: Client, items: int) -> None:
    study = create_open_study(items=items, raters=2)
    rater = study.raters.get(number=1)
    rendered_items.store_rendered_items(rendered_items.render_items(study.items.all(), [Arm()]))
    client.force_login(rater.user)  # type: ignore[arg-type]  # every rater of this study has a user
    answers = {"verdict": "yes", "confidence": "4", "revision": "0"}

    for position in (1, 2, 3):
        with CaptureQueriesContext(connection) as on_the_way:
            sent_on = client.get(f"/rate/study/{rater.code}/")
        assert (sent_on["Location"], len(on_the_way)) == (
            f"/rate/{get_assignment(rater, position).code}/",
            REDIRECT_QUERIES,
        )
        sent = {"data": answers | {"submission_id": str(uuid.uuid4())}, "headers": HTMX}
        shown = count_statements(client, "get", get_assignment(rater, position))
        answered = count_statements(client, "post", get_assignment(rater, position), **sent)
        assert (shown <= ITEM_QUERIES, answered) == (True, ANSWER_QUERIES[connection.vendor])


@pytest.mark.django_db
def test_submitting_an_answer_opens_the_next_item(client: Client) -> None:
    rater = create_open_study(items=4, raters=1).raters.get()
    next_item.mark_opened(first := get_assignment(rater, 1))

    result = submit.submit_rating(first, True, 4, uuid.uuid4(), next_action=NextAction.OPEN)

    assert (
        result.next_item is not None
        and result.next_item.code == get_assignment(rater, 2).code
        and get_assignment(rater, 2).opened_at
        and not get_assignment(rater, 3).opened_at
    )


@pytest.mark.django_db
def test_submitting_an_answer_opens_no_further_item_until_a_revised_guide_is_read() -> None:
    rater = create_open_study(items=4, raters=1).raters.get()
    next_item.mark_opened(first := get_assignment(rater, 1))
    lifecycle.revise_guide(rater.study, "Look at the units.")

    assert submit.submit_rating(first, True, 4, uuid.uuid4(), next_action=NextAction.OPEN).next_item is None
    assert not get_assignment(rater, 2).opened_at


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_raters_submit_concurrently_and_closing_the_study_waits_for_them() -> None:
    """On PostgreSQL both transactions are open at once; SQLite has one writer, so the second waits."""
    study = create_open_study(items=3, raters=2)
    raters = list(study.raters.all())
    together = threading.Barrier(2, timeout=5)

    def answer() -> str:
        next_item.mark_opened(assignment := get_assignment(raters.pop(), 1))
        with transaction.atomic():
            submit.submit_rating(assignment, True, 4, uuid.uuid4())
            if connection.vendor == "postgresql":
                together.wait()
        return "answered"

    assert run_concurrently(answer, 2) == ["answered"] * 2
    lifecycle.close_study(study)
    assert Rating.objects.count() == 2


@pytest.mark.django_db
def test_rendered_item_is_the_same_for_the_next_rater_without_the_marks_of_the_first() -> None:
    one, other = create_open_study(items=3, raters=2, marks="always").raters.all()
    first = rendered_items.load_html(get_assignment(one, 1), "final")

    assert rendered_items.load_html(get_assignment(other, 1), "final") == first
    assert rendered_items.load_html(get_assignment(one, 1), "final", ["missing"]).count(" checked") == 1
    assert " checked" not in rendered_items.load_html(get_assignment(other, 1), "final")


@pytest.mark.django_db
@pytest.mark.both_databases
def test_stored_html_is_separate_for_items_layouts_context_and_marks() -> None:
    rater = create_open_study(items=3, raters=1, layout="balance", with_context=True).raters.get()
    assignment, kinds = get_assignment(rater, 1), set()
    for _ in range(2):  # rendered, then read
        for layout in ("plain", "aligned", "balance"):
            for with_context in (True, False):
                for marks in ("off", "always"):
                    assignment.layout, assignment.with_context, assignment.marks = layout, with_context, marks
                    kinds.add(rendered_items.load_html(assignment, "final"))
    assert len(kinds) == 3 * 2 * 2 == RenderedItem.objects.count()
    assert rendered_items.load_html(get_assignment(rater, 2), "final") not in kinds


@pytest.mark.django_db
@pytest.mark.both_databases
def test_stored_html_of_earlier_templates_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assignment = get_assignment(create_open_study(items=3, raters=1).raters.get(), 1)
    rendered_items.load_html(assignment, "final")
    RenderedItem.objects.update(html="what an earlier release rendered")
    assert rendered_items.load_html(assignment, "final") == "what an earlier release rendered"

    monkeypatch.setattr(rendered_items, "compute_version", lambda: "another release")

    assert "<div hx-disable" in rendered_items.load_html(assignment, "final")
    stored = RenderedItem.objects.get()
    assert stored.version == "another release" and "<div hx-disable" in stored.html


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.parametrize("state", ["stored", "not stored", "of another release", "unsaved answer", "confirm layout"])
def test_answer_returns_the_html_of_the_next_item_only_if_it_is_the_page_to_show(state: str) -> None:
    rater = create_open_study(items=4, raters=1).raters.get()
    next_item.mark_opened(first := get_assignment(rater, 1))
    second = get_assignment(rater, 2)
    if state == "confirm layout":
        rater.assignments.filter(position=2).update(layout="confirm")
        second.layout = "confirm"
    if state == "unsaved answer":
        UnsavedAnswer.objects.create(assignment=second, verdict=True)
    if state != "not stored":
        RenderedItem.objects.create(
            item=second.item, **next_item.get_arm(rater)._replace(layout=second.layout)._asdict(), stage="final", html="the item",
            version="old" if state == "of another release" else rendered_items.compute_version(),
        )  # fmt: skip

    result = submit.submit_rating(first, True, 4, uuid.uuid4(), next_action=NextAction.SHOW)

    html = "the item" if state == "stored" else None
    assert result.next_item == (second.code, second.marks, html)


@pytest.mark.django_db
@pytest.mark.parametrize("is_stored", [True, False])
def test_card_after_an_answer_equals_the_card_that_a_request_for_it_returns(client: Client, is_stored: bool) -> None:
    rater = create_open_study(items=4, raters=1).raters.get()
    client.force_login(rater.user)  # type: ignore[arg-type]  # the rater has a user
    next_item.mark_opened(first := get_assignment(rater, 1))
    if not is_stored:
        RenderedItem.objects.all().delete()
    sent = {"verdict": "yes", "confidence": "4", "revision": "0", "submission_id": str(uuid.uuid4())}

    replied = client.post(f"/rate/{first.code}/", sent, headers=HTMX)
    requested = client.get(replied["HX-Push-Url"], headers=HTMX)

    def remove_id(response: Any) -> str:
        return re.sub('name="submission_id" value="[-0-9a-f]{36}"', "", response.content.decode())

    assert remove_id(replied) == remove_id(requested)
    assert "1 saved" in remove_id(replied) and "csrfmiddlewaretoken" not in remove_id(replied)


@pytest.mark.django_db
@pytest.mark.parametrize("layout_stored", [True, False])
def test_rating_records_the_layout_that_was_shown(client: Client, layout_stored: bool) -> None:
    rater = create_open_study(items=2, raters=1).raters.get()
    client.force_login(rater.user)  # type: ignore[arg-type]  # the rater has a user
    first = get_assignment(rater, 1)
    # A step whose outputs cannot be matched to its inputs is shown in the plain layout.
    Item.objects.filter(pk=first.item_id).update(payload={**first.item.payload, "lineage": False})
    RenderedItem.objects.all().delete()
    client.get(f"/rate/{first.code}/")
    if not layout_stored:
        RenderedItem.objects.update(layout_shown=None)
    sent = {"verdict": "yes", "confidence": "4", "revision": "0", "submission_id": str(uuid.uuid4())}

    client.post(f"/rate/{first.code}/", sent)

    assert Rating.objects.get().layout_shown == "plain"


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])
@pytest.mark.parametrize("marks", ["off", "always", "if_not_plausible"])
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
@pytest.mark.parametrize("answered", [0, 1])
def test_filled_frame_equals_the_rendered_page_byte_for_byte(
    client: Client, monkeypatch: pytest.MonkeyPatch, kind: str, marks: str, headers: dict[str, str], answered: int
) -> None:
    study = create_open_study(items=3, raters=1, kind=kind, marks=marks)
    Study.objects.update(guide="Units <first>.")
    rater = study.raters.get()
    client.force_login(rater.user)  # type: ignore[arg-type]  # the rater has a user
    if answered:
        submit.submit_rating(get_assignment(rater, 1), True, 4, uuid.uuid4())
    url = f"/rate/{get_assignment(rater, 1 + answered).code}/"

    def fetch_page() -> str:
        # Both are new in every response.
        page = client.get(url, headers=headers).content.decode()
        page = re.sub('name="submission_id" value="[-0-9a-f]{36}"', "", page)
        return re.sub("(csrfmiddlewaretoken. value=.|X-CSRFToken.: .)[0-9A-Za-z]{64}", "", page)

    filled = [fetch_page(), fetch_page()]  # the second one from the stored frame
    monkeypatch.setattr(rating_page, "_fits_frame", lambda request, assignment: False)

    assert filled == [fetch_page()] * 2
    assert f"{answered} saved" in filled[0] or not answered


@pytest.mark.django_db
def test_next_item_page_shows_that_the_last_answer_was_saved(client: Client) -> None:
    rater = create_open_study(items=4, raters=1).raters.get()
    client.force_login(rater.user)  # type: ignore[arg-type]  # the rater has a user
    sent = {"verdict": "yes", "confidence": "4", "revision": "0", "submission_id": str(uuid.uuid4())}

    page = client.post(f"/rate/{get_assignment(rater, 1).code}/", sent, headers=HTMX).content.decode()

    assert "1 saved" in page and f'id="previous" href="/rate/{get_assignment(rater, 1).code}/"' in page
    assert next_item.count_progress(rater) == (1, 4)


@pytest.mark.thorough
def test_rater_loop_benchmark_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.rater_loop", "--quick"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert all(
        f"SQLite,  2, {journey}, {name} " in done.stdout
        for journey in ("htmx", "plain")
        for name in ("site", "floor", "bare")
    )
