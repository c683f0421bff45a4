"""Main pages at a width of 390 pixels: no number is broken over two lines, and no table has a column without content."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page

from ratings.models import Study
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.studies import lifecycle
from simulation.jobs import jobs
from simulation.models import Episode, Transition, Twin
from tests.support import browser_steps, run_factory, study_factory
from tests.support.browser_steps import PHONE, NewContext, open_page_as_ada

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Numbers that stand alone: not parts of codes, file names, dates with hyphens, or paths. Text that is shown as it was stored,
# hidden text and drawings do not count. A column whose cells are dashes has no content either.
FIND_BROKEN_NUMBERS = (Path(__file__).parents[1] / "support" / "find_broken_numbers.js").read_text(encoding="utf-8")


def find_problems(page: Page, address: str) -> list[str]:
    response = page.goto(address)
    assert response and response.status == 200, address
    return [f"{address}: {problem}" for problem in page.evaluate(FIND_BROKEN_NUMBERS)]


def create_studies() -> list[Study]:
    """Create a draft, an open study without any rating, and an unblinded one, with the results of the last."""
    run_factory.create_pool()
    eve = User.objects.create_user("eve", is_staff=True)
    draft = lifecycle.create_study(
        lifecycle.parse_protocol(study_factory.build_protocol(slug="draft", name="Draft")), eve
    )
    fresh = study_factory.create_open_study(slug="fresh", name="Fresh")
    rated = study_factory.create_open_study(slug="rated", name="Rated")
    for rater in study_factory.fill_all_rater_places(rated):
        study_factory.rate_everything(rater)
    lifecycle.close_and_unblind(rated, eve)
    rated.refresh_from_db()
    jobs.run_job_here(store.get_or_request(rated, Filters()).job)
    return [draft, fresh, rated]


def add_long_numbers(transition: Transition) -> None:
    """Give the step a value of twelve digits that changed, as of a titer in 1/mL."""
    step, outcome = transition.step, transition.step["outcome"]
    for material in outcome["new_materials"]:
        material["properties"] = {**material["properties"], "concentration": "100000000000 1/mL"}
    transition.step = step
    transition.save()


def test_numbers_are_not_broken_and_unused_columns_are_not_drawn_on_staff_pages(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    draft, fresh, rated = create_studies()
    episode = Episode.objects.filter(transitions__isnull=False).order_by("pk")[0]
    add_long_numbers(episode.transitions.order_by("number")[0])
    page = open_page_as_ada(new_context(), live_server.url, "/")
    ada = User.objects.get(username="ada")
    Study.objects.update(created_by=ada)
    page.set_viewport_size(PHONE)
    item = rated.items.order_by("pk")[0]
    addresses = [
        *(reverse(f"simulation:{name}") for name in ("experiments", "episodes", "twins", "models", "actions")),
        reverse("simulation:episode", args=[episode.code]),
        reverse("simulation:run", args=[episode.run.code]),
        reverse("simulation:twin", args=[Twin.objects.order_by("pk")[0].code]),
        reverse("ratings:studies"),
        reverse("ratings:preview", args=[draft.slug]),
        *(reverse(f"ratings:{name}", args=[fresh.slug]) for name in STUDY_PAGES if name != "raters"),
        *(reverse(f"ratings:{name}", args=[rated.slug]) for name in STUDY_PAGES),
        *(reverse("ratings:results", args=[rated.slug, section]) for section in SECTIONS),
        reverse("ratings:item", args=[rated.slug, item.code]),
    ]
    assert [problem for address in addresses for problem in find_problems(page, live_server.url + address)] == []


STUDY_PAGES = ("study", "raters", "matrix", "members", "machines", "items", "export", "study_log")
SECTIONS = ("rates", "contrasts", "machines", "agreement", "groups", "raters", "items", "statistics", "about")


def test_numbers_are_not_broken_on_the_pages_of_a_rater(
    new_context: NewContext, live_server: Any, browser_errors: list[str]
) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    rater = study_factory.fill_all_rater_places(study)[0]
    page = browser_steps.open_rating_page(new_context(), live_server.url, rater)
    page.set_viewport_size(PHONE)
    addresses = [reverse("ratings:rate", args=[one.code]) for one in rater.assignments.all()]
    addresses += [reverse("ratings:desk"), reverse("ratings:guide", args=[rater.code])]
    assert [problem for address in addresses for problem in find_problems(page, live_server.url + address)] == []


def test_search_for_broken_numbers_finds_them(new_context: NewContext) -> None:
    page = new_context().new_page()
    page.set_viewport_size(PHONE)
    page.set_content(
        "<style>td { width: 30px; overflow-wrap: anywhere } table { table-layout: fixed; width: 60px }</style>"
        "<table><thead><tr><th>A</th><th>B</th></tr></thead><tbody>"
        f"<tr><td>3000000</td><td></td></tr><tr><td>12</td><td>\N{EN DASH}</td></tr><tr><td>{uuid.uuid4()}</td><td></td></tr>"
        "</tbody></table>"
    )
    problems = page.evaluate(FIND_BROKEN_NUMBERS)
    assert [problem.partition(" in ")[0] for problem in problems] == ["broken number 3000000", 'empty column "B"']
