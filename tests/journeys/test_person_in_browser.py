"""A person plays one step at the bench, by keyboard on a phone, and the page loads the outcome by itself."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from playwright.sync_api import BrowserContext, Page, expect
from tests_support import play_out

from simulation import fixtures, queueing
from simulation.models import Experiment, Worker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def sound(page: Page) -> None:
    """Nothing for axe to find, and no scrolling sideways."""
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


def test_one_step_is_chosen_by_keyboard_refused_mended_and_answered(
    new_context: Callable[..., BrowserContext], live_server: Any, complaints: list[str]
) -> None:
    fixtures.load_lab(settings.FIXTURES_DIR)
    ada = User.objects.create_user("ada", is_staff=True)
    episode = queueing.queue_person(Experiment.objects.get(slug="caffeine-hplc-analysis"), "offline", by=ada)
    client, context, name = Client(), new_context(viewport={"width": 390, "height": 844}), settings.SESSION_COOKIE_NAME
    client.force_login(ada)
    context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
    page = context.new_page()
    page.goto(live_server.url + reverse("simulation:play", args=[episode.code]))
    sound(page)
    page.get_by_label("Action", exact=True).focus()
    page.keyboard.type("MeasureVolume")
    expect(page.get_by_role("heading", name="MeasureVolume")).to_be_visible()
    page.get_by_role("button", name="Do it").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("MeasureVolume takes 1 to")
    sound(page)
    Worker.objects.create(owner="w", kind="embedded")  # the page asks every two seconds while one lives
    page.get_by_role("checkbox").first.press("Space")
    page.get_by_role("button", name="Do it").press("Enter")
    expect(page.get_by_role("main")).to_contain_text("working out what comes of it")
    sound(page)
    play_out(episode.run)
    expect(page.get_by_role("heading", name="What came of step 1")).to_be_visible()
    sound(page)
    refused = "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    assert complaints == [refused]
    complaints.clear()
