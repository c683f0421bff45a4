"""Stop ends a model call that is under way, and the call stays in the call log."""

import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest
from django.utils import timezone

from ratings.raters import model_raters
from simulation import leases
from simulation.engine import runner, workers
from simulation.jobs import jobs
from simulation.models import Episode, Experiment, Job, ModelCall, ProviderGate, Run, Transition, Twin
from simulation.runs import control, create
from tests.support import embedded_worker, model_casts, run_factory, study_factory
from tests.support.model_server import Server

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 2.0  # from Stop to the end of the row


@pytest.fixture
def start_worker() -> Iterator[Callable[[], None]]:
    stop, started = threading.Event(), list[threading.Thread]()

    def start_thread() -> None:
        started.append(threading.Thread(target=workers.run_worker, args=(stop, 2)))
        started[0].start()

    yield start_thread
    stop.set()
    for model in (Episode, Job):  # a failed test would wait for a call that hangs
        model.objects.update(cancel_requested_at=timezone.now())
    for thread in started:
        thread.join()


def wait_until(is_true: Callable[[], object], seconds: float) -> float:
    """Wait until the condition is true, and return how long that took."""
    began = time.monotonic()
    while not is_true():
        assert time.monotonic() - began < seconds, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - began


def wait_for_call(server: Server) -> None:
    wait_until(lambda: server.get_counters()["total"]["in_flight"] == 1, 20)
    time.sleep(0.3)  # the model computes


def check_abandoned_call(server: Server) -> ModelCall:
    """Check that the one call that was stopped is logged with an unknown cost, and that its connection was closed."""
    call = ModelCall.objects.order_by("pk").last()
    assert call is not None
    assert (call.state, call.error_class, call.cost) == ("failed", "abandoned", None)
    assert "stopped before the reply was complete" in call.error and call.reserved_tokens > 0
    assert call.ended_at is not None and call.milliseconds is not None
    wait_until(lambda: server.get_counters()["total"]["in_flight"] == 0, SECONDS)
    assert not ProviderGate.objects.filter(faults_running__gt=0).exists(), "the provider made no mistake"
    return call


@pytest.mark.parametrize("fault", ["hang", "drip", "slow_headers"])
def test_stop_ends_the_call_of_an_episode_within_two_seconds(
    caffeine: Experiment, model_server: Server, start_worker: Callable[[], None], fault: str
) -> None:
    model_casts.create_cast()
    model_server.set_faults({"fault": fault, "seconds": 1.0})
    run = create.create_episode_run([caffeine], "model_cast_server", 1, seed=1, max_cost=Decimal(5))
    start_worker()
    wait_for_call(model_server)
    assert control.stop_run(run) == 1
    wait_until(lambda: run.episodes.get().status == "cancelled", SECONDS)
    call = check_abandoned_call(model_server)
    # It may have been paid for, so its maximum stays reserved in the run's budget.
    assert call.reserved_cost and Run.objects.get().held_cost == call.reserved_cost
    assert run.episodes.get().error == ""


def test_stop_ends_the_call_of_a_twin_within_two_seconds(
    caffeine: Experiment, model_server: Server, start_worker: Callable[[], None]
) -> None:
    model_casts.create_cast()
    embedded = create.create_episode_run([caffeine], "model_cast_server", 1, seed=1).episodes.get()
    for _ in range(2):
        embedded_worker.run_one_unit("episode", embedded.code)
    control.stop_episode(embedded)
    model_server.set_faults({"fault": "hang"})
    run = create.create_twin_run(Transition.objects.filter(number=1), ("subtle",), "model_cast_server", seed=2)
    start_worker()
    wait_for_call(model_server)
    control.stop_run(run)
    wait_until(lambda: ModelCall.objects.filter(twin__run=run, state="failed").exists(), SECONDS)
    assert check_abandoned_call(model_server).twin == Twin.objects.get() and Twin.objects.get().status == "cancelled"


def test_stop_ends_the_call_of_a_job_within_two_seconds(
    lab: None, model_server: Server, start_worker: Callable[[], None]
) -> None:
    run_factory.create_pool(4)
    study = study_factory.create_open_study(sources=[{"cast": "offline", "perturbation": "none", "count": 3}])
    model_casts.create_priced_model("a-rater")
    model_server.set_faults({"fault": "hang"})
    model_raters.request_ratings(study, "a-rater")
    start_worker()
    wait_for_call(model_server)
    job = Job.objects.get()
    assert jobs.cancel_job(job)
    wait_until(lambda: Job.objects.get(pk=job.pk).status == "cancelled", SECONDS)
    assert check_abandoned_call(model_server).job == job


def test_call_is_sent_again_if_the_stop_was_withdrawn(
    caffeine: Experiment, model_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_casts.create_cast()
    monkeypatch.setattr(leases, "_STOP_CHECK_SECONDS", 0.1)
    model_server.set_faults({"fault": "hang", "times": 1})
    episode = create.create_episode_run([caffeine], "model_cast_server", 1, seed=1).episodes.get()

    def stop_and_withdraw() -> None:
        wait_for_call(model_server)
        control.stop_episode(episode)
        wait_until(lambda: ModelCall.objects.filter(state="failed").exists(), SECONDS)

    lease = leases.claim_row(Episode, episode.code)
    assert lease is not None
    stopping = threading.Thread(target=stop_and_withdraw)
    stopping.start()
    assert runner.run_episode_unit(lease)
    stopping.join()
    Episode.objects.update(cancel_requested_at=None)
    embedded_worker.run_one_unit("episode", episode.code)
    states = ModelCall.objects.order_by("pk").values_list("state", "turn", "attempt")
    assert list(states) == [("failed", 0, 1), ("answered", 0, 2)]


def test_other_calls_continue_when_one_is_stopped(
    caffeine: Experiment, model_server: Server, start_worker: Callable[[], None]
) -> None:
    model_casts.create_cast()
    model_server.set_faults({"fault": "late", "seconds": 3.0, "times": 2})
    run = create.create_episode_run([caffeine], "model_cast_server", 2, seed=1)
    start_worker()
    wait_until(lambda: model_server.get_counters()["total"]["in_flight"] == 2, 20)
    stopped, other = run.episodes.order_by("pk")
    control.stop_episode(stopped)
    wait_until(lambda: Episode.objects.get(pk=stopped.pk).status == "cancelled", SECONDS)
    wait_until(lambda: ModelCall.objects.filter(episode=other, state="answered").exists(), 20)
    assert ModelCall.objects.filter(state="failed").count() == 1
    control.stop_run(run)
