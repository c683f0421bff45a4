"""A rater at work in a real browser."""

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
    """The page of that title is there, and its script hears keys."""
    expect(page).to_have_title(title)
    page.wait_for_load_state()


# ---------------------------------------------------------------- keyboard alone


def test_five_items_by_keyboard_alone_with_all_that_can_happen(
    new_context: NewContext, complaints: list[str], site: str
) -> None:
    """A mark, a correction, a lost session, a second tab and a dropped connection."""
    rater = open_study(items=5, marks="always").raters.get(label="R01")
    name = give_password(rater)
    browser = new_context()
    page = rater_at(browser, site, rater)

    # 1: with a mark on a row
    wanted = next(key for key in allow_list.mark_keys(nth(rater).item.payload) if key.endswith("Volume"))
    for _ in range(60):
        press(page, "j")
        if page.evaluate("document.activeElement.value") == wanted:
            break
    press(page, "m", "n", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    expect(page.locator("h1")).to_be_focused()
    # a correction: back, another verdict, and on
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
    browser.set_offline(False)  # what waits is sent by itself
    expect(saved(page)).to_contain_text("4 saved")
    expect(page.locator("h1")).to_be_focused()
    # 5: the last one
    press(page, "x", "Enter")
    page.wait_for_url(DONE)

    assert answers(rater) == [(False, 5), (True, 3), (True, 2), (False, 2), (None, None)]
    assert nth(rater).rating.marks == [wanted]
    versions = RatingEvent.objects.filter(assignment=nth(rater)).values_list("revision", "confidence")
    assert list(versions) == [(1, 4), (2, 5)]
    assert forgive(complaints, "401") >= 1 and forgive(complaints, "409") == 1
    forgive(complaints, "ERR_INTERNET_DISCONNECTED")
    forgive(complaints, "htmx:")  # htmx names the events of a failed request


def test_three_keys_and_one_request_to_the_next_item(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)
    first = page.url
    asked: list[tuple[str, str]] = []
    page.on("request", lambda request: asked.append((request.method, request.url)))

    press(page, "p", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved, last at")

    assert [line for line in asked if not _beside(line[1])] == [("POST", first)]
    assert page.url != first and page.url == f"{site}/rate/{nth(rater, 2).code}/"
    titled(page, "Item 2 of 5, WetBench")
    assert re.search(r"last at \d\d:\d\d:\d\d$", saved(page).inner_text())


def test_evidence_is_judged_with_s_and_n(new_context: NewContext, site: str) -> None:
    rater = open_study(EVIDENCE, items=2).raters.get(label="R01")
    page = rater_at(new_context(), site, rater)

    press(page, "p", "s", "5", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    press(page, "n", "2", "Enter")
    page.wait_for_url(DONE)

    assert answers(rater) == [(True, 5), (False, 2)]


def test_keys_wait_while_the_guide_is_open_a_modifier_is_held_or_somebody_types(
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


def test_after_a_note_escape_leads_back_so_that_enter_saves(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)
    first = page.url

    press(page, "n", "4", "c")
    page.keyboard.type("The volume?")
    press(page, "Escape", "Enter")

    page.wait_for_url(lambda url: url != first)
    assert answers(rater) == [(False, 4)]
    assert Rating.objects.get().note == "The volume?"


def test_single_keys_can_be_switched_off_for_good(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)
    press(page, "?")
    with page.expect_response("**/rate/keys/") as told:
        page.get_by_label("Rate with single keys").uncheck()
    assert told.value.status == 204

    elsewhere = rater_at(new_context(), site, rater)
    press(elsewhere, "p", "4", "x")

    expect(elsewhere.locator("#verdict input:checked")).to_have_count(0)
    expect(elsewhere.locator("#cannot-judge button")).to_be_hidden()


def test_no_single_key_saves_or_says_cannot_judge(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)

    for key in "abcdefghilmnopqrstvwxyz0123456789":
        press(page, key, "Escape")

    assert answers(rater) == []
    press(page, "x", "Enter")
    expect(saved(page)).to_contain_text("1 saved")
    assert Rating.objects.get().cannot_judge


def test_half_a_rating_is_named_where_it_is_missing(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(), site, rater)

    press(page, "n", "Enter")

    expect(page.locator("#confidence-error")).to_have_text("Choose how confident you are, from 1 to 5.")
    expect(page.locator("#verdict-error")).to_have_text("")
    expect(page.locator("[name=confidence][value='1']")).to_be_focused()
    assert answers(rater) == []
    press(page, "3", "Enter")
    expect(saved(page)).to_contain_text("1 saved")


def test_in_the_confirm_arm_the_balance_follows_the_first_answer(new_context: NewContext, site: str) -> None:
    rater = open_study(items=3, layout="confirm").raters.get(label="R01")
    page = rater_at(new_context(), site, rater)
    expect(page.get_by_role("heading", name="Balance sheet")).to_have_count(0)

    press(page, "p", "2", "Enter")
    expect(page.get_by_role("heading", name="Balance sheet")).to_be_visible()
    expect(page.locator("#verdict input:checked")).to_have_count(0)
    press(page, "n", "5", "Enter")

    expect(saved(page)).to_contain_text("1 saved")
    assert (FirstLook.objects.get().verdict, answers(rater)) == (True, [(False, 5)])


# ---------------------------------------------------------------- pace


def test_time_and_hand_are_measured_while_the_rater_is_at_work(
    new_context: NewContext, site: str, rater: Rater
) -> None:
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


def test_after_half_an_hour_a_break_is_proposed_and_can_be_declined(
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


# ---------------------------------------------------------------- size, looks, access


def test_the_first_load_and_the_next_item_are_small(new_context: NewContext, site: str, rater: Rater) -> None:
    browser = new_context()
    sign_in(browser, site, rater)
    page = browser.new_page()
    loaded: list[Response] = []
    page.on("response", lambda response: loaded.append(response))
    page.goto(f"{site}/rate/study/{rater.code}/", wait_until="networkidle")
    first = sum(len(gzip.compress(response.body())) for response in loaded if response.status == 200)
    loaded.clear()

    press(page, "p", "4", "Enter")
    expect(saved(page)).to_contain_text("1 saved")

    assert first <= 150_000
    following = [response for response in loaded if not _beside(response.url)]
    assert [len(gzip.compress(response.body())) <= 10_000 for response in following] == [True]


def test_a_table_wider_than_a_phone_scrolls_in_its_own_place(new_context: NewContext, site: str) -> None:
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
def test_every_state_of_the_screen_is_accessible_and_fits_its_width(
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
    sound(page)  # half an answer
    rated = page.url
    for done in range(1, 4):
        press(page, "n", "4", "Enter")
        if kind == TRANSITION:
            expect(page.locator("main")).to_contain_text("Your first answer is saved")
            sound(page)
            press(page, "n", "3", "Enter")
        if done < 3:
            expect(saved(page)).to_contain_text(f"{done} saved")
    page.wait_for_url(DONE)
    press(other, "p", "s", "1", "Enter")
    expect(other.locator("h1")).to_contain_text("Which answer should count?")
    sound(other)
    for status in ("paused", "closed"):
        Study.objects.update(status=status)
        page.goto(f"{site}/rate/study/{rater.code}/")
        sound(page)
    Study.objects.update(status="open")
    page.goto(rated)
    sound(page)  # an answer that can be changed
    Rater.objects.update(finished_at="2026-01-01T00:00:00Z")
    page.goto(rated)
    expect(page.locator("h1")).to_contain_text("Your answer to this item counts")
    sound(page)
    assert forgive(complaints, "409") == 1


def test_a_typical_item_fits_the_screen_with_the_verdict_in_view(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = rater_at(new_context(viewport=WIDE), site, rater)

    assert page.evaluate("document.documentElement.scrollHeight") == 900
    expect(page.get_by_role("button", name="Save and next")).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_bar_hides_no_content(new_context: NewContext, site: str, rater: Rater) -> None:
    page = rater_at(new_context(viewport=PHONE), site, rater)
    press(page, "n", "4")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__bench").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"]


def test_a_row_is_tinted_as_wrong_only_while_its_mark_is_in_sight(new_context: NewContext, site: str) -> None:
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
def test_however_high_the_bar_the_end_of_the_item_can_be_scrolled_out_of_it(
    new_context: NewContext, site: str, width: int
) -> None:
    rater = open_study(items=3, raters=1, layout="confirm", marks="always").raters.get()
    page = rater_at(new_context(viewport={"width": width, "height": 600}), site, rater)
    page.evaluate("document.querySelector('#unsaved').hidden = false")
    press(page, "n", "Enter")  # half an answer: the bar says so in a line of its own
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")

    last = page.locator(".item__split").bounding_box()
    bar = page.locator("#verdict").bounding_box()

    assert last is not None and bar is not None
    assert last["y"] + last["height"] <= bar["y"] + 1
    assert abs(bar["y"] + bar["height"] - 600) < 1
    assert all(end.is_visible() for end in page.locator(".scale__end").all())


def test_a_breach_of_the_content_policy_would_be_noticed(
    new_page: Callable[..., Page], complaints: list[str], site: str
) -> None:
    page = new_page()
    page.goto(site + "/login/")

    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">no</p>')")
    page.wait_for_timeout(200)

    assert forgive(complaints, "CSP violation") == 1
    forgive(complaints, "Content Security Policy")  # Chromium's own words for it


def _beside(url: str) -> bool:
    """Drafts, which no item waits for, and the tab's icon, which browsers fetch when they like and keep."""
    return url.endswith(("/draft/", "/mark.svg"))
