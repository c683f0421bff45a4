"""Code episodes of language models: the engine plays them through the real SDKs against a local server, in real sandboxes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from simulation import leases
from simulation.calls import run_usage
from simulation.code_runs import code_units, creation
from simulation.code_runs.conditions import read_conditions
from simulation.code_runs.creation import CodeOrder
from simulation.models import CodeEpisode, CodeStep, ModelCall, ProviderGate, Run, SandboxRun
from simulation.runs import control
from simulation.scripted_server.code_answers import CodeScript
from tests.support import code_episodes, embedded_worker
from tests.support.code_casts import SCRIPT, TOOLS, create_code_cast
from tests.support.model_server import Server, run_in_thread

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Serve = Callable[[CodeScript], Server]
EXPENSIVE = Decimal(100)  # dollars a million tokens: a call changes the money left that the next prompt shows
WINDOW, SUMMARY = {"kind": "window", "k": 1}, {"kind": "summary", "k": 2}
AGENTS = [("react", None), ("structured", WINDOW), ("plan", None), ("plan-status", SUMMARY), ("fixed", None)]
PIPELINE = ("replace", "replace", "run_script", "submit")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that starts the local server with a script, in place of every provider."""
    with ExitStack() as servers:

        def start(script: CodeScript) -> Server:
            server = servers.enter_context(run_in_thread(script=script))
            for name, value in server.get_environ().items():
                monkeypatch.setenv(name, value)
            return server

        yield start


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(SCRIPT)


def create_cast(scaffold: str, history: dict[str, Any] | None = None, price: Decimal = Decimal(1)) -> str:
    return create_code_cast(scaffold, history, helper=scaffold != "fixed", price=price)


def order(cast: str, n: int = 2, **conditions: Any) -> CodeEpisode:
    """Create a run of one code episode with `n` hidden functions."""
    row = code_episodes.create_task()
    code_order = CodeOrder([row.slug], cast, [n], seed=1, conditions=read_conditions(conditions))
    return creation.create_code_run(code_order, validate=True).code_episodes.get()


def run_unit(episode: CodeEpisode) -> CodeEpisode:
    """Run one unit of the episode, without waiting, and return its row."""
    CodeEpisode.objects.update(not_before=None)
    embedded_worker.run_one_unit("code", episode.code)
    return load(episode)


def load(episode: CodeEpisode) -> CodeEpisode:
    return CodeEpisode.objects.get(pk=episode.pk)


def play(episode: CodeEpisode) -> CodeEpisode:
    embedded_worker.run_until_idle()
    return load(episode)


def die_before_the_commit(episode: CodeEpisode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one unit in a worker that dies after its call was answered and before it commits. Its lease has expired."""

    def die(*given: Any, **changes: Any) -> bool:
        raise SystemExit

    lease = leases.claim_row(CodeEpisode, episode.code)
    assert lease is not None
    monkeypatch.setattr(lease, "commit_changes", die)
    with pytest.raises(SystemExit):
        code_units.run_code_unit(lease)
    CodeEpisode.objects.update(lease_until=timezone.now() - timedelta(seconds=1))


def check_ledger(run: Run, server: Server) -> None:
    """Assert that the call log has every request of the server once, with its tokens, and that each turn was answered once."""
    counted, totals = server.get_counters()["total"], run_usage.sum_usage(run)
    assert totals.calls == totals.answered == counted["requests"]
    for name in ("input_uncached", "cache_read", "cache_write_5m", "output", "reasoning"):
        assert getattr(totals, name) == counted["tokens"][name]
    turns = list(ModelCall.objects.values_list("number", "role", "turn"))
    assert len(turns) == len(set(turns))


@pytest.mark.parametrize(("scaffold", "history"), AGENTS)
def test_code_episode_of_language_models_is_solved_and_every_call_is_logged_once(
    server: Server, scaffold: str, history: dict[str, Any] | None
) -> None:
    episode = play(order(create_cast(scaffold, history)))
    assert (episode.status, episode.error, episode.grading.outcome) == ("submitted", "", "solved")
    steps = list(episode.steps.values_list("tool", "refused"))
    expected = PIPELINE if scaffold == "fixed" else TOOLS
    assert steps == [(tool, tool == "") for tool in expected]
    check_ledger(episode.run, server)
    usage = {(line.role, line.speaker): line.totals for line in run_usage.sum_usage_by_speaker(episode.run)}
    agent = usage["code", "a-coder"]
    assert agent.cost == Decimal(agent.tokens) / 1_000_000 > 0  # every class of tokens costs a dollar a million
    helper = ModelCall.objects.filter(role="helper").values_list("speaker", "number", "purpose")
    assert {*helper} == (set() if scaffold == "fixed" else {("a-helper", 2, "understand"), ("a-helper", 4, "edit")})
    assert run_usage.sum_episode_cost(episode) == run_usage.sum_usage(episode.run).cost
    assert not ModelCall.objects.exclude(prompt_set=episode.run.setup["prompt_set"]["sha256"]).exists()


@pytest.mark.both_databases
@pytest.mark.parametrize(("scaffold", "history"), [("plan", None), ("plan-status", SUMMARY), ("fixed", None)])
def test_no_call_of_a_code_episode_is_paid_twice_although_every_unit_lost_its_worker_before_the_commit(
    server: Server, monkeypatch: pytest.MonkeyPatch, scaffold: str, history: dict[str, Any] | None
) -> None:
    episode = order(create_cast(scaffold, history, EXPENSIVE), cost=1000)
    while (episode := load(episode)).ended_at is None:
        if episode.phase in ("agent", "helper"):
            die_before_the_commit(episode, monkeypatch)
        run_unit(episode)
    assert (episode.status, episode.grading.outcome) == ("submitted", "solved")
    assert list(episode.steps.values_list("number", flat=True)) == list(range(1, episode.next_number))
    assert episode.steps.count() == len(PIPELINE if scaffold == "fixed" else TOOLS)
    check_ledger(episode.run, server)


def test_step_that_needs_a_sandbox_is_followed_by_a_last_turn_if_its_call_used_up_the_money(serve: Serve) -> None:
    serve(CodeScript())
    episode = play(order(create_cast("react", price=Decimal(1000)), n=0, cost=1))
    assert list(episode.steps.values_list("tool", flat=True)) == ["run_script", "submit"]
    assert (episode.status, episode.grading.outcome) == ("submitted", "solved")


def test_step_of_the_helper_is_followed_by_a_last_turn_if_its_calls_used_up_the_money(serve: Serve) -> None:
    serve(CodeScript(SCRIPT.replies[1:]))
    episode = play(order(create_cast("react", price=Decimal(1000)), cost=1))
    assert list(episode.steps.values_list("tool", flat=True)) == ["understand_file", "quit"]
    assert episode.status == "quit"


def test_cost_limit_ends_a_code_episode_after_one_last_turn_as_out_of_money(server: Server) -> None:
    server.set_faults({"fault": "empty", "contains": "This is the last turn"})
    episode = play(order(create_cast("react", price=Decimal(1000)), cost=1))
    assert (episode.status, episode.grading.outcome, episode.reported) == ("out_of_money", "unfinished", "")
    # A reply that is empty is requested three times, and each is paid for.
    assert list(ModelCall.objects.order_by("pk").values_list("number", "turn")) == [(1, 0), (2, 0), (2, 1), (2, 2)]
    assert run_usage.sum_episode_cost(episode) > 1 and episode.steps.count() == 2


def test_three_unreadable_replies_in_a_row_end_a_code_episode_of_a_language_model(serve: Serve) -> None:
    server = serve(CodeScript(("TOOL: list_files", *["I would rather talk."] * 4)))
    episode = play(order(create_cast("react")))
    assert (episode.status, episode.grading.outcome) == ("unreadable_out", "unfinished")
    assert list(episode.steps.values_list("outcome", flat=True)) == ["done", *["unreadable"] * 3]
    assert "the reply is not a tool call" in CodeStep.objects.get(number=4).observation
    assert server.get_counters()["total"]["requests"] == ModelCall.objects.count() == 4


@pytest.mark.parametrize(("role", "number"), [("code", 1), ("code edit", 4)])
def test_code_episode_waits_after_a_fault_of_a_provider_and_continues_at_the_same_step(
    server: Server, role: str, number: int
) -> None:
    server.set_faults({"fault": "server_500", "role": role, "times": 2})
    episode = order(create_cast("react"))
    while load(episode).status != "waiting":
        run_unit(episode)
    waiting = load(episode)
    assert (waiting.reason, waiting.next_number) == ("provider_unavailable", number)
    assert waiting.not_before is not None and "500" in waiting.error
    while (episode := load(episode)).ended_at is None:
        ProviderGate.objects.update(closed_until=None)
        run_unit(episode)
    assert (episode.status, episode.grading.outcome, episode.steps.count()) == ("submitted", "solved", len(TOOLS))
    calls = ModelCall.objects.filter(number=number, role="helper" if number == 4 else "code")
    assert list(calls.values_list("state", "attempt")) == [("failed", 1), ("failed", 2), ("answered", 3)]


def test_rejected_key_blocks_a_code_episode_until_a_person_tries_again(server: Server) -> None:
    server.set_faults({"fault": "unauthorized_401", "role": "code edit"})
    episode = play(order(create_cast("react")))
    assert (episode.status, episode.reason, episode.phase) == ("blocked", "credentials", "helper")
    server.set_faults()
    assert control.retry_blocked(episode.run) == 1
    episode = play(episode)
    assert (episode.status, episode.grading.outcome, episode.steps.count()) == ("submitted", "solved", len(TOOLS))
    assert ModelCall.objects.filter(state="answered").count() == len(TOOLS) + 2


def test_refusal_of_a_model_fails_its_code_episode_and_is_not_sent_again(server: Server) -> None:
    server.set_faults({"fault": "refusal", "role": "code"})
    episode = play(order(create_cast("react")))
    assert (episode.status, episode.reason) == ("failed", "refused")
    assert ModelCall.objects.values_list("state", flat=True).get() == "refused"


@pytest.mark.both_databases
def test_budget_of_a_run_blocks_its_code_episode_until_it_is_raised(server: Server) -> None:
    episode = order(create_cast("structured", WINDOW))
    control.continue_run(episode.run, max_tokens=20_000)
    episode = play(episode)
    assert (episode.status, episode.reason) == ("blocked", "budget")
    assert run_usage.sum_usage(episode.run).tokens <= 20_000 and not SandboxRun.objects.filter(state="started").exists()
    assert control.continue_run(episode.run, max_tokens=10_000_000) == 1
    assert play(episode).grading.outcome == "solved" and run_usage.check_budget_counters(episode.run).is_consistent
    check_ledger(episode.run, server)


def test_no_key_of_a_provider_is_stored_with_a_code_episode(server: Server) -> None:
    play(order(create_cast("react")))
    models = (ModelCall, Run, CodeEpisode, CodeStep, SandboxRun, ProviderGate)
    assert "dummy-" not in "".join(str(row) for model in models for row in model.objects.values())


def test_fixed_pipeline_retrieves_code_unless_the_run_states_otherwise(server: Server) -> None:
    cast = create_cast("fixed")
    assert order(cast).conditions["code"] == order(cast, code="lexical").conditions["code"] == "lexical"
    assert order(cast, code="none").conditions["code"] == "none"
    # Stated or not, equal conditions are one condition.
    assert CodeEpisode.objects.values("conditions_key").distinct().count() == 2


def test_agent_with_tools_is_shown_no_code_unless_the_run_states_otherwise(server: Server) -> None:
    assert order(create_cast("react")).conditions["code"] == "none"
    assert order("offline-null").conditions["code"] == "none"
    assert order("coder", code="ast").conditions["code"] == "ast"
