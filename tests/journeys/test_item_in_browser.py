"""One item in a real browser: it fits the screen, can be reached and is accessible, in every layout and at both widths."""

import copy
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from ratings.blinding import allow_list
from ratings.models import EVIDENCE, Assignment
from tests.support.browser_steps import PHONE, WIDE, NewContext, add_rater_session, check_accessible
from tests.support.rating_room import (
    build_aliquots,
    build_change_of_medium,
    build_dilution,
    build_filtration,
    create_open_study,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CONTEXT = allow_list.blind_context(
    "Find out how much caffeine (mg/mL) there is in the coffee, with three replicates and a standard curve.",
    [build_dilution(50 * n) | {"number": n, "started_at": 600 * n} for n in range(1, 8)],
)


def open_step(browser: BrowserContext, site: str, step: dict[str, Any], **arm: Any) -> Page:
    """Open a page with this step as the item of a study with one arm."""
    study = create_open_study(items=3, raters=1, **arm)
    rater = study.raters.get()
    assignment = Assignment.objects.filter(rater=rater, position=1).select_related("item").get()
    assignment.item.payload, assignment.item.context = allow_list.blind_transition(step), CONTEXT
    assignment.item.save()
    return open_assignment(browser, site, assignment)


def open_assignment(browser: BrowserContext, site: str, assignment: Assignment) -> Page:
    add_rater_session(browser, site, assignment.rater)
    page = browser.new_page()
    page.goto(f"{site}/rate/{assignment.code}/")
    return page


def build_wash() -> dict[str, Any]:
    """Return an item like the one in the design: a culture and its buffer continue, the waste is new; thirty rows and three observations."""
    step = copy.deepcopy(build_dilution(100))
    culture, buffer = step["inputs"][0], copy.deepcopy(step["inputs"][1])
    culture_properties = {"viability": "96 %", "confluence": "85 %", "cell line": "HEK293T, passage 12", "growth": "adherent monolayer",
             "sterility": "sterile", "container": "T-75 flask, 250 mL", "temperature": "37 °C", "carbon dioxide": "5 %"}  # fmt: skip
    buffer_properties = {"composition": "137 mM NaCl, 2.7 mM KCl, 10 mM phosphate", "pH": "7.4", "osmolality": "290 mOsm/kg",
              "sterility": "sterile", "container": "500 mL bottle", "temperature": "22 °C"}  # fmt: skip
    culture |= {
        "name": "HEK293T culture",
        "properties": culture_properties | {"volume": "15.0 mL", "viable cells": "7.6e6"},
    }
    buffer |= {"barcode": "MAT-BUFFER01", "name": "PBS, 1×, sterile", "available_for_use": "available_for_further_use",
               "properties": buffer_properties | {"volume": "500 mL"}}  # fmt: skip
    step["inputs"] = [culture, buffer]
    template = step["outcome"]["new_materials"][1]
    new_materials = [
        {**template, "name": "HEK293T cells, washed", "replaces": culture["barcode"],
         "properties": culture_properties | {"volume": "0.3 mL", "viable cells": "7.4e6", "temperature": "24 °C"}},
        {**template, "name": buffer["name"], "replaces": buffer["barcode"], "properties": buffer_properties | {"volume": "490 mL"}},
        {**template, "name": "Aspirated wash liquid", "replaces": "",
         "properties": {"volume": "34.7 mL", "contents": "spent medium 15.0 mL, PBS 19.7 mL", "colour": "pale red",
                        "sterility": "not sterile", "container": "50 mL conical tube", "detached cells": "0.2e6"}},
    ]  # fmt: skip
    step["action"] |= {
        "name": "Wash",
        "parameters": {"washes": "2", "volume per wash": "10 mL", "dwell time": "30 s each"},
    }
    step["outcome"] |= {"new_materials": new_materials, "new_observations": [
        {"measurement_type": "visual", "value": "", "description": "The second wash comes off clear. The cell layer stays attached."},
        {"measurement_type": "quantitative", "value": "490 mL", "description": "Liquid in the PBS bottle at the graduation"},
        {"measurement_type": "quantitative", "value": "35 mL", "description": "Liquid in the waste tube at the graduation"},
    ]}  # fmt: skip
    return step


@pytest.mark.parametrize("layout", ["aligned", "balance"])
@pytest.mark.parametrize(
    "step", [build_wash(), build_dilution(100), build_filtration()], ids=["wash", "dilution", "filtration"]
)
def test_item_page_fits_a_typical_item_with_marks_and_context_without_scrolling(
    new_context: NewContext, site: str, step: dict[str, Any], layout: str
) -> None:
    page = open_step(new_context(viewport=WIDE), site, step, layout=layout, marks="always", with_context=True)

    assert page.evaluate("document.documentElement.scrollHeight") == 900
    bar = page.locator("#verdict").bounding_box()
    lowest_card = page.evaluate("Math.max(...[...document.querySelectorAll('.shown .card')].map((c) => c.getBoundingClientRect().bottom))")  # fmt: skip
    assert bar is not None and lowest_card <= bar["y"]


STEPS = {"wash": build_wash(), "aliquots": build_aliquots(), "wells": build_change_of_medium()}
COMBINATIONS = [(name, layout, size) for name in STEPS for layout in ("plain", "balance") for size in ("wide", "phone")]
# Each step, layout and width in every run; all combinations in `make thorough`.
QUICK = {("wash", "plain", "wide"), ("wash", "balance", "phone"), ("aliquots", "plain", "phone"),
         ("aliquots", "balance", "wide"), ("wells", "plain", "wide"), ("wells", "balance", "phone")}  # fmt: skip


@pytest.mark.parametrize(
    ("step", "layout", "viewport"),
    [
        pytest.param(
            STEPS[look[0]],
            look[1],
            WIDE if look[2] == "wide" else PHONE,
            id="-".join(look),
            marks=[] if look in QUICK else [pytest.mark.thorough],
        )
        for look in COMBINATIONS
    ],
)
def test_item_page_is_accessible_and_fits_the_width_in_every_layout(
    new_context: NewContext, site: str, step: dict[str, Any], layout: str, viewport: dict[str, int]
) -> None:
    page = open_step(new_context(viewport=viewport), site, step, layout=layout, marks="always", with_context=True)
    check_accessible(page)


def test_item_page_is_accessible_in_dark_mode(new_context: NewContext, site: str) -> None:
    page = open_step(
        new_context(color_scheme="dark"), site, build_wash(), layout="balance", marks="always", with_context=True
    )
    page.get_by_label("Looks wrong: Volume, A").check()
    check_accessible(page)


def test_item_page_highlights_a_marked_row(new_context: NewContext, site: str) -> None:
    page = open_step(new_context(), site, build_wash(), layout="aligned", marks="always")
    row = page.locator("tr", has=page.get_by_label("Looks wrong: Volume, B"))
    before = row.evaluate("(row) => getComputedStyle(row).backgroundColor")

    page.get_by_label("Looks wrong: Volume, B").check()

    assert row.evaluate("(row) => getComputedStyle(row).backgroundColor") != before
    check_accessible(page)


def test_item_page_shows_conditional_marks_only_with_not_plausible(new_context: NewContext, site: str) -> None:
    page = open_step(new_context(), site, build_wash(), layout="aligned", marks="if_not_plausible")
    box = page.get_by_label("Looks wrong: Volume, A")
    height = page.evaluate("document.documentElement.scrollHeight")
    expect(box).to_be_hidden()

    page.keyboard.press("n")
    expect(box).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight") == height

    page.keyboard.press("p")
    expect(box).to_be_hidden()


def test_item_page_checkboxes_are_large_enough_for_touch(new_context: NewContext, site: str) -> None:
    page = open_step(new_context(viewport=PHONE), site, build_change_of_medium(), layout="aligned", marks="always")
    for box in page.locator("input[name=marks]").all():
        size = box.bounding_box()
        assert size is not None and min(size["width"], size["height"]) >= 24


def test_evidence_record_can_be_searched_and_folded(new_context: NewContext, site: str) -> None:
    study = create_open_study(kind=EVIDENCE, items=4, raters=1, marks="always")
    page = open_assignment(new_context(viewport=WIDE), site, study.raters.get().assignments.get(position=4))
    steps = page.locator("[data-record] > li")
    expect(steps).to_have_count(3)

    page.get_by_label("Find in the record").fill("100 µL")
    expect(page.locator("[data-record-count]")).to_have_text("1 of 3 steps")
    assert [steps.nth(at).is_visible() for at in range(3)] == [False, False, True]
    check_accessible(page)

    page.get_by_label("Find in the record").fill("")
    page.get_by_role("button", name="Collapse all").click()
    assert page.locator("[data-record] > li > details[open]").count() == 0
    page.get_by_role("button", name="Expand all").click()
    assert page.locator("[data-record] > li > details[open]").count() == 3


def test_evidence_record_is_accessible_on_a_phone(new_context: NewContext, site: str) -> None:
    study = create_open_study(kind=EVIDENCE, items=4, raters=1, marks="always")
    page = open_assignment(new_context(viewport=PHONE), site, study.raters.get().assignments.get(position=4))
    check_accessible(page)


def test_evidence_record_without_javascript_is_unfolded_and_has_no_search(new_context: NewContext, site: str) -> None:
    study = create_open_study(kind=EVIDENCE, items=4, raters=1)
    page = open_assignment(new_context(java_script_enabled=False), site, study.raters.get().assignments.get(position=4))
    assert page.locator("[data-record] > li > details[open]").count() == 3
    expect(page.get_by_label("Find in the record")).to_be_hidden()
