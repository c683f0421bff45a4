"""A person plays one step at the bench, by keyboard on a phone, and the page loads the outcome by itself."""

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from simulation.casts import fixtures
from simulation.models import Experiment, Worker
from simulation.runs import queueing
from tests.support.in_browser import PHONE, NewContext, ada_at, sound
from tests.support.steps import play_out

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_one_step_is_chosen_by_keyboard_refused_mended_and_answered(
    new_context: NewContext, live_server: Any, complaints: list[str]
) -> None:
    fixtures.load_lab(settings.FIXTURES_DIR)
    ada = User.objects.create_user("ada", is_staff=True)
    episode = queueing.queue_person(Experiment.objects.get(slug="caffeine-hplc-analysis"), "offline", by=ada)
    page = ada_at(new_context(viewport=PHONE), live_server.url, reverse("simulation:play", args=[episode.code]))
    sound(page)
    page.get_by_label("Action", exact=True).focus()
    page.keyboard.type("MeasureVolume")
    expect(page.get_by_role("heading", name="MeasureVolume")).to_be_visible()
    page.get_by_role("button", name="Perform action").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("MeasureVolume takes 1 to")
    sound(page)
    Worker.objects.create(owner="w", kind="embedded")  # the page asks every two seconds while one lives
    page.get_by_role("checkbox").first.press("Space")
    page.get_by_role("button", name="Perform action").press("Enter")
    expect(page.get_by_role("main")).to_contain_text("computing the outcome")
    sound(page)
    play_out(episode.run)
    expect(page.get_by_role("heading", name="Outcome of step 1")).to_be_visible()
    sound(page)
    refused = "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    assert complaints == [refused]
    complaints.clear()
