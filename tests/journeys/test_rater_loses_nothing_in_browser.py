"""Whatever happens to a rater in a real browser, no answer is lost and none is saved twice."""

import pytest
from playwright.sync_api import Dialog, Route, expect

from ratings.models import Rater, RatingEvent, UnsavedAnswer
from tests.support.browser_steps import (
    DONE_URL,
    ITEM_URL,
    PASSWORD,
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
from tests.support.rating_room import create_open_study, get_assignment, list_answers

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_double_click_on_save_rates_one_item(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    press_keys(page, "p", "4")

    page.get_by_role("button", name="Save and next").dblclick()
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    page.wait_for_load_state("networkidle")

    assert list_answers(rater) == [(True, 4)]


def test_conflict_page_lets_the_second_of_two_tabs_replace_the_answer(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    browser = new_context()
    first_tab = open_rating_page(browser, site, rater)
    second_tab = browser.new_page()
    second_tab.goto(first_tab.url)
    press_keys(first_tab, "p", "4", "Enter")
    expect(locate_saved_count(first_tab)).to_contain_text("1 saved")

    press_keys(second_tab, "n", "2", "Enter")
    expect(second_tab.locator("main")).to_contain_text("Plausible, confidence 4")
    expect(second_tab.locator("main")).to_contain_text("Not plausible, confidence 2")
    assert list_answers(rater) == [(True, 4)]
    second_tab.get_by_role("button", name="Save the new answer instead").click()

    second_tab.wait_for_url(first_tab.url)
    assert list_answers(rater) == [(False, 2)]
    assert list(RatingEvent.objects.values_list("revision", "verdict")) == [(1, True), (2, False)]
    assert remove_expected_errors(browser_errors, "409") == 1


def test_back_button_shows_the_saved_answer_for_correction(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    press_keys(page, "n", "2", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")

    page.go_back()

    expect(page.locator("main")).to_contain_text("You are changing your answer: not plausible, confidence 2")
    expect(page.locator("#verdict input:checked")).to_have_count(2)


def test_answer_saved_without_a_confirmation_is_not_saved_twice(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)
    lost_statuses: list[int] = []

    def lose_response(route: Route) -> None:
        if route.request.method == "POST" and not route.request.url.endswith("draft/") and not lost_statuses:
            lost_statuses.append(route.fetch().status)
            route.abort()
        else:
            route.continue_()

    page.route("**/rate/**", lose_response)
    press_keys(page, "n", "3", "Enter")

    expect(locate_saved_count(page)).to_contain_text("1 saved")  # sent again automatically after a second
    assert lost_statuses == [200]
    assert list_answers(rater) == [(False, 3)] and RatingEvent.objects.count() == 1
    remove_expected_errors(browser_errors, "ERR_FAILED")
    remove_expected_errors(browser_errors, "htmx:")


def test_answer_is_retried_while_the_server_is_down_and_leaving_shows_a_warning(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)
    down = True
    page.route(ITEM_URL, lambda route: route.fulfill(status=503) if down else route.continue_())
    dialogs: list[str] = []

    def stay(dialog: Dialog) -> None:
        dialogs.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)

    press_keys(page, "n", "3", "Enter")
    expect(page.get_by_role("alert")).to_contain_text(
        "The server could not save your answer (error 503). Your answer is still here"
    )
    page.close(run_before_unload=True)
    page.wait_for_timeout(500)
    assert dialogs == ["beforeunload"]
    down = False

    expect(locate_saved_count(page)).to_contain_text("1 saved")
    assert list_answers(rater) == [(False, 3)]
    remove_expected_errors(browser_errors, "503")
    remove_expected_errors(browser_errors, "htmx:")


def test_answer_is_saved_after_signing_in_again_in_another_tab(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    browser = new_context()
    page = open_rating_page(browser, site, rater)
    browser.clear_cookies()  # the form's token is gone as well
    press_keys(page, "p", "5", "Enter")
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#unsaved")).to_contain_text("Not saved yet.")
    add_rater_session(browser, site, rater)
    page.get_by_role("button", name="Not now").click()

    page.get_by_role("button", name="Try again").click()

    expect(locate_saved_count(page)).to_contain_text("1 saved")
    assert list_answers(rater) == [(True, 5)]
    assert remove_expected_errors(browser_errors, "403") + remove_expected_errors(browser_errors, "401") >= 1
    remove_expected_errors(browser_errors, "htmx:")


def test_wrong_password_keeps_the_sign_in_dialog_and_the_answer(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    browser, name = new_context(), set_rater_password(rater)
    page = open_rating_page(browser, site, rater)
    end_session(browser)
    press_keys(page, "p", "5", "Enter")
    page.locator("#sign-in input[name=username]").fill(name)
    page.locator("#sign-in input[name=password]").fill("wrong")
    press_keys(page, "Enter")
    expect(page.locator("#sign-in")).to_contain_text("incorrect")
    check_accessible(page)

    page.locator("#sign-in input[name=password]").fill(PASSWORD)
    press_keys(page, "Enter")

    expect(locate_saved_count(page)).to_contain_text("1 saved")
    assert list_answers(rater) == [(True, 5)]
    assert remove_expected_errors(browser_errors, "401") >= 1 and remove_expected_errors(browser_errors, "422") >= 1
    remove_expected_errors(browser_errors, "htmx:")


def test_unsaved_answer_is_restored_after_a_crash(new_context: NewContext, site: str) -> None:
    rater = create_open_study(items=3, marks="always").raters.get(label="R01")
    browser = new_context()
    page = open_rating_page(browser, site, rater)
    box = page.locator("input[name=marks]").nth(3)
    with page.expect_response("**/draft/"):
        press_keys(page, "n")
    with page.expect_response("**/draft/"):
        box.check()
    with page.expect_response("**/draft/"):
        press_keys(page, "c")
        page.keyboard.type("The volume?")
    key = box.get_attribute("value")
    page.close()

    reopened = browser.new_page()
    reopened.goto(f"{site}/rate/study/{rater.code}/")

    expect(reopened.locator("[name=verdict][value=no]")).to_be_checked()
    expect(reopened.locator(f"input[name=marks][value='{key}']")).to_be_checked()
    expect(reopened.locator("#note-text")).to_have_value("The volume?")
    assert list_answers(rater) == [] and UnsavedAnswer.objects.count() == 1
    press_keys(reopened, "4", "Enter")
    expect(locate_saved_count(reopened)).to_contain_text("1 saved")
    assert not UnsavedAnswer.objects.exists()


def test_rating_works_without_javascript(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(java_script_enabled=False), site, rater)

    page.locator("[name=verdict][value=no]").check()
    page.get_by_role("button", name="Save and next").click()
    expect(page.locator("#confidence-error")).to_have_text("Choose how confident you are, from 1 to 5.")
    expect(page.locator("[name=verdict][value=no]")).to_be_checked()
    for number in range(1, 5):
        page.locator("[name=verdict][value=no]").check()
        page.locator(f"[name=confidence][value='{number}']").check()
        page.get_by_role("button", name="Save and next").click()
    page.locator("#note summary").click()
    page.locator("#note-text").fill("not my field")
    page.locator("#cannot-judge summary").click()
    page.get_by_role("button", name="Save as").click()

    expect(page).to_have_url(DONE_URL)
    assert list_answers(rater) == [*((False, number) for number in range(1, 5)), (None, None)]
    assert get_assignment(rater, 5).rating.note == "not my field"
    assert remove_expected_errors(browser_errors, "422") == 1
