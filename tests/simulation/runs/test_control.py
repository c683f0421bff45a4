"""Stopping, pausing and retrying runs at critical moments."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from simulation.calls import gates, journal, spending
from simulation.engine import runner, workers
from simulation.leases import leases
from simulation.models import Episode, Experiment, ModelCall, ProviderGate, Run, Transition, Twin
from simulation.providers import ErrorClass
from simulation.providers.base import ProviderUnavailable
from simulation.runs import control, queueing
from simulation.scripted_server import Server
from tests.support import speakers
from tests.support.steps import play_out, race

pytestmark = [pytest.mark.both_databases, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


class _InterruptedConnection:
    """A connection that calls a function during each model call."""

    def __init__(self, line: journal.Line, act: Callable[[], object]) -> None:
        self.connection, self.act = line.connection, act

    def prepare(self, *arguments: Any) -> Any:
        return self.connection.prepare(*arguments)

    def send(self, *arguments: Any) -> Any:
        answer = self.connection.send(*arguments)
        self.act()
        return answer


def connect_during(act: Callable[[], object]) -> journal.Dial:
    def dial(setup: Any, player: Any) -> journal.Line:
        line = journal.dial(setup, player)
        return line._replace(connection=_InterruptedConnection(line, act))

    return dial


@pytest.fixture
def talkers(caffeine: Experiment, model_server: Server) -> Server:
    speakers.cast()
    return model_server


def create_run(number: int = 1, **terms: Any) -> Run:
    chosen = Experiment.objects.filter(slug="caffeine-hplc-analysis")
    return queueing.queue_episodes(chosen, "talkers", number, seed=1, **terms)


def claim_episode(run: Run) -> leases.Lease[Episode]:
    lease = leases.claim(Episode, run.episodes.get().code)
    assert lease is not None
    return lease


def test_stop_during_a_call_ends_the_episode_even_in_a_paused_run(talkers: Server) -> None:
    run = create_run()
    runner.advance(claim_episode(run), connect_during(lambda: (control.pause_run(run), control.stop_run(run))))
    assert run.episodes.get().status == "running", "its holder gave it back before it heard of the stop"
    assert control.end_stopped() == 1
    assert run.episodes.get().status == "cancelled" and queueing.progress(run).finished


def test_stop_ends_a_waiting_episode_at_once(talkers: Server) -> None:
    talkers.faults({"fault": "rate_limit", "retry_after": 500})
    run = create_run()
    runner.advance(claim_episode(run), connect_during(lambda: None))
    control.stop(run.episodes.get())
    episode = run.episodes.get()
    assert (episode.status, episode.not_before, episode.error) == ("cancelled", None, "")


def test_stop_of_a_run_of_twins_ends_twins_between_two_turns(talkers: Server) -> None:
    play_out(run := create_run())
    talkers.faults({"fault": "wrong_enum"})
    twins = queueing.queue_twins(run.episodes.get().transitions.filter(number=1), ["subtle"], "talkers", seed=1)
    workers.play("twin", twins.twins.get().code)
    assert twins.twins.get().status == "running"
    assert control.stop_run(twins) == 1 and twins.twins.get().status == "cancelled"
    play_out(twins)
    assert twins.calls.count() == 1


def test_try_again_reopens_a_limiter_that_another_run_closed(talkers: Server) -> None:
    talkers.faults({"fault": "credits_402", "role": "agent", "times": 1})
    play_out(first := create_run())
    play_out(second := create_run())
    assert second.episodes.get().reason == "credentials" and not second.calls.exists()
    control.stop_run(first)
    assert control.try_again(second) == 1
    play_out(second)
    assert second.episodes.get().status == "submitted"


def test_sweep_counts_a_call_that_was_under_way_when_the_first_limit_was_set(talkers: Server) -> None:
    run = create_run()
    runner.advance(claim_episode(run), connect_during(lambda: control.continue_run(run, max_tokens=5_000_000)))
    spending.recount_live()
    assert spending.verify(run).agrees and Run.objects.get().held_tokens == spending.totals(run).tokens > 0


def test_retries_end_for_a_failing_turn_although_other_calls_are_answered(talkers: Server) -> None:
    other = create_run()
    workers.play("episode", other.episodes.get().code)
    run = create_run()
    talkers.faults("server_500")
    for _ in range(10):
        ProviderGate.objects.update(closed_until=None, faults_running=0)
        Episode.objects.update(not_before=None)
        workers.play("episode", run.episodes.get().code)
        ModelCall.objects.filter(run=other).update(ended_at=timezone.now())
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable") and "10 attempts" in episode.error


def test_retries_end_after_the_window_while_an_unavailable_provider_is_probed(talkers: Server) -> None:
    talkers.faults("server_500")
    run = create_run()
    workers.play("episode", run.episodes.get().code)
    ModelCall.objects.update(started_at=timezone.now() - timedelta(hours=1))
    later = timezone.now() + timedelta(minutes=5)
    ProviderGate.objects.update(closed_until=later, faults_running=9)
    Episode.objects.update(not_before=None)
    workers.play("episode", run.episodes.get().code)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable")
    assert ModelCall.objects.count() == 1, "it was not even tried"


def test_circuit_breaker_stays_closed_if_an_answer_comes_between_faults(talkers: Server) -> None:
    run = create_run()
    workers.play("episode", run.episodes.get().code)
    gate = ProviderGate.objects.get()
    ProviderGate.objects.update(faults_running=4, faulted_at=timezone.now() - timedelta(minutes=1))
    gates.faulted(gate.name, ProviderUnavailable(ErrorClass.SERVER, "500"))
    assert ProviderGate.objects.get().faults_running == 1


@pytest.mark.django_db(transaction=True)
def test_try_again_does_not_deadlock_with_workers(talkers: Server) -> None:
    run = create_run(number=4, max_tokens=50_000_000)
    codes = list(run.episodes.values_list("code", flat=True))
    turns = iter([*codes, None, *codes, None])

    def act() -> object:
        code = next(turns)
        return control.try_again(run) if code is None else [workers.play("episode", code) for _ in range(3)]

    results = race(act, 6)
    assert not [result for result in results if isinstance(result, Exception)]


def test_retried_twin_does_not_keep_its_earlier_wait(talkers: Server) -> None:
    play_out(run := create_run())
    talkers.faults({"fault": "rate_limit", "retry_after": 500})
    twins = queueing.queue_twins(Transition.objects.filter(episode__run=run, number=1), ["subtle"], "talkers", seed=1)
    workers.play("twin", twins.twins.get().code)
    control.stop_run(twins)
    assert control.retry_twin(twins.twins.get())
    assert Twin.objects.get().not_before is None
