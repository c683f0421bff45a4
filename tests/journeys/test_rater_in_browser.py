"""A rater at work in a real browser."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect
from rating_room import change_of_medium, link, open_study

from ratings import blinding, studies
from ratings.models import EVIDENCE, Rater, Rating, Study

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ITEM = re.compile(r"/rate/[0-9a-f-]{36}/$")
NewContext = Callable[..., BrowserContext]


@pytest.fixture
def site(live_server: Any) -> str:
    return str(live_server.url)


@pytest.fixture
def rater() -> Rater:
    return open_study(items=5).raters.get(label="R01")


def begin(page: Page, site: str, rater: Rater) -> None:
    """Open the link and pass the guide, by keyboard."""
    page.goto(site + link(rater))
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "Start rating":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(ITEM)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def saved(page: Page) -> Any:
    return page.locator("#saved")


def answers(rater: Rater) -> list[tuple[bool, int]]:
    ratings = Rating.objects.filter(assignment__rater=rater).order_by("assignment__position")
    return list(ratings.values_list("verdict", "confidence"))


def test_five_items_are_rated_by_keyboard_alone(new_context: NewContext, site: str, rater: Rater) -> None:
    browser = new_context()
    page = browser.new_page()
    begin(page, site, rater)
    places = [page.url]

    for done, keys in enumerate([("p", "4"), ("n", "5")], start=1):
        press(page, *keys, "Enter")
        expect(saved(page)).to_have_text(f"{done} saved. Nothing is lost if you leave.")
        expect(page.locator("h1")).to_be_focused()
        expect(page).to_have_title(f"Item {done + 1} of 5, WetBench")
        places.append(page.url)
    page.close()

    page = browser.new_page()
    page.goto(site + "/")
    assert page.url == places[2]
    assert len(set(places)) == 3
    for done, keys in enumerate([("P", "1"), ("3", "n"), ("n", "p", "2")], start=3):
        press(page, *keys, "Enter")
        if done < 5:
            expect(saved(page)).to_contain_text(f"{done} saved")
    page.wait_for_url(site + "/rate/done/")

    expect(page.locator("main")).to_contain_text("5 of 5 items are rated and saved")
    assert answers(rater) == [(True, 4), (False, 5), (True, 1), (False, 3), (True, 2)]


def test_evidence_is_judged_with_s_and_n(new_page: Callable[..., Page], site: str) -> None:
    rater = open_study(EVIDENCE, items=2).raters.get(label="R01")
    page = new_page()
    begin(page, site, rater)

    press(page, "p", "s", "5", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    press(page, "n", "2", "Enter")
    page.wait_for_url(site + "/rate/done/")

    assert answers(rater) == [(True, 5), (False, 2)]


def test_keys_wait_while_the_guide_is_open_or_a_modifier_is_held(
    new_page: Callable[..., Page], site: str, rater: Rater
) -> None:
    page = new_page()
    begin(page, site, rater)

    press(page, "?")
    expect(page.locator("#guide")).to_be_visible()
    press(page, "p", "4", "Escape")
    expect(page.locator("#guide")).to_be_hidden()
    press(page, "Alt+n", "Control+4")

    expect(page.locator("#verdict input:checked")).to_have_count(0)


def test_single_keys_can_be_switched_off_and_stay_off(new_page: Callable[..., Page], site: str, rater: Rater) -> None:
    page = new_page()
    begin(page, site, rater)
    press(page, "?")
    page.get_by_label("Use these keys on this computer").uncheck()
    press(page, "Escape")
    page.reload()

    press(page, "p", "4")

    expect(page.locator("#verdict input:checked")).to_have_count(0)


def test_half_a_rating_is_named_where_it_is_missing(new_page: Callable[..., Page], site: str, rater: Rater) -> None:
    page = new_page()
    begin(page, site, rater)

    press(page, "n", "Enter")

    expect(page.locator("#confidence-error")).to_have_text("Choose how confident you are, from 1 to 5.")
    expect(page.locator("#verdict-error")).to_have_text("")
    expect(page.locator("[name=confidence][value='1']")).to_be_focused()
    assert answers(rater) == []
    press(page, "3", "Enter")
    expect(saved(page)).to_contain_text("1 saved")


def test_a_double_click_on_save_rates_one_item(new_page: Callable[..., Page], site: str, rater: Rater) -> None:
    page = new_page()
    begin(page, site, rater)
    press(page, "p", "4")

    page.get_by_role("button", name="Save and next").dblclick()
    expect(saved(page)).to_contain_text("1 saved")
    page.wait_for_load_state("networkidle")

    assert answers(rater) == [(True, 4)]


def test_the_second_of_two_tabs_is_told_which_rating_stands(
    new_context: NewContext, complaints: list[str], site: str, rater: Rater
) -> None:
    browser = new_context()
    one, two = browser.new_page(), browser.new_page()
    begin(one, site, rater)
    two.goto(one.url)
    press(one, "p", "4", "Enter")
    expect(saved(one)).to_contain_text("1 saved")

    press(two, "n", "1", "Enter")

    expect(two.locator("h1")).to_have_text("You rated this item plausible, confidence 4; that stands")
    two.get_by_role("link", name="Go on with item 2").click()
    two.wait_for_url(one.url)
    assert answers(rater) == [(True, 4)]
    assert forgive(complaints, "409") == 1


def test_the_back_button_shows_the_rating_that_stands(new_page: Callable[..., Page], site: str, rater: Rater) -> None:
    page = new_page()
    begin(page, site, rater)
    press(page, "n", "2", "Enter")
    expect(saved(page)).to_contain_text("1 saved")

    page.go_back()

    expect(page.locator("h1")).to_have_text("You rated this item not plausible, confidence 2; that stands")


def test_what_could_not_be_saved_is_kept_until_it_can(
    new_context: NewContext, complaints: list[str], site: str, rater: Rater
) -> None:
    browser = new_context()
    page = browser.new_page()
    begin(page, site, rater)
    browser.set_offline(True)
    press(page, "n", "3", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Not saved yet.")
    expect(page.locator("#verdict input:checked")).to_have_count(2)
    browser.set_offline(False)

    page.get_by_role("button", name="Retry").click()

    expect(saved(page)).to_contain_text("1 saved")
    assert answers(rater) == [(False, 3)]
    assert forgive(complaints, "ERR_INTERNET_DISCONNECTED") >= 1
    forgive(complaints, "htmx:")  # htmx names the events of a failed request


def test_who_was_signed_out_can_sign_in_elsewhere_and_retry(
    new_context: NewContext, complaints: list[str], site: str, rater: Rater
) -> None:
    browser = new_context()
    page = browser.new_page()
    begin(page, site, rater)
    browser.clear_cookies()
    press(page, "p", "5", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("You are signed out.")
    browser.new_page().goto(site + link_again(rater))

    page.get_by_role("button", name="Retry").click()

    expect(saved(page)).to_contain_text("1 saved")
    assert answers(rater) == [(True, 5)]
    assert forgive(complaints, "403") + forgive(complaints, "401") >= 1


def test_it_works_without_javascript(new_context: NewContext, complaints: list[str], site: str, rater: Rater) -> None:
    page = new_context(java_script_enabled=False).new_page()
    page.goto(site + link(rater))
    page.get_by_role("button", name="Start rating").click()

    page.locator("[name=verdict][value=no]").check()
    page.get_by_role("button", name="Save and next").click()
    expect(page.locator("#confidence-error")).to_have_text("Choose how confident you are, from 1 to 5.")
    expect(page.locator("[name=verdict][value=no]")).to_be_checked()
    for number in range(1, 6):
        page.locator("[name=verdict][value=no]").check()
        page.locator(f"[name=confidence][value='{number}']").check()
        page.get_by_role("button", name="Save and next").click()

    expect(page).to_have_url(site + "/rate/done/")
    assert answers(rater) == [(False, number) for number in range(1, 6)]
    assert forgive(complaints, "422") == 1


def test_a_table_wider_than_a_phone_scrolls_in_its_own_place(new_page: Callable[..., Page], site: str) -> None:
    study = open_study(items=3)
    study.items.update(payload=blinding.blind_transition(change_of_medium()))
    page = new_page(viewport=PHONE)
    page.goto(site + link(study.raters.get(label="R01")))
    page.get_by_role("button", name="Start rating").click()
    page.wait_for_url(ITEM)
    table = page.locator(".batch__table")
    assert table.evaluate("table => table.scrollWidth") > PHONE["width"]
    check(page)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["1440", "390"])
@pytest.mark.parametrize("kind", ["transition_plausibility", EVIDENCE])
def test_every_page_is_accessible_and_fits_its_width(
    new_page: Callable[..., Page], complaints: list[str], site: str, size: dict[str, int], kind: str
) -> None:
    study = open_study(kind, items=3)
    rater = study.raters.get(label="R01")
    page = new_page(viewport=size)
    page.goto(site + "/login/")
    check(page)
    page.goto(site + link(rater))
    check(page)
    page.get_by_role("button", name="Start rating").click()
    page.wait_for_url(ITEM)
    check(page)
    press(page, "?")
    check(page)
    press(page, "Escape", "Enter")
    check(page)
    press(page, "n", "4")
    check(page)
    rated = page.url
    for done in range(3):
        press(page, "n", "4", "Enter")
        if done < 2:
            expect(saved(page)).to_contain_text(f"{done + 1} saved")
            check(page)
    page.wait_for_url(site + "/rate/done/")
    check(page)
    page.goto(rated)
    check(page)
    Study.objects.update(status="closed")
    page.goto(site + "/rate/")
    check(page)
    page.goto(site + "/r/forged/")
    check(page)
    assert forgive(complaints, "404") == 1


def test_a_typical_item_fits_the_screen_with_the_verdict_in_view(
    new_page: Callable[..., Page], site: str, rater: Rater
) -> None:
    page = new_page(viewport=WIDE)
    begin(page, site, rater)

    assert page.evaluate("document.documentElement.scrollHeight") == 900
    expect(page.get_by_role("button", name="Save and next")).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_bar_hides_no_content(new_page: Callable[..., Page], site: str, rater: Rater) -> None:
    page = new_page(viewport=PHONE)
    begin(page, site, rater)
    press(page, "n", "4")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__bench").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"]


def test_a_breach_of_the_content_policy_would_be_noticed(
    new_page: Callable[..., Page], complaints: list[str], site: str
) -> None:
    page = new_page()
    page.goto(site + "/login/")

    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">no</p>')")
    page.wait_for_timeout(200)

    assert forgive(complaints, "CSP violation") == 1
    forgive(complaints, "Content Security Policy")  # Chromium's own words for it


def check(page: Page) -> None:
    """axe finds nothing, and nothing sticks out to the side."""
    found = Axe().run(page)
    assert found.violations_count == 0, f"{page.url}\n{found.generate_report()}"
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("window.innerWidth"), page.url


def forgive(complaints: list[str], words: str) -> int:
    """Take the console lines with these words away, because the test provoked them; how many there were."""
    provoked = [line for line in complaints if words in line]
    for line in provoked:
        complaints.remove(line)
    return len(provoked)


def link_again(rater: Rater) -> str:
    """What staff send a rater who lost their browser."""
    return f"/r/{studies.invite(rater)}/"
