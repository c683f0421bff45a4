"""The review of a rater's own items after unblinding: who may open it, what it shows, and what follows from opening it."""

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
from ratings.models import ItemSource, Rater, Rating, Study
from ratings.raters import item_review
from ratings.rating import next_item, submit
from ratings.studies import StudyError, readable_elsewhere
from tests.support import run_factory, study_factory
from tests.support.rating_room import store_rating

pytestmark = pytest.mark.django_db
ITEMS = [{"cast": "offline", "perturbation": kind, "count": 3} for kind in ("none", "subtle")]


@pytest.fixture
def boss() -> User:
    return User.objects.create_user("boss", is_staff=True)


def open_study(name: str = "Reviewed", **changes: Any) -> Study:
    """Open a study of three steps as simulated and three with a subtle error; every rater rates all of them."""
    document = {
        "sources": ITEMS,
        "design": "crossed",
        "ratings_per_item": 4,
        "practice": 0,
        "review": True,
        "name": name,
    }
    return study_factory.create_open_study(**{**document, "slug": name.lower(), **changes})


@pytest.fixture
def reviewer(boss: User) -> Rater:
    """R01 of an unblinded study. R01 rates everything plausible with confidence 2 for errors and 5 otherwise; R02 to R04
    rate errors not plausible, and their notes are "secret"."""
    run_factory.create_pool(6)
    study = open_study()
    for rater in study_factory.fill_all_rater_places(study):
        planted = set(
            ItemSource.objects.filter(item__study=study).exclude(perturbation="none").values_list("item_id", flat=True)
        )
        while assignment := next_item.find_next_assignment(rater):
            next_item.mark_opened(assignment)
            is_error, is_first = assignment.item_id in planted, rater.label == "R01"
            verdict, note = is_first or not is_error, "" if is_first else "secret"
            submit.submit_rating(assignment, verdict, 2 if is_error else 5, uuid.uuid4(), note=note)
    study_factory.unblind_study(study, boss)
    return get_rater(study)


def get_rater(study: Study, label: str = "R01") -> Rater:
    return Rater.objects.select_related("study", "user").get(study=study, label=label)


def sign_in(client: Client, rater: Rater) -> Client:
    assert rater.user is not None
    client.force_login(rater.user)
    return client


def get_url(rater: Rater) -> str:
    return f"/rate/study/{rater.code}/review/"


def open_review(client: Client, rater: Rater, query: str = "") -> str:
    sign_in(client, rater).post(get_url(rater))
    page = client.get(get_url(rater) + query)
    assert page.status_code == 200
    return page.content.decode()


def count_rows(page: str) -> int:
    return len(re.findall(r'<tr id="item-', page))


# ---------------------------------------------------------------- who may open it


@pytest.mark.parametrize("status", ["open", "paused", "closed"])
def test_review_is_not_found_before_unblinding(client: Client, reviewer: Rater, status: str) -> None:
    Study.objects.filter(pk=reviewer.study_id).update(status=status)
    assert sign_in(client, reviewer).get(get_url(reviewer)).status_code == 404
    assert client.post(get_url(reviewer)).status_code == 404
    with pytest.raises(StudyError):
        item_review.open_review(get_rater(reviewer.study))


def test_review_is_not_found_if_the_document_does_not_offer_it(client: Client, reviewer: Rater) -> None:
    reviewer.study.protocol["review"] = False
    reviewer.study.save()
    assert sign_in(client, reviewer).get(get_url(reviewer)).status_code == 404
    assert "Review your items" not in client.get(f"/rate/study/{reviewer.code}/done/").content.decode()


def test_review_shows_nothing_before_the_rater_opens_it(client: Client, reviewer: Rater) -> None:
    page = sign_in(client, reviewer).get(get_url(reviewer)).content.decode()
    assert "you will not be asked to rate these items again" in page and "Subtle error planted" not in page
    code = reviewer.assignments.earliest("position").code
    assert client.get(f"/rate/{code}/review/").status_code == 404
    assert get_rater(reviewer.study).reviewed_at is None


def test_review_of_another_rater_is_not_found(client: Client, reviewer: Rater) -> None:
    open_review(client, reviewer)
    sign_in(client, get_rater(reviewer.study, "R02"))
    assert client.get(get_url(reviewer)).status_code == 404
    assert client.get(f"/rate/{reviewer.assignments.earliest('position').code}/review/").status_code == 404


@pytest.mark.parametrize(
    ("status", "is_open"), [("open", False), ("paused", False), ("closed", False), ("unblinded", True)]
)
def test_review_stays_closed_while_the_account_rates_the_same_contents_in_another_study(
    client: Client, reviewer: Rater, status: str, is_open: bool
) -> None:
    other = open_study("Other", allow_unblinded=True)
    seat = get_rater(other)
    Rater.objects.filter(pk=seat.pk).update(user=reviewer.user, invited_at=timezone.now())
    Study.objects.filter(pk=other.pk).update(status=status)
    response = sign_in(client, reviewer).post(get_url(reviewer))
    assert response.status_code == (303 if is_open else 409)
    assert ("You are also a rater of Other" in response.content.decode()) is not is_open
    assert (get_rater(reviewer.study).reviewed_at is not None) is is_open


def test_review_opened_earlier_is_closed_again_while_the_account_rates_the_same_contents(
    client: Client, reviewer: Rater
) -> None:
    open_review(client, reviewer)
    seat = get_rater(open_study("Other", allow_unblinded=True))
    Rater.objects.filter(pk=seat.pk).update(user=reviewer.user, invited_at=timezone.now())
    assert "Subtle error planted" not in client.get(get_url(reviewer)).content.decode()
    assert client.get(f"/rate/{reviewer.assignments.earliest('position').code}/review/").status_code == 404
    Rater.objects.filter(pk=seat.pk).update(finished_at=timezone.now())
    assert "Subtle error planted" in client.get(get_url(reviewer)).content.decode()


def test_reviewed_items_are_readable_for_this_account_in_later_studies_and_for_no_other(
    client: Client, reviewer: Rater
) -> None:
    """The other study has the same six steps, of which R01 has rated all but the one whose answer is removed."""
    unrated = reviewer.assignments.latest("position")
    Rating.objects.filter(assignment=unrated).delete()
    reviewer.assignments.filter(pk=unrated.pk).update(answered_at=None)
    study = open_study("Other", allow_unblinded=True)
    places = [
        Rater(pk=-1, study=study, user=reviewer.user),
        Rater(pk=-2, study=study, user=get_rater(reviewer.study, "R02").user),
    ]
    assert readable_elsewhere.find_readable(study, places) == {}
    open_review(client, reviewer)
    readable = readable_elsewhere.find_readable(study, places)
    rated = reviewer.assignments.filter(answered_at__isnull=False).values_list("item__pair_sha256", flat=True)
    expected = set(study.items.filter(pair_sha256__in=rated).values_list("pk", flat=True))
    assert readable == {-1: expected} and 0 < len(expected) < 6


# ---------------------------------------------------------------- what it shows


@pytest.mark.parametrize(("show", "rows"), [("", 6), ("wrong", 3), ("low", 3), ("missed", 3), ("nonsense", 6)])
def test_review_lists_the_answers_of_each_filter(client: Client, reviewer: Rater, show: str, rows: int) -> None:
    """R01 called three errors plausible, with confidence 2, and three steps without an error plausible."""
    assert count_rows(open_review(client, reviewer, f"?show={show}")) == rows


def test_review_tells_missed_errors_from_other_wrong_answers(client: Client, reviewer: Rater) -> None:
    genuine = Rating.objects.filter(assignment__rater=reviewer, assignment__item__source__perturbation="none")
    genuine.filter(pk=genuine.earliest("pk").pk).update(verdict=False)
    assert count_rows(open_review(client, reviewer, "?show=wrong")) == 4
    assert count_rows(open_review(client, reviewer, "?show=missed")) == 3


def test_review_says_so_if_no_answer_matches(client: Client, reviewer: Rater) -> None:
    Rating.objects.filter(assignment__rater=reviewer).update(confidence=4)
    assert "You gave no answer with confidence 1 or 2." in open_review(client, reviewer, "?show=low")


def test_review_shows_how_many_others_gave_which_answer_but_not_who_and_no_notes(
    client: Client, reviewer: Rater
) -> None:
    page = open_review(client, reviewer, "?show=missed")
    assert page.count("0 plausible, 3 not plausible") == 3
    code = reviewer.assignments.get(item__source__in=ItemSource.objects.exclude(perturbation="none")[:1]).code
    item = client.get(f"/rate/{code}/review/").content.decode()
    assert "0 plausible, 3 not plausible" in item
    for text in (page, item):
        assert "secret" not in text and "R02" not in text


def test_review_hides_the_answers_of_fewer_than_three_others(client: Client, reviewer: Rater) -> None:
    Rater.objects.filter(study=reviewer.study, label="R04").update(dropped=True, withdrawn_at=timezone.now())
    page = open_review(client, reviewer)
    assert page.count("too few to show") == 6 and "3 not plausible" not in page


def test_reviewed_item_shows_the_explanation_and_marks_the_row_with_the_error(client: Client, reviewer: Rater) -> None:
    open_review(client, reviewer)
    for source in ItemSource.objects.filter(item__study=reviewer.study).select_related("twin", "item"):
        if source.twin:
            ItemSource.objects.filter(pk=source.pk).update(target=allow_list.list_mark_keys(source.item.payload)[-1:])
        code = reviewer.assignments.get(item=source.item_id).code
        page = client.get(f"/rate/{code}/review/").content.decode()
        is_marked = 'class="pill pill--warn planted"' in page
        assert ("Why it is wrong" in page, is_marked) == (bool(source.twin), bool(source.twin)), source.target
        if source.twin:
            first, *_ = re.split(r"[&<>'\"]", source.twin.explanation)  # what needs no escaping
            assert first[1:] in page


def test_reviewed_item_leads_to_the_next_one_of_the_same_filter(client: Client, reviewer: Rater) -> None:
    open_review(client, reviewer)
    planted = reviewer.assignments.exclude(item__source__perturbation="none").order_by("position")
    first, second, _ = planted.values_list("code", flat=True)
    page = client.get(f"/rate/{first}/review/?show=missed").content.decode()
    assert f'rel="next" href="/rate/{second}/review/?show=missed"' in page and 'rel="prev"' not in page
    assert f'href="{get_url(reviewer)}?show=missed#item-{first}"' in page


def test_review_query_count_does_not_grow_with_items(client: Client, reviewer: Rater) -> None:
    open_review(client, reviewer)
    with CaptureQueriesContext(connection) as many:
        client.get(get_url(reviewer))
    Rating.objects.filter(assignment__rater=reviewer, assignment__position__gt=2).delete()
    with CaptureQueriesContext(connection) as few:
        client.get(get_url(reviewer))
    assert len(many) == len(few)


def test_repeated_item_is_reviewed_once(client: Client, reviewer: Rater) -> None:
    place = reviewer.assignments.earliest("position")
    place.pk, place.code, place.position, place.occasion, place.slot = None, uuid.uuid4(), 99, 2, None
    place.save()
    store_rating(place, verdict=True, confidence=4)
    assert count_rows(open_review(client, reviewer)) == 6
