"""Shared by tests in a real browser: screen sizes, sessions, accessibility checks, and expected console errors."""

import re
from collections.abc import Callable, Iterable

from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize

from ratings.models import Rater

WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
BOTH_SIZES = (WIDE, PHONE)
PASSWORD = "correct horse battery"
ITEM_URL = re.compile(r"/rate/[0-9a-f-]{36}/$")
DONE_URL = re.compile(r"/rate/study/[0-9a-f-]{36}/done/$")
NewContext = Callable[..., BrowserContext]
FIND_TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  ["the page", ...[...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > innerWidth)
    .map((one) => one.tagName + "." + one.className)].slice(0, 8)"""


def add_session(browser: BrowserContext, site: str, user: User) -> None:
    """Give a browser profile a session of this user, as if they had signed in before."""
    client, name = Client(), settings.SESSION_COOKIE_NAME
    client.force_login(user)
    browser.add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])


def add_rater_session(browser: BrowserContext, site: str, rater: Rater) -> None:
    assert rater.user is not None
    add_session(browser, site, rater.user)


def open_page_as_ada(browser: BrowserContext, site: str, address: str = "") -> Page:
    """Return a page on which Ada, who is staff and may create studies, is signed in; at `address` if given."""
    ada = User.objects.filter(username="ada").first()
    add_session(browser, site, ada or User.objects.create_user("ada", password=PASSWORD, is_staff=True))
    page = browser.new_page()
    if address:
        page.goto(site + address)
    return page


def open_rating_page(browser: BrowserContext, site: str, rater: Rater) -> Page:
    """Return a page on which this rater is signed in, at their next item."""
    add_rater_session(browser, site, rater)
    page = browser.new_page()
    page.goto(f"{site}/rate/study/{rater.code}/")
    page.wait_for_url(ITEM_URL)
    return page


def end_session(browser: BrowserContext) -> None:
    """Remove the session cookie, as if the session had expired; everything else in the browser stays."""
    browser.clear_cookies(name="wb_session")


def set_rater_password(rater: Rater) -> str:
    """Let this rater sign in with `PASSWORD`, and return their user name."""
    assert rater.user is not None
    rater.user.set_password(PASSWORD)
    rater.user.save()
    return rater.user.username


def locate_saved_count(page: Page) -> Locator:
    """Return the element with the number of saved answers."""
    return page.locator("#saved")


def press_keys(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def check_accessible(page: Page, sizes: Iterable[ViewportSize] = ()) -> None:
    """Check that axe finds nothing and nothing scrolls sideways: in the current size, or in each of these."""
    for size in sizes or [None]:
        if size is not None:
            page.set_viewport_size(size)
        violations = Axe().run(page).response["violations"]
        found = [(one["id"], one["nodes"][0]["target"]) for one in violations]
        assert found == [], (page.url, size, found)
        too_wide = page.evaluate(FIND_TOO_WIDE)
        assert too_wide == [], (page.url, size, too_wide)


def remove_expected_errors(browser_errors: list[str], words: str) -> int:
    """Remove the console lines that contain these words and that the test provoked; return how many there were."""
    provoked = [line for line in browser_errors if words in line]
    for line in provoked:
        browser_errors.remove(line)
    return len(provoked)
