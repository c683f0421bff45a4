"""A rater rates items in a real browser."""

import gzip
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Response, expect

from ratings.blinding import allow_list
from ratings.models import EVIDENCE, TRANSITION, FirstLook, Rater, Rating, RatingEvent, Study
from tests.support.in_browser import (
    DONE,
    PASSWORD,
    PHONE,
    WIDE,
    NewContext,
    end_session,
    forgive,
    give_password,
    press,
    rater_at,
    saved,
    sign_in,
    sound,
)
from tests.support.rating_room import answers, change_of_medium, nth, open_study

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def titled(page: Page, title: str) -> None:
    """Wait until the page with this title has loaded and its script handles keys."""
    expect(page).to_have_title(title)
    page.wait_for_load_state()


# ---------------------------------------------------------------- keyboard alone


def test_rater_answers_five_items_by_keyboard_despite_interruptions(
    new_context: NewContext, complaints: list[str], site: str
) -> None:
    """A mark, a correction, a lost session, a second tab and a lost connection."""
    rater = open_study(items=5, marks="always").raters.get(label="R01")
    name = give_password(rater)
    browser = new_context()
    page = rater_at(browser, site, rater)

    # 1: with a mark on a row
    mark_key = next(key for key in allow_list.mark_keys(nth(rater).item.payload) if key.endswith("Volume"))
    for _ in range(60):
        press(page, "j")
        if page.evaluate("document.activeElement.value") == mark_key:
            break
    press(page, "m", "n", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    expect(page.locator("h1")).to_be_focused()
    # a correction: back, another confidence, and on
    press(page, "u")
    titled(page, "Changing an answer, WetBench")
    press(page, "5", "Enter")
    titled(page, "Item 2 of 5, WetBench")
    # 2: the session is lost
    end_session(browser)
    press(page, "p", "3", "Enter")
    expect(page.locator("#sign-in input[name=username]")).to_be_focused()
    page.keyboard.type(name)
    press(page, "Tab")
    page.keyboard.type(PASSWORD)
    press(page, "Enter")
    expect(saved(page)).to_contain_text("2 saved")
    expect(page.locator("#sign-in")).to_be_hidden()
    # 3: a second tab answers first
    other = browser.new_page()
    other.goto(page.url)
    press(other, "p", "2", "Enter")
    expect(saved(other)).to_contain_text("3 saved")
    page.bring_to_front()
    press(page, "n", "1", "Enter")
    expect(page.locator("h1")).to_contain_text("Which answer should count?")
    expect(page.locator("h1")).to_be_focused()
    press(page, "Tab", "Enter")  # keep the saved answer
    titled(page, "Item 4 of 5, WetBench")
    # 4: the connection drops
    browser.set_offline(True)
    press(page, "n", "2", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Not saved yet.")
    browser.set_offline(False)  # the pending answer is sent automatically
    expect(saved(page)).to_contain_text("4 saved")
    expect(page.locator("h1")).to_be_focused()
    # 5: the last one
    press(page, "x", "Enter")
    page.wait_for_url(DONE)

    assert answers(rater) == [(False, 5), (True, 3), (True, 2), (False, 2), (None, None)]
    assert nth(rater).rating.marks == [mark_key]
    revisions = RatingEvent.objects.filter(assignment=nth(rater)).values_list("revision", "confidence")
    assert list(revisions) == [(1, 4), (2, 5)]
    assert forgive(complaints, "401") >= 1 and forgive(complaints, "409") == 1
    forgive(complaints, "ERR_INTERNET_DISCONNECTED")
    forgive(complaints, "htmx:")  # htmx logs the events of a failed request


def test_rater_reaches_the_next_item_with_three_keys_and_one_request(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = rater_at(new_context(), site, rater)
    first_url = page.url
    requests: list[tuple[str, str]] = []
    page.on("request", lambda request: requests.append((request.method, request.url)))

    press(page, "p", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved, last at")

    assert [line for line in requests if not _beside(line[1])] == [("POST", first_url)]
    assert page.url != first_url and page.url == f"{site}/rate/{nth(rater, 2).code}/"
    titled(page, "Item 2 of 5, WetBench")
    assert re.search(r"last at \d\d:\d\d:\d\d$", saved(page).inner_text())


def test_rater_judges_evidence_with_keys_s_and_n(new_context: NewContext, site: str) -> None:
    rater = open_study(EVIDENCE, items=2).raters.get(label="R01")
    page = rater_at(new_context(), site, rater)

    press(page, "p", "s", "5", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    press(page, "n", "2", "Enter")
    page.wait_for_url(DONE)

    assert answers(rater) == [(True, 5), (False, 2)]


def test_single_keys_are_ignored_in_the_guide_with_modifiers_and_while_typing(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = rater_at(new_context(), site, rater)

    press(page, "?")
    expect(page.locator("#guide")).to_be_visible()
    press(page, "p", "4", "Escape")
    expect(page.locator("#guide")).to_be_hidden()
    press(page, "Alt+n", "Control+4", "c")
    page.keyboard.type("pn45 xu?")
    expect(page.locator("#note-text")).to_have_value("pn45 xu?")
    press(page, "Escape")

    expect(page.locator("#note-text")).to_be_hidden()
    expect(page.locator("#verdict input:checked")).to_have_count(0)


def test_escape_leaves_the_note_so_that_enter_saves(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)
    first = page.url

    press(page, "n", "4", "c")
    page.keyboard.type("The volume?")
    press(page, "Escape", "Enter")

    page.wait_for_url(lambda url: url != first)
    assert answers(rater) == [(False, 4)]
    assert Rating.objects.get().note == "The volume?"


def test_single_keys_can_be_switched_off_permanently(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)
    press(page, "?")
    with page.expect_response("**/rate/keys/") as response:
        page.get_by_label("Rate with single keys").uncheck()
    assert response.value.status == 204

    other_page = rater_at(new_context(), site, rater)
    press(other_page, "p", "4", "x")

    expect(other_page.locator("#verdict input:checked")).to_have_count(0)
    expect(other_page.locator("#cannot-judge button")).to_be_hidden()


def test_single_keys_alone_never_save_an_answer(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)

    for key in "abcdefghilmnopqrstvwxyz0123456789":
        press(page, key, "Escape")

    assert answers(rater) == []
    press(page, "x", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    assert Rating.objects.get().cannot_judge


def test_incomplete_rating_shows_the_error_at_the_missing_field(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = rater_at(new_context(), site, rater)

    press(page, "n", "Enter")

    expect(page.locator("#confidence-error")).to_have_text("Choose how confident you are, from 1 to 5.")
    expect(page.locator("#verdict-error")).to_have_text("")
    expect(page.locator("[name=confidence][value='1']")).to_be_focused()
    assert answers(rater) == []
    press(page, "3", "Enter")
    expect(saved(page)).to_contain_text("1 saved")


def test_confirm_arm_shows_the_balance_after_the_first_answer(new_context: NewContext, site: str) -> None:
    rater = open_study(items=3, layout="confirm").raters.get(label="R01")
    page = rater_at(new_context(), site, rater)
    expect(page.get_by_role("heading", name="Balance sheet")).to_have_count(0)

    press(page, "p", "2", "Enter")
    expect(page.get_by_role("heading", name="Balance sheet")).to_be_visible()
    expect(page.locator("#verdict input:checked")).to_have_count(0)
    press(page, "n", "5", "Enter")

    expect(saved(page)).to_contain_text("1 saved")
    assert (FirstLook.objects.get().verdict, answers(rater)) == (True, [(False, 5)])


# ---------------------------------------------------------------- times and breaks


def test_active_time_and_input_device_are_measured(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)
    page.wait_for_timeout(1200)
    press(page, "p", "n")
    page.wait_for_timeout(600)
    press(page, "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    page.locator(".choice--yes").click()
    page.locator(".scale .choice").nth(1).click()
    page.get_by_role("button", name="Save and next").click()
    expect(saved(page)).to_contain_text("2 saved")

    first, second = nth(rater).rating, nth(rater, 2).rating
    assert first.active_seconds is not None and first.first_verdict_seconds is not None
    assert 1.7 <= first.active_seconds <= first.seconds
    assert 1.1 <= first.first_verdict_seconds <= first.active_seconds - 0.5
    assert (first.changes, first.hand, first.viewport, first.interface_version) == (1, "keys", "1440x900", "2")
    assert (second.changes, second.hand) == (0, "pointer")
    assert second.active_seconds is not None and second.active_seconds < 30


def test_break_is_suggested_after_half_an_hour_and_can_be_declined(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = rater_at(new_context(), site, rater)
    expect(page.locator("#break")).to_be_hidden()
    page.evaluate("sinceBreak = 1800")

    expect(page.locator("#break")).to_be_visible(timeout=15_000)
    sound(page)
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#break")).to_be_hidden()
    press(page, "p", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved")


# ---------------------------------------------------------------- size, appearance, accessibility


def test_rating_page_first_load_and_next_item_are_small(new_context: NewContext, site: str, rater: Rater) -> None:
    browser = new_context()
    sign_in(browser, site, rater)
    page = browser.new_page()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    page.goto(f"{site}/rate/study/{rater.code}/", wait_until="networkidle")
    first_load_bytes = sum(len(gzip.compress(response.body())) for response in responses if response.status == 200)
    responses.clear()

    press(page, "p", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved")

    assert first_load_bytes <= 150_000
    later_responses = [response for response in responses if not _beside(response.url)]
    assert [len(gzip.compress(response.body())) <= 10_000 for response in later_responses] == [True]


def test_table_wider_than_a_phone_scrolls_within_itself(new_context: NewContext, site: str) -> None:
    study = open_study(items=3)
    study.items.update(payload=allow_list.blind_transition(change_of_medium()))
    page = rater_at(new_context(viewport=PHONE), site, study.raters.get(label="R01"))

    sound(page)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param(TRANSITION, WIDE, id="transition-1440"),
        pytest.param(EVIDENCE, PHONE, id="evidence-390"),
        pytest.param(TRANSITION, PHONE, id="transition-390", marks=pytest.mark.thorough),
        pytest.param(EVIDENCE, WIDE, id="evidence-1440", marks=pytest.mark.thorough),
    ],
)
def test_rating_page_is_accessible_in_every_state_and_fits_its_width(
    new_context: NewContext, complaints: list[str], site: str, size: dict[str, int], kind: str
) -> None:
    rater = open_study(kind, items=3, marks="always", layout="confirm", with_context=True).raters.get(label="R01")
    browser = new_context(viewport=size)
    page = rater_at(browser, site, rater)
    other = browser.new_page()
    other.goto(page.url)
    sound(page)
    for keys in (["?"], ["Escape", "c"], ["Escape", "x"], ["Escape"]):
        press(page, *keys)
        sound(page)
    page.locator("h1").focus()
    press(page, "n", "Enter")
    sound(page)  # an incomplete answer
    rated_url = page.url
    for number in range(1, 4):
        press(page, "n", "4", "Enter")
        if kind == TRANSITION:
            expect(page.locator("main")).to_contain_text("Your first answer is saved")
            sound(page)
            press(page, "n", "3", "Enter")
        if number < 3:
            expect(saved(page)).to_contain_text(f"{number} saved")
    page.wait_for_url(DONE)
    press(other, "p", "s", "1", "Enter")
    expect(other.locator("h1")).to_contain_text("Which answer should count?")
    sound(other)
    for status in ("paused", "closed"):
        Study.objects.update(status=status)
        page.goto(f"{site}/rate/study/{rater.code}/")
        sound(page)
    Study.objects.update(status="open")
    page.goto(rated_url)
    sound(page)  # an answer that can be changed
    Rater.objects.update(finished_at="2026-01-01T00:00:00Z")
    page.goto(rated_url)
    expect(page.locator("h1")).to_contain_text("Your answer to this item counts")
    sound(page)
    assert forgive(complaints, "409") == 1


def test_rating_page_shows_a_typical_item_with_the_verdict_without_scrolling(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = rater_at(new_context(viewport=WIDE), site, rater)

    assert page.evaluate("document.documentElement.scrollHeight") == 900
    expect(page.get_by_role("button", name="Save and next")).to_be_in_viewport(ratio=1)


def test_verdict_bar_hides_no_content_on_a_phone(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(viewport=PHONE), site, rater)
    press(page, "n", "4")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__bench").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"]


def test_marked_row_is_tinted_only_while_its_mark_is_shown(new_context: NewContext, site: str) -> None:
    rater = open_study(items=3, raters=1, marks="if_not_plausible").raters.get()
    page = rater_at(new_context(), site, rater)
    row = page.locator("tr:has(input[name=marks])").first
    tint = "row => getComputedStyle(row).boxShadow"
    before = row.evaluate(tint)

    press(page, "n")
    row.locator("input").check()
    marked = row.evaluate(tint)
    press(page, "p")

    assert marked != before
    assert row.evaluate(tint) == before


@pytest.mark.parametrize("width", [390, 1060, 1250, 1440])
def test_verdict_bar_of_any_height_leaves_the_end_of_the_item_visible(
    new_context: NewContext, site: str, width: int
) -> None:
    rater = open_study(items=3, raters=1, layout="confirm", marks="always").raters.get()
    page = rater_at(new_context(viewport={"width": width, "height": 600}), site, rater)
    page.evaluate("document.querySelector('#unsaved').hidden = false")
    press(page, "n", "Enter")  # an incomplete answer: the bar shows an error in an extra line
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__split").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"] + 1
    assert abs(bar["y"] + bar["height"] - 600) < 1
    assert all(end.is_visible() for end in page.locator(".scale__end").all())


def test_browser_tests_detect_violations_of_the_content_security_policy(
    new_page: Callable[..., Page], complaints: list[str], site: str
) -> None:
    page = new_page()
    page.goto(site + "/login/")

    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">no</p>')")
    page.wait_for_timeout(200)

    assert forgive(complaints, "CSP violation") == 1
    forgive(complaints, "Content Security Policy")  # Chromium's own message


def _beside(url: str) -> bool:
    """Return whether this is an unsaved answer, for which no item waits, or the tab's icon, which browsers fetch at any time and cache."""
    return url.endswith(("/draft/", "/mark.svg"))
