"""The list of a rater's own answers on the last page: names, filters, order, pages, and links that return to their place."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ratings.models import Assignment, Item, Rater, Rating
from ratings.web.rater import own_answers
from tests.support.rater_forms import build_answer, get_rating_url
from tests.support.rating_room import create_open_study, get_assignment, store_rating

pytestmark = pytest.mark.django_db
# Verdict and confidence by position; None cannot be judged.
ANSWERS: list[tuple[bool | None, int | None]] = [(True, 4), (False, 1), (True, 2), (None, None), (False, 3)]


@pytest.fixture
def finished(client: Client) -> Rater:
    """A signed-in rater who has rated the five items of a study, named e, d, c, b, a."""
    rater = create_open_study(items=5).raters.get(label="R01")
    for position, ((verdict, confidence), name) in enumerate(zip(ANSWERS, "edcba", strict=True), start=1):
        place = get_assignment(rater, position)
        Item.objects.filter(pk=place.item_id).update(name=f"Transfer, {name}")
        store_rating(place, verdict=verdict, confidence=confidence, cannot_judge=verdict is None)
    assert rater.user is not None
    client.force_login(rater.user)
    return rater


def get_page(client: Client, rater: Rater, query: str = "") -> str:
    response = client.get(f"/rate/study/{rater.code}/done/{query}")
    assert response.status_code == 200
    return response.content.decode()


def list_names(page: str) -> str:
    return "".join(re.findall(r'data-label="Name">Transfer, (.)<', page))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "edcba"),
        ("?confidence=low", "dc"),
        ("?confidence=middle", "a"),
        ("?confidence=high", "e"),
        ("?answer=yes", "ec"),
        ("?answer=no", "da"),
        ("?answer=none", "b"),
        ("?answer=no&confidence=low", "d"),
        ("?answer=maybe&confidence=9&sort=password&page=x", "edcba"),
        ("?sort=name", "abcde"),
        ("?sort=-name", "edcba"),
        ("?sort=confidence", "dcaeb"),  # 1, 2, 3, 4, and without one last
        ("?sort=-confidence", "eacdb"),
        ("?sort=-answer", "ceadb"),  # plausible, not plausible, cannot judge
        ("?confidence=low&sort=-number", "cd"),
    ],
)
def test_own_answers_are_filtered_and_sorted_by_the_url(
    client: Client, finished: Rater, query: str, names: str
) -> None:
    assert list_names(get_page(client, finished, query)) == names


def test_own_answers_keep_their_numbers_in_every_order(client: Client, finished: Rater) -> None:
    page = get_page(client, finished, "?sort=name")
    assert re.findall(r'<th scope="row">(\d)</th>', page) == ["5", "4", "3", "2", "1"]


def test_own_answers_say_so_if_none_matches(client: Client, finished: Rater) -> None:
    page = get_page(client, finished, "?answer=none&confidence=low")
    assert "No answers match" in page and list_names(page) == ""


def test_last_page_offers_to_review_answers_with_low_confidence_before_finish(client: Client, finished: Rater) -> None:
    page = get_page(client, finished)
    assert "You gave 2 answers with confidence 1 or 2." in page and 'href="?confidence=low#answers"' in page
    Rating.objects.update(confidence=5, verdict=True, cannot_judge=False)
    assert "confidence 1 or 2." not in get_page(client, finished)
    client.post(f"/rate/study/{finished.code}/finish/")
    Rating.objects.update(confidence=1)
    assert "confidence=low#answers" not in get_page(client, finished)


def test_changed_answer_returns_to_its_place_in_the_list(client: Client, finished: Rater) -> None:
    query = "?confidence=low&sort=-name"
    place = get_assignment(finished, 3)
    link = re.search(rf'href="(/rate/{place.code}/\?[^"]+)"', get_page(client, finished, query))
    assert link
    address = link[1].replace("&amp;", "&")
    back = f"/rate/study/{finished.code}/done/?list=answers&confidence=low&sort=-name#answer-{place.code}"
    page = client.get(address).content.decode()
    assert f'href="{back.replace("&", "&amp;")}">Keep it' in page
    assert f'action="{address.replace("&", "&amp;")}"' in page
    saved = client.post(address, build_answer(verdict="no", confidence="5", revision="1"))
    assert (saved.status_code, saved["Location"]) == (303, back)
    again = client.post(
        address, build_answer(verdict="no", confidence="4", revision="2"), headers={"HX-Request": "true"}
    )
    assert again["HX-Redirect"] == back
    assert (place.rating.verdict, place.rating.confidence, place.rating.revision) == (False, 4, 3)


def test_conflicting_change_keeps_its_place_in_the_list(client: Client, finished: Rater) -> None:
    place = get_assignment(finished, 1)
    address = f"{get_rating_url(place)}?list=answers&page=2"
    page = client.post(address, build_answer(verdict="no", confidence="5", revision="0"))
    assert page.status_code == 409
    assert f'action="{address.replace("&", "&amp;")}"' in page.content.decode()


def test_changed_answer_without_a_list_returns_to_the_next_page(client: Client, finished: Rater) -> None:
    saved = client.post(
        get_rating_url(get_assignment(finished, 5)), build_answer(verdict="yes", confidence="5", revision="1")
    )
    assert saved["Location"] == f"/rate/study/{finished.code}/"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, ""),
        ({"confidence": "low", "page": "2"}, ""),
        ({"list": "answers"}, "list=answers"),
        ({"list": "answers", "next": "//evil.example.org", "answer": "<b>", "sort": "-pk"}, "list=answers"),
        ({"list": "answers", "answer": "no", "sort": "saved", "page": "3"}, "list=answers&answer=no&sort=saved&page=3"),
        ({"list": "answers", "page": "-1"}, "list=answers"),
        ({"list": "answers", "page": "9999999"}, "list=answers"),
    ],
)
def test_place_in_the_list_contains_known_values_only(given: dict[str, Any], place: str) -> None:
    assert own_answers.read_place(given) == place


def test_own_answers_are_on_pages_of_fifty(client: Client) -> None:
    rater = create_open_study(items=52, raters=1).raters.get()
    for place in Assignment.objects.filter(rater=rater).order_by("position"):
        store_rating(place, verdict=True, confidence=4)
    assert rater.user is not None
    client.force_login(rater.user)
    with CaptureQueriesContext(connection) as queries:
        first = get_page(client, rater, "?answer=yes")
    assert first.count('data-label="Name"') == 50 and 'href="?answer=yes&amp;page=2"' in first
    assert not any("payload" in query["sql"].replace("payload_sha256", "") for query in queries)
    second = get_page(client, rater, "?answer=yes&page=2")
    assert re.findall(r'<th scope="row">(\d+)</th>', second) == ["51", "52"]
    assert "list=answers&amp;answer=yes&amp;page=2" in second
