"""An admin's journey in a real browser: start a run, watch it, read episodes, make twins."""

import re

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from ratings.models import Study
from ratings.studies import lifecycle
from simulation.models import Episode, Experiment, Run, Transition, Twin
from simulation.runs import control, create
from tests.support import study_factory
from tests.support.browser_steps import (
    PHONE,
    WIDE,
    NewContext,
    check_accessible,
    open_page_as_ada,
    remove_expected_errors,
)
from tests.support.laboratory_rows import store_laboratory
from tests.support.steps import run_to_end

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lab() -> None:
    store_laboratory()


def press_until(page: Page, key: str, wanted: str) -> None:
    """Press a key until the focused element begins with the text `wanted`."""
    get_focused_text = "(document.activeElement.labels?.[0] ?? document.activeElement).innerText.trim()"
    for _ in range(60):
        page.keyboard.press(key)
        if page.evaluate(get_focused_text).startswith(wanted):
            return
    raise AssertionError(f"{key} never reached {wanted!r}")


def test_run_is_started_by_keyboard_and_its_page_updates_itself_until_the_end(
    new_context: NewContext, site: str, lab: None
) -> None:
    page = open_page_as_ada(new_context(), site)
    page.goto(site + reverse("simulation:new_episodes"))
    press_until(page, "Tab", "Caffeine HPLC Analysis")
    page.keyboard.press("Space")
    expect(page.locator("#order-size")).to_contain_text("3 episodes will be created")
    press_until(page, "Tab", "Start")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/runs/"))
    run = Run.objects.get()
    expect(page.locator("main")).to_contain_text("No worker is running")
    run.episodes.filter(replicate=1).update(status="running")
    page.reload()
    page.evaluate("document.marked = true")
    expect(page.locator("main")).to_contain_text("step 1 of")
    run_to_end(run)
    expect(page.locator("#run-progress")).to_contain_text("3 of 3 complete", timeout=10_000)
    assert page.evaluate("document.marked")

    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(3_000)
    assert requests == []


def test_run_page_keeps_the_focus_on_the_stop_button_when_it_updates_itself(
    new_context: NewContext, site: str, lab: None
) -> None:
    run = create.create_episode_run(Experiment.objects.all()[:1], "offline", 2, seed=1)
    run.episodes.filter(replicate=1).update(status="running")
    page = open_page_as_ada(new_context(), site)
    page.goto(site + reverse("simulation:run", args=[run.code]))
    press_until(page, "Tab", "Stop run")
    with page.expect_response(re.compile("/runs/")):
        pass
    page.wait_for_timeout(200)
    assert page.evaluate("document.activeElement.id") == "stop-all"
    page.keyboard.press("Enter")
    expect(page.locator("#run-progress")).to_contain_text("2 stopped")
    press_until(page, "Tab", "Retry")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("is queued again")


def test_run_page_confirms_a_retry_and_redirects_to_sign_in_when_the_session_ends(
    new_context: NewContext, site: str, lab: None, browser_errors: list[str]
) -> None:
    run = create.create_episode_run(Experiment.objects.all()[:1], "offline", 2, seed=1)
    control.stop_episode(run.episodes.all()[0])
    context = new_context()
    page = open_page_as_ada(context, site)
    page.goto(site + reverse("simulation:run", args=[run.code]))
    page.get_by_role("button", name=re.compile("Retry")).click()
    expect(page.get_by_text("is queued again.")).to_be_visible()
    check_accessible(page)

    context.clear_cookies()
    page.wait_for_url(re.compile(re.escape(f"{reverse('login')}?next=/runs/")))
    # Chromium logs the response 401 that this test provokes.
    remove_expected_errors(browser_errors, "401")


def test_run_page_stop_and_retry_work_without_javascript(new_context: NewContext, site: str, lab: None) -> None:
    run = create.create_episode_run(Experiment.objects.all()[:1], "offline", 1, seed=1)
    page = open_page_as_ada(new_context(java_script_enabled=False), site)
    page.goto(site + reverse("simulation:run", args=[run.code]))
    page.get_by_role("button", name=re.compile("^Stop .*replicate 1")).click()
    assert run.episodes.get().status == "cancelled"
    page.get_by_role("button", name=re.compile("^Retry .*replicate 1")).click()
    assert sorted(run.episodes.values_list("status", flat=True)) == ["cancelled", "queued"]


@pytest.fixture
def page_addresses(lab: None) -> list[str]:
    """Return the addresses of every page, with content on each."""
    experiment = Experiment.objects.get(slug="zebrafish-genotyping")
    finished_run = create.create_episode_run([experiment], "offline", 1, seed=1)
    random = create.create_episode_run([experiment], "offline-random", 1, seed=1)
    run_to_end(finished_run)
    run_to_end(random)
    twins = create.create_twin_run(Transition.objects.filter(number__lte=3), ["obvious", "subtle"], seed=1)
    run_to_end(twins)
    add_endless_words(finished_run.episodes.get())
    waiting_run = create.create_episode_run([experiment], "offline", 4, seed=2)
    for replicate, changes in (
        (2, {"status": "running"}),
        (3, {"status": "failed", "reason": "internal", "error": "it " + "broke" * 20}),
    ):
        waiting_run.episodes.filter(replicate=replicate).update(**changes)
    stages = [create_study_at_stage(stage) for stage in ("draft", "open", "unblinded")]
    return [
        reverse("simulation:experiments"),
        reverse("simulation:experiment", args=[experiment.slug]),
        reverse("simulation:actions"),
        reverse("simulation:episodes"),
        reverse("simulation:new_episodes"),
        reverse("simulation:run", args=[waiting_run.code]),
        reverse("simulation:run", args=[twins.code]),
        *(reverse("simulation:episode", args=[row.code]) for row in Episode.objects.exclude(status="queued")),
        reverse("simulation:twins"),
        reverse("simulation:new_twins"),
        reverse("simulation:runs"),
        reverse("ratings:studies"),
        reverse("ratings:new_study"),
        *(reverse("ratings:study", args=[row.slug]) for row in stages),
        reverse("ratings:unblind_study", args=["open"]),
    ]


def add_endless_words(episode: Episode) -> None:
    """Put very long words by models into the first step of the episode."""
    row, word = episode.transitions.order_by("number")[0], "x" * 300
    outcome = row.step["outcome"]
    outcome["new_observations"] = [{"description": word, "measurement_type": "visual", "value": word}]
    outcome["new_materials"][0] |= {"name": word, "properties": {word: word}}
    outcome["reasoning"] = word
    row.step["action"]["parameters"] = {word: word}
    row.save()


def create_study_at_stage(stage: str) -> Study:
    """Create a study of twins and originals at this stage."""
    sources = [{"cast": "offline", "perturbation": perturbation, "count": 2} for perturbation in ("none", "obvious")]
    ada = User.objects.get_or_create(username="ada", is_staff=True)[0]
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(slug=stage, name=stage, sources=sources))
    created = lifecycle.create_study(protocol, by=ada)
    if stage != "draft":
        lifecycle.open_study(created)
        for rater in created.raters.all()[:2]:
            study_factory.rate_everything(rater)
    if stage == "unblinded":
        lifecycle.close_and_unblind(created, ada)
    return created


def test_staff_pages_are_accessible_on_desktop_and_phone(
    new_context: NewContext, site: str, page_addresses: list[str]
) -> None:
    assert Twin.objects.filter(status="done").exists()
    page = open_page_as_ada(new_context(), site)
    for address in page_addresses:
        page.set_viewport_size(WIDE)
        response = page.goto(site + address)
        assert response is not None
        assert response.status == 200, address
        check_accessible(page)
        page.set_viewport_size(PHONE)
        check_accessible(page)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_rejected_forms_are_accessible_and_show_their_errors(
    new_context: NewContext, site: str, lab: None, viewport: dict[str, int], browser_errors: list[str]
) -> None:
    page = open_page_as_ada(new_context(viewport=viewport), site)
    page.goto(site + reverse("simulation:new_episodes"))
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose at least one experiment.")
    check_accessible(page)
    page.goto(site + reverse("ratings:new_study"))
    page.locator("#by-document").get_by_role("button", name="Create draft").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose a file or paste the text of a study document.")
    expect(page.get_by_role("alert")).to_be_focused()
    check_accessible(page)
    # Chromium logs every response with 4xx, also the two that this test provokes.
    remove_expected_errors(browser_errors, "422")
