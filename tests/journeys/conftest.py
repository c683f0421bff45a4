"""Debian's Chromium, with checks: a page that violates the content security policy or throws an error fails its test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from ratings.models import Rater
from tests.support.browser_steps import WIDE
from tests.support.rating_room import create_open_study
from tests.support.services import require_program
from tests.system import choose_browser

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error("CSP violation: " + event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile));
"""

NewPage = Callable[..., Page]
TIMEOUT_MS = 15_000  # ms; opening a study takes one second, and several while other tests kill workers
expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    # From here on an event loop runs in this thread, and Django treats it as another thread with its own connections. Earlier
    # connections would stay open and block every test that needs exclusive access to the database.
    connections.close_all()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=require_program(choose_browser()), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def site(live_server: Any) -> str:
    return str(live_server.url)


@pytest.fixture
def rater(db: None) -> Rater:
    """A rater with five items to rate."""
    return create_open_study(items=5).raters.get(label="R01")


@pytest.fixture
def browser_errors() -> list[str]:
    """Console messages and errors of the pages. A test that provokes a 4xx response removes its line."""
    return []


@pytest.fixture
def new_context(chromium: Browser, browser_errors: list[str]) -> Iterator[Callable[..., BrowserContext]]:
    """Return a function that creates browser profiles with separate cookies; all of their pages are checked until the test ends."""
    contexts: list[BrowserContext] = []

    def create_context(**options: object) -> BrowserContext:
        context = chromium.new_context(**{"viewport": WIDE, **options})  # type: ignore[arg-type]  # Playwright's own names
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", lambda message: _record_message(browser_errors, message))
        context.on("weberror", lambda error: browser_errors.append(str(error.error)))
        contexts.append(context)
        return context

    yield create_context
    for context in contexts:
        context.close()
    assert browser_errors == []


@pytest.fixture
def new_page(new_context: Callable[..., BrowserContext]) -> NewPage:
    """Return a function that opens a checked page in a new profile."""
    return lambda **options: new_context(**options).new_page()


def _record_message(browser_errors: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        browser_errors.append(message.text)
