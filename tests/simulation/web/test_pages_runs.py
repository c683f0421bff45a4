"""The page of a run with language models: usage, causes of failure, and buttons."""

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
def staff_client(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def run(db: None) -> Run:
    """Return a run of three episodes: one running, one blocked by its key, one failed."""
    made = call_factories.create_llm_run()
    call_factories.create_llm_episode(1)
    call_factories.create_llm_episode(2, "blocked", "credentials", "401: no such key")
    call_factories.create_llm_episode(
        3, "failed", "provider_unavailable", "after 10 tries: 503: busy", ended_at=timezone.now()
    )
    return made


def run_url(name: str, run: Run) -> str:
    return reverse(f"simulation:{name}", args=[run.code])


def get_page(client: Client, address: str, **options: Any) -> str:
    return re.sub(r"\s+", " ", client.get(address, **options).content.decode())


def test_failures_are_grouped_by_cause_with_advice(staff_client: Client, run: Run) -> None:
    shown = get_page(staff_client, run_url("run", run))
    assert "1 of 3 complete, 1 blocked" in shown
    causes = re.findall(
        r'<li id="why-(\w+)"><strong class="causes__n">(\d)</strong> <div><p>.*?</p><p.*?>(.*?)</p>', shown
    )
    assert [(key, n) for key, n, _ in causes] == [("credentials", "1"), ("provider_unavailable", "1")]
    assert "then press Try again" in causes[0][2]


def test_episode_row_shows_its_reason_and_links_to_the_advice(staff_client: Client, run: Run) -> None:
    shown = get_page(staff_client, run_url("run", run))
    assert "blocked at step 1: the provider rejected the key" in shown
    assert "the provider did not respond. after 10 tries: 503: busy" in shown
    assert shown.count('href="#why-credentials"') == shown.count('href="#why-provider_unavailable"') == 1


def test_long_error_is_truncated_in_lists_and_full_on_the_episode_page(staff_client: Client, db: None) -> None:
    call_factories.create_llm_run()
    row = call_factories.create_llm_episode(1, "failed", "bad_request", "e" * 900)
    assert "e" * 200 + "…" in get_page(staff_client, run_url("run", row.run)) and "e" * 201 not in get_page(
        staff_client, run_url("run", row.run)
    )
    assert "e" * 900 in get_page(staff_client, reverse("simulation:episode", args=[row.code]))


def test_run_usage_includes_failed_calls(staff_client: Client, run: Run) -> None:
    row = run.episodes.get(replicate=1)
    call_factories.create_answered_call(row, 1, cache_read=3000)
    call_factories.create_answered_call(row, 1, role="transition", purpose="answer", cost=None)
    call_factories.create_failed_call(row, 2)
    shown = get_page(staff_client, run_url("run", run))
    # 1,000 + 3,000 in and 50 out, then 1,000 in and 50 out: 5,100; 3,000 of 5,000 in were cached: 60%
    assert "<dd>5,100<small>no limit; 60% of the input was cached; not reported for 1 call</small>" in shown
    # one call for 0.00175 dollars; the cost of the other two is unknown
    assert "<dd>$0.001750<small>of max. $5.00; unknown for 2 calls</small>" in shown
    assert "<dd>3<small>2 answered, 1 failed</small>" in shown
    assert re.search(r'<th scope="row">gpt-5 <small>transition model</small></th> <td[^>]*>1</td>', shown)
    # three calls in less than five minutes
    assert "calls per minute recently" in shown


def test_lost_calls_are_shown_with_their_possible_cost(staff_client: Client, run: Run) -> None:
    row = run.episodes.get(replicate=1)
    call_factories.create_failed_call(
        row, state="lost", error_class="", reserved_tokens=9000, reserved_cost=Decimal("0.2")
    )
    shown = get_page(staff_client, run_url("run", run))
    assert (
        "1 call was lost when a worker stopped and may have been billed. Up to 9,000 tokens and $0.2000 remain reserved for it"
        in shown
    )


def test_rule_based_run_shows_no_costs(staff_client: Client, db: None) -> None:
    row = run_factory.create_episode(status="running")
    shown = get_page(staff_client, run_url("run", row.run))
    for word in ("Spend", "Cost", "Tokens", "budget", "Call log", "What went wrong"):
        assert word not in shown


def test_rule_based_run_does_not_query_the_call_log(staff_client: Client, db: None) -> None:
    row = run_factory.create_episode(status="running")
    with CaptureQueriesContext(connection) as caught:
        staff_client.get(run_url("run", row.run))
    assert not [one["sql"] for one in caught if "modelcall" in one["sql"]]


def test_run_can_be_paused_and_resumed(staff_client: Client, run: Run) -> None:
    Worker.objects.create(owner="here:1:x", kind="embedded")
    assert 'hx-trigger="every 2s"' in get_page(staff_client, run_url("run", run))
    staff_client.post(run_url("pause_run", run))
    run.refresh_from_db()
    assert run.paused_at
    shown = get_page(staff_client, run_url("run", run))
    assert "<strong>Paused</strong>" in shown and ">Resume</button>" in shown and ">Pause</button>" not in shown
    assert '<span class="pill pill--warn">Paused</span>' in shown
    assert 'hx-trigger="every 10s"' in shown
    staff_client.post(run_url("resume_run", run))
    run.refresh_from_db()
    assert run.paused_at is None
    assert ">Pause</button>" in get_page(staff_client, run_url("run", run))


def test_paused_run_shows_no_missing_worker_warning(staff_client: Client, run: Run) -> None:
    assert "No worker is running" in get_page(staff_client, run_url("run", run))
    control.pause_run(run)
    assert "No worker is running" not in get_page(staff_client, run_url("run", run))


def test_blocked_episode_is_queued_again_by_try_again(staff_client: Client, run: Run) -> None:
    assert ">Try again" in get_page(staff_client, run_url("run", run))
    answer = staff_client.post(run_url("try_again", run), follow=True)
    assert "1 queued again" in answer.content.decode()
    assert run.episodes.get(replicate=2).status == "queued"
    assert run.episodes.get(replicate=3).status == "failed"
    assert ">Try again" not in get_page(staff_client, run_url("run", run))
    assert (
        "Nothing was blocked by a missing key"
        in staff_client.post(run_url("try_again", run), follow=True).content.decode()
    )


def test_stop_all_also_ends_blocked_episodes(staff_client: Client, run: Run) -> None:
    staff_client.post(run_url("stop_run", run))
    assert set(run.episodes.values_list("status", flat=True)) == {"cancelled", "failed"}
    assert "Complete<" in get_page(staff_client, run_url("run", run))


@pytest.fixture
def exhausted_run(db: None) -> Run:
    """Return a run whose next call could exceed its budget of one cent."""
    made = call_factories.create_llm_run(max_cost=Decimal("0.01"), first_call_at=timezone.now())
    row = call_factories.create_llm_episode(1, "blocked", "budget", "the next call could cost $0.02")
    call_factories.create_answered_call(row, cost=Decimal("0.009"))
    return made


def test_run_with_an_exhausted_budget_links_to_the_budget_form(staff_client: Client, exhausted_run: Run) -> None:
    shown = get_page(staff_client, run_url("run", exhausted_run))
    assert "The budget is used up" in shown and f'href="{run_url("continue_run", exhausted_run)}"' in shown
    assert ">Try again" not in shown
    form = get_page(staff_client, run_url("continue_run", exhausted_run))
    assert 'name="max_cost" value="0.01"' in form
    assert "has used $0.009000 and 1,050 tokens" in form


def test_larger_budget_continues_the_run(staff_client: Client, exhausted_run: Run) -> None:
    wanted = {"max_cost": "0.5", "max_tokens": "", "max_minutes": "90"}
    _create_price()
    answer = staff_client.post(run_url("continue_run", exhausted_run), wanted)
    assert answer["Location"] == run_url("run", exhausted_run)
    exhausted_run.refresh_from_db()
    # 90 minutes are 5,400 seconds
    assert (exhausted_run.max_cost, exhausted_run.max_tokens, exhausted_run.max_seconds) == (Decimal("0.5"), None, 5400)
    assert exhausted_run.episodes.get().status == "queued"


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
def test_invalid_budget_is_refused_and_changes_nothing(
    staff_client: Client, exhausted_run: Run, wrong: dict[str, str], said: str
) -> None:
    answer = staff_client.post(run_url("continue_run", exhausted_run), wrong)
    assert answer.status_code == 422 and said in answer.content.decode()
    exhausted_run.refresh_from_db()
    assert exhausted_run.max_cost == Decimal("0.01") and exhausted_run.episodes.get().status == "blocked"


def test_cost_limit_is_refused_if_a_model_has_no_price(staff_client: Client, exhausted_run: Run) -> None:
    answer = staff_client.post(run_url("continue_run", exhausted_run), {"max_cost": "1"})
    assert answer.status_code == 422 and "gpt-5" in answer.content.decode()
    assert exhausted_run.episodes.get().status == "blocked"


@pytest.mark.parametrize(
    "name", ["pause_run", "resume_run", "try_again", "stop_run", "continue_run", "run_calls", "run"]
)
def test_run_pages_are_404_for_raters(client: Client, run: Run, name: str) -> None:
    client.force_login(User.objects.create_user("rater"))
    assert client.get(run_url(name, run)).status_code == client.post(run_url(name, run)).status_code == 404
    run.refresh_from_db()
    assert run.paused_at is None and run.episodes.get(replicate=2).status == "blocked"


@pytest.mark.parametrize("name", ["pause_run", "resume_run", "try_again", "stop_run"])
def test_run_buttons_refuse_get(staff_client: Client, run: Run, name: str) -> None:
    assert staff_client.get(run_url(name, run)).status_code == 405


def test_run_pages_use_the_same_queries_for_ten_and_twenty_rows(staff_client: Client, db: None) -> None:
    run = call_factories.create_llm_run()
    for replicate in range(1, 11):
        _create_failed_episode(replicate)
    before = count_queries(staff_client, run_url("run", run)), count_queries(staff_client, run_url("run_calls", run))
    for replicate in range(11, 21):
        _create_failed_episode(replicate)
    assert (
        count_queries(staff_client, run_url("run", run)),
        count_queries(staff_client, run_url("run_calls", run)),
    ) == before


def test_call_list_filters_by_state_and_ignores_unknown_states(staff_client: Client, run: Run) -> None:
    row = run.episodes.get(replicate=1)
    call_factories.create_answered_call(row, 1)
    call_factories.create_failed_call(row, 2)
    everything, failed, odd = (
        get_page(staff_client, run_url("run_calls", run) + query) for query in ("", "?state=failed", "?state=%00")
    )
    assert "2 calls" in everything and "2 calls" in odd
    assert "1 call<" in failed and "overloaded, HTTP 503" in failed
    assert "None of this run’s calls" in get_page(staff_client, run_url("run_calls", run) + "?state=lost")


def test_waiting_episode_shows_its_reason_and_retry_time(staff_client: Client, run: Run) -> None:
    when = timezone.now().replace(hour=12, minute=3, second=5)
    run.episodes.filter(replicate=1).update(status="waiting", reason="rate_limit", error="429", not_before=when)
    shown = get_page(staff_client, run_url("run", run))
    assert "step 1 of 100: the provider asked to wait; retry at 12:03:05 UTC" in shown


def test_episode_waiting_for_a_person_is_marked(staff_client: Client, run: Run) -> None:
    run.episodes.filter(replicate=1).update(awaits_person=True)
    shown = get_page(staff_client, run_url("run", run))
    assert "Your move" in shown and "waiting for a person" in shown


def _create_price() -> None:
    model = LanguageModel.objects.create(name="gpt-5", provider="openai", model_id="gpt-5")
    ModelPrice.objects.create(
        model=model, effective_from="2026-01-01", input=1, cache_read=1, cache_write_5m=1, cache_write_1h=1, output=1
    )


def _create_failed_episode(replicate: int) -> None:
    """Create a failed episode with one answered and one failed call."""
    row = call_factories.create_llm_episode(replicate, "failed", "provider_unavailable", "busy")
    call_factories.create_answered_call(row, 1)
    call_factories.create_failed_call(row, 2)


def count_queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)
