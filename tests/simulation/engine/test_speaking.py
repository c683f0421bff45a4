"""Episodes of language models, with HTTP calls to a local server."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from simulation import leases
from simulation.calls import replay, run_usage
from simulation.engine import runner
from simulation.models import (
    Episode,
    EvidenceReview,
    Experiment,
    LanguageModel,
    ModelCall,
    ProviderGate,
    Run,
    Transition,
)
from simulation.runs import control, create
from tests.support import embedded_worker, model_casts
from tests.support.model_server import Server
from tests.support.steps import run_to_end

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def model_cast_server(caffeine: Experiment, model_server: Server) -> Server:
    model_casts.create_cast()
    return model_server


def create_run(cast: str = "model_cast_server", number: int = 1, **terms: object) -> Run:
    chosen = Experiment.objects.filter(slug="caffeine-hplc-analysis")
    return create.create_episode_run(chosen, cast, number, seed=1, **terms)  # type: ignore[arg-type]


def run_one_unit(run: Run) -> None:
    """Run one unit of the run's only episode, without waiting."""
    Episode.objects.update(not_before=None)
    embedded_worker.run_one_unit("episode", run.episodes.get().code)


@pytest.mark.both_databases
def test_episode_of_three_models_reaches_a_verdict_and_every_call_is_logged(model_cast_server: Server) -> None:
    run = create_run()
    run_to_end(run)
    episode = run.episodes.get()
    assert (episode.status, episode.error) == ("submitted", "") and episode.transitions.filter(accepted=True).exists()
    assert EvidenceReview.objects.get().classifier == "a-judge"
    counted, totals = model_cast_server.get_counters()["total"], run_usage.sum_usage(run)
    assert totals.calls == totals.answered == counted["requests"]
    for name in ("input_uncached", "cache_read", "cache_write_5m", "output", "reasoning"):
        assert getattr(totals, name) == counted["tokens"][name]
    # One dollar a million in, two out.
    assert totals.cost == Decimal(totals.tokens + totals.output) / 1_000_000
    assert not ModelCall.objects.exclude(prompt_set=run.setup["prompt_set"]["sha256"]).exists()


def test_unit_of_work_makes_one_model_call(model_cast_server: Server) -> None:
    run = create_run()
    for number in range(1, 6):
        run_one_unit(run)
        assert ModelCall.objects.count() == number


@pytest.mark.both_databases
def test_replay_repeats_no_answered_call_after_a_worker_died_before_its_commit(
    model_cast_server: Server,
) -> None:
    run = create_run()
    lease = leases.claim_row(Episode, run.episodes.get().code)
    assert lease is not None
    Episode.objects.update(fence=9)  # another worker took over before the step was committed
    stolen = leases.Lease(lease.row, 9)
    assert runner.run_episode_unit(stolen)
    assert ModelCall.objects.count() == 1
    Episode.objects.update(
        phase="agent", pending=None, lease_until=None, begun=True
    )  # as if that commit had not happened
    run_one_unit(run)
    assert ModelCall.objects.count() == model_cast_server.get_counters()["total"]["requests"] == 1
    assert run.episodes.get().phase == "transition"


@pytest.mark.both_databases
def test_call_of_a_dead_worker_is_marked_lost_and_sent_again_and_its_reservation_is_kept(
    model_cast_server: Server,
) -> None:
    run = create_run(max_tokens=10_000_000)
    run_one_unit(run)
    # The state of the call log if a worker is killed between the request and its answer.
    before = ModelCall.objects.get()
    ModelCall.objects.update(state="started", ended_at=None, cost=None, input_uncached=None, output=None)
    Episode.objects.update(
        phase="agent",
        pending=None,
        fence=2,
        status="running",
        lease_until=timezone.now() - timedelta(seconds=1),
        begun=True,
    )
    run_one_unit(run)
    lost, again = ModelCall.objects.order_by("attempt")
    assert (lost.state, again.state, again.attempt) == ("lost", "answered", 2)
    assert lost.reserved_tokens == before.reserved_tokens > 0
    assert run_usage.sum_usage(run).lost_tokens == lost.reserved_tokens


@pytest.mark.both_databases
def test_call_of_a_worker_that_lost_its_lease_is_stored_as_fenced_and_not_used(
    model_cast_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run()
    lease = leases.claim_row(Episode, run.episodes.get().code)
    assert lease is not None

    def lose_lease() -> None:
        Episode.objects.update(fence=7)
        lease.confirmed_at -= 3600  # like a process that was suspended for an hour

    def connect_and_lose_lease(setup: object, player: object) -> replay.ModelConnection:
        line = replay.connect(setup, player)  # type: ignore[arg-type]
        return line._replace(connection=_InterruptedConnection(line.connection, lose_lease))

    assert runner.run_episode_unit(lease, connect_and_lose_lease) is False
    assert ModelCall.objects.get().state == "fenced"
    assert (run.episodes.get().phase, run.episodes.get().pending) == ("agent", None)


class _InterruptedConnection:
    """A connection that calls a function during each model call."""

    def __init__(self, inner: object, act: object) -> None:
        self.inner, self.act = inner, act

    def prepare_request(self, *arguments: object) -> object:
        return self.inner.prepare_request(*arguments)  # type: ignore[attr-defined]

    def send_request(self, *arguments: object) -> object:
        answer = self.inner.send_request(*arguments)  # type: ignore[attr-defined]
        self.act()  # type: ignore[operator]
        return answer


def test_provider_fault_waits_and_continues_at_the_same_step(model_cast_server: Server) -> None:
    model_cast_server.set_faults({"fault": "server_500", "times": 2})
    run = create_run()
    run_one_unit(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason, episode.next_number) == ("waiting", "provider_unavailable", 1)
    assert episode.not_before is not None and "500" in episode.error
    run_one_unit(run)
    run_one_unit(run)
    assert list(ModelCall.objects.values_list("state", "attempt")) == [("failed", 1), ("failed", 2), ("answered", 3)]
    assert (run.episodes.get().status, run.episodes.get().error) == ("running", "")


def test_episode_fails_after_ten_provider_faults_and_can_be_retried(
    model_cast_server: Server,
) -> None:
    model_cast_server.set_faults("server_500")
    run = create_run()
    for _ in range(10):
        ProviderGate.objects.update(closed_until=None, faults_running=0)
        run_one_unit(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == (
        "failed",
        "provider_unavailable",
    ) and "after 10 attempts" in episode.error
    model_cast_server.set_faults()
    create.retry_episode(episode)
    run_to_end(run)
    assert run.episodes.get(counts=True).status == "submitted"


def test_refusal_fails_the_episode_and_is_never_retried(model_cast_server: Server) -> None:
    model_cast_server.set_faults({"fault": "refusal", "role": "transition"})
    run = create_run()
    run_to_end(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "refused")
    assert ModelCall.objects.filter(role="transition").values_list("state", flat=True).get() == "refused"


def test_rejected_key_blocks_all_episodes_until_try_again(model_cast_server: Server) -> None:
    model_cast_server.set_faults({"fault": "unauthorized_401", "role": "agent"})
    run = create_run(number=3)
    run_to_end(run)
    assert set(run.episodes.values_list("status", "reason")) == {("blocked", "credentials")}
    asked = model_cast_server.get_counters()["total"]["requests"]
    assert asked == 1, "the limiter of the key is closed: no other episode calls with it"
    model_cast_server.set_faults()
    assert control.retry_blocked(run) == 3
    run_to_end(run)
    assert set(run.episodes.values_list("status", flat=True)) == {"submitted"}


def test_missing_key_blocks_the_episode_and_names_the_variable(
    model_cast_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run()
    monkeypatch.delenv("OPENAI_API_KEY")
    run_one_unit(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("blocked", "credentials") and "OPENAI_API_KEY" in episode.error


def test_try_again_uses_a_corrected_model_definition(caffeine: Experiment, model_server: Server) -> None:
    wrong = model_casts.create_priced_model("a-judge", "anthropic")  # its version of the wire takes no temperature
    model_casts.create_cast()
    run = create_run()
    run_to_end(run)
    assert run.episodes.values_list("status", "reason", "phase").get() == ("blocked", "bad_request", "verdict")
    wrong.options = {"api_version": "2023-06-01"}
    wrong.save()
    LanguageModel.objects.filter(name="an-agent").update(model_id="another")
    assert control.retry_blocked(run) == 1
    run_to_end(run)
    assert run.episodes.get().status == "submitted"
    again = Run.objects.get().setup["models"]
    assert again["an-agent"]["model_id"] == "an-agent", "a model that has answered keeps its definition"


@pytest.mark.both_databases
def test_token_limit_blocks_the_call_that_could_exceed_it_and_a_larger_limit_continues(
    model_cast_server: Server,
) -> None:
    run = create_run(max_tokens=150_000)
    run_to_end(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("blocked", "budget")
    held = Run.objects.get()
    assert (
        run_usage.sum_usage(run).tokens == held.held_tokens <= 150_000
        and run_usage.check_budget_counters(run).is_consistent
    )
    steps = episode.transitions.count()
    assert control.continue_run(run, max_tokens=10_000_000) == 1
    run_to_end(run)
    assert run.episodes.get().status == "submitted" and Transition.objects.count() >= steps
    assert run_usage.check_budget_counters(run).is_consistent


@pytest.mark.both_databases
def test_cost_limit_is_never_exceeded(model_cast_server: Server) -> None:
    run = create_run(max_cost=Decimal("0.20"))
    run_to_end(run)
    assert run.episodes.get().reason == "budget"
    assert (
        Decimal(0) < run_usage.sum_usage(run).cost <= Decimal("0.20")
        and run_usage.check_budget_counters(run).is_consistent
    )


def test_cost_limit_is_refused_for_a_model_without_a_price(caffeine: Experiment, model_server: Server) -> None:
    model_casts.create_cast("unpriced", priced=False)
    with pytest.raises(Exception, match="a-judge") as refused:
        create_run("unpriced", max_cost=Decimal(5))
    assert "docs/models.md" in str(refused.value) and not Run.objects.exists()


def test_time_limit_blocks_the_run(model_cast_server: Server) -> None:
    run = create_run(max_seconds=60)
    run_one_unit(run)
    Run.objects.update(first_call_at=timezone.now() - timedelta(seconds=61))
    run_one_unit(run)
    assert run.episodes.get().reason == "budget" and "60 s" in run.episodes.get().error


@pytest.mark.both_databases
def test_paused_run_makes_no_calls_until_it_is_resumed(model_cast_server: Server) -> None:
    run = create_run()
    run_one_unit(run)
    assert control.pause_run(run) and not control.pause_run(run)
    run_one_unit(run)
    assert ModelCall.objects.count() == 1
    assert control.resume_run(run)
    run_to_end(run)
    assert run.episodes.get().status == "submitted"


def test_a_cancelled_episode_makes_no_further_call(model_cast_server: Server) -> None:
    run = create_run()
    run_one_unit(run)
    control.stop_episode(run.episodes.get())
    run_one_unit(run)
    assert (run.episodes.get().status, ModelCall.objects.count()) == ("cancelled", 1)


@pytest.mark.both_databases
def test_panel_member_that_fails_is_recorded_as_missing(caffeine: Experiment, model_server: Server) -> None:
    model_casts.create_cast(panel=("judge-two", "judge-three"))
    model_server.set_faults({"fault": "refusal", "model": "judge-two"})
    run = create_run()
    run_to_end(run)
    episode = run.episodes.get()
    assert episode.status == "submitted"
    assert list(episode.reviews.values_list("classifier", "primary")) == [("a-judge", True), ("judge-three", False)]
    assert episode.missing_reviews.values_list("classifier", "reason").get() == ("judge-two", "refused")


def test_parameters_dropped_from_a_request_are_recorded(caffeine: Experiment, model_server: Server) -> None:
    model_casts.create_priced_model("a-simulator", "anthropic", options={"temperature": False})
    model_casts.create_cast()
    run = create_run()
    run_one_unit(run)
    run_one_unit(run)
    call = ModelCall.objects.get(role="transition")
    assert "temperature" in call.dropped_params and "temperature" not in call.effective_params


@pytest.mark.both_databases
def test_no_key_is_in_the_database(model_cast_server: Server) -> None:
    run = create_run()
    run_to_end(run)
    kept = "".join(str(row) for model in (ModelCall, Run, Episode, ProviderGate) for row in model.objects.values())
    assert "dummy-" not in kept
