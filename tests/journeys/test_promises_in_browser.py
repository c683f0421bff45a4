"""A rater's unsaved answer survives an ended session, a sign-in in another tab, and a server that asks to wait."""

from importlib import import_module

import pytest
from django.conf import settings
from playwright.sync_api import BrowserContext, Page, Route, expect

from ratings.models import Rater, Rating, RatingEvent
from tests.support.browser_steps import PASSWORD, NewContext, add_rater_session, locate_saved_count, set_rater_password
from tests.support.rating_room import create_open_study

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def rater() -> Rater:
    rater = create_open_study(items=5).raters.get(label="R01")
    set_rater_password(rater)
    return rater


def choose_answer(browser: BrowserContext, site: str, rater: Rater) -> Page:
    """Return the first item with verdict and confidence chosen, but not sent."""
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    page.goto(f"{site}/rate/study/{rater.code}/")
    with page.expect_response("**/draft/"):
        page.keyboard.press("n")
        page.keyboard.press("3")
    return page


def check_saved_once(page: Page, rater: Rater, browser_errors: list[str], *expected_errors: str) -> None:
    """Check that the chosen answer was saved, once."""
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    rating = Rating.objects.get(assignment__rater=rater)
    assert (rating.verdict, rating.confidence) == (False, 3)
    assert RatingEvent.objects.count() == 1
    browser_errors[:] = [
        line for line in browser_errors if not any(sign in line for sign in (*expected_errors, "htmx:"))
    ]


def fill_sign_in_form(page: Page, rater: Rater) -> None:
    assert rater.user is not None
    page.locator("input[name=username]").fill(rater.user.username)
    page.locator("input[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")


def test_expired_session_is_renewed_in_the_page_and_the_same_form_sent_again(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    page = choose_answer(new_context(), site, rater)
    submission = page.locator("#verdict [name=submission_id]").input_value()
    import_module(settings.SESSION_ENGINE).SessionStore.get_model_class().objects.all().delete()

    page.keyboard.press("Enter")
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#unsaved")).to_contain_text("Not saved yet.")
    assert not Rating.objects.exists()
    fill_sign_in_form(page, rater)

    check_saved_once(page, rater, browser_errors, "401")
    assert str(Rating.objects.get().submission_id) == submission


def test_answer_in_the_first_tab_is_saved_after_signing_in_again_in_a_second(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater
) -> None:
    """Every sign-in creates a new CSRF token, and the first tab's form has the old one. The card that follows has none."""
    browser = new_context()
    page = choose_answer(browser, site, rater)
    assert page.locator("#verdict [name=csrfmiddlewaretoken]").count() == 1
    browser.clear_cookies(name="wb_session")
    other = browser.new_page()
    other.goto(f"{site}/login/")
    fill_sign_in_form(other, rater)
    other.wait_for_url(lambda url: "/login/" not in url)

    page.keyboard.press("Enter")

    check_saved_once(page, rater, browser_errors)
    assert page.locator("#verdict [name=csrfmiddlewaretoken]").count() == 0


@pytest.mark.parametrize("status", [429, 503])
def test_answer_is_not_resent_before_the_time_in_the_retry_after_header(
    new_context: NewContext, browser_errors: list[str], site: str, rater: Rater, status: int
) -> None:
    page = choose_answer(new_context(), site, rater)
    sent: list[str] = []

    def reject_first(route: Route) -> None:
        if route.request.method == "POST" and not route.request.url.endswith("/draft/"):
            sent.append(route.request.post_data or "")
            if len(sent) == 1:
                return route.fulfill(status=status, headers={"Retry-After": "3600"})
        return route.continue_()

    page.route("**/rate/**", reject_first)
    page.clock.install()
    page.keyboard.press("Enter")

    expect(page.locator("#unsaved")).to_contain_text("sent again in 3600 s.")
    page.clock.fast_forward("50:00")
    expect(page.locator("#unsaved")).to_contain_text("sent again in 3600 s.")
    assert len(sent) == 1
    page.clock.fast_forward("10:00")
    check_saved_once(page, rater, browser_errors, str(status))
    assert len(sent) == 2
