"""The scratch calculator of the rating page in a real browser: arithmetic with units, values of the item, the keyboard, and the record of its use."""

import pytest
from playwright.sync_api import Page, expect

from ratings.models import Assignment, Rater, Rating
from tests.support.browser_steps import (
    BOTH_SIZES,
    PHONE,
    WIDE,
    NewContext,
    check_accessible,
    locate_saved_count,
    open_rating_page,
    press_keys,
    remove_expected_errors,
)
from tests.support.rating_room import create_open_study, get_assignment

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Each worked out by hand.
SUMS = [
    ("250 µL + 250 µL", "500 µL"),
    ("1 mL + 250 µL", "1.25 mL"),
    ("500 µL - 1 mL", "−500 µL"),
    ("1000 ul + 1 ml", "2,000 ul"),
    ("500 µL / 250 µL", "2"),
    ("10 mM * 5 µL", "50 nmol"),
    ("10 mM * 5 µL / 500 µL", "100 µM"),
    ("10 mg/mL / 50 kDa", "200 µM"),  # 10 g/L by 50,000 g/mol
    ("6.39 µg/mL × 500 µL", "3.195 µg"),
    ("600,000 cells/mL * 2 mL", "1,200,000 cells"),
    ("6 × 10⁵ cells/mL * 1 mL", "600,000 cells"),
    ("7.5e6 cells / 15 mL", "500,000 cells/mL"),
    ("2e12 1/mL * 2 mL", "4,000,000,000,000"),
    ("10 % * 500 µL", "50 µL"),
    ("1 mL/min * 30 min", "30 mL"),
    ("2 * (3 + 4) - -1", "15"),
    ("2^10", "1,024"),
    ("0.1 + 0.2", "0.3"),
    ("1 / 3", "0.333333"),
    ("20 µL + 3 mM", "µL and mM cannot be added: they are units of different things."),
    ("1 µL + 1", "µL and a plain number cannot be added: they are units of different things."),
    ("1 / 0", "This divides by zero."),
    ("(1 + 2", "A bracket is not closed."),
    ("1 + 2)", "There is a closing bracket too many."),
    ("1 +", "A number is missing at the end."),
    ("* 2", "A number is missing before “*”."),
    ("3 4", "An operator such as + is missing between two numbers."),
    ("alert(1)", "A number is missing before “alert”."),
    ("1 $ 2", "“$” is not understood here. Use numbers with units, + − × ÷ ^ and brackets."),
    ("", "Enter a calculation, for example 250 µL + 250 µL."),
]
EVALUATE = """async (texts) => {
  const { evaluate, formatQuantity } = await import("/static/arithmetic.js");
  return texts.map((text) => { try { return formatQuantity(evaluate(text)); } catch (error) { return error.message; } });
}"""
FIND = """async (texts) => { const { findValues } = await import("/static/arithmetic.js"); return texts.map(findValues); }"""


@pytest.fixture
def rater(transactional_db: None) -> Rater:
    return create_open_study(items=4, raters=1, display={"calculator": True}).raters.get()


def open_calculator(page: Page) -> None:
    page.keyboard.press("=")
    expect(page.locator("#calc-expression")).to_be_focused()


def calculate(page: Page, text: str) -> str:
    page.locator("#calc-expression").fill(text)
    page.keyboard.press("Enter")
    return page.locator("#calc-result").inner_text()


def list_calculations() -> list[int | None]:
    return list(Rating.objects.order_by("assignment__position").values_list("calculations", flat=True))


def test_calculator_computes_with_units_and_explains_what_it_cannot_compute(
    new_context: NewContext, site: str, rater: Rater
) -> None:
    page = open_rating_page(new_context(), site, rater)
    results = page.evaluate(EVALUATE, [text for text, _ in SUMS])
    assert list(zip([text for text, _ in SUMS], results, strict=True)) == SUMS


def test_calculator_finds_values_in_the_texts_of_an_item(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    texts = {
        "5,000 µL": ["5,000 µL"],
        "2392, 2403 mAU·s": ["2392 mAU·s", "2403 mAU·s"],
        "86.7 % (8670 of 10000 events)": ["86.7 %", "10000 events"],
        "6 × 10⁵ cells/mL": ["6 × 10⁵ cells/mL"],
        "DMEM with 10 % FBS": ["10 %"],
        "7.4": ["7.4"],
        "HEK293T well 1": [],
        "well of a 24-well plate": [],
    }
    assert page.evaluate(FIND, list(texts)) == list(texts.values())


def test_calculator_is_used_by_keyboard_alone_and_its_use_is_stored_with_the_answer(
    new_context: NewContext, site: str, rater: Rater, browser_errors: list[str]
) -> None:
    page = open_rating_page(new_context(), site, rater)
    assert page.evaluate("performance.getEntriesByName(location.origin + '/static/calculator.js').length") == 0
    open_calculator(page)
    press_keys(page, "p", "4")  # typed into the field: no verdict
    expect(page.locator("#verdict input:checked")).to_have_count(0)
    assert calculate(page, "250 µL + 250 µL") == "250 µL + 250 µL = 500 µL"
    assert calculate(page, "250 µL + 3 mM").startswith("µL and mM")  # an error is no calculation
    page.locator("#calc-find").focus()
    press_keys(page, "Tab", "Space", "ArrowDown", "Space", "p")
    chosen = page.locator("#calc-values :checked")
    expect(chosen).to_have_count(2)
    expect(page.locator("#verdict input:checked")).to_have_count(0)
    page.get_by_role("button", name="Ratio").press("Enter")
    expect(page.locator("#calc-result")).to_contain_text(" = ")
    page.keyboard.press("Escape")
    expect(page.locator("#calculator")).to_be_hidden()
    expect(page.locator("#rating-card h1")).to_be_focused()
    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    press_keys(page, "p", "4", "Enter")  # not opened
    expect(locate_saved_count(page)).to_contain_text("2 saved")
    open_calculator(page)  # and nothing calculated
    # The answer may be sent before the script has been loaded again: here it never is.
    page.route("**/calculator.js", lambda route: route.abort())
    page.reload()
    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("3 saved")
    assert list_calculations() == [2, None, 0]
    remove_expected_errors(browser_errors, "Failed to load resource")


def test_calculator_closes_when_the_next_item_comes(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    open_calculator(page)
    page.locator(".choice--yes").click()
    page.locator(".scale .choice").nth(1).click()
    page.get_by_role("button", name="Save and next").click()
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    expect(page.locator("#calculator")).to_be_hidden()


def test_calculator_takes_values_that_are_clicked_in_the_item(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    page.get_by_role("button", name="Calculator").click()
    cells = page.locator(".shown .calc-value")
    cells.first.click()
    expect(page.locator("#calc-values :checked")).to_have_count(1)
    cells.first.click()
    expect(page.locator("#calc-values :checked")).to_have_count(0)
    page.get_by_role("button", name="Sum").click()
    expect(page.locator("#calc-result")).to_have_text("Select at least two values first.")
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".calc-value")).to_have_count(0)


def test_calculator_solves_a_dilution(new_context: NewContext, site: str, rater: Rater) -> None:
    page = open_rating_page(new_context(), site, rater)
    open_calculator(page)
    page.get_by_text("Dilution: c₁").click()
    for name, value in (("c1", "10 mM"), ("c2", "100 uM"), ("v2", "5 mL")):
        page.locator(f"#calc-{name}").fill(value)
    page.keyboard.press("Enter")
    expect(page.locator("#calc-result")).to_have_text("v₁ = 50 µL")  # 100 µM · 5 mL / 10 mM
    page.locator("#calc-v1").fill("1 mL")
    page.keyboard.press("Enter")
    expect(page.locator("#calc-result")).to_have_text("Leave the field empty that you want to calculate.")


@pytest.mark.parametrize("size", BOTH_SIZES)
def test_calculator_is_accessible_and_moves_nothing_on_the_page(
    new_context: NewContext, site: str, rater: Rater, size: dict[str, int]
) -> None:
    page = open_rating_page(new_context(viewport=size), site, rater)
    find_places = "() => [...document.querySelectorAll('.shown td, #verdict button')].map((one) => one.getBoundingClientRect().top)"
    before = page.evaluate(find_places)
    open_calculator(page)
    assert page.evaluate(find_places) == before
    check_accessible(page, (PHONE, WIDE))
    calculate(page, "1 +")
    page.get_by_text("Dilution: c₁").click()
    check_accessible(page)


def test_calculator_that_cannot_be_loaded_says_so_and_rating_continues(
    new_context: NewContext, site: str, rater: Rater, browser_errors: list[str]
) -> None:
    page = open_rating_page(new_context(), site, rater)
    page.route("**/calculator.js", lambda route: route.abort())
    page.keyboard.press("=")
    expect(page.get_by_text("The calculator could not be loaded.")).to_be_visible()
    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    remove_expected_errors(browser_errors, "Failed to load resource")
    assert Assignment.objects.filter(rater=rater, answered_at__isnull=False).count() == 1


def test_study_without_a_calculator_has_neither_button_nor_key(new_context: NewContext, site: str) -> None:
    rater = create_open_study(items=3, raters=1, display={"calculator": False}).raters.get()
    page = open_rating_page(new_context(), site, rater)
    page.keyboard.press("=")
    expect(page.get_by_role("button", name="Calculator")).to_have_count(0)
    press_keys(page, "p", "4", "Enter")
    expect(locate_saved_count(page)).to_contain_text("1 saved")
    assert get_assignment(rater).rating.calculations is None
