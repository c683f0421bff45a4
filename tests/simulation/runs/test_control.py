"""What people may do with orders under way, in the moments in which it matters."""

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


class _Interrupted:
    """A connection during whose call something happens."""

    def __init__(self, line: journal.Line, happens: Callable[[], object]) -> None:
        self.connection, self.happens = line.connection, happens

    def prepare(self, *told: Any) -> Any:
        return self.connection.prepare(*told)

    def send(self, *told: Any) -> Any:
        answer = self.connection.send(*told)
        self.happens()
        return answer


def during(happens: Callable[[], object]) -> journal.Dial:
    def dial(setup: Any, player: Any) -> journal.Line:
        line = journal.dial(setup, player)
        return line._replace(connection=_Interrupted(line, happens))

    return dial


@pytest.fixture
def talkers(caffeine: Experiment, model_server: Server) -> Server:
    speakers.cast()
    return model_server


def ordered(number: int = 1, **terms: Any) -> Run:
    chosen = Experiment.objects.filter(slug="caffeine-hplc-analysis")
    return queueing.queue_episodes(chosen, "talkers", number, seed=1, **terms)


def claimed(run: Run) -> leases.Lease[Episode]:
    lease = leases.claim(Episode, run.episodes.get().code)
    assert lease is not None
    return lease


def test_an_episode_stopped_during_its_call_in_a_paused_run_ends_all_the_same(talkers: Server) -> None:
    run = ordered()
    runner.advance(claimed(run), during(lambda: (control.pause_run(run), control.stop_run(run))))
    assert run.episodes.get().status == "running", "its holder gave it back before it heard of the stop"
    assert control.end_stopped() == 1
    assert run.episodes.get().status == "cancelled" and queueing.progress(run).finished


def test_an_episode_stopped_while_it_has_to_wait_does_not_wait_to_end(talkers: Server) -> None:
    talkers.faults({"fault": "rate_limit", "retry_after": 500})
    run = ordered()
    runner.advance(claimed(run), during(lambda: None))
    control.stop(run.episodes.get())
    episode = run.episodes.get()
    assert (episode.status, episode.not_before, episode.error) == ("cancelled", None, "")


def test_stopping_a_run_of_twins_stops_those_between_two_turns(talkers: Server) -> None:
    play_out(run := ordered())
    talkers.faults({"fault": "wrong_enum"})
    twins = queueing.queue_twins(run.episodes.get().transitions.filter(number=1), ["subtle"], "talkers", seed=1)
    workers.play("twin", twins.twins.get().code)
    assert twins.twins.get().status == "running"
    assert control.stop_run(twins) == 1 and twins.twins.get().status == "cancelled"
    play_out(twins)
    assert twins.calls.count() == 1


def test_a_gate_that_another_run_closed_is_opened_by_whoever_tries_again(talkers: Server) -> None:
    talkers.faults({"fault": "credits_402", "role": "agent", "times": 1})
    play_out(first := ordered())
    play_out(second := ordered())
    assert second.episodes.get().reason == "credentials" and not second.calls.exists()
    control.stop_run(first)
    assert control.try_again(second) == 1
    play_out(second)
    assert second.episodes.get().status == "submitted"


def test_a_first_cap_set_while_a_call_is_under_way_counts_it_by_the_next_sweep(talkers: Server) -> None:
    run = ordered()
    runner.advance(claimed(run), during(lambda: control.continue_run(run, max_tokens=5_000_000)))
    spending.recount_live()
    assert spending.verify(run).agrees and Run.objects.get().held_tokens == spending.totals(run).tokens > 0


def test_a_turn_whose_own_request_always_fails_gives_up_though_others_are_answered(talkers: Server) -> None:
    other = ordered()
    workers.play("episode", other.episodes.get().code)
    run = ordered()
    talkers.faults("server_500")
    for _ in range(10):
        ProviderGate.objects.update(closed_until=None, faults_running=0)
        Episode.objects.update(not_before=None)
        workers.play("episode", run.episodes.get().code)
        ModelCall.objects.filter(run=other).update(ended_at=timezone.now())
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable") and "10 tries" in episode.error


def test_while_a_dead_provider_is_probed_for_all_each_gives_up_after_the_window(talkers: Server) -> None:
    talkers.faults("server_500")
    run = ordered()
    workers.play("episode", run.episodes.get().code)
    ModelCall.objects.update(started_at=timezone.now() - timedelta(hours=1))
    later = timezone.now() + timedelta(minutes=5)
    ProviderGate.objects.update(closed_until=later, faults_running=9)
    Episode.objects.update(not_before=None)
    workers.play("episode", run.episodes.get().code)
    episode = run.episodes.get()
    assert (episode.status, episode.reason) == ("failed", "provider_unavailable")
    assert ModelCall.objects.count() == 1, "it was not even tried"


def test_an_answer_between_two_faults_keeps_the_circuit_closed(talkers: Server) -> None:
    run = ordered()
    workers.play("episode", run.episodes.get().code)
    gate = ProviderGate.objects.get()
    ProviderGate.objects.update(faults_running=4, faulted_at=timezone.now() - timedelta(minutes=1))
    gates.faulted(gate.name, ProviderUnavailable(ErrorClass.SERVER, "500"))
    assert ProviderGate.objects.get().faults_running == 1


@pytest.mark.django_db(transaction=True)
def test_trying_again_and_playing_at_once_never_wait_for_each_other_for_ever(talkers: Server) -> None:
    run = ordered(number=4, max_tokens=50_000_000)
    codes = list(run.episodes.values_list("code", flat=True))
    turns = iter([*codes, None, *codes, None])

    def act() -> object:
        code = next(turns)
        return control.try_again(run) if code is None else [workers.play("episode", code) for _ in range(3)]

    results = race(act, 6)
    assert not [result for result in results if isinstance(result, Exception)]


def test_a_twin_that_is_retried_does_not_wait_for_what_it_waited_for_before(talkers: Server) -> None:
    play_out(run := ordered())
    talkers.faults({"fault": "rate_limit", "retry_after": 500})
    twins = queueing.queue_twins(Transition.objects.filter(episode__run=run, number=1), ["subtle"], "talkers", seed=1)
    workers.play("twin", twins.twins.get().code)
    control.stop_run(twins)
    assert control.retry_twin(twins.twins.get())
    assert Twin.objects.get().not_before is None
