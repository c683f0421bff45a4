"""Replication tasks in a real browser, by keyboard: from the gallery to a live code episode, its steps, changes and workspace."""

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Locator, Page, expect

from simulation.code_runs import masks, sandboxes
from simulation.models import CodeEpisode, Mask, Worker
from tests.support import code_episodes
from tests.support.browser_steps import BOTH_SIZES, PHONE, NewContext, check_accessible, open_page_as_ada
from tests.support.embedded_worker import run_one_unit, run_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

COMMENT = (
    "# "
    + "A long comment of the module, so that the page shows only the beginning of what is written. " * 12
    + "The end.\n"
)
# Everything in the page's main part that a person can use, as the browser's own order of focus reaches it.
LIST_CONTROLS = """() => [...document.querySelectorAll(
    "main a[href], main button, main summary, main input:not([type=hidden]), main select, main [tabindex='0']")]
  .filter((one) => one.checkVisibility() && !one.disabled && (one.type !== "radio" || one.checked))
  .map((one) => (one.id || one.getAttribute("href") || one.getAttribute("aria-label") || one.textContent).trim())"""
NAME_FOCUSED = """() => { const one = document.activeElement;
  return (one.id || one.getAttribute("href") || one.getAttribute("aria-label") || one.textContent).trim(); }"""


@pytest.fixture
def mask(db: None) -> Mask:
    """A validated mask of a task whose sandboxes start quickly, and a live worker, so that pages poll every two seconds."""
    task = code_episodes.build_task()
    code = {**task.code, "code/small/sums.py": task.code["code/small/sums.py"] + COMMENT}
    row = code_episodes.create_task(code_episodes.build_task(code=code))
    [drawn] = masks.draw_and_store(row, [1], 1, "uniform")
    assert masks.validate_masks([drawn], sandboxes.get_sandbox()) == []
    Worker.objects.create(owner="w", kind="embedded")
    return drawn


def press_enter_on(target: Locator) -> None:
    target.focus()
    target.press("Enter")


def unfold_by_keyboard(page: Page) -> None:
    for summary in page.locator("main summary").all():
        if not summary.evaluate("(one) => one.parentElement.open"):
            press_enter_on(summary)
        expect(summary.locator("xpath=..")).to_have_attribute("open", "")


def check_reached_by_tab(page: Page) -> None:
    """Check that Tab reaches every control of the page's main part."""
    page.locator("main").evaluate("(main) => { main.tabIndex = -1; main.focus(); }")
    expected = page.evaluate(LIST_CONTROLS)
    assert len(expected) > 20
    reached = []
    for _ in range(len(expected)):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(NAME_FOCUSED))
    assert set(expected) - set(reached) == set()


def test_replication_task_is_ordered_followed_and_read_by_keyboard_alone(
    new_context: NewContext, live_server: Any, mask: Mask
) -> None:
    page = open_page_as_ada(new_context(), live_server.url, reverse("simulation:tasks"))
    check_accessible(page, BOTH_SIZES)
    press_enter_on(page.get_by_role("link", name="Small sums"))
    expect(page.get_by_role("heading", name="Functions that can be hidden")).to_be_visible()
    check_accessible(page, BOTH_SIZES)
    press_enter_on(page.get_by_role("link", name="Start a run"))
    page.get_by_role("radio", name="offline-oracle Rules").press("Space")
    expect(page.locator("#order-size")).to_contain_text("1 code episode will be created")
    check_accessible(page, BOTH_SIZES)
    press_enter_on(page.get_by_role("button", name="Start run"))
    press_enter_on(page.get_by_role("link", name=f"small-sums {mask.key}, replicate 1"))
    expect(page.locator("#no-steps")).to_contain_text("No steps yet")
    check_accessible(page)

    # The page follows the episode without being loaded again.
    page.evaluate("window.stays = true")
    episode = CodeEpisode.objects.get()
    assert run_one_unit("code", episode.code)
    expect(page.locator("#step-1")).to_be_visible()
    expect(page.locator("#contents")).to_contain_text("1 write_file")
    expect(page.locator("#no-steps")).to_have_count(0)
    expect(page.locator("#show-files")).to_be_visible()
    assert page.evaluate("window.stays")
    check_accessible(page)
    run_until_idle()
    press_enter_on(page.locator("#show-end"))
    expect(page.get_by_role("heading", name="Outcome: solved")).to_be_visible()

    unfold_by_keyboard(page)
    check_reached_by_tab(page)
    expect(page.get_by_label("text of step 1", exact=True)).not_to_contain_text("The end.")
    press_enter_on(page.get_by_role("link", name="Show the whole step 1"))
    expect(page.get_by_label("text of step 1", exact=True)).to_contain_text("The end.")
    check_accessible(page, BOTH_SIZES)  # with everything unfolded
    press_enter_on(page.get_by_role("link", name="code/small/sums.py"))
    expect(page.get_by_label("Content of code/small/sums.py")).to_contain_text("return")
    check_accessible(page)


def test_code_episode_with_hostile_texts_fits_on_a_phone_and_an_old_page_of_steps_links_to_new_ones(
    new_context: NewContext, live_server: Any, mask: Mask
) -> None:
    hostile = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 3000
    episode = code_episodes.create_code_episode(
        mask, status="running", phase="sandbox", pending={"tool": "run_command"}
    )
    for number in range(1, 22):
        tree = code_episodes.create_workspace(**{f"notes{number}.txt": hostile.encode()})
        code_episodes.create_step(episode, number, after=tree, observation=hostile)
    address = reverse("simulation:code_episode", args=[episode.code])
    page = open_page_as_ada(new_context(viewport=PHONE), live_server.url, address)
    page.locator("main details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    check_accessible(page)
    code_episodes.create_step(episode, 22)
    press_enter_on(page.locator("#show-steps"))
    expect(page.locator("#step-22")).to_be_visible()
