"""Model calls on the transcript and on their own pages, with hostile text escaped."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from simulation.lab.outcomes import Verdict
from simulation.models import Episode, EvidenceReview, MissingReview, ModelCall
from tests.support import call_factories, run_factory

HOSTILE = "<script>alert(1)</script>{{ 7|add:7 }}\u202egnp.exe\u200b\x00"


@pytest.fixture
def staff_client(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def played_episode(db: None) -> Episode:
    """Return an episode of three steps with an agent call and a transition call each, and a repair in the third."""
    call_factories.create_llm_run()
    row = call_factories.create_llm_episode(1, next_number=4)
    for number in (1, 2, 3):
        run_factory.create_transition(row, number)
        call_factories.create_answered_call(row, number)
        call_factories.create_answered_call(row, number, role="transition", purpose="answer")
    call_factories.create_answered_call(row, 3, turn=1, role="transition", purpose="repair")
    return row


def get_page(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def episode_url(row: Episode) -> str:
    return reverse("simulation:episode", args=[row.code])


def call_url(row: ModelCall, name: str = "call") -> str:
    return reverse(f"simulation:{name}", args=[row.code])


def find_step(shown: str, number: int) -> str:
    return re.findall(rf'<article[^>]*id="step-{number}".*?</article>', shown)[0]


def test_transcript_lists_the_calls_of_each_step(staff_client: Client, played_episode: Episode) -> None:
    shown = get_page(staff_client, episode_url(played_episode))
    # two calls of 1,050 tokens and 0.00175 dollars; the third step took three
    assert "2 calls, 2,100 tokens, $0.003500" in find_step(shown, 1)
    assert "3 calls, 3,150 tokens, $0.005250" in find_step(shown, 3)
    assert "transition model: repair, turn 2" in find_step(shown, 3)
    for call in played_episode.calls.all():
        assert f'href="{call_url(call)}"' in find_step(shown, call.number)


def test_agent_memory_is_shown_as_escaped_text(staff_client: Client, played_episode: Episode) -> None:
    noted = {"plan": "1. weigh <b>", "thoughts": {"2": "the tube <i>leaks"}}
    Episode.objects.filter(pk=played_episode.pk).update(memory=noted)
    shown = get_page(staff_client, episode_url(played_episode))
    assert "1. weigh &lt;b&gt;" in shown
    assert "the tube &lt;i&gt;leaks" in find_step(shown, 2) and "The agent’s reasoning" not in find_step(shown, 1)


def test_calls_without_a_step_are_shown(staff_client: Client, played_episode: Episode) -> None:
    call_factories.create_failed_call(played_episode, 4)
    assert "Step 4, in progress" in get_page(staff_client, episode_url(played_episode))
    Episode.objects.filter(pk=played_episode.pk).update(status="failed", reason="provider_unavailable", error="busy")
    shown = get_page(staff_client, episode_url(played_episode))
    assert "Step 4, not completed" in shown and "failed: overloaded" in shown
    Episode.objects.filter(pk=played_episode.pk).update(status="submitted", reason="", error="")
    assert ">Submission</h2>" in get_page(staff_client, episode_url(played_episode))


def test_unknown_call_costs_are_marked(staff_client: Client, played_episode: Episode) -> None:
    played_episode.calls.filter(number=1, role="agent").update(cost=None)
    assert '2 calls, 2,100 tokens, $0.001750 <span class="muted">(cost unknown for 1 call)' in find_step(
        get_page(staff_client, episode_url(played_episode)), 1
    )


def test_rule_based_transcript_shows_no_calls(staff_client: Client, db: None) -> None:
    row = run_factory.create_episode()
    run_factory.create_transition(row, 1)
    shown = get_page(staff_client, episode_url(row))
    assert "call" not in shown.replace("Skip", "") and "tokens" not in shown and 'aria-label="Pages"' not in shown


def test_long_transcript_has_twenty_steps_a_page_and_working_step_links(staff_client: Client, db: None) -> None:
    row = run_factory.create_episode()
    for number in range(1, 46):
        run_factory.create_transition(row, number)
    first, third = get_page(staff_client, episode_url(row)), get_page(staff_client, episode_url(row) + "?page=3")
    # 45 steps are two pages of 20 and one of 5
    assert re.findall(r'id="step-(\d+)"', first) == [str(n) for n in range(1, 21)]
    assert re.findall(r'id="step-(\d+)"', third) == [str(n) for n in range(41, 46)]
    assert 'href="?page=3#step-41"' in first and 'href="#step-20"' in first and 'href="?page=2#step-21"' in first
    assert 'id="step-41"' in get_page(staff_client, episode_url(row) + "?step=41")
    assert "1 to 20 of 45" in first
    for odd in ("?page=x", "?page=-1", "?step=0", "?step=999999", "?step=²"):
        assert 'id="step-' in get_page(staff_client, episode_url(row) + odd)


def test_transcript_uses_the_same_queries_for_ten_and_twenty_steps(staff_client: Client, db: None) -> None:
    call_factories.create_llm_run()
    row = call_factories.create_llm_episode(1)
    counted = []
    for numbers in (range(1, 11), range(11, 21)):
        for number in numbers:
            run_factory.create_twin(run_factory.create_transition(row, number), "obvious")
            call_factories.create_answered_call(row, number)
            call_factories.create_failed_call(row, number, attempt=2)
        with CaptureQueriesContext(connection) as caught:
            staff_client.get(episode_url(row))
        counted.append(len(caught))
    assert row.transitions.count() == 20
    assert counted[0] == counted[1]


def test_lists_do_not_load_requests_or_replies(staff_client: Client, played_episode: Episode) -> None:
    with CaptureQueriesContext(connection) as caught:
        staff_client.get(episode_url(played_episode))
        staff_client.get(reverse("simulation:run_calls", args=[played_episode.run.code]))
    read = [one["sql"] for one in caught if "modelcall" in one["sql"]]
    assert read and not [sql for sql in read if '"reply"' in sql or '"request"' in sql]


def test_panel_section_shows_other_classifiers_and_missing_verdicts(
    staff_client: Client, played_episode: Episode
) -> None:
    Episode.objects.filter(pk=played_episode.pk).update(status="submitted")
    for name, primary, sufficient in (("gpt-5", True, True), ("claude", False, False)):
        EvidenceReview.objects.create(
            episode=played_episode, classifier=name, primary=primary, sufficient=sufficient, summarised=primary,
            verdict=Verdict(sufficient, f"says {name}", 0.7).to_json(),
        )  # fmt: skip
    MissingReview.objects.create(episode=played_episode, classifier="gemini", reason="refused", error="policy")
    call_factories.create_answered_call(played_episode, 4, role="verdict", purpose="verdict")
    shown = get_page(staff_client, episode_url(played_episode))
    verdict, panel = re.findall(r'<section class="card" id="(?:verdict|panel)">.*?</section>', shown)
    assert "gpt-5" in verdict and "claude" not in verdict and "a summary of it was judged" in verdict
    assert "claude" in panel and "not sufficient" in panel and "says claude" in panel
    assert "gemini" in panel and "no verdict" in panel and "the model refused: policy" in panel
    assert "classifier: verdict" in shown and "evidence sufficient" in shown


def test_failed_episode_shows_the_responsible_role_and_advice(staff_client: Client, played_episode: Episode) -> None:
    Episode.objects.filter(pk=played_episode.pk).update(
        status="failed", reason="invalid_transition", error="no JSON object"
    )
    shown = get_page(staff_client, episode_url(played_episode))
    assert '<span class="pill">the transition model</span> <strong>the transition model gave no usable answer' in shown
    assert "Its calls show each reply" in shown and "no JSON object" in shown


def test_call_page_shows_prompt_reply_parameters_and_cost(staff_client: Client, played_episode: Episode) -> None:
    call = played_episode.calls.filter(role="agent")[0]
    shown = get_page(staff_client, call_url(call))
    for said in (
        "You plan experiments.",
        "What next?",
        "THOUGHT: weigh it",
        "max_completion_tokens",
        "chat.completion",
    ):
        assert said in shown
    for about in ("gpt-5-2025", "req_1", "this model takes none", "price list", "2026-09-01", "HTTP 200", "2.1 s"):
        assert about in shown
    assert "$0.001750" in shown and "<dt>Uncached input</dt><dd>1,000</dd>" in shown


def test_long_prompt_is_truncated_and_available_in_full_or_as_a_file(
    staff_client: Client, played_episode: Episode
) -> None:
    prompt = "begin " + "x" * 20_000 + " end"
    call = call_factories.create_answered_call(played_episode, 9, request=call_factories.build_request(prompt))
    short, whole = get_page(staff_client, call_url(call)), get_page(staff_client, call_url(call) + "?all=1")
    assert "The first 6,000 of 20,010 characters" in short and "xxx end" not in short
    assert prompt in whole and "Show less" in whole
    answer = staff_client.get(call_url(call, "call_request"))
    assert json.loads(answer.content)["messages"][1]["content"] == prompt
    assert answer["Content-Disposition"].startswith("attachment") and answer["X-Content-Type-Options"] == "nosniff"


def test_reply_download_is_byte_identical_and_not_rendered(staff_client: Client, played_episode: Episode) -> None:
    body = b"<html><script>alert(1)</script>\xff\x00"
    call = call_factories.create_failed_call(played_episode, 9, reply=body)
    answer = staff_client.get(call_url(call, "call_reply"))
    assert answer.content == body and answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")


def test_model_text_is_escaped_and_invisible_characters_are_marked(
    staff_client: Client, played_episode: Episode
) -> None:
    call = call_factories.create_answered_call(
        played_episode, 9, request=call_factories.build_request(HOSTILE, system=HOSTILE), reply=call_factories.build_reply(HOSTILE),
        served_model="<b>me", request_id="<i>1", dropped_params={"<u>": "<u>"}, reply_headers={"x-<s>": "<s>"},
    )  # fmt: skip
    shown = get_page(staff_client, call_url(call))
    assert "<script>alert" not in shown and "14" not in re.findall(r"alert\(1\).{0,60}", shown)[0]
    assert not re.search(r"<[biu]>|<s>", shown)
    for name in ("U+202E", "U+200B", "U+0000"):
        assert f'<span class="mark">{name}</span>' in shown
    assert "\u202e" not in shown and "\u200b" not in shown and "\x00" not in shown


REPLIES = [
    b"",
    b"<html>busy</html>",
    b"\xff\xfe\x00",
    b'{"choices": []}',
    b'{"choices": "x"}',
    b"[" * 100_000,
    b'{"error": {"message": "overloaded"}}',
    b'{"choices": [{"message": {"content": "\\ud800"}}]}',
    b"null",
    b"NaN",
    b"9" * 10_000,
]


@pytest.mark.parametrize("body", REPLIES, ids=range(len(REPLIES)))
@pytest.mark.parametrize("provider", ["openai", "anthropic", "nobody"])
def test_call_page_shows_any_reply(staff_client: Client, played_episode: Episode, body: bytes, provider: str) -> None:
    call = call_factories.create_answered_call(played_episode, 9, reply=body, provider=provider)
    assert "Reply as received" in get_page(staff_client, call_url(call) + "?all=1")


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "started", "reply": None, "ended_at": None, "cost": None, "milliseconds": None, "http_status": None},
        {"state": "lost", "reply": None, "output": None, "input_uncached": None, "cache_read": None, "cost": None},
        {"state": "refused", "stop": "refusal"},
        {"state": "fenced"},
        {"price": {}, "cost": None, "effective_params": {}, "dropped_params": {}},
        {"request": {"model": "gpt-5", "messages": None}},
        {
            "request": {
                "system": [{"type": "text", "text": "part"}],
                "messages": [{"role": "user", "content": [1, None]}],
            }
        },
    ],
)
def test_call_page_renders_in_every_state(
    staff_client: Client, played_episode: Episode, changes: dict[str, Any]
) -> None:
    call = call_factories.create_answered_call(played_episode, 9, **changes)
    assert call.get_state_display() in get_page(staff_client, call_url(call))


def test_call_page_links_to_other_attempts_of_the_same_prompt(staff_client: Client, played_episode: Episode) -> None:
    first = call_factories.create_failed_call(played_episode, 9)
    second = call_factories.create_answered_call(played_episode, 9, attempt=2, cost=Decimal("0.1"))
    assert f'href="{call_url(second)}">agent: act, attempt 2</a>' in get_page(staff_client, call_url(first))
    assert "Turns and attempts" not in get_page(
        staff_client, call_url(played_episode.calls.filter(role="agent", number=1)[0])
    )


def test_call_of_a_twin_links_to_the_twin(staff_client: Client, played_episode: Episode) -> None:
    call_factories.create_llm_run("twins")
    twin = run_factory.create_twin(played_episode.transitions.get(number=2), "subtle", cast="small")
    shown = get_page(staff_client, call_url(call_factories.create_answered_call(twin, 0, purpose="perturb")))
    assert reverse("simulation:twin", args=[twin.code]) in shown and "twin maker: perturb" in shown


@pytest.mark.parametrize("name", ["call", "call_request", "call_reply"])
def test_call_pages_are_for_staff_only(client: Client, played_episode: Episode, name: str) -> None:
    call = played_episode.calls.all()[0]
    assert client.get(call_url(call, name)).status_code == 302
    client.force_login(User.objects.create_user("rater"))
    assert client.get(call_url(call, name)).status_code == 404


def test_call_page_uses_the_same_queries_for_any_number_of_attempts(
    staff_client: Client, played_episode: Episode
) -> None:
    counted = []
    for attempts in (range(1, 11), range(11, 21)):
        for attempt in attempts:
            call = call_factories.create_failed_call(played_episode, 9, attempt=attempt)
        with CaptureQueriesContext(connection) as caught:
            staff_client.get(call_url(call))
        counted.append(len(caught))
    assert counted[0] == counted[1]
