"""Guide and practice of a new rater in a real browser, and the rater's own pages at both widths."""

import uuid
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ratings.models import EVIDENCE, TRANSITION, PracticeAnswer, Rater, Study
from ratings.raters import practice
from ratings.rating import submit
from tests.support.browser_steps import (
    ITEM_URL,
    PHONE,
    WIDE,
    NewContext,
    add_rater_session,
    check_accessible,
    press_keys,
)
from tests.support.rating_room import create_open_study

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

KINDS = pytest.mark.parametrize("kind", [TRANSITION, EVIDENCE])


def create_newcomer(kind: str = TRANSITION, **protocol: Any) -> Rater:
    rater = create_open_study(kind, items=4, begun=False, practice=3, **protocol).raters.order_by("number").first()
    assert rater is not None
    return rater


def tab_to(page: Page, text: str) -> None:
    """Move the focus with the Tab key to the element with this text, and press Enter."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText").startswith(text):
            return page.keyboard.press("Enter")
    raise AssertionError(f"the Tab key never reached {text!r}")


@KINDS
def test_practice_works_by_keyboard_alone(new_context: NewContext, site: str, kind: str) -> None:
    rater = create_newcomer(kind)
    browser = new_context()
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    page.goto(f"{site}/rate/")
    tab_to(page, "Start practice")
    yes = "p" if kind == TRANSITION else "s"
    for number, item in enumerate(practice.load_items(kind)[:3], start=1):
        expect(page).to_have_title(f"Practice {number} of 3, WetBench")
        page.wait_for_load_state()  # the script handles keys only after loading
        press_keys(page, yes if item.answer else "n", "4", "Enter")
        expect(page.locator("h1")).to_have_text(f"You were right: {item.lesson}")
        expect(page.get_by_role("link", name="Next practice item" if number < 3 else "How it went")).to_be_focused()
        press_keys(page, "Enter")
    expect(page.locator("h1")).to_have_text("Practice: 3 of 3 right")
    tab_to(page, "Start rating")
    page.wait_for_url(ITEM_URL)
    assert PracticeAnswer.objects.filter(rater=rater, right=True).count() == 3


def test_practice_works_without_javascript(new_context: NewContext, site: str) -> None:
    rater = create_newcomer()
    browser = new_context(java_script_enabled=False)
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    page.goto(f"{site}/rate/study/{rater.code}/guide/")
    page.get_by_role("button", name="Start practice").click()
    page.get_by_role("radio", name="Not plausible").check()
    page.get_by_role("radio", name="5, very high").check()
    page.get_by_role("button", name="Check my answer").click()
    expect(page.locator("h1")).to_contain_text("You were right")
    page.get_by_role("link", name="Next practice item").click()
    expect(page).to_have_title("Practice 2 of 3, WetBench")


@pytest.mark.parametrize(
    ("kind", "scheme", "size"),
    [
        pytest.param(TRANSITION, "light", PHONE, id="transition-light-phone"),
        pytest.param(TRANSITION, "dark", WIDE, id="transition-dark-wide"),
        pytest.param(EVIDENCE, "light", WIDE, id="evidence-light-wide"),
        pytest.param(EVIDENCE, "dark", PHONE, id="evidence-dark-phone", marks=pytest.mark.thorough),
    ],
)
def test_rater_pages_are_accessible_and_never_scroll_sideways(
    new_context: NewContext, site: str, kind: str, scheme: str, size: dict[str, int]
) -> None:
    rater = create_newcomer(kind, feedback=True, display={"marks": ["always"]})
    for item in practice.load_items(kind)[:2]:
        practice.store_answer(rater, item, not item.answer, 5)
    Rater.objects.filter(pk=rater.pk).update(guide_seen=1)
    browser = new_context(viewport=size, color_scheme=scheme)
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    prefix = f"/rate/study/{rater.code}/"
    first = practice.load_items(kind)[0].key
    pages = ["/rate/?all", "/rate/profile/", *(prefix + name for name in ("guide/", "practice/", "withdraw/"))]
    for address in [*pages, f"{prefix}practice/?item={first}"]:
        page.goto(site + address)
        check_accessible(page)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_rater_last_page_is_accessible(new_context: NewContext, site: str, size: dict[str, int]) -> None:
    rater = create_open_study(items=3).raters.order_by("number").first()
    assert rater is not None
    for place in rater.assignments.all():
        submit.submit_rating(place, True, 4, uuid.uuid4(), note="looks right " * 20)
    browser = new_context(viewport=size)
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    page.goto(f"{site}/rate/study/{rater.code}/done/")
    check_accessible(page)
    page.get_by_role("button", name="Finish").click()
    expect(page.locator("main")).to_contain_text("your answers can no longer be changed")
    check_accessible(page)
    assert Study.objects.get(pk=rater.study_id).is_open
