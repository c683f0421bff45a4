"""A Chromium of Debian's, watched: a page that breaks the content policy or throws fails its test."""

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
PATIENCE = 15_000  # ms; opening a study takes a second, and several on a machine that kills fifty workers meanwhile
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    # From here to the end an event loop runs in this thread, and Django takes it for another one, with connections of its
    # own: those from before would stay open, out of reach of every test that wants the database for itself.
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
    """Somebody with five items to rate."""
    return open_study(items=5).raters.get(label="R01")


@pytest.fixture
def complaints() -> list[str]:
    """What the watched pages complained of. A test that provokes an answer of 4xx removes its line."""
    return []


@pytest.fixture
def new_context(chromium: Browser, complaints: list[str]) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browser profiles of their own (cookies apart); every page in them is watched to the end of the test."""
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
    """A watched page in a profile of its own."""
    return lambda **options: new_context(**options).new_page()


def _note(complaints: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        complaints.append(message.text)
