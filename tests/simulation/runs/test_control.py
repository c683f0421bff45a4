"""Stopping, pausing and retrying runs at critical moments."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from simulation import leases
from simulation.calls import rate_limit, replay, run_usage
from simulation.engine import runner
from simulation.models import Episode, Experiment, ModelCall, ProviderGate, Run, Transition, Twin
from simulation.providers import ErrorClass
from simulation.providers.base import ProviderUnavailable
from simulation.runs import control, create
from tests.support import model_casts
from tests.support.embedded_worker import run_one_unit
from tests.support.model_server import Server
from tests.support.steps import run_concurrently, run_to_end

pytestmark = [pytest.mark.both_databases, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


class _InterruptedConnection:
    """A connection that calls a function during each model call."""

    def __init__(self, line: replay.ModelConnection, act: Callable[[], object]) -> None:
        self.connection, self.act = line.connection, act

    def prepare_request(self, *arguments: Any) -> Any:
        return self.connection.prepare_request(*arguments)

    def send_request(self, *arguments: Any) -> Any:
        answer = self.connection.send_request(*arguments)
        self.act()
        return answer


def connect_during(act: Callable[[], object]) -> replay.Connector:
    def dial(setup: Any, player: Any) -> replay.ModelConnection:
        line = replay.connect(setup, player)
        return line._replace(connection=_InterruptedConnection(line, act))

    return dial


@pytest.fixture
def model_cast_server(caffeine: Experiment, model_server: Server) -> Server:
    model_casts.create_cast()
    return model_server


def create_run(number: int = 1, **terms: Any) -> Run:
    chosen = Experiment.objects.filter(slug="caffeine-hplc-analysis")
    return create.create_episode_run(chosen, "model_cast_server", number, seed=1, **terms)


def claim_episode(run: Run) -> leases.Lease[Episode]:
    lease = leases.claim_row(Episode, run.episodes.get().code)
    assert lease is not None
    return lease


def test_stop_during_a_call_ends_the_episode_even_in_a_paused_run(model_cast_server: Server) -> None:
    run = create_run()
    runner.run_episode_unit(claim_episode(run), connect_during(lambda: (control.pause_run(run), control.stop_run(run))))
    assert run.episodes.get().status == "running", "its holder gave it back before it heard of the stop"
    assert control.end_stopped_episodes() == 1
    assert run.episodes.get().status == "cancelled" and create.get_progress(run).is_finished


def test_stop_ends_a_waiting_episode_at_once(model_cast_server: Server) -> None:
    model_cast_server.set_faults({"fault": "rate_limit", "retry_after": 500})
    run = create_run()
    runner.run_episode_unit(claim_episode(run), connect_during(lambda: None))
    control.stop_episode(run.episodes.get())
    episode = run.episodes.get()
    assert (episode.status, episode.not_before, episode.error) == ("cancelled", None, "")


def test_stopping_a_run_of_twins_ends_a_twin_between_two_model_calls(model_cast_server: Server) -> None:
    run_to_end(run := create_run())
    model_cast_server.set_faults({"fault": "wrong_enum"})
    twins = create.create_twin_run(
        run.episodes.get().transitions.filter(number=1), ["subtle"], "model_cast_server", seed=1
    )
    run_one_unit("twin", twins.twins.get().code)
    assert twins.twins.get().status == "running"
    assert control.stop_run(twins) == 1 and twins.twins.get().status == "cancelled"
    run_to_end(twins)
    assert twins.calls.count() == 1


def test_try_again_reopens_a_limiter_that_another_run_closed(model_cast_server: Server) -> None:
    model_cast_server.set_faults({"fault": "credits_402", "role": "agent", "times": 1})
    run_to_end(first := create_run())
    run_to_end(second := create_run())
    assert second.episodes.get().reason == "credentials" and not second.calls.exists()
    control.stop_run(first)
    assert control.retry_blocked(second) == 1
    run_to_end(second)
    assert second.episodes.get().status == "submitted"


def test_budget_recount_includes_a_call_that_was_under_way_when_the_first_limit_was_set(
    model_cast_server: Server,
) -> None:
    run = create_run()
    runner.run_episode_unit(claim_episode(run), connect_during(lambda: control.continue_run(run, max_tokens=5_000_000)))
    run_usage.recount_live_runs()
    assert (
        run_usage.check_budget_counters(run).is_consistent
        and Run.objects.get().held_tokens == run_usage.sum_usage(run).tokens > 0
    )


def test_retries_of_a_failing_turn_end_even_if_other_calls_are_answered(model_cast_server: Server) -> None:
    other = create_run()
    run_one_unit("episode", other.episodes.get().code)
    run = create_run()
    model_cast_server.set_faults("server_500")
    for _ in range(10):
        ProviderGate.objects.update(closed_until=None, faults_running=0)
        Episode.objects.update(not_before=None)
        run_one_unit("episode", run.episodes.get().code)
        ModelCall.objects.filter(run=other).update(ended_at=timezone.now())
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable") and "10 attempts" in episode.error


def test_retries_end_after_the_window_while_an_unavailable_provider_is_probed(model_cast_server: Server) -> None:
    model_cast_server.set_faults("server_500")
    run = create_run()
    run_one_unit("episode", run.episodes.get().code)
    ModelCall.objects.update(started_at=timezone.now() - timedelta(hours=1))
    later = timezone.now() + timedelta(minutes=5)
    ProviderGate.objects.update(closed_until=later, faults_running=9)
    Episode.objects.update(not_before=None)
    run_one_unit("episode", run.episodes.get().code)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable")
    assert ModelCall.objects.count() == 1, "it was not even tried"


def test_circuit_breaker_stays_closed_if_an_answer_comes_between_faults(model_cast_server: Server) -> None:
    run = create_run()
    run_one_unit("episode", run.episodes.get().code)
    gate = ProviderGate.objects.get()
    ProviderGate.objects.update(faults_running=4, faulted_at=timezone.now() - timedelta(minutes=1))
    rate_limit.record_fault(gate.name, ProviderUnavailable(ErrorClass.SERVER, "500"))
    assert ProviderGate.objects.get().faults_running == 1


@pytest.mark.django_db(transaction=True)
def test_try_again_does_not_deadlock_with_workers(model_cast_server: Server) -> None:
    run = create_run(number=4, max_tokens=50_000_000)
    codes = list(run.episodes.values_list("code", flat=True))
    turns = iter([*codes, None, *codes, None])

    def act() -> object:
        code = next(turns)
        return control.retry_blocked(run) if code is None else [run_one_unit("episode", code) for _ in range(3)]

    results = run_concurrently(act, 6)
    assert not [result for result in results if isinstance(result, Exception)]


def test_retried_twin_does_not_keep_its_earlier_wait(model_cast_server: Server) -> None:
    run_to_end(run := create_run())
    model_cast_server.set_faults({"fault": "rate_limit", "retry_after": 500})
    twins = create.create_twin_run(
        Transition.objects.filter(episode__run=run, number=1), ["subtle"], "model_cast_server", seed=1
    )
    run_one_unit("twin", twins.twins.get().code)
    control.stop_run(twins)
    assert control.retry_twin(twins.twins.get())
    assert Twin.objects.get().not_before is None
