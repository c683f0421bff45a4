"""A form that was open when a new release came is taken by it; and what the page needs is still where it was."""

import re
import uuid
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from ratings.models import Assignment, Rating
from ratings.web.rater.rating_form import INTERFACE
from tests.support.rating_room import open_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

# All that the form of the release before sends. What later forms send beside it may be missing.
BEFORE = {
    "verdict": "yes",
    "confidence": "4",
    "note": "",
    "active_seconds": "9.5",
    "interface": str(int(INTERFACE) - 1),
}
NAMES = {
    "csrfmiddlewaretoken", "submission_id", "revision", "stage", "interface", "active_seconds", "first_verdict_seconds",
    "changes", "hand", "viewport", "verdict", "confidence", "note", "cannot_judge",
}  # fmt: skip


@pytest.fixture
def place() -> Assignment:
    return open_study(items=3, raters=1).raters.get().assignments.get(position=1)


@pytest.fixture
def at_work(client: Client, place: Assignment) -> Client:
    assert place.rater.user is not None
    client.force_login(place.rater.user)
    return client


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_form_of_the_release_before_is_taken_and_says_so(
    at_work: Client, place: Assignment, headers: dict[str, str]
) -> None:
    submission = uuid.uuid4()
    for _ in range(2):
        sent = at_work.post(f"/rate/{place.code}/", {**BEFORE, "submission_id": str(submission)}, headers=headers)
        assert sent.status_code == (200 if headers else 303)
    rating = Rating.objects.get()
    assert (rating.verdict, rating.confidence, rating.submission_id) == (True, 4, submission)
    assert rating.interface_version == BEFORE["interface"]


def test_a_correction_with_a_form_of_the_release_before_needs_the_revision_it_showed(
    at_work: Client, place: Assignment
) -> None:
    at_work.post(f"/rate/{place.code}/", {**BEFORE, "submission_id": str(uuid.uuid4())})
    other = {**BEFORE, "verdict": "no", "submission_id": str(uuid.uuid4())}
    assert at_work.post(f"/rate/{place.code}/", other).status_code == 409
    assert at_work.post(f"/rate/{place.code}/", {**other, "revision": "1"}).status_code == 303
    assert Rating.objects.get().verdict is False


def test_the_form_sends_what_the_release_after_it_has_to_take(at_work: Client, place: Assignment) -> None:
    """Whoever changes these names raises INTERFACE, and moves what is sent today into BEFORE."""
    page = at_work.get(f"/rate/{place.code}/").content.decode()
    form = page[page.index('<form class="verdict"') :]
    form = form[: form.index("</form>")]
    assert set(re.findall(r' name="(\w+)"', form)) - {"more"} == NAMES
    assert INTERFACE == "2"


def test_scripts_and_styles_keep_their_addresses_from_release_to_release(at_work: Client, place: Assignment) -> None:
    """No digest stands in them, so that a page of the release before finds each where it was."""
    page: Any = at_work.get(f"/rate/{place.code}/").content.decode()
    named = re.findall(r'(?:src|href)="/static/([^"?]+)"', page)
    assert {"rate.js", "saving.js", "pace.js", "site.css"} <= {name.rpartition("/")[2] for name in named}
    assert [name for name in named if not finders.find(name)] == []
