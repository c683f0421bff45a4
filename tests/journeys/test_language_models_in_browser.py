"""The pages of a run of language models in a real browser: checked by axe, and used by keyboard."""

from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from simulation.lab.outcomes import Verdict
from simulation.models import Episode, EvidenceReview, MissingReview, Run, Twin
from tests.support import call_factories, run_factory
from tests.support.browser_steps import PHONE, WIDE, NewContext, check_accessible, open_page_as_ada

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = "MATERIALS: " + "MAT-A1B2C3D4" * 40 + "\u202e<b>x</b>\u200b" + " and a sentence that goes on." * 600


@pytest.fixture
def run(db: None) -> Run:
    """A run that shows every state and every kind of call once."""
    created = call_factories.create_llm_run(max_tokens=2_000_000, first_call_at=timezone.now(), max_seconds=7200)
    submitted = call_factories.create_llm_episode(
        1, "submitted", next_number=24, memory={"plan": "1. weigh\n2. mix", "thoughts": {"21": "wash it first"}}
    )
    for number in range(1, 24):
        run_factory.create_transition(submitted, number, accepted=number != 3)
        call_factories.create_answered_call(submitted, number, cache_read=3000)
        call_factories.create_answered_call(submitted, number, role="transition", purpose="answer", output=700)
    call_factories.create_failed_call(submitted, 2, attempt=2)
    call_factories.create_answered_call(
        submitted, 24, request=call_factories.build_request(LONG), reply=call_factories.build_reply(LONG)
    )
    _add_verdicts(submitted)
    call_factories.create_llm_episode(2, "running", next_number=3)
    call_factories.create_llm_episode(3, "blocked", "credentials", "401: the key was not accepted")
    call_factories.create_llm_episode(4, "blocked", "budget", "the next call could cost $0.21, and $0.05 are left")
    call_factories.create_llm_episode(5, "failed", "refused", "policy")
    call_factories.create_llm_episode(6, "failed", "provider_unavailable", "after 10 tries: " + "x" * 900)
    call_factories.create_llm_episode(7, "waiting", "rate_limit", "429", not_before=timezone.now())
    call_factories.create_llm_episode(8, "truncated")
    call_factories.create_failed_call(
        Episode.objects.get(replicate=5, cast="small"), 1, state="lost", error_class="", reserved_tokens=9000,
        reserved_cost=Decimal("0.2"),
    )  # fmt: skip
    return created


@pytest.fixture
def twins(run: Run) -> Run:
    created = call_factories.create_llm_run("twins")
    step = Episode.objects.get(replicate=1, cast="small").transitions.get(number=22)
    diff = [{"path": f"new_materials[{n}].properties.volume", "before": "1 mL", "after": "y" * 300} for n in range(3)]
    twin_fields = {"kind": "", "rule": "", "field": "", "explanation": "the sample grew, which it cannot", "diff": diff}
    call_factories.create_answered_call(
        run_factory.create_twin(step, "subtle", cast="small", **twin_fields), 0, purpose="perturb"
    )
    unusable_fields = {
        "status": "unusable",
        "outcome": None,
        "explanation": "",
        "error": "it does not differ from the original",
    }
    run_factory.create_twin(step, "obvious", cast="small", **unusable_fields)
    return created


def test_run_pages_with_language_models_are_accessible_on_desktop_and_phone(
    new_context: NewContext, live_server: Any, run: Run, twins: Run
) -> None:
    submitted = Episode.objects.get(replicate=1, cast="small")
    addresses = (
        reverse("simulation:run", args=[run.code]),
        reverse("simulation:run", args=[twins.code]),
        reverse("simulation:run_calls", args=[run.code]),
        reverse("simulation:continue_run", args=[run.code]),
        reverse("simulation:episode", args=[submitted.code]) + "?page=2",
        reverse("simulation:episode", args=[Episode.objects.get(replicate=6, cast="small").code]),
        reverse("simulation:call", args=[submitted.calls.get(number=24, role="agent").code]),
        reverse("simulation:twin", args=[Twin.objects.get(perturbation="subtle", cast="small").code]),
        reverse("simulation:twin", args=[Twin.objects.get(perturbation="obvious", cast="small").code]),
    )
    desktop, phone = (open_page_as_ada(new_context(viewport=viewport), live_server.url) for viewport in (WIDE, PHONE))
    for address in addresses:
        for page in (desktop, phone):
            page.goto(live_server.url + address)
            _unfold_everything(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
        check_accessible(desktop)


def test_run_budget_is_raised_by_keyboard_and_the_run_continues(
    new_context: NewContext, live_server: Any, run: Run
) -> None:
    page = open_page_as_ada(new_context(), live_server.url)
    page.goto(live_server.url + reverse("simulation:run", args=[run.code]))
    page.locator("#more-budget").focus()
    page.keyboard.press("Enter")
    page.locator("#id_max_cost").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("The budget was raised, and the run continues.")
    page.locator("#pause").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#pause")).to_have_text("Resume")
    assert run.episodes.get(replicate=4).status == "queued"


def _add_verdicts(row: Episode) -> None:
    for name, primary in (("gpt-5", True), ("claude", False)):
        EvidenceReview.objects.create(
            episode=row, classifier=name, primary=primary, sufficient=primary, summarised=primary,
            verdict=Verdict(primary, "the record shows it " * 9, 0.7).to_json(),
        )  # fmt: skip
        call_factories.create_answered_call(row, 24, role="verdict", speaker=name, purpose="verdict")
    MissingReview.objects.create(episode=row, classifier="gemini", reason="refused", error="policy")


def _unfold_everything(page: Page) -> None:
    """Unfold everything, so that axe and the width check include it."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
