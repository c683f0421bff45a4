"""Who reads the help, and what its pages show without scripts."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings.models import Membership
from tests.support import run_factory, study_factory
from wetbench_site.help import contents

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff_client(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


def test_help_contents_lists_every_document_by_reader(staff_client: Client) -> None:
    page = staff_client.get("/help/").content.decode()
    for name in contents.list_names():
        assert f'href="/help/{name}/"' in page
    positions = [page.index(group.title) for group in contents.GROUPS]
    assert positions == sorted(positions)


def test_help_document_is_served_with_its_headings_and_picture(staff_client: Client) -> None:
    page = staff_client.get("/help/studies/").content.decode()
    assert "<h1>Planning a study and reading its results</h1>" in page
    assert '<a href="#life-cycle-of-a-study">Life cycle of a study</a>' in page and 'id="life-cycle-of-a-study"' in page
    assert 'src="/help/pictures/rate.png"' in page
    picture = staff_client.get("/help/pictures/rate.png")
    assert picture["Content-Type"] == "image/png" and b"".join(picture).startswith(b"\x89PNG")  # type: ignore[call-overload]
    for address in ("/help/nothing/", "/help/pictures/none.png", "/help/pictures/..%2Frate.png"):
        assert staff_client.get(address).status_code == 404


def test_help_search_links_to_the_section_and_marks_the_words(staff_client: Client) -> None:
    page = staff_client.get("/help/", {"q": "washout"}).content.decode()
    assert "/help/glossary/#condition" in page and "<mark>washout</mark>" in page


def test_help_search_without_a_result_or_with_too_long_a_query_says_what_to_do(staff_client: Client) -> None:
    page = staff_client.get("/help/", {"q": "<b>zzz"})
    assert "Nothing contains “&lt;b&gt;zzz”" in page.content.decode() and page.status_code == 200
    assert staff_client.get("/help/", {"q": "a" * 101}).status_code == 422


def test_help_is_open_to_analysts_and_closed_to_raters_and_strangers(client: Client) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    rater, analyst = study_factory.fill_rater_place(study, "R01"), User.objects.create_user("ann")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    for address in ("/help/", "/help/glossary/", "/help/pictures/rate.png", "/help/?q=planted"):
        assert client.get(address)["Location"].startswith(reverse("login"))
        raters, analysts = Client(), Client()
        raters.force_login(rater.user)
        analysts.force_login(analyst)
        assert raters.get(address).status_code == 404
        assert analysts.get(address).status_code == 200
