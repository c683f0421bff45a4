"""A form that was opened before an upgrade is accepted after it, and the files that its page needs keep their addresses."""

import re
import uuid
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from ratings.models import Assignment, Rating
from ratings.web.rater.rating_form import INTERFACE
from tests.support.rating_room import create_open_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

# Everything that the form of the previous release sends. Fields added later may be missing.
PREVIOUS_FORM = {
    "verdict": "yes",
    "confidence": "4",
    "note": "",
    "active_seconds": "9.5",
    "interface": str(int(INTERFACE) - 1),
}
FIELD_NAMES = {
    "csrfmiddlewaretoken", "submission_id", "revision", "stage", "interface", "active_seconds", "first_verdict_seconds",
    "changes", "hand", "viewport", "verdict", "confidence", "note", "cannot_judge",
}  # fmt: skip


@pytest.fixture
def assignment() -> Assignment:
    return create_open_study(items=3, raters=1).raters.get().assignments.get(position=1)


@pytest.fixture
def rater_client(client: Client, assignment: Assignment) -> Client:
    assert assignment.rater.user is not None
    client.force_login(assignment.rater.user)
    return client


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_form_of_the_previous_release_is_accepted_and_its_version_stored(
    rater_client: Client, assignment: Assignment, headers: dict[str, str]
) -> None:
    submission = uuid.uuid4()
    for _ in range(2):
        response = rater_client.post(
            f"/rate/{assignment.code}/", {**PREVIOUS_FORM, "submission_id": str(submission)}, headers=headers
        )
        assert response.status_code == (200 if headers else 303)
    rating = Rating.objects.get()
    assert (rating.verdict, rating.confidence, rating.submission_id) == (True, 4, submission)
    assert rating.interface_version == PREVIOUS_FORM["interface"]


def test_correction_with_a_form_of_the_previous_release_needs_the_revision_it_showed(
    rater_client: Client, assignment: Assignment
) -> None:
    rater_client.post(f"/rate/{assignment.code}/", {**PREVIOUS_FORM, "submission_id": str(uuid.uuid4())})
    correction = {**PREVIOUS_FORM, "verdict": "no", "submission_id": str(uuid.uuid4())}
    assert rater_client.post(f"/rate/{assignment.code}/", correction).status_code == 409
    assert rater_client.post(f"/rate/{assignment.code}/", {**correction, "revision": "1"}).status_code == 303
    assert Rating.objects.get().verdict is False


def test_form_fields_are_those_that_the_next_release_must_accept(rater_client: Client, assignment: Assignment) -> None:
    """Whoever changes these names increases INTERFACE, and copies the fields sent today to PREVIOUS_FORM."""
    page = rater_client.get(f"/rate/{assignment.code}/").content.decode()
    form = page[page.index('<form class="verdict"') :]
    form = form[: form.index("</form>")]
    assert set(re.findall(r' name="(\w+)"', form)) - {"more"} == FIELD_NAMES
    assert INTERFACE == "4"


def test_scripts_and_styles_keep_their_addresses_from_release_to_release(
    rater_client: Client, assignment: Assignment
) -> None:
    """The addresses contain no digest, so a page of the previous release still finds its files."""
    page: Any = rater_client.get(f"/rate/{assignment.code}/").content.decode()
    static_files = re.findall(r'(?:src|href)="/static/([^"?]+)"', page)
    assert {"rate.js", "saving.js", "pace.js", "site.css"} <= {name.rpartition("/")[2] for name in static_files}
    assert [name for name in static_files if not finders.find(name)] == []
