"""From an empty site to an open study with three invitation links, following only what the pages show."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from ratings.models import Invitation, Study
from simulation.models import Run
from tests.support.browser_steps import BOTH_SIZES, WIDE, NewContext, check_accessible, open_page_as_ada
from tests.support.laboratory_rows import store_laboratory
from tests.support.steps import run_to_end

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class Visit:
    """A visit that counts its clicks. Every page on the way is checked at both widths."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, list[str]()

    def click(self, element: Locator) -> None:
        self.clicks.append(element.inner_text() or element.get_attribute("aria-label") or "a box")
        element.click()

    def follow(self, name: str) -> None:
        self.click(self.page.locator("main").get_by_role("link", name=name).first)
        self.check()

    def press(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.locator("main").get_by_role("button", name=name).first)
        self.check()

    def check(self) -> None:
        check_accessible(self.page, BOTH_SIZES)
        self.page.set_viewport_size(WIDE)


def test_first_study_with_three_links_takes_ten_clicks_from_the_start_page(new_context: NewContext, site: str) -> None:
    store_laboratory()
    page = open_page_as_ada(new_context(), site, "/")
    visit = Visit(page)
    expect(page.locator("main")).to_contain_text("Your first study in three steps")
    visit.check()
    # Step 1: a run with the values of the form.
    visit.follow("Start a run")
    visit.click(page.get_by_role("checkbox").first)
    visit.press(re.compile("^Start"))
    expect(page).to_have_url(re.compile("/runs/"))
    run_to_end(Run.objects.get())
    # Step 2: a study with the values of the form, a name and the number of items. The page of the run leads to it.
    visit.follow("Use in a study")
    page.get_by_label("Name", exact=True).fill("First study")
    visit.press("Save and continue")
    page.get_by_label("Items by offline, none", exact=True).fill("5")
    visit.press("Save and continue")
    visit.press("Save and continue")
    visit.press("Save and review")
    expect(page.locator("#stock")).to_contain_text("enough")
    visit.press("Open the study")
    # Step 3: the page of raters follows.
    expect(page.locator(".messages")).to_contain_text("Now invite raters")
    visit.press("Create 3 links")
    assert Invitation.objects.count() == 3
    assert Study.objects.get().status == "open"
    assert len(visit.clicks) == 10, visit.clicks
    page.goto(site)
    expect(page.locator("main")).not_to_contain_text("in three steps")
