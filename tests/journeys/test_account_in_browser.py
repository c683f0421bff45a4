"""A user's own account in a real browser, by keyboard: sign-in, two-factor authentication, an API token; every page accessible at both widths."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django_otp.plugins.otp_totp.models import TOTPDevice
from playwright.sync_api import Page, expect

from ratings.accounts import two_factor
from ratings.models import ApiToken, Study
from tests.support import browser_steps, run_factory, study_factory
from tests.support.account_steps import PASSWORD, compute_app_code
from tests.support.browser_steps import BOTH_SIZES

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = "<b>kim</b>" + "k" * 140  # the longest possible name, without a place to break the line


def check_page(page: Page) -> None:
    """Check the page at both widths, and that it contains no script and no style."""
    browser_steps.check_accessible(page, BOTH_SIZES)
    assert page.locator("script:not([src]), style, [style]").count() == 0, page.url


def fill_fields(page: Page, *texts: str) -> None:
    """Type into the focused field and those after it, replacing their contents, and press Enter in the last."""
    for word, next_key in zip(texts, [*["Tab"] * (len(texts) - 1), "Enter"], strict=True):
        page.keyboard.press("Control+A")
        page.keyboard.type(word)
        page.keyboard.press(next_key)


def test_account_sign_in_two_factor_setup_and_token_work_by_keyboard(
    new_page: Callable[..., Page], live_server: Any, browser_errors: list[str]
) -> None:
    kim = User.objects.create_user(LONG, password=PASSWORD, is_staff=True)
    run_factory.create_pool()
    study_factory.create_open_study(name="W" * 120, slug="w" * 80)
    Study.objects.update(created_by=kim)
    page = new_page()
    page.goto(f"{live_server.url}/account/second-step/")
    fill_fields(page, LONG, "wrong")
    expect(page.locator("#login_error")).to_be_focused()
    check_page(page)
    page.get_by_label("User name or e-mail address").focus()
    fill_fields(page, LONG, PASSWORD)
    page.get_by_role("button", name="Set up").press("Enter")
    expect(page.get_by_role("img")).to_be_visible()
    check_page(page)
    page.get_by_label("Code").focus()
    fill_fields(page, "000000")
    expect(page.get_by_role("alert")).to_be_focused()
    check_page(page)
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    page.get_by_label("Code").focus()
    fill_fields(page, compute_app_code(TOTPDevice.objects.get()))
    expect(page.get_by_role("heading", name="Your backup codes")).to_be_visible()
    check_page(page)
    backup_code = page.locator("main code").first.inner_text()
    page.get_by_role("link", name="I have saved them").press("Enter")
    expect(page.locator("main")).to_contain_text("10 backup codes are left")
    check_page(page)

    page.get_by_role("button", name="Sign out", exact=True).press("Enter")
    page.get_by_label("User name or e-mail address").focus()
    fill_fields(page, LONG, PASSWORD)
    expect(page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    check_page(page)
    page.get_by_label("Code").focus()
    fill_fields(page, backup_code)
    expect(page.locator(".topbar__user")).to_be_visible()
    assert two_factor.count_backup_codes(kim) == 9

    page.goto(f"{live_server.url}/account/tokens/")
    page.get_by_label("Name").fill("n" * 60)
    page.get_by_label("studies:read").press("Space")
    page.get_by_label("W" * 120).press("Space")
    page.get_by_role("button", name="Create the token").press("Enter")
    expect(page.get_by_role("heading", name="Your new token")).to_be_visible()
    check_page(page)
    page.get_by_role("button", name=f"Revoke {'n' * 60}").press("Enter")
    expect(page.get_by_role("cell", name="revoked")).to_be_visible()
    assert ApiToken.objects.get().validity_state == "revoked"
    assert browser_steps.remove_expected_errors(browser_errors, "422") == 1
