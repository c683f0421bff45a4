"""Vetting in a real browser: by keys alone, accessible at both sizes, and the lists of the laboratory beside it."""

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from simulation.models import Twin, TwinDecision, VettingSample
from tests.support import run_factory
from tests.support.browser_steps import BOTH_SIZES, WIDE, NewContext, check_accessible, open_page_as_ada, press_keys

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DIFF = [{"path": "new_materials[0].properties.volume", "before": "111 mL", "after": "1 kL"}]


@pytest.fixture
def waiting(db: None) -> list[Twin]:
    episode = run_factory.create_episode()
    fields = {"rule": "", "kind": "", "field": "", "diff": DIFF, "cast": "small", "ended_at": timezone.now()}
    steps = [run_factory.create_transition(episode, number) for number in (1, 2, 3)]
    return [run_factory.create_twin(step, "subtle", explanation="the sample grew", **fields) for step in steps]


def test_twin_is_vetted_by_keys_and_the_decision_is_undone_by_a_key(
    new_context: NewContext, live_server: Any, waiting: list[Twin]
) -> None:
    page = open_page_as_ada(new_context(viewport=WIDE), live_server.url, reverse("ratings:vetting") + "?error=subtle")
    page.get_by_role("link", name="Start vetting").click()
    expect(page.locator(".vetting__here")).to_contain_text("Is it actually wrong?")
    # The only place that differs is chosen, and its row is labeled in the rater's view.
    expect(page.get_by_label("Sample: volume")).to_be_checked()
    expect(page.locator(".shown .mark-changed")).to_have_count(1)
    press_keys(page, "y", "y", "n", "a", "Enter")
    expect(page.locator("#undo")).to_be_visible()
    assert "error=subtle" in page.url
    expect(page.get_by_text("1 more to review under this filter")).to_be_visible()
    assert [one.decision for one in TwinDecision.objects.all()] == ["accepted"]
    expect(page.locator(".vetting__here")).to_be_visible()
    press_keys(page, "u")
    expect(page.get_by_text("The decision is undone.")).to_be_visible()
    assert Twin.objects.get(pk=waiting[0].pk).vetting == ""
    # Letters in the note are text, not keys.
    press_keys(page, "c")
    page.keyboard.type("yarn")
    expect(page.get_by_label("Note")).to_have_value("yarn")
    assert page.locator("input[type=radio][name=decision]:checked").count() == 0


def test_vetting_and_list_pages_are_accessible_on_desktop_and_phone(
    new_context: NewContext, live_server: Any, waiting: list[Twin]
) -> None:
    sample = VettingSample.objects.create(share=50, seed=7, waiting=3)
    page = open_page_as_ada(new_context(viewport=WIDE), live_server.url)
    names = ("episodes", "runs", "twins", "new_twins", "experiments")
    addresses = [reverse(f"simulation:{name}") for name in names]
    addresses += [reverse("ratings:vetting"), reverse("ratings:vet", args=[waiting[0].code])]
    addresses += [reverse("ratings:vetting_sample", args=[sample.code])]
    for address in addresses:
        page.goto(live_server.url + address)
        check_accessible(page, BOTH_SIZES)


def test_select_all_keeps_what_was_typed_and_enter_starts_the_run(
    new_context: NewContext, live_server: Any, waiting: list[Twin]
) -> None:
    run_factory.create_experiment("zebrafish")
    page = open_page_as_ada(new_context(viewport=WIDE), live_server.url, reverse("simulation:new_twins"))
    page.locator("input[name=seed]").fill("12")
    page.get_by_role("button", name="Select all").click()
    expect(page.locator("input[name=experiments]:checked")).to_have_count(2)
    expect(page.locator("input[name=seed]")).to_have_value("12")
    # Three accepted steps, each with an obvious and a subtle twin.
    expect(page.locator("#order-size")).to_contain_text("6 twins")
    page.locator("input[name=seed]").press("Enter")
    page.wait_for_url("**/runs/**")
