"""Inviting and following raters in a browser: a list with names, own wording, links to copy, actions on several raters."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from playwright.sync_api import Page, expect

from ratings.models import Study
from tests.support import invited_raters
from tests.support.browser_steps import BOTH_SIZES, WIDE, NewContext, check_accessible, open_page_as_ada
from tests.support.rating_room import store_rating

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def study() -> Study:
    """R01 answers too fast; the other places are open."""
    ada = User.objects.create_user("ada", is_staff=True)
    study = invited_raters.create_small_study(raters=4, items=2, by=ada)
    rater = invited_raters.join_by_link(invited_raters.get_rater(study))
    store_rating(rater.assignments.first(), verdict=True, confidence=4, seconds=9, active_seconds=1.0)
    return study


def press(page: Page, name: str) -> None:
    page.locator("main").get_by_role("button", name=name, exact=True).click()


def test_admin_invites_from_a_list_in_own_words_and_copies_the_other_links(
    study: Study, live_server: Any, new_context: NewContext, tmp_path: Path
) -> None:
    context = new_context(permissions=["clipboard-read", "clipboard-write"], viewport=WIDE)
    page = open_page_as_ada(context, live_server.url, "/studies/small/raters/")
    expect(page.locator("main")).to_contain_text("Median time per item under 2 s: 1.0 s over 1 item.")
    check_accessible(page, BOTH_SIZES)

    page.get_by_role("link", name="Edit the wording").click()
    page.get_by_label("Payment").fill("$40")
    page.get_by_label("Text", exact=True).fill("Dear {name},\nwe pay {payment}: {link}")
    press(page, "Preview without saving")
    expect(page.locator("main")).to_contain_text("Dear Ada Byron,")
    check_accessible(page, BOTH_SIZES)
    press(page, "Save")

    page.goto(f"{live_server.url}/studies/small/raters/invite-list/")
    (tmp_path / "people.csv").write_text("name,email\nBo Li,bo@example.org\n")
    page.locator("input[type=file]").set_input_files(tmp_path / "people.csv")
    press(page, "Check list")
    expect(page.locator("main")).to_contain_text("Dear Bo Li,")
    check_accessible(page, BOTH_SIZES)
    press(page, "Send 1 invitation")
    expect(page.get_by_text("1 invitation sent.")).to_be_visible()
    assert mail.outbox[0].body.startswith("Dear Bo Li,\nwe pay $40: http")

    press(page, "Create 2 links")
    press(page, "Copy all links")
    expect(page.locator("#copied")).to_have_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert [line.split("\t")[0] for line in copied] == ["R03", "R04"]
    check_accessible(page, BOTH_SIZES)


def test_admin_selects_raters_with_the_keyboard_and_reads_one_page(
    study: Study, live_server: Any, new_context: NewContext
) -> None:
    page = open_page_as_ada(new_context(viewport=WIDE), live_server.url, "/studies/small/raters/?state=free")
    page.get_by_label("Select all").focus()
    page.keyboard.press("Space")
    expect(page.get_by_text("With the 3 selected:")).to_be_visible()
    page.get_by_role("button", name="Remove …").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Remove R02, R03, R04?")).to_be_visible()
    check_accessible(page, BOTH_SIZES)
    page.get_by_role("link", name="Cancel").click()
    assert page.url.endswith("/raters/?state=free")

    page.goto(f"{live_server.url}/studies/small/raters/R01/")
    expect(page.locator("main")).to_contain_text("Nobody can read an item in that time.")
    check_accessible(page, BOTH_SIZES)


def test_links_can_be_selected_without_javascript(study: Study, live_server: Any, new_context: NewContext) -> None:
    page = open_page_as_ada(
        new_context(java_script_enabled=False, viewport=WIDE), live_server.url, "/studies/small/raters/"
    )
    page.get_by_label("Select R02").check()
    press(page, "Create new links")
    assert page.get_by_label("The link").input_value().startswith(f"{live_server.url}/r/")
