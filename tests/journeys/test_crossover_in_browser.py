"""A crossover study in a real browser: its admin builds it, the assignments page shows its warnings, and a rater waits between sessions."""

import re
import uuid

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from ratings.models import Study
from ratings.rating import next_item, submit
from ratings.studies import lifecycle
from simulation.casts.run_config import RULE_BASED_CASTS
from tests.support import run_factory, study_factory
from tests.support.browser_steps import BOTH_SIZES, NewContext, add_rater_session, check_accessible, open_page_as_ada

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
OTHER = next(cast for cast in RULE_BASED_CASTS if cast != "offline")
SOURCES = [
    {"cast": "offline", "perturbation": "none", "count": 6},
    {"cast": "offline", "perturbation": "subtle", "count": 6},
]


def test_crossover_study_is_built_and_its_assignments_page_lists_results_that_will_be_empty(
    new_context: NewContext, site: str
) -> None:
    run_factory.create_pool(20)
    page = open_page_as_ada(new_context(), site)
    ada = User.objects.get(username="ada")
    document = study_factory.build_protocol(sources=SOURCES, ratings_per_item=2, practice=0)
    study = lifecycle.create_study(lifecycle.parse_protocol(document), ada)
    page.goto(f"{site}/studies/{study.slug}/build/raters/")
    page.get_by_role("radio", name=re.compile("^Crossover")).focus()
    page.keyboard.press("Space")
    page.get_by_role("radio", name=re.compile("^Original and twin")).focus()
    page.keyboard.press("Space")
    page.get_by_label("Crossover only: days between the sessions").fill("7")
    check_accessible(page, BOTH_SIZES)
    page.get_by_role("button", name="Save and continue").click()
    page.wait_for_url(re.compile("/build/screen/"))
    stored = Study.objects.get(pk=study.pk).protocol
    assert (stored["design"], stored["conditions"], stored["washout_days"]) == ("crossover", "twins", 7)
    page.goto(f"{site}/studies/{study.slug}/matrix/")
    expect(page.get_by_role("heading", name="Results that will be empty")).to_be_visible(timeout=30_000)
    expect(page.locator("#empty")).to_contain_text("a study of another design")
    page.locator("#empty details summary").focus()
    page.keyboard.press("Enter")
    check_accessible(page, BOTH_SIZES)


def test_crossover_plan_shows_how_many_cases_have_identical_outcomes(new_context: NewContext, site: str) -> None:
    first, second = run_factory.create_episode("caffeine"), run_factory.create_episode("caffeine", OTHER)
    for number in range(1, 11):
        first_step, second_step = (
            run_factory.create_transition(first, number),
            run_factory.create_transition(second, number),
        )
        if number <= 6:
            second_step.step = first_step.step
            second_step.save(update_fields=["step"])
    page = open_page_as_ada(new_context(), site)
    sources = [{"cast": cast, "perturbation": "none", "count": 4} for cast in ("offline", OTHER)]
    document = study_factory.build_protocol(
        sources=sources, ratings_per_item=3, practice=0, design="crossover", conditions="sources"
    )
    study = lifecycle.create_study(lifecycle.parse_protocol(document), User.objects.get(username="ada"))
    for address in (
        f"/studies/{study.slug}/",
        f"/studies/{study.slug}/matrix/",
        f"/studies/{study.slug}/build/items/?counted=1",
    ):
        page.goto(site + address)
        expect(page.locator("main")).to_contain_text(
            "6 of 10 cases are left out because both sources gave identical outcomes."
        )
        for size in BOTH_SIZES:
            page.set_viewport_size(size)
            check_accessible(page)


def test_crossover_rater_sees_when_the_second_session_opens(new_context: NewContext, site: str) -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(
        sources=SOURCES, ratings_per_item=2, practice=0, design="crossover", conditions="twins", washout_days=7
    )
    rater = study_factory.fill_rater_place(study)
    for place in rater.assignments.filter(session=1).order_by("position"):
        next_item.mark_opened(place)
        submit.submit_rating(place, True, 3, uuid.uuid4())
    context = new_context()
    add_rater_session(context, site, rater)
    page = context.new_page()
    page.goto(f"{site}/rate/study/{rater.code}/")
    expect(page.get_by_role("heading", name="Your first session is done")).to_be_visible()
    check_accessible(page, BOTH_SIZES)
    page.get_by_role("link", name="My studies").first.click()
    expect(page.locator("main")).to_contain_text("You can start the second session from")
    check_accessible(page, BOTH_SIZES)
