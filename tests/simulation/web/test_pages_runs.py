"""The page of a run of language models: what it took, what went wrong, and its buttons."""

import re
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from simulation.models import LanguageModel, ModelPrice, Run, Worker
from simulation.runs import control
from tests.support import call_factories, run_factory

HTMX = {"HX-Request": "true"}


@pytest.fixture
def staff(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def run(db: None) -> Run:
    """Three episodes: one plays, one is held for its key, one failed because the provider never answered."""
    made = call_factories.run()
    call_factories.episode(1)
    call_factories.episode(2, "blocked", "credentials", "401: no such key")
    call_factories.episode(3, "failed", "provider_unavailable", "after 10 tries: 503: busy", ended_at=timezone.now())
    return made


def address(name: str, run: Run) -> str:
    return reverse(f"simulation:{name}", args=[run.code])


def page(client: Client, address: str, **options: Any) -> str:
    return re.sub(r"\s+", " ", client.get(address, **options).content.decode())


def test_what_went_wrong_stands_by_cause_with_what_to_do(staff: Client, run: Run) -> None:
    shown = page(staff, address("run", run))
    assert "1 of 3 complete, 1 blocked" in shown
    causes = re.findall(
        r'<li id="why-(\w+)"><strong class="causes__n">(\d)</strong> <div><p>.*?</p><p.*?>(.*?)</p>', shown
    )
    assert [(key, n) for key, n, _ in causes] == [("credentials", "1"), ("provider_unavailable", "1")]
    assert "then press Try again" in causes[0][2]


def test_each_episode_says_its_reason_in_words_and_leads_to_the_advice(staff: Client, run: Run) -> None:
    shown = page(staff, address("run", run))
    assert "blocked at step 1: the provider did not accept the key" in shown
    assert "the provider did not answer. after 10 tries: 503: busy" in shown
    assert shown.count('href="#why-credentials"') == shown.count('href="#why-provider_unavailable"') == 1


def test_an_endless_error_is_cut_in_a_list_and_whole_on_its_episodes_page(staff: Client, db: None) -> None:
    call_factories.run()
    row = call_factories.episode(1, "failed", "bad_request", "e" * 900)
    assert "e" * 200 + "…" in page(staff, address("run", row.run)) and "e" * 201 not in page(
        staff, address("run", row.run)
    )
    assert "e" * 900 in page(staff, reverse("simulation:episode", args=[row.code]))


def test_the_ledger_is_summed_failed_calls_too(staff: Client, run: Run) -> None:
    row = run.episodes.get(replicate=1)
    call_factories.call(row, 1, cache_read=3000)
    call_factories.call(row, 1, role="transition", purpose="answer", cost=None)
    call_factories.failed_call(row, 2)
    shown = page(staff, address("run", run))
    # 1,000 + 3,000 in and 50 out, then 1,000 in and 50 out: 5,100; 3,000 of 5,000 in were cached: 60%
    assert "<dd>5,100<small>no limit; 60% of the input was cached; not reported for 1 call</small>" in shown
    # one call for 0.00175 dollars; the other two ended, and nobody knows what they cost
    assert "<dd>$0.001750<small>of max. $5.00; unknown for 2 calls</small>" in shown
    assert "<dd>3<small>2 answered, 1 failed</small>" in shown
    assert re.search(r'<th scope="row">gpt-5 <small>transition model</small></th> <td[^>]*>1</td>', shown)
    # three calls in less than five minutes
    assert "calls per minute recently" in shown


def test_calls_that_went_down_with_a_worker_are_told(staff: Client, run: Run) -> None:
    row = run.episodes.get(replicate=1)
    call_factories.failed_call(row, state="lost", error_class="", reserved_tokens=9000, reserved_cost=Decimal("0.2"))
    shown = page(staff, address("run", run))
    assert "1 call was lost when a worker stopped and may have been billed: up to 9,000 tokens and $0.2000" in shown


def test_a_run_of_rules_alone_shows_nothing_about_money(staff: Client, db: None) -> None:
    row = run_factory.episode(status="running")
    shown = page(staff, address("run", row.run))
    for word in ("Spend", "Cost", "Tokens", "budget", "Call log", "What went wrong"):
        assert word not in shown


def test_a_run_of_rules_asks_the_ledger_nothing(staff: Client, db: None) -> None:
    row = run_factory.episode(status="running")
    with CaptureQueriesContext(connection) as caught:
        staff.get(address("run", row.run))
    assert not [one["sql"] for one in caught if "modelcall" in one["sql"]]


def test_a_run_is_paused_and_goes_on(staff: Client, run: Run) -> None:
    Worker.objects.create(owner="here:1:x", kind="embedded")
    assert 'hx-trigger="every 2s"' in page(staff, address("run", run))
    staff.post(address("pause_run", run))
    run.refresh_from_db()
    assert run.paused_at
    shown = page(staff, address("run", run))
    assert "<strong>Paused</strong>" in shown and ">Resume</button>" in shown and ">Pause</button>" not in shown
    assert '<span class="pill pill--warn">Paused</span>' in shown
    assert 'hx-trigger="every 10s"' in shown
    staff.post(address("resume_run", run))
    run.refresh_from_db()
    assert run.paused_at is None
    assert ">Pause</button>" in page(staff, address("run", run))


def test_a_paused_run_does_not_call_for_a_worker(staff: Client, run: Run) -> None:
    assert "No worker is running" in page(staff, address("run", run))
    control.pause_run(run)
    assert "No worker is running" not in page(staff, address("run", run))


def test_what_is_held_for_a_key_is_tried_again_at_a_click(staff: Client, run: Run) -> None:
    assert ">Try again" in page(staff, address("run", run))
    answer = staff.post(address("try_again", run), follow=True)
    assert "1 queued again" in answer.content.decode()
    assert run.episodes.get(replicate=2).status == "queued"
    assert run.episodes.get(replicate=3).status == "failed"
    assert ">Try again" not in page(staff, address("run", run))
    assert "Nothing was blocked by a missing key" in staff.post(address("try_again", run), follow=True).content.decode()


def test_stop_all_also_ends_what_is_held(staff: Client, run: Run) -> None:
    staff.post(address("stop_run", run))
    assert set(run.episodes.values_list("status", flat=True)) == {"cancelled", "failed"}
    assert "Complete<" in page(staff, address("run", run))


@pytest.fixture
def used_up(db: None) -> Run:
    """A run whose next call could have gone over its cent."""
    made = call_factories.run(max_cost=Decimal("0.01"), first_call_at=timezone.now())
    row = call_factories.episode(1, "blocked", "budget", "the next call could cost $0.02")
    call_factories.call(row, cost=Decimal("0.009"))
    return made


def test_a_run_that_used_up_its_budget_says_so_and_leads_on(staff: Client, used_up: Run) -> None:
    shown = page(staff, address("run", used_up))
    assert "The budget is used up" in shown and f'href="{address("continue_run", used_up)}"' in shown
    assert ">Try again" not in shown
    form = page(staff, address("continue_run", used_up))
    assert 'name="max_cost" value="0.01"' in form
    assert "has used $0.009000 and 1,050 tokens" in form


def test_with_a_larger_budget_the_run_goes_on_where_it_stood(staff: Client, used_up: Run) -> None:
    wanted = {"max_cost": "0.5", "max_tokens": "", "max_minutes": "90"}
    _priced()
    answer = staff.post(address("continue_run", used_up), wanted)
    assert answer["Location"] == address("run", used_up)
    used_up.refresh_from_db()
    # 90 minutes are 5,400 seconds
    assert (used_up.max_cost, used_up.max_tokens, used_up.max_seconds) == (Decimal("0.5"), None, 5400)
    assert used_up.episodes.get().status == "queued"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_cost": "0.009"}, "The run has already used $0.009"),
        ({"max_cost": "-1"}, "greater than or equal to 0"),
        ({"max_cost": "NaN"}, "Enter a number"),
        ({"max_tokens": "1050"}, "The run has already used 1,050 tokens"),
        ({"max_tokens": "1e99"}, "Enter a whole number"),
        ({"max_minutes": "0"}, "greater than or equal to 1"),
        ({"max_minutes": "9999999"}, "less than or equal to 86400"),
    ],
)
def test_a_budget_that_leaves_nothing_is_refused_and_changes_nothing(
    staff: Client, used_up: Run, wrong: dict[str, str], said: str
) -> None:
    answer = staff.post(address("continue_run", used_up), wrong)
    assert answer.status_code == 422 and said in answer.content.decode()
    used_up.refresh_from_db()
    assert used_up.max_cost == Decimal("0.01") and used_up.episodes.get().status == "blocked"


def test_money_as_a_limit_is_refused_where_a_model_has_no_price(staff: Client, used_up: Run) -> None:
    answer = staff.post(address("continue_run", used_up), {"max_cost": "1"})
    assert answer.status_code == 422 and "gpt-5" in answer.content.decode()
    assert used_up.episodes.get().status == "blocked"


@pytest.mark.parametrize(
    "name", ["pause_run", "resume_run", "try_again", "stop_run", "continue_run", "run_calls", "run"]
)
def test_for_people_who_are_not_staff_nothing_of_a_run_exists(client: Client, run: Run, name: str) -> None:
    client.force_login(User.objects.create_user("rater"))
    assert client.get(address(name, run)).status_code == client.post(address(name, run)).status_code == 404
    run.refresh_from_db()
    assert run.paused_at is None and run.episodes.get(replicate=2).status == "blocked"


@pytest.mark.parametrize("name", ["pause_run", "resume_run", "try_again", "stop_run"])
def test_a_button_answers_no_get(staff: Client, run: Run, name: str) -> None:
    assert staff.get(address(name, run)).status_code == 405


def test_a_run_takes_as_many_queries_for_twenty_rows_as_for_ten(staff: Client, db: None) -> None:
    run = call_factories.run()
    for replicate in range(1, 11):
        _with_calls(replicate)
    before = queries(staff, address("run", run)), queries(staff, address("run_calls", run))
    for replicate in range(11, 21):
        _with_calls(replicate)
    assert (queries(staff, address("run", run)), queries(staff, address("run_calls", run))) == before


def test_the_list_of_calls_shows_one_state_alone_and_ignores_unknown_ones(staff: Client, run: Run) -> None:
    row = run.episodes.get(replicate=1)
    call_factories.call(row, 1)
    call_factories.failed_call(row, 2)
    everything, failed, odd = (
        page(staff, address("run_calls", run) + query) for query in ("", "?state=failed", "?state=%00")
    )
    assert "2 calls" in everything and "2 calls" in odd
    assert "1 call<" in failed and "overloaded, HTTP 503" in failed
    assert "None of this run’s calls" in page(staff, address("run_calls", run) + "?state=lost")


def test_an_episode_that_waits_says_for_what_and_until_when(staff: Client, run: Run) -> None:
    when = timezone.now().replace(hour=12, minute=3, second=5)
    run.episodes.filter(replicate=1).update(status="waiting", reason="rate_limit", error="429", not_before=when)
    shown = page(staff, address("run", run))
    assert "step 1 of 100: the provider asked to wait; retry at 12:03:05 UTC" in shown


def test_an_episode_that_waits_for_a_person_says_so(staff: Client, run: Run) -> None:
    run.episodes.filter(replicate=1).update(awaits_person=True)
    shown = page(staff, address("run", run))
    assert "Your move" in shown and "waiting for a person" in shown


def _priced() -> None:
    model = LanguageModel.objects.create(name="gpt-5", provider="openai", model_id="gpt-5")
    ModelPrice.objects.create(
        model=model, effective_from="2026-01-01", input=1, cache_read=1, cache_write_5m=1, cache_write_1h=1, output=1
    )


def _with_calls(replicate: int) -> None:
    """An episode that failed, after a call that was answered and one that was not."""
    row = call_factories.episode(replicate, "failed", "provider_unavailable", "busy")
    call_factories.call(row, 1)
    call_factories.failed_call(row, 2)


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)
