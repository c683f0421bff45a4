"""Episodes played by language models, over the wire, against a local server."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from simulation.calls import journal, spending
from simulation.engine import runner, workers
from simulation.leases import leases
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
from simulation.runs import control, queueing
from simulation.scripted_server import Server
from tests.support import speakers
from tests.support.steps import play_out

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def talkers(caffeine: Experiment, model_server: Server) -> Server:
    speakers.cast()
    return model_server


def ordered(cast: str = "talkers", number: int = 1, **terms: object) -> Run:
    chosen = Experiment.objects.filter(slug="caffeine-hplc-analysis")
    return queueing.queue_episodes(chosen, cast, number, seed=1, **terms)  # type: ignore[arg-type]


def unit(run: Run) -> None:
    """One unit of the run's one episode, whatever it was told to wait for."""
    Episode.objects.update(not_before=None)
    workers.play("episode", run.episodes.get().code)


@pytest.mark.both_databases
def test_three_models_play_an_episode_to_its_verdict_and_the_ledger_has_every_call(talkers: Server) -> None:
    run = ordered()
    play_out(run)
    episode = run.episodes.get()
    assert (episode.status, episode.error) == ("submitted", "") and episode.transitions.filter(accepted=True).exists()
    assert EvidenceReview.objects.get().classifier == "a-judge"
    counted, totals = talkers.counters()["total"], spending.totals(run)
    assert totals.calls == totals.answered == counted["requests"]
    for name in ("input_uncached", "cache_read", "cache_write_5m", "output", "reasoning"):
        assert getattr(totals, name) == counted["tokens"][name]
    # One dollar a million in, two out.
    assert totals.cost == Decimal(totals.tokens + totals.output) / 1_000_000
    assert not ModelCall.objects.exclude(prompt_set=run.setup["prompt_set"]["sha256"]).exists()


def test_a_unit_is_one_call(talkers: Server) -> None:
    run = ordered()
    for number in range(1, 6):
        unit(run)
        assert ModelCall.objects.count() == number


@pytest.mark.both_databases
def test_what_an_agent_was_answered_is_not_asked_again_when_its_worker_dies_before_the_step_is_stored(
    talkers: Server,
) -> None:
    run = ordered()
    lease = leases.claim(Episode, run.episodes.get().code)
    assert lease is not None
    Episode.objects.update(fence=9)  # somebody took over while the answer was on its way to the step
    stolen = leases.Lease(lease.row, 9)
    assert runner.advance(stolen)
    assert ModelCall.objects.count() == 1
    Episode.objects.update(
        phase="agent", pending=None, lease_until=None, begun=True
    )  # as if that commit had not happened
    unit(run)
    assert ModelCall.objects.count() == talkers.counters()["total"]["requests"] == 1
    assert run.episodes.get().phase == "transition"


@pytest.mark.both_databases
def test_the_call_of_a_worker_that_died_is_lost_keeps_its_reservation_and_is_sent_again(talkers: Server) -> None:
    run = ordered(max_tokens=10_000_000)
    unit(run)
    # As the ledger stands when a worker is killed between the request and its answer.
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
    unit(run)
    lost, again = ModelCall.objects.order_by("attempt")
    assert (lost.state, again.state, again.attempt) == ("lost", "answered", 2)
    assert lost.reserved_tokens == before.reserved_tokens > 0
    assert spending.totals(run).lost_tokens == lost.reserved_tokens


@pytest.mark.both_databases
def test_a_call_whose_worker_was_taken_over_is_kept_as_fenced_and_changes_nothing_else(
    talkers: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ordered()
    lease = leases.claim(Episode, run.episodes.get().code)
    assert lease is not None

    def slept_through() -> None:
        Episode.objects.update(fence=7)
        lease.since -= 3600  # as a process that was suspended for an hour finds it

    def taken_over(setup: object, player: object) -> journal.Line:
        line = journal.dial(setup, player)  # type: ignore[arg-type]
        return line._replace(connection=_While(line.connection, slept_through))

    assert runner.advance(lease, taken_over) is False
    assert ModelCall.objects.get().state == "fenced"
    assert (run.episodes.get().phase, run.episodes.get().pending) == ("agent", None)


class _While:
    """A connection during whose call something happens."""

    def __init__(self, inner: object, happens: object) -> None:
        self.inner, self.happens = inner, happens

    def prepare(self, *told: object) -> object:
        return self.inner.prepare(*told)  # type: ignore[attr-defined]

    def send(self, *told: object) -> object:
        answer = self.inner.send(*told)  # type: ignore[attr-defined]
        self.happens()  # type: ignore[operator]
        return answer


def test_a_fault_of_the_provider_waits_and_goes_on_at_the_same_step(talkers: Server) -> None:
    talkers.faults({"fault": "server_500", "times": 2})
    run = ordered()
    unit(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason, episode.next_number) == ("waiting", "provider_unavailable", 1)
    assert episode.not_before is not None and "500" in episode.error
    unit(run)
    unit(run)
    assert list(ModelCall.objects.values_list("state", "attempt")) == [("failed", 1), ("failed", 2), ("answered", 3)]
    assert (run.episodes.get().status, run.episodes.get().error) == ("running", "")


def test_after_ten_faults_in_a_row_the_episode_fails_by_its_provider_and_a_retry_takes_its_place(
    talkers: Server,
) -> None:
    talkers.faults("server_500")
    run = ordered()
    for _ in range(10):
        ProviderGate.objects.update(closed_until=None, faults_running=0)
        unit(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable") and "after 10 tries" in episode.error
    talkers.faults()
    queueing.retry(episode)
    play_out(run)
    assert run.episodes.get(counts=True).status == "submitted"


def test_a_refusal_is_an_end_of_its_own_and_is_never_asked_again(talkers: Server) -> None:
    talkers.faults({"fault": "refusal", "role": "transition"})
    run = ordered()
    play_out(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "refused")
    assert ModelCall.objects.filter(role="transition").values_list("state", flat=True).get() == "refused"


def test_a_key_that_is_not_accepted_holds_all_episodes_until_somebody_tries_again(talkers: Server) -> None:
    talkers.faults({"fault": "unauthorized_401", "role": "agent"})
    run = ordered(number=3)
    play_out(run)
    assert set(run.episodes.values_list("status", "reason")) == {("blocked", "credentials")}
    asked = talkers.counters()["total"]["requests"]
    assert asked == 1, "the gate is closed for the key: nobody else asks with it"
    talkers.faults()
    assert control.try_again(run) == 3
    play_out(run)
    assert set(run.episodes.values_list("status", flat=True)) == {"submitted"}


def test_a_key_that_is_missing_holds_the_episode_and_names_the_variable(
    talkers: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ordered()
    monkeypatch.delenv("OPENAI_API_KEY")
    unit(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("blocked", "credentials") and "OPENAI_API_KEY" in episode.error


def test_a_model_whose_entry_was_wrong_is_corrected_and_tried_again(caffeine: Experiment, model_server: Server) -> None:
    wrong = speakers.model("a-judge", "anthropic")  # its version of the wire takes no temperature
    speakers.cast()
    run = ordered()
    play_out(run)
    assert run.episodes.values_list("status", "reason", "phase").get() == ("blocked", "bad_request", "verdict")
    wrong.options = {"api_version": "2023-06-01"}
    wrong.save()
    LanguageModel.objects.filter(name="an-agent").update(model_id="another")
    assert control.try_again(run) == 1
    play_out(run)
    assert run.episodes.get().status == "submitted"
    again = Run.objects.get().setup["models"]
    assert again["an-agent"]["model_id"] == "an-agent", "who has played already stays who it was"


@pytest.mark.both_databases
def test_a_budget_in_tokens_stops_before_the_call_that_could_break_it_and_goes_on_with_a_larger_one(
    talkers: Server,
) -> None:
    run = ordered(max_tokens=150_000)
    play_out(run)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("blocked", "budget")
    held = Run.objects.get()
    assert spending.totals(run).tokens == held.held_tokens <= 150_000 and spending.verify(run).agrees
    steps = episode.transitions.count()
    assert control.continue_run(run, max_tokens=10_000_000) == 1
    play_out(run)
    assert run.episodes.get().status == "submitted" and Transition.objects.count() >= steps
    assert spending.verify(run).agrees


@pytest.mark.both_databases
def test_a_budget_in_money_is_honoured_to_the_cent(talkers: Server) -> None:
    run = ordered(max_cost=Decimal("0.20"))
    play_out(run)
    assert run.episodes.get().reason == "budget"
    assert Decimal(0) < spending.totals(run).cost <= Decimal("0.20") and spending.verify(run).agrees


def test_a_model_without_a_price_is_refused_in_a_run_with_a_budget_in_money(
    caffeine: Experiment, model_server: Server
) -> None:
    speakers.cast("unpriced", priced=False)
    with pytest.raises(Exception, match="a-judge") as refused:
        ordered("unpriced", max_cost=Decimal(5))
    assert "docs/models.md" in str(refused.value) and not Run.objects.exists()


def test_a_run_out_of_time_is_held_for_its_budget(talkers: Server) -> None:
    run = ordered(max_seconds=60)
    unit(run)
    Run.objects.update(first_call_at=timezone.now() - timedelta(seconds=61))
    unit(run)
    assert run.episodes.get().reason == "budget" and "60 s" in run.episodes.get().error


@pytest.mark.both_databases
def test_a_paused_run_stands_still_and_goes_on_when_it_is_resumed(talkers: Server) -> None:
    run = ordered()
    unit(run)
    assert control.pause_run(run) and not control.pause_run(run)
    unit(run)
    assert ModelCall.objects.count() == 1
    assert control.resume_run(run)
    play_out(run)
    assert run.episodes.get().status == "submitted"


def test_a_cancelled_episode_makes_no_further_call(talkers: Server) -> None:
    run = ordered()
    unit(run)
    control.stop(run.episodes.get())
    unit(run)
    assert (run.episodes.get().status, ModelCall.objects.count()) == ("cancelled", 1)


@pytest.mark.both_databases
def test_the_panel_judges_the_same_record_and_a_member_that_fails_is_named_missing(
    caffeine: Experiment, model_server: Server
) -> None:
    speakers.cast(panel=("judge-two", "judge-three"))
    model_server.faults({"fault": "refusal", "model": "judge-two"})
    run = ordered()
    play_out(run)
    episode = run.episodes.get()
    assert episode.status == "submitted"
    assert list(episode.reviews.values_list("classifier", "primary")) == [("a-judge", True), ("judge-three", False)]
    assert episode.missing_reviews.values_list("classifier", "reason").get() == ("judge-two", "refused")


def test_what_was_dropped_from_a_request_is_told(caffeine: Experiment, model_server: Server) -> None:
    speakers.model("a-simulator", "anthropic", options={"temperature": False})
    speakers.cast()
    run = ordered()
    unit(run)
    unit(run)
    call = ModelCall.objects.get(role="transition")
    assert "temperature" in call.dropped_params and "temperature" not in call.effective_params


@pytest.mark.both_databases
def test_no_key_is_in_the_database(talkers: Server) -> None:
    run = ordered()
    play_out(run)
    kept = "".join(str(row) for model in (ModelCall, Run, Episode, ProviderGate) for row in model.objects.values())
    assert "dummy-" not in kept
