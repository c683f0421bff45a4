"""The admin's journey in a real browser: seed, watch, read, twin."""

import re

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from ratings.models import Study
from ratings.studies import lifecycle
from simulation.casts import fixtures
from simulation.models import Episode, Experiment, Run, Transition, Twin
from simulation.runs import control, queueing
from tests.support import study_factory
from tests.support.in_browser import PHONE, WIDE, NewContext, ada_at, forgive, sound
from tests.support.steps import play_out

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lab() -> None:
    fixtures.load_lab(settings.FIXTURES_DIR)


def press_until(page: Page, key: str, wanted: str) -> None:
    """Press a key until the focus is on what is called `wanted`."""
    called = "(document.activeElement.labels?.[0] ?? document.activeElement).innerText.trim()"
    for _ in range(60):
        page.keyboard.press(key)
        if page.evaluate(called).startswith(wanted):
            return
    raise AssertionError(f"{key} never reached {wanted!r}")


def test_episodes_are_ordered_by_keyboard_and_watched_to_their_end_without_reloading(
    new_context: NewContext, site: str, lab: None
) -> None:
    page = ada_at(new_context(), site)
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
    play_out(run)
    expect(page.locator("#run-progress")).to_contain_text("3 of 3 complete", timeout=10_000)
    assert page.evaluate("document.marked")

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(3_000)
    assert asked == []


def test_the_stop_button_keeps_the_focus_while_the_page_renews_itself(
    new_context: NewContext, site: str, lab: None
) -> None:
    run = queueing.queue_episodes(Experiment.objects.all()[:1], "offline", 2, seed=1)
    run.episodes.filter(replicate=1).update(status="running")
    page = ada_at(new_context(), site)
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


def test_what_became_of_a_button_is_said_and_a_session_that_ends_leads_to_the_sign_in_page(
    new_context: NewContext, site: str, lab: None, complaints: list[str]
) -> None:
    run = queueing.queue_episodes(Experiment.objects.all()[:1], "offline", 2, seed=1)
    control.stop(run.episodes.all()[0])
    context = new_context()
    page = ada_at(context, site)
    page.goto(site + reverse("simulation:run", args=[run.code]))
    page.get_by_role("button", name=re.compile("Retry")).click()
    expect(page.get_by_text("is queued again.")).to_be_visible()
    sound(page)

    context.clear_cookies()
    page.wait_for_url(re.compile(re.escape(f"{reverse('login')}?next=/runs/")))
    # Chromium notes the answer of 401 that is wanted here
    forgive(complaints, "401")


def test_stop_and_retry_work_without_javascript(new_context: NewContext, site: str, lab: None) -> None:
    run = queueing.queue_episodes(Experiment.objects.all()[:1], "offline", 1, seed=1)
    page = ada_at(new_context(java_script_enabled=False), site)
    page.goto(site + reverse("simulation:run", args=[run.code]))
    page.get_by_role("button", name=re.compile("^Stop .*replicate 1")).click()
    assert run.episodes.get().status == "cancelled"
    page.get_by_role("button", name=re.compile("^Retry .*replicate 1")).click()
    assert sorted(run.episodes.values_list("status", flat=True)) == ["cancelled", "queued"]


@pytest.fixture
def furnished(lab: None) -> list[str]:
    """Addresses of every page with something on it."""
    experiment = Experiment.objects.get(slug="zebrafish-genotyping")
    done = queueing.queue_episodes([experiment], "offline", 1, seed=1)
    random = queueing.queue_episodes([experiment], "offline-random", 1, seed=1)
    play_out(done)
    play_out(random)
    twins = queueing.queue_twins(Transition.objects.filter(number__lte=3), ["obvious", "subtle"], seed=1)
    play_out(twins)
    make_endless(done.episodes.get())
    waiting = queueing.queue_episodes([experiment], "offline", 4, seed=2)
    for replicate, changes in (
        (2, {"status": "running"}),
        (3, {"status": "failed", "reason": "internal", "error": "it " + "broke" * 20}),
    ):
        waiting.episodes.filter(replicate=replicate).update(**changes)
    stages = [study(stage) for stage in ("draft", "open", "unblinded")]
    return [
        reverse("simulation:experiments"),
        reverse("simulation:experiment", args=[experiment.slug]),
        reverse("simulation:actions"),
        reverse("simulation:episodes"),
        reverse("simulation:new_episodes"),
        reverse("simulation:run", args=[waiting.code]),
        reverse("simulation:run", args=[twins.code]),
        *(reverse("simulation:episode", args=[row.code]) for row in Episode.objects.exclude(status="queued")),
        reverse("simulation:twins"),
        reverse("ratings:studies"),
        reverse("ratings:new_study"),
        *(reverse("ratings:study", args=[row.slug]) for row in stages),
        reverse("ratings:unblind_study", args=["open"]),
    ]


def make_endless(episode: Episode) -> None:
    """Its first step now holds words of models that have no end."""
    row, word = episode.transitions.order_by("number")[0], "x" * 300
    outcome = row.step["outcome"]
    outcome["new_observations"] = [{"description": word, "measurement_type": "visual", "value": word}]
    outcome["new_materials"][0] |= {"name": word, "properties": {word: word}}
    outcome["reasoning"] = word
    row.step["action"]["parameters"] = {word: word}
    row.save()


def study(stage: str) -> Study:
    """A study of twins and originals that has come so far."""
    sources = [{"cast": "offline", "perturbation": wrong, "count": 2} for wrong in ("none", "obvious")]
    ada = User.objects.get_or_create(username="ada", is_staff=True)[0]
    protocol = lifecycle.read_protocol(study_factory.protocol(slug=stage, name=stage, sources=sources))
    made = lifecycle.create_study(protocol, by=ada)
    if stage != "draft":
        lifecycle.open_study(made)
        for rater in made.raters.all()[:2]:
            study_factory.rate_all(rater)
    if stage == "unblinded":
        lifecycle.close_and_unblind(made, ada)
    return made


def test_every_staff_page_is_sound_on_a_desk_and_on_a_phone(
    new_context: NewContext, site: str, furnished: list[str]
) -> None:
    assert Twin.objects.filter(status="done").exists()
    page = ada_at(new_context(), site)
    for address in furnished:
        page.set_viewport_size(WIDE)
        answer = page.goto(site + address)
        assert answer is not None
        assert answer.status == 200, address
        sound(page)
        page.set_viewport_size(PHONE)
        sound(page)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_forms_that_were_refused_are_sound_and_lead_to_the_field(
    new_context: NewContext, site: str, lab: None, viewport: dict[str, int], complaints: list[str]
) -> None:
    page = ada_at(new_context(viewport=viewport), site)
    page.goto(site + reverse("simulation:new_episodes"))
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose at least one experiment.")
    sound(page)
    page.goto(site + reverse("ratings:new_study"))
    page.locator("#by-document").get_by_role("button", name="Make the draft").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose a file or paste its text.")
    expect(page.get_by_role("alert")).to_be_focused()
    sound(page)
    # Chromium notes every answer of 4xx on its console, the two wanted here included
    forgive(complaints, "422")
