"""The public page of a study: off by default, reached by its token alone, and free of sources and errors."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.models import PublicPage, Study
from ratings.studies import StudyError, lifecycle, public_page
from tests.support import run_factory, study_factory
from tests.support.study_log_texts import list_event_texts

pytestmark = pytest.mark.django_db

TEXTS = {"about": "Steps of\n\nprotocols.", "who": "Biologists with a doctorate.", "contact": "Ada, ada@example.org"}


@pytest.fixture
def study() -> Study:
    run_factory.create_pool()
    return study_factory.create_open_study(name="Bench round", slug="bench-round")


@pytest.fixture
def admin_client(client: Client, study: Study) -> Client:
    ada = User.objects.create_user("ada", is_staff=True)
    Study.objects.filter(pk=study.pk).update(created_by=ada)
    client.force_login(ada)
    return client


def post(client: Client, **values: str) -> tuple[int, str]:
    response = client.post("/studies/bench-round/public-page/", values, follow=True)
    return response.status_code, response.content.decode()


def turn_on(study: Study, **texts: str) -> str:
    public_page.save_texts(study, TEXTS | texts)
    public_page.set_on(study, is_on=True)
    return f"/about/{PublicPage.objects.get(study=study).token}/"


def read_page(study: Study) -> str:
    return Client().get(f"/about/{PublicPage.objects.get(study=study).token}/").content.decode()


def test_public_page_is_off_until_an_admin_has_filled_it_in_and_turned_it_on(
    admin_client: Client, study: Study
) -> None:
    page = admin_client.get("/studies/bench-round/public-page/").content.decode()
    assert "The page is off" in page and not PublicPage.objects.exists()
    assert "cannot be public without what the study is about and who is asked" in post(admin_client, action="on")[1]
    assert "Look at the preview" in post(admin_client, action="save", **TEXTS)[1]
    stored = PublicPage.objects.get(study=study)
    address = reverse("ratings:about", args=[stored.token])
    assert Client().get(address).status_code == 404
    preview = admin_client.get("/studies/bench-round/public-page/preview/").content.decode()
    assert "Preview." in preview and "Biologists with a doctorate." in preview
    assert address in post(admin_client, action="on")[1]
    public = Client().get(address).content.decode()
    assert "Biologists with a doctorate." in public and "Preview." not in public
    assert list_event_texts(study, "public page") == ["text changed", "turned on"]


def test_public_page_that_is_off_is_answered_like_an_unknown_link(study: Study) -> None:
    address = turn_on(study)
    assert Client().get(address).status_code == 200
    public_page.set_on(study, is_on=False)
    off, unknown = Client().get(address), Client().get(f"/about/{'x' * 32}/")
    assert off.status_code == unknown.status_code == 404 and off.content == unknown.content
    assert Client().get("/about/bench-round/").status_code == 404


def test_public_page_gets_a_new_link_and_the_old_one_stops_working(admin_client: Client, study: Study) -> None:
    old = turn_on(study)
    assert len(old) == len("/about//") + 32
    assert "The page has a new link" in post(admin_client, action="link")[1]
    assert Client().get(old).status_code == 404 and "Bench round" in read_page(study)


def test_public_page_is_neither_listed_nor_cached_and_has_no_address_of_the_study(study: Study) -> None:
    response = Client().get(turn_on(study))
    assert response["X-Robots-Tag"] == "noindex, nofollow, noarchive" and response["Cache-Control"] == "no-store"
    page = response.content.decode()
    assert '<meta name="robots" content="noindex, nofollow, noarchive">' in page
    assert "bench-round" not in page and str(study.code) not in page and set(response.cookies) <= {"wb_csrf"}


def test_public_page_shows_what_raters_may_know(study: Study) -> None:
    public_page.save_texts(study, {"payment": "20 euros", "questions": "Is it fun?\nYes,\nvery.\n\nWhy?\nBecause."})
    page = Client().get(turn_on(study)).content.decode()
    for text in (study.question, "20 euros", "Ada, ada@example.org", "Is it fun?", "Yes,<br>very.", "Why?", "Because."):
        assert text in page
    assert "<p>Steps of</p>\n\n<p>protocols.</p>" in page
    assert f"<dt>Items</dt><dd>about {study.raters.first().assignments.count()}</dd>" in page
    assert 'aria-label="The practice item"' in page
    public_page.save_texts(study, {"shows_example": False, "duration": "One evening"})
    page = read_page(study)
    assert 'aria-label="The practice item"' not in page and "<dd>One evening</dd>" in page


def test_public_page_shows_the_state_of_the_study(study: Study) -> None:
    turn_on(study)
    assert "This study is" not in read_page(study) and "How to take part" in read_page(study)
    Study.objects.filter(pk=study.pk).update(deadline=timezone.localdate() - timedelta(days=1))
    assert "The deadline has passed." in read_page(study)
    lifecycle.pause_study(study)
    assert "This study is paused." in read_page(study)
    lifecycle.close_study(study)
    closed = read_page(study)
    assert "This study is closed." in closed and "How to take part" not in closed
    lifecycle.unblind_study(study, User.objects.create_user("eve"))
    assert "This study is closed." in read_page(study) and "blinded" not in read_page(study)


def test_public_page_of_a_draft_says_that_it_has_not_started(study: Study) -> None:
    draft = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(name="Later", slug="later")))
    page = Client().get(turn_on(draft)).content.decode()
    assert "This study has not started yet." in page and "<dt>Items</dt>" not in page
    lifecycle.delete_draft(draft)
    assert not PublicPage.objects.exists()


def test_public_page_rejects_names_of_sources_and_words_about_errors_by_line(
    admin_client: Client, study: Study
) -> None:
    status, page = post(
        admin_client, action="save", **{**TEXTS, "about": "Steps.\nSome by GPT-4.", "payment": "Deliberate errors"}
    )
    assert status == 422
    assert "Line 2: “gpt” is the name of a model; raters must not learn where items come from" in page
    assert "“deliberate” suggests planted errors; raters must not expect them" in page
    assert "Some by GPT-4." in page  # nothing typed is lost
    assert not PublicPage.objects.exists()


def test_public_page_reports_a_question_without_an_answer_by_line(admin_client: Client, study: Study) -> None:
    status, page = post(admin_client, action="save", **TEXTS, questions="Is it fun?\nYes.\n\n\nWhy?\n")
    assert status == 422 and "Line 5: “Why?” has no answer: write it on the next line" in page


def test_public_page_lists_words_that_an_admin_should_check(admin_client: Client, study: Study) -> None:
    public_page.save_texts(study, TEXTS | {"who": "Half of the steps have errors, 50%."})
    page = admin_client.get("/studies/bench-round/public-page/").content.decode()
    assert "“Half”, “errors”, “%”" in page


def test_public_page_cannot_lose_a_needed_text_while_it_is_on(admin_client: Client, study: Study) -> None:
    turn_on(study)
    status, page = post(admin_client, action="save", **{**TEXTS, "who": " "})
    assert status == 422 and "cannot be public without who is asked to take part" in page
    with pytest.raises(StudyError):
        public_page.save_texts(study, {"contact": ""})
    assert "Biologists with a doctorate." in read_page(study)


def test_public_page_costs_few_queries(study: Study, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    address = turn_on(study)
    with django_assert_num_queries(3):  # the page with its study, a rater, and the number of their items
        Client().get(address)
