"""A person plays one step by keyboard on a phone, and the page loads the outcome by itself."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from simulation.models import Experiment, Worker
from simulation.runs import create
from tests.support.browser_steps import PHONE, NewContext, check_accessible, open_page_as_ada
from tests.support.laboratory_rows import store_laboratory
from tests.support.steps import run_to_end

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_human_agent_step_is_rejected_corrected_and_answered_by_keyboard(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    store_laboratory()
    ada = User.objects.create_user("ada", is_staff=True)
    caffeine = Experiment.objects.get(slug="caffeine-hplc-analysis")
    # In practice the form reports what the catalogue rejects; otherwise it would be a step.
    episode = create.create_human_episode(caffeine, "offline", user=ada, practice=True)
    page = open_page_as_ada(
        new_context(viewport=PHONE), live_server.url, reverse("simulation:play", args=[episode.code])
    )
    check_accessible(page)
    page.get_by_label("Action", exact=True).focus()
    page.keyboard.type("MeasureVolume")
    expect(page.get_by_role("heading", name="MeasureVolume")).to_be_visible()
    page.get_by_role("button", name="Perform action").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("MeasureVolume takes 1 to")
    check_accessible(page)
    Worker.objects.create(owner="w", kind="embedded")  # while a worker is alive, the page polls every two seconds
    page.get_by_role("checkbox").first.press("Space")
    page.get_by_role("button", name="Perform action").press("Enter")
    expect(page.get_by_role("main")).to_contain_text("computing the outcome")
    check_accessible(page)
    run_to_end(episode.run)
    expect(page.get_by_role("heading", name="Outcome of step 1")).to_be_visible()
    check_accessible(page)
    expected_error = "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    assert browser_errors == [expected_error]
    browser_errors.clear()
