"""One's own account in a real browser, by keyboard: signing in, the second step, a token; every page sound at both widths."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django_otp.plugins.otp_totp.models import TOTPDevice
from playwright.sync_api import Page, expect

from ratings.accounts import second_step
from ratings.models import ApiToken, Study
from tests.support import in_browser, run_factory, study_factory
from tests.support.account_steps import PASSWORD, code_of
from tests.support.in_browser import BOTH

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = "<b>kim</b>" + "k" * 140  # as long as a name can be, without a place to break it


def sound(page: Page) -> None:
    """At both widths, and no script or style in the page."""
    in_browser.sound(page, BOTH)
    assert page.locator("script:not([src]), style, [style]").count() == 0, page.url


def type_in(page: Page, *words: str) -> None:
    """From the field that has the focus on, in the place of what is there, and Enter in the last."""
    for word, then in zip(words, [*["Tab"] * (len(words) - 1), "Enter"], strict=True):
        page.keyboard.press("Control+A")
        page.keyboard.type(word)
        page.keyboard.press(then)


def test_somebody_signs_in_sets_up_a_second_step_and_makes_a_token_by_keyboard(
    new_page: Callable[..., Page], live_server: Any, complaints: list[str]
) -> None:
    kim = User.objects.create_user(LONG, password=PASSWORD, is_staff=True)
    run_factory.pool()
    study_factory.open_study(name="W" * 120, slug="w" * 80)
    Study.objects.update(created_by=kim)
    page = new_page()
    page.goto(f"{live_server.url}/account/second-step/")
    type_in(page, LONG, "wrong")
    expect(page.locator("#login_error")).to_be_focused()
    sound(page)
    page.get_by_label("User name or e-mail address").focus()
    type_in(page, LONG, PASSWORD)
    page.get_by_role("button", name="Set it up").press("Enter")
    expect(page.get_by_role("img")).to_be_visible()
    sound(page)
    page.get_by_label("Code").focus()
    type_in(page, "000000")
    expect(page.get_by_role("alert")).to_be_focused()
    sound(page)
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    page.get_by_label("Code").focus()
    type_in(page, code_of(TOTPDevice.objects.get()))
    expect(page.get_by_role("heading", name="Your backup codes")).to_be_visible()
    sound(page)
    backup = page.locator("main code").first.inner_text()
    page.get_by_role("link", name="I have kept them").press("Enter")
    expect(page.locator("main")).to_contain_text("10 backup codes are left")
    sound(page)

    page.get_by_role("button", name="Sign out", exact=True).press("Enter")
    page.get_by_label("User name or e-mail address").focus()
    type_in(page, LONG, PASSWORD)
    expect(page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    sound(page)
    page.get_by_label("Code").focus()
    type_in(page, backup)
    expect(page.locator(".topbar__user")).to_be_visible()
    assert second_step.backup_codes_left(kim) == 9

    page.goto(f"{live_server.url}/account/tokens/")
    page.get_by_label("Name").fill("n" * 60)
    page.get_by_label("studies:read").press("Space")
    page.get_by_label("W" * 120).press("Space")
    page.get_by_role("button", name="Make the token").press("Enter")
    expect(page.get_by_role("heading", name="Your new token")).to_be_visible()
    sound(page)
    page.get_by_role("button", name=f"Revoke {'n' * 60}").press("Enter")
    expect(page.get_by_role("cell", name="revoked")).to_be_visible()
    assert ApiToken.objects.get().state == "revoked"
    assert in_browser.forgive(complaints, "422") == 1
