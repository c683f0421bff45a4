"""A rater rates items in a real browser."""

import gzip
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Response, expect

from ratings.blinding import allow_list
from ratings.models import EVIDENCE, TRANSITION, InitialRating, Rater, Rating, RatingEvent, Study
from tests.support.browser_steps import (
    DONE_URL,
    PASSWORD,
    PHONE,
    WIDE,
    NewContext,
    add_rater_session,
    check_accessible,
    end_session,
    locate_saved_count,
    open_rating_page,
    press_keys,
    remove_expected_errors,
    set_rater_password,
)
from tests.support.rating_room import build_change_of_medium, create_open_study, get_assignment, list_answers

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def wait_for_title(page: Page, title: str) -> None:
    """Wait until the page with this title has loaded and its script handles keys."""
    expect(page).to_have_title(title)
    page.wait_for_load_state()


# ---------------------------------------------------------------- keyboard alone


def test_rater_answers_five_items_by_keyboard_despite_interruptions(
    new_context: NewContext, browser_errors: list[str], site: str
) -> None:
    """A mark, a correction, a lost session, a second tab and a lost connection."""
    rater = create_open_study(items=5, marks="always").raters.get(label="R01")
    name = set_rater_password(rater)
    browser = new_context()
    page = open_rating_page(browser, site, rater)

    # 1: with a mark on a row
    mark_key = next(
        key for key in allow_list.list_mark_keys(get_assignment(rater).item.payload) if key.endswith("Volume")
    )
    for _ in range(60):
        press_keys(page, "j")
        if page.evaluate("document.activeElement.value") == mark_key:
            break
    press_keys(page, "m", "n", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    expect(page.locator("h1")).to_be_focused()
    # a correction: back, another confidence, and on
    press_keys(page, "u")
    wait_for_title(page, "Changing an answer, WetBench")
    press_keys(page, "5", "Enter")
    wait_for_title(page, "Item 2 of 5, WetBench")
    # 2: the session is lost
    end_session(browser)
    press_keys(page, "p", "3", "Enter")
    expect(page.locator("#sign-in input[name=username]")).to_be_focused()
    page.keyboard.type(name)
    press_keys(page, "Tab")
    page.keyboard.type(PASSWORD)
    press_keys(page, "Enter")
    expect(locate_saved_count(page)).to_contain_text("2 saved")
    expect(page.locator("#sign-in")).to_be_hidden()
    # 3: a second tab answers first
    other = browser.new_page()
    other.goto(page.url)
    press_keys(other, "p", "2", "Enter")
    expect(locate_saved_count(other)).to_contain_text("3 saved")
    page.bring_to_front()
    press_keys(page, "n", "1", "Enter")
    expect(page.locator("h1")).to_contain_text("Which answer should count?")
    expect(page.locator("h1")).to_be_focused()
    press_keys(page, "Tab", "Enter")  # keep the saved answer
    wait_for_title(page, "Item 4 of 5, WetBench")
    # 4: the connection drops
    browser.set_offline(True)
    press_keys(page, "n", "2", "Enter")
    expect(page.get_by_role("alert")).to_contain_text("Not saved yet.")
    browser.set_offline(False)  # the pending answer is sent automatically
    expect(locate_saved_count(page)).to_contain_text("4 saved")
    expect(page.locator("h1")).to_be_focused()
    # 5: the last one
    press_keys(page, "x", "Enter")
    page.wait_for_url(DONE_URL)

    assert list_answers(rater) == [(False, 5), (True, 3), (True, 2), (False, 2), (None, None)]
    assert get_assignment(rater).rating.marks == [mark_key]
    revisions = RatingEvent.objects.filter(assignment=get_assignment(rater)).values_list("revision", "confidence")
    assert list(revisions) == [(1, 4), (2, 5)]
    assert remove_expected_errors(browser_errors, "401") >= 1 and remove_expected_errors(browser_errors, "409") == 1
    remove_expected_errors(browser_errors, "ERR_INTERNET_DISCONNECTED")
    remove_expected_errors(browser_errors, "htmx:")  # htmx logs the events of a failed request


def test_rater_reaches_the_next_item_with_three_keys_and_one_request(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)
    first_url = page.url
    requests: list[tuple[str, str]] = []
    page.on("request", lambda request: requests.append((request.method, request.url)))

    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved, last at")

    assert [line for line in requests if not _is_background_request(line[1])] == [("POST", first_url)]
    assert page.url != first_url and page.url == f"{site}/rate/{get_assignment(rater, 2).code}/"
    wait_for_title(page, "Item 2 of 5, WetBench")
    assert re.search(r"last at \d\d:\d\d:\d\d$", locate_saved_count(page).inner_text())


def test_rater_judges_evidence_with_keys_s_and_n(new_context: NewContext, site: str) -> None:
    rater = create_open_study(EVIDENCE, items=2).raters.get(label="R01")
    page = open_rating_page(new_context(), site, rater)

    press_keys(page, "p", "s", "5", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    press_keys(page, "n", "2", "Enter")
    page.wait_for_url(DONE_URL)

    assert list_answers(rater) == [(True, 5), (False, 2)]


def test_single_keys_are_ignored_in_the_open_guide_with_modifier_keys_and_while_typing(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)

    press_keys(page, "?")
    expect(page.locator("#guide")).to_be_visible()
    press_keys(page, "p", "4", "Escape")
    expect(page.locator("#guide")).to_be_hidden()
    press_keys(page, "Alt+n", "Control+4", "c")
    page.keyboard.type("pn45 xu?")
    expect(page.locator("#note-text")).to_have_value("pn45 xu?")
    press_keys(page, "Escape")

    expect(page.locator("#note-text")).to_be_hidden()
    expect(page.locator("#verdict input:checked")).to_have_count(0)


def test_escape_leaves_the_note_so_that_enter_saves(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    first = page.url

    press_keys(page, "n", "4", "c")
    page.keyboard.type("The volume?")
    press_keys(page, "Escape", "Enter")

    page.wait_for_url(lambda url: url != first)
    assert list_answers(rater) == [(False, 4)]
    assert Rating.objects.get().note == "The volume?"


def test_single_keys_can_be_switched_off_permanently(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    press_keys(page, "?")
    with page.expect_response("**/rate/keys/") as response:
        page.get_by_label("Rate with single keys").uncheck()
    assert response.value.status == 204

    other_page = open_rating_page(new_context(), site, rater)
    press_keys(other_page, "p", "4", "x")

    expect(other_page.locator("#verdict input:checked")).to_have_count(0)
    expect(other_page.locator("#cannot-judge button")).to_be_hidden()


def test_single_keys_alone_never_save_an_answer(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)

    for key in "abcdefghilmnopqrstvwxyz0123456789":
        press_keys(page, key, "Escape")

    assert list_answers(rater) == []
    press_keys(page, "x", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    assert Rating.objects.get().cannot_judge


def test_incomplete_rating_shows_the_error_at_the_missing_field(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)

    press_keys(page, "n", "Enter")

    expect(page.locator("#confidence-error")).to_have_text("Choose how confident you are, from 1 to 5.")
    expect(page.locator("#verdict-error")).to_have_text("")
    expect(page.locator("[name=confidence][value='1']")).to_be_focused()
    assert list_answers(rater) == []
    press_keys(page, "3", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")


def test_confirm_arm_shows_the_balance_after_the_first_answer(new_context: NewContext, site: str) -> None:
    rater = create_open_study(items=3, layout="confirm").raters.get(label="R01")
    page = open_rating_page(new_context(), site, rater)
    expect(page.get_by_role("heading", name="Balance sheet")).to_have_count(0)

    press_keys(page, "p", "2", "Enter")
    expect(page.get_by_role("heading", name="Balance sheet")).to_be_visible()
    expect(page.locator("#verdict input:checked")).to_have_count(0)
    press_keys(page, "n", "5", "Enter")

    expect(locate_saved_count(page)).to_contain_text("1 saved")
    assert (InitialRating.objects.get().verdict, list_answers(rater)) == (True, [(False, 5)])


# ---------------------------------------------------------------- times and breaks


def test_active_time_and_input_device_are_measured(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    page.wait_for_timeout(1200)
    press_keys(page, "p", "n")
    page.wait_for_timeout(600)
    press_keys(page, "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    page.locator(".choice--yes").click()
    page.locator(".scale .choice").nth(1).click()
    page.get_by_role("button", name="Save and next").click()
    expect(locate_saved_count(page)).to_contain_text("2 saved")

    first, second = get_assignment(rater).rating, get_assignment(rater, 2).rating
    assert first.active_seconds is not None and first.first_verdict_seconds is not None
    assert 1.7 <= first.active_seconds <= first.seconds
    assert 1.1 <= first.first_verdict_seconds <= first.active_seconds - 0.5
    assert (first.changes, first.hand, first.viewport, first.interface_version) == (1, "keys", "1440x900", "4")
    assert (second.changes, second.hand) == (0, "pointer")
    assert second.active_seconds is not None and second.active_seconds < 30


def test_break_is_suggested_after_half_an_hour_and_can_be_declined(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)
    expect(page.locator("#break")).to_be_hidden()
    page.evaluate("sinceBreak = 1800")

    expect(page.locator("#break")).to_be_visible(timeout=15_000)
    check_accessible(page)
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#break")).to_be_hidden()
    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")


# ---------------------------------------------------------------- size, appearance, accessibility


def test_rating_page_first_load_and_next_item_are_small(new_context: NewContext, site: str, rater: Rater) -> None:
    browser = new_context()
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    page.goto(f"{site}/rate/study/{rater.code}/", wait_until="networkidle")
    first_load_bytes = sum(len(gzip.compress(response.body())) for response in responses if response.status == 200)
    responses.clear()

    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")

    assert first_load_bytes <= 150_000
    later_responses = [response for response in responses if not _is_background_request(response.url)]
    assert [len(gzip.compress(response.body())) <= 10_000 for response in later_responses] == [True]


def test_table_wider_than_a_phone_scrolls_within_itself(new_context: NewContext, site: str) -> None:
    study = create_open_study(items=3)
    study.items.update(payload=allow_list.blind_transition(build_change_of_medium()))
    page = open_rating_page(new_context(viewport=PHONE), site, study.raters.get(label="R01"))

    check_accessible(page)


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
    new_context: NewContext, browser_errors: list[str], site: str, size: dict[str, int], kind: str
) -> None:
    rater = create_open_study(kind, items=3, marks="always", layout="confirm", with_context=True).raters.get(
        label="R01"
    )
    browser = new_context(viewport=size)
    page = open_rating_page(browser, site, rater)
    other = browser.new_page()
    other.goto(page.url)
    check_accessible(page)
    for keys in (["?"], ["Escape", "c"], ["Escape", "x"], ["Escape"]):
        press_keys(page, *keys)
        check_accessible(page)
    page.locator("h1").focus()
    press_keys(page, "n", "Enter")
    check_accessible(page)  # an incomplete answer
    rated_url = page.url
    for number in range(1, 4):
        press_keys(page, "n", "4", "Enter")
        if kind == TRANSITION:
            expect(page.locator("main")).to_contain_text("Your first answer is saved")
            check_accessible(page)
            press_keys(page, "n", "3", "Enter")
        if number < 3:
            expect(locate_saved_count(page)).to_contain_text(f"{number} saved")
    page.wait_for_url(DONE_URL)
    press_keys(other, "p", "s", "1", "Enter")
    expect(other.locator("h1")).to_contain_text("Which answer should count?")
    check_accessible(other)
    for status in ("paused", "closed"):
        Study.objects.update(status=status)
        page.goto(f"{site}/rate/study/{rater.code}/")
        check_accessible(page)
    Study.objects.update(status="open")
    page.goto(rated_url)
    check_accessible(page)  # an answer that can be changed
    Rater.objects.update(finished_at="2026-01-01T00:00:00Z")
    page.goto(rated_url)
    expect(page.locator("h1")).to_contain_text("You have already answered this item")
    check_accessible(page)
    assert remove_expected_errors(browser_errors, "409") == 1


def test_rating_page_shows_a_typical_item_with_the_verdict_without_scrolling(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(viewport=WIDE), site, rater)

    assert page.evaluate("document.documentElement.scrollHeight") == 900
    expect(page.get_by_role("button", name="Save and next")).to_be_in_viewport(ratio=1)


def test_verdict_bar_hides_no_content_on_a_phone(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(viewport=PHONE), site, rater)
    press_keys(page, "n", "4")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__bench").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"]


def test_marked_row_is_tinted_only_while_its_mark_is_shown(new_context: NewContext, site: str) -> None:
    rater = create_open_study(items=3, raters=1, marks="if_not_plausible").raters.get()
    page = open_rating_page(new_context(), site, rater)
    row = page.locator("tr:has(input[name=marks])").first
    tint = "row => getComputedStyle(row).boxShadow"
    before = row.evaluate(tint)

    press_keys(page, "n")
    row.locator("input").check()
    marked = row.evaluate(tint)
    press_keys(page, "p")

    assert marked != before
    assert row.evaluate(tint) == before


@pytest.mark.parametrize("width", [390, 1060, 1250, 1440])
def test_verdict_bar_of_any_height_leaves_the_end_of_the_item_visible(
    new_context: NewContext, site: str, width: int
) -> None:
    rater = create_open_study(items=3, raters=1, layout="confirm", marks="always").raters.get()
    page = open_rating_page(new_context(viewport={"width": width, "height": 600}), site, rater)
    page.evaluate("document.querySelector('#unsaved').hidden = false")
    press_keys(page, "n", "Enter")  # an incomplete answer: the bar shows an error in an extra line
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__split").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"] + 1
    assert abs(bar["y"] + bar["height"] - 600) < 1
    assert all(end.is_visible() for end in page.locator(".scale__end").all())


def test_browser_tests_detect_violations_of_the_content_security_policy(
    new_page: Callable[..., Page], browser_errors: list[str], site: str
) -> None:
    page = new_page()
    page.goto(site + "/login/")

    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">no</p>')")
    page.wait_for_timeout(200)

    assert remove_expected_errors(browser_errors, "CSP violation") == 1
    remove_expected_errors(browser_errors, "Content Security Policy")  # Chromium's own message


def _is_background_request(url: str) -> bool:
    """Return whether this is an unsaved answer, for which no item waits, or the tab's icon, which browsers fetch at any time and cache."""
    return url.endswith(("/draft/", "/mark.svg"))
