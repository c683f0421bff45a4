"""Debian's Chromium, with checks: a page that violates the content security policy or throws an error fails its test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from ratings.models import Rater
from tests.support.in_browser import WIDE
from tests.support.rating_room import open_study
from tests.support.services import program
from tests.system import lightest_browser

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error("CSP violation: " + event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile));
"""

NewPage = Callable[..., Page]
PATIENCE = 15_000  # ms; opening a study takes one second, and several while other tests kill workers
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    # From here on an event loop runs in this thread, and Django treats it as another thread with its own connections. Earlier
    # connections would stay open and block every test that needs exclusive access to the database.
    connections.close_all()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(lightest_browser()), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def site(live_server: Any) -> str:
    return str(live_server.url)


@pytest.fixture
def rater(db: None) -> Rater:
    """A rater with five items to rate."""
    return open_study(items=5).raters.get(label="R01")


@pytest.fixture
def complaints() -> list[str]:
    """Console messages and errors of the pages. A test that provokes a 4xx response removes its line."""
    return []


@pytest.fixture
def new_context(chromium: Browser, complaints: list[str]) -> Iterator[Callable[..., BrowserContext]]:
    """Return a function that creates browser profiles with separate cookies; all of their pages are checked until the test ends."""
    contexts: list[BrowserContext] = []

    def make(**options: object) -> BrowserContext:
        context = chromium.new_context(**{"viewport": WIDE, **options})  # type: ignore[arg-type]  # Playwright's own names
        context.set_default_timeout(PATIENCE)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", lambda message: _note(complaints, message))
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def new_page(new_context: Callable[..., BrowserContext]) -> NewPage:
    """Return a function that opens a checked page in a new profile."""
    return lambda **options: new_context(**options).new_page()


def _note(complaints: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        complaints.append(message.text)
