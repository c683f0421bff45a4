"""A study from the first step of the builder to unblinding in a real browser, every page accessible at both widths."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from ratings.models import Analysis, RenderedResults, Study
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.figures import render
from ratings.studies import lifecycle
from simulation.jobs import jobs
from tests.support import browser_steps, run_factory, study_factory
from tests.support.browser_steps import BOTH_SIZES, PASSWORD, WIDE, NewContext, open_page_as_ada, remove_expected_errors

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def check_page(page: Page) -> None:
    """Check the page at both widths, and leave it at the wide one."""
    browser_steps.check_accessible(page, BOTH_SIZES)
    page.set_viewport_size(WIDE)


# Font size in points of the smallest text in a visible figure.
_MIN_FONT_SIZE = """Math.min(...[...document.querySelectorAll(".figure svg text")]
    .filter(text => text.textContent && text.getClientRects().length)
    .map(text => parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b) * 0.75))"""


def press_button(page: Page, name: str) -> None:
    page.locator("main").get_by_role("button", name=name, exact=True).click()


def test_study_is_built_previewed_opened_and_unblinded(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    run_factory.create_pool()
    page = open_page_as_ada(new_context(), live_server.url, reverse("ratings:new_study"))
    check_page(page)
    page.get_by_label("Name", exact=True).fill("Round two")
    press_button(page, "Save and continue")
    for kind, count in (("none", 4), ("obvious", 3), ("subtle", 3)):
        page.get_by_label(f"Items by offline, {kind}", exact=True).fill(str(count))
    press_button(page, "Save and check availability")
    expect(page.locator("#counted")).to_contain_text("60%")
    check_page(page)
    press_button(page, "Save and continue")
    page.locator("#id_raters").fill("1")
    press_button(page, "Save and continue")
    expect(page.locator(".error-summary")).to_contain_text("3 ratings per item need at least 3 raters")
    check_page(page)
    page.locator("#id_raters").fill("6")
    press_button(page, "Save and continue")
    page.get_by_role("checkbox", name=re.compile("^Plain")).check()
    check_page(page)
    press_button(page, "Save and review")
    expect(page.locator("#stock")).to_contain_text("enough")  # loaded by htmx after the page
    check_page(page)
    for tab in ("Raters", "Assignments", "Preview"):  # the first page of raters is the planner: a draft has no people
        page.get_by_role("link", name=tab, exact=True).click()
        check_page(page)
    page.get_by_role("link", name="Overview", exact=True).click()
    press_button(page, "Open the study")
    expect(page.locator("main")).to_contain_text("The study is open.")
    check_page(page)
    page.get_by_role("link", name="Raters", exact=True).click()
    page.get_by_role("link", name="Instructions", exact=True).click()
    page.get_by_label("Study-specific instructions").fill("Mind the units.")
    press_button(page, "Show these to raters")
    expect(page.locator("main")).to_contain_text("Version 2")
    check_page(page)
    page.get_by_role("link", name="Overview", exact=True).click()
    for button, message in (("Pause", "is paused"), ("Resume", "accepts ratings again")):
        press_button(page, button)
        expect(page.locator(".messages")).to_contain_text(message)
    page.get_by_role("link", name="Close", exact=True).click()
    expect(page.locator("main")).to_contain_text("No rater was active in the last 15 minutes.")
    check_page(page)
    press_button(page, "Close the study")
    expect(page.locator(".messages")).to_contain_text("is closed")
    page.get_by_role("link", name="Unblind", exact=True).click()
    page.get_by_label("Your password").fill("wrong")
    press_button(page, "Unblind")
    expect(page.get_by_role("alert")).to_contain_text("That is not your password.")
    check_page(page)
    page.get_by_label("Your password").fill(PASSWORD)
    press_button(page, "Unblind")
    expect(page.locator(".messages")).to_contain_text("The study is unblinded.")
    check_page(page)
    page.goto(live_server.url + reverse("ratings:studies"))
    check_page(page)
    assert Study.objects.get().status == "unblinded"
    remove_expected_errors(browser_errors, "422")  # two forms were sent with errors on purpose


def test_study_size_is_planned_with_the_keyboard_and_stored_in_the_draft(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    page = open_page_as_ada(new_context(), live_server.url, reverse("ratings:new_study"))
    page.get_by_label("Name", exact=True).fill("Round two")
    press_button(page, "Save and continue")
    press_button(page, "Save and plan the size")
    check_page(page)
    page.get_by_label("Raters, slider").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Raters", exact=True)).to_have_value("5")
    page.get_by_label("Items", exact=True).fill("40")
    # The numbers follow without a press of a button, and the URL keeps them.
    expect(page.locator("#plan")).to_contain_text("40 items, 5 raters")
    page.wait_for_url(re.compile("raters=5.*items=40"))
    page.get_by_label("Ratings per item", exact=True).fill("9")
    expect(page.locator("#plan")).to_contain_text("at most the number of raters, 5")
    check_page(page)
    page.get_by_label("Ratings per item", exact=True).fill("3")
    expect(page.locator("#plan")).to_contain_text("120")
    press_button(page, "Use this plan")
    expect(page.locator(".messages")).to_contain_text("The draft now has 40 items")
    assert (Study.objects.get().protocol["raters"], len(Study.objects.get().protocol["sources"])) == (5, 3)
    assert browser_errors == []


def test_study_builder_without_scripts_counts_the_pool_by_a_link(new_context: NewContext, live_server: Any) -> None:
    run_factory.create_pool()
    page = open_page_as_ada(new_context(java_script_enabled=False), live_server.url, reverse("ratings:new_study"))
    page.get_by_label("Name", exact=True).fill("Round two")
    press_button(page, "Save and continue")
    page.get_by_label("Items by offline, none", exact=True).fill("4")
    press_button(page, "Save and exit")
    page.get_by_role("link", name="Check item availability").click()
    expect(page.locator("#stock")).to_contain_text("enough")
    press_button(page, "Open the study")
    expect(page.locator("main")).to_contain_text("The study is open.")


def test_results_are_filtered_and_opened_to_an_item_by_keyboard(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    lifecycle.close_and_unblind(study, User.objects.create_user("eve", is_staff=True))
    study.refresh_from_db()
    jobs.run_job_here(store.get_or_request(study, Filters()).job)
    page = open_page_as_ada(new_context(), live_server.url, "/")
    study.members.create(user=User.objects.get(username="ada"), role="analyst")
    page.goto(live_server.url + reverse("ratings:study", args=[study.slug]))
    expect(page.locator(".headline dt")).to_have_count(5)
    figure = page.locator(".figure svg:visible").first
    expect(figure).to_be_visible()
    check_page(page)
    # On the first screen: the figure is beside the key numbers, and both begin in its upper half.
    box, numbers = figure.bounding_box(), page.locator(".headline").bounding_box()
    assert box and numbers and box["y"] + box["height"] <= WIDE["height"] and box["x"] > numbers["x"] + numbers["width"]
    page.emulate_media(color_scheme="dark")
    check_page(page)
    # Every section has its own page, which names itself in the title and marks itself in the list of sections.
    sections = page.get_by_role("navigation", name="Sections of the results")
    names = sections.get_by_role("link").all_inner_texts()
    assert len(names) > 6
    for name in names[1:]:
        sections.get_by_role("link", name=name, exact=True).press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(sections.locator("[aria-current=page]")).to_have_text(name)
        assert page.title().startswith(f"{name} · ")
        check_page(page)
    # A bookmark of a figure from when all results were one page.
    page.goto(live_server.url + reverse("ratings:study", args=[study.slug]) + "#panel-rates_by_action")
    page.wait_for_url("**/results/groups/#panel-rates_by_action")
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    # On A4 (718 pixels between the margins) text has at least seven points, even in a figure three pages tall: a width of
    # 700 is drawn on 92 % of the 636 pixels inside a card, a factor of .836, so 11.5 pixels become 7.2 points of 4/3 pixels.
    page.set_viewport_size({"width": 718, "height": 900})
    page.evaluate("""const svg = document.querySelector(".figure__draw--wide > svg");
        svg.setAttribute("viewBox", "0 0 700 3000"); svg.setAttribute("height", 3000)""")
    assert page.evaluate(_MIN_FONT_SIZE) >= 7
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_text("Table of Rates by action").first.evaluate("one => one.closest('details').open = true")
    narrow = "[...document.querySelectorAll('.results tbody th')].map(cell => cell.offsetWidth).filter(Boolean)"
    assert page.evaluate(f"Math.min(...{narrow})") >= 4 * 9
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light", media="screen")
    page.goto(live_server.url + reverse("ratings:results", args=[study.slug, "items"]))
    page.get_by_text("Filter these results").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Planted error", exact=True).focus()
    page.keyboard.type("subtle")
    page.locator("main").get_by_role("button", name="Show", exact=True).press("Enter")
    expect(page.locator("main")).to_contain_text("Only planted error: subtle error.")
    check_page(page)
    page.get_by_role("link", name="Planted error: subtle error").press("Enter")
    expect(page.locator(".chips")).to_have_count(0)
    region = page.get_by_role("region", name="Table of raters and items")
    region.focus()
    expect(region).to_be_focused()
    region.get_by_role("link").first.press("Enter")
    expect(page.get_by_role("heading", name="Where it came from")).to_be_visible()
    check_page(page)


def _build_contrasts(families: dict[str, int]) -> list[list[Any]]:
    """Build rows of each family; every tenth is clear, the last of each family has no interval."""
    rows = []
    for family, size in families.items():
        for index in range(size):
            is_clear, is_last = index % 10 == 0, index == size - 1
            interval_ends = (
                [None, None, None, None]
                if is_last
                else [-0.02 if not is_clear else 0.05, 0.2, 0.04, 0.01 if is_clear else 0.3]
            )
            numbers = [0.6, 0.5, 0.1, *interval_ends, 60, 6, 360, 12, 6]
            reason = "only one rater has rated items of both" if is_last else ""
            label = f"{family} number {index}"
            rows.append(
                [family, label, "the others", ("rate", "correct")[index % 2], *numbers, "new raters", reason, ""]
            )
    return rows


def test_results_every_contrast_can_be_reached_by_keyboard_on_desktop_and_phone(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    lifecycle.close_and_unblind(study, User.objects.create_user("eve", is_staff=True))
    study.refresh_from_db()
    jobs.run_job_here(store.get_or_request(study, Filters()).job)
    families = {
        "sources": 9,
        "simulators": 12,
        "error types": 24,
        "raters and machines": 84,
        "raters": 24,
        "experiments": 54,
    }
    analysis = Analysis.objects.get(study=study)
    table = analysis.document["tables"]["contrasts"]
    table["rows"] = _build_contrasts(families)
    analysis.save()
    for drawing in render.render_all({**analysis.document, "tables": {"contrasts": table}}):
        analysis.drawings.update_or_create(
            name=drawing.name, profile=drawing.profile, defaults={"svg": drawing.svg, "summary": drawing.summary}
        )
    RenderedResults.objects.filter(analysis=analysis).delete()  # rendered with the contrasts before
    page = open_page_as_ada(new_context(), live_server.url, "/")
    study.members.create(user=User.objects.get(username="ada"), role="analyst")
    page.goto(live_server.url + reverse("ratings:results", args=[study.slug, "contrasts"]))
    panel = page.locator("#panel-contrasts")
    for size in BOTH_SIZES:
        page.set_viewport_size(size)
        expect(panel.locator(".figure svg:visible")).to_contain_text("Experiments: 11 of 54")
        _unfold(page, panel.locator("details.figure__table > summary"))
        folds = panel.locator("details.family > summary")
        expect(folds).to_have_count(len(families))
        for place, (name, count) in enumerate(families.items()):
            expect(folds.nth(place)).to_contain_text(f"{name.capitalize()} ({count};")
            _unfold(page, folds.nth(place))
            region = panel.get_by_role("region", name=f"Table: Contrasts, {name}", exact=True)
            expect(region.locator("tbody tr")).to_have_count(count)
            region.focus()
            expect(region).to_be_focused()
        browser_steps.check_accessible(page)
        page.reload()


def _unfold(page: Page, summary: Any) -> None:
    summary.focus()
    page.keyboard.press("Enter")
