"""Names of sources in a real browser: the quarantine page with its list, and the check of an imported file."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from ratings.studies import lifecycle
from simulation.models import Transition, Twin
from tests.support import browser_steps, run_factory, study_factory
from tests.support.browser_steps import BOTH_SIZES, NewContext, open_page_as_ada

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_quarantine_page_shows_a_held_item_and_the_allowed_words_at_both_widths(
    new_context: NewContext, live_server: Any, tmp_path: Any
) -> None:
    run_factory.create_pool(10)
    twin = Twin.objects.filter(perturbation="subtle").first()
    assert twin
    twin.outcome["new_observations"] = [
        {"description": "Clear, as Gemini predicted", "measurement_type": "visual", "value": ""}
    ]
    twin.save()
    ada = User.objects.create_user("ada", password=browser_steps.PASSWORD, is_staff=True)
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()), by=ada)
    page = open_page_as_ada(new_context(), live_server.url, reverse("ratings:quarantine", args=[study.slug]))
    assert "the name of a model: “gemini”" in page.locator("main").inner_text()
    summary = page.locator("#allowed > summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert page.get_by_text("tubes, flasks and plates by Corning").is_visible()
    browser_steps.check_accessible(page, BOTH_SIZES)
    step = Transition.objects.all()[0].step
    line = {"id": "one", "source": "Kyoto simulator", "action": step["action"], "input_materials": step["inputs"]}
    line["outcome"] = {**step["outcome"], "new_observations": [
        {"description": "by the Kyoto-Simulator", "measurement_type": "visual", "value": ""}]}  # fmt: skip
    (tmp_path / "items.jsonl").write_text(json.dumps(line))
    page.goto(live_server.url + reverse("ratings:import_items", args=[study.slug]))
    page.locator("input[type=file]").set_input_files(tmp_path / "items.jsonl")
    page.locator("main form button").first.click()
    page.wait_for_selector("#checked, #problems")
    assert "the name of a source of imported items: “kyoto-simulator”" in page.locator("main").inner_text()
    browser_steps.check_accessible(page, BOTH_SIZES)
