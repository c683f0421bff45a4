"""The rating page for browsers without JavaScript and for htmx."""

import gzip
import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ratings.blinding import allow_list
from ratings.models import Assignment, Rater, Rating, Study, UnsavedAnswer
from tests.support.rater_forms import (
    HTMX,
    WITH_AND_WITHOUT_HTMX,
    build_answer,
    create_rater_with_marks,
    get_next_item_url,
    get_rating_page,
    get_rating_url,
)
from tests.support.rating_room import build_transition_payloads, create_open_study, get_assignment

ALL_BITS = (1 << 128) - 1


def without_token(html: str) -> str:
    return re.sub(r'value="[A-Za-z0-9]{64}"|"X-CSRFToken": "[A-Za-z0-9]{64}"', "", html)


# ---------------------------------------------------------------- which page comes next


@WITH_AND_WITHOUT_HTMX
@pytest.mark.parametrize("missing", [{"consented_at": None}, {"guide_seen": 0}, {"practised_at": None}])
def test_rating_is_rejected_before_consent_guide_and_practice(
    at_work: Client, rater: Rater, study: Study, missing: dict[str, Any], headers: dict[str, str]
) -> None:
    Rater.objects.filter(pk=rater.pk).update(**missing)
    Study.objects.update(protocol={**study.protocol, "practice": 3})
    sent = at_work.post(get_rating_url(get_assignment(rater)), build_answer(), headers=headers)
    assert (sent.headers.get("Location") or sent.headers["HX-Redirect"]) == get_next_item_url(rater)
    at_work.post(f"{get_rating_url(get_assignment(rater))}draft/", build_answer())
    assert not Rating.objects.exists() and not UnsavedAnswer.objects.exists()


def test_answer_is_saved_if_the_item_was_shown_before_a_guide_revision(at_work: Client, rater: Rater) -> None:
    get_rating_page(at_work, get_assignment(rater))
    Study.objects.update(guide_version=2)
    at_work.post(get_rating_url(get_assignment(rater)), build_answer())
    assert Rating.objects.get().guide_version == 1


def test_rater_who_read_and_practised_is_redirected_to_the_first_item(at_work: Client, rater: Rater) -> None:
    assert at_work.get(get_next_item_url(rater)).headers["Location"] == get_rating_url(get_assignment(rater))


@pytest.mark.parametrize(
    ("missing", "where"),
    [
        ({"consented_at": None}, "agree/"),
        ({"guide_seen": 0}, "guide/"),
        ({"practised_at": None}, "practice/"),
        ({"started_at": None}, "guide/"),
    ],
)
def test_consent_guide_and_practice_precede_rating(
    at_work: Client, rater: Rater, missing: dict[str, Any], where: str
) -> None:
    rater.study.protocol["practice"] = 2
    rater.study.save()
    Rater.objects.filter(pk=rater.pk).update(**missing)

    assert at_work.get(get_next_item_url(rater)).headers["Location"] == get_next_item_url(rater) + where
    assert at_work.get(get_rating_url(get_assignment(rater))).headers["Location"] == get_next_item_url(rater)


def test_a_newer_guide_is_shown_before_the_next_item(at_work: Client, rater: Rater) -> None:
    Study.objects.update(guide_version=2)

    assert at_work.get(get_next_item_url(rater)).headers["Location"] == get_next_item_url(rater) + "guide/"


@WITH_AND_WITHOUT_HTMX
def test_a_newer_guide_is_shown_before_the_item_that_would_follow_an_answer(
    at_work: Client, rater: Rater, headers: dict[str, str]
) -> None:
    Study.objects.update(guide_version=2)
    saved = at_work.post(get_rating_url(get_assignment(rater)), build_answer(), headers=headers)

    assert saved.headers.get("HX-Redirect", saved.headers.get("Location")) == get_next_item_url(rater)
    assert Rating.objects.get().guide_version == 1 and get_assignment(rater, 2).opened_at is None


def test_last_page_follows_the_last_item(at_work: Client, rater: Rater) -> None:
    for assignment in rater.assignments.all():
        last = at_work.post(get_rating_url(assignment), build_answer(), follow=True)

    assert last.redirect_chain == [(get_next_item_url(rater), 303), (get_next_item_url(rater) + "done/", 302)]


@pytest.mark.parametrize(("status", "said"), [("paused", "This study is paused"), ("closed", "This study is closed")])
def test_closed_or_paused_study_shows_a_message(at_work: Client, rater: Rater, status: str, said: str) -> None:
    Study.objects.update(status=status)

    assert said in at_work.get(get_next_item_url(rater)).content.decode()
    assert at_work.get(get_next_item_url(rater), headers=HTMX).headers["HX-Redirect"] == get_next_item_url(rater)
    assert at_work.get(get_rating_url(get_assignment(rater))).headers["Location"] == get_next_item_url(rater)


def test_withdrawn_rater_sees_a_message_and_no_item(at_work: Client, rater: Rater) -> None:
    Rater.objects.filter(pk=rater.pk).update(withdrawn_at=timezone.now())

    assert "You have withdrawn" in at_work.get(get_next_item_url(rater)).content.decode()
    assert at_work.get(get_rating_url(get_assignment(rater))).status_code == 404


# ---------------------------------------------------------------- permissions


def test_rater_pages_send_strangers_to_sign_in_and_return_401_to_htmx(client: Client, rater: Rater) -> None:
    place = get_rating_url(get_assignment(rater))

    assert client.get(place).headers["Location"] == f"/login/?next={place}"
    for path in (place, place + "draft/"):
        assert client.post(path, build_answer(), headers=HTMX).status_code == 401
    assert not Rating.objects.exists() and not UnsavedAnswer.objects.exists()


def test_item_of_another_rater_returns_404(at_work: Client, study: Study) -> None:
    foreign = get_assignment(study.raters.get(label="R02"))

    for asked in (at_work.get, at_work.post):
        theirs, nobodys = asked(get_rating_url(foreign)), asked(f"/rate/{uuid.uuid4()}/")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.content == nobodys.content
    assert at_work.post(get_rating_url(foreign) + "draft/", build_answer()).status_code == 404
    assert at_work.get(get_next_item_url(foreign.rater)).status_code == 404


def test_rater_pages_return_404_to_users_who_are_not_raters(client: Client, study: Study) -> None:
    client.force_login(User.objects.create(username="admin", is_staff=True))

    for path in (
        get_rating_url(get_assignment(study.raters.get(label="R01"))),
        get_next_item_url(study.raters.get(label="R01")),
    ):
        assert client.get(path).status_code == 404


# ---------------------------------------------------------------- contents of the pages


def test_htmx_receives_only_the_card_and_the_progress(at_work: Client, rater: Rater) -> None:
    page = get_rating_page(at_work, get_assignment(rater))
    fragment = get_rating_page(at_work, get_assignment(rater), headers=HTMX)

    assert "<html" in page and "<html" not in fragment
    for html in (page, fragment):
        assert html.count('id="rating-card"') == html.count('id="progress"') == html.count('id="saved"') == 1
    assert "hx-swap-oob" in fragment and "hx-swap-oob" not in page


def test_next_item_is_smaller_than_ten_kilobytes(at_work: Client, rater: Rater) -> None:
    fragment = at_work.post(get_rating_url(get_assignment(rater)), build_answer(), headers=HTMX).content

    assert len(gzip.compress(fragment)) < 10_000


@pytest.mark.parametrize("marks", ["off", "always"])
def test_rating_form_has_no_preselected_answer(client: Client, db: None, marks: str) -> None:
    rater = create_rater_with_marks(marks)
    assert rater.user is not None
    client.force_login(rater.user)

    assert " checked" not in get_rating_page(client, get_assignment(rater), headers=HTMX)


@pytest.mark.parametrize("path", ["next", "item"])
def test_rater_pages_forbid_caching(at_work: Client, rater: Rater, path: str) -> None:
    response = at_work.get(get_rating_url(get_assignment(rater)) if path == "item" else get_next_item_url(rater))

    assert response.headers["Cache-Control"] == "no-store"
    assert "ETag" not in response.headers


@WITH_AND_WITHOUT_HTMX
def test_rating_pages_differ_only_in_what_the_item_shows(
    at_work: Client, rater: Rater, headers: dict[str, str]
) -> None:
    def shown(assignment: Assignment) -> tuple[str, dict[str, Any]]:
        response = at_work.get(get_rating_url(assignment), headers=headers)
        body = without_token(response.content.decode()).replace(str(assignment.code), "CODE")
        body = re.sub(r'(name="submission_id" value=")[0-9a-f-]{36}', r"\1", body)
        return body, {k: v for k, v in response.headers.items() if k not in ("Content-Length", "X-Request-ID")}

    one, other = get_assignment(rater, 1), get_assignment(rater, 2)
    other.item.payload = {**one.item.payload}
    other.item.save()

    assert shown(one) == shown(other)


def test_request_id_reveals_nothing_about_the_item(at_work: Client, rater: Rater) -> None:
    """Each of the 128 bits is random for every request, so it is sometimes 1 and sometimes 0 whatever the item."""
    for assignment in (get_assignment(rater, 1), get_assignment(rater, 2)):
        drawn = [int(at_work.get(get_rating_url(assignment)).headers["X-Request-ID"], 16) for _ in range(24)]
        ones, zeros = 0, 0
        for number in drawn:
            ones, zeros = ones | number, zeros | ~number
        assert ones & zeros & ALL_BITS == ALL_BITS and len(set(drawn)) == len(drawn)


def test_text_from_models_and_raters_is_escaped(at_work: Client, rater: Rater) -> None:
    item = get_assignment(rater).item
    item.payload["action"]["name"] = "<script>alert(1)</script>"
    item.save()
    at_work.post(get_rating_url(get_assignment(rater)), build_answer(note="</textarea><script>alert(2)</script>"))

    page = get_rating_page(at_work, get_assignment(rater))

    assert "&lt;script&gt;alert(1)" in page and "&lt;script&gt;alert(2)" in page and "<script>alert" not in page


def test_rating_page_contains_neither_reasoning_nor_barcodes(at_work: Client, rater: Rater) -> None:
    for assignment in rater.assignments.all():
        page = get_rating_page(at_work, assignment)
        assert "SECRET" not in page and "MAT-" not in page


def test_rating_page_query_count_does_not_grow_with_the_study(client: Client, db: None) -> None:
    counts = []
    for items in (4, 12):
        rater = create_open_study(items=items).raters.get(label="R01")
        assert rater.user is not None
        client.force_login(rater.user)
        with CaptureQueriesContext(connection) as asked:
            client.post(get_rating_url(get_assignment(rater)), build_answer(), headers=HTMX)
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_the_payloads_of_these_tests_differ() -> None:
    assert len({allow_list.payload_digest(p) for p in build_transition_payloads(5)}) == 5
