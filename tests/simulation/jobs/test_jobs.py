"""Jobs: requested once, run by any worker, never done twice."""

import io
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone

from simulation.engine import workers
from simulation.jobs import Work, jobs
from simulation.jobs.job_files import Upload
from simulation.jobs.jobs import MORE
from simulation.leases import Lease, interruptions, leases
from simulation.models import Experiment, Job, Run
from simulation.runs import queueing
from tests.support.job_steps import ACTS, asked, claimed, lapse, now, played
from tests.support.steps import race

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_job_is_run_by_the_embedded_worker_and_its_result_stored() -> None:
    job = played(asked(lambda work: {"sum": work.params["a"] + 1}, a=2))
    assert (job.status, job.result, job.fence) == ("done", {"sum": 3}, 1)
    assert job.ended_at is not None and job.lease_until is None


def test_equal_requests_share_a_job_while_it_is_under_way() -> None:
    first, second = asked(lambda work: {}, a=1), asked(lambda work: {}, a=1)
    assert first == second and Job.objects.count() == 1
    assert asked(lambda work: {}, a=2) != first
    played(first)
    assert asked(lambda work: {}, a=1) != first


def test_request_for_another_subject_creates_another_job() -> None:
    mine = asked(lambda work: {})
    assert jobs.request("tested", mine.params, subject="study/two") != mine


def test_finished_job_is_reused_on_request() -> None:
    done = played(asked(lambda work: {}))
    again = jobs.request("tested", done.params, subject=done.subject, reuse=True)
    assert again == done
    Job.objects.filter(pk=done.pk).update(result={"files_removed": "then"})
    assert jobs.request("tested", done.params, subject=done.subject, reuse=True) != done


def test_request_of_an_undeclared_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no handler is declared for jobs of kind 'unheard of'"):
        jobs.request("unheard of", {}, subject="")
    with pytest.raises(ValueError, match="two handlers"):
        jobs.handles("tested")(lambda work: {})


def test_job_of_an_unknown_kind_waits_for_a_newer_worker() -> None:
    job = asked(lambda work: {"done": 1})
    Job.objects.filter(pk=job.pk).update(kind="of a later version")
    job = played(job)
    assert (job.status, job.reason, job.begun) == ("waiting", "old_worker", True)
    assert job.not_before is not None and job.not_before > timezone.now()
    Job.objects.filter(pk=job.pk).update(kind="tested", not_before=None)  # the newer worker comes
    assert played(job).result == {"done": 1}


@pytest.mark.django_db(transaction=True)
def test_eight_concurrent_requests_create_one_job() -> None:
    ACTS["act"] = lambda work: {}
    made = race(lambda: jobs.request("tested", {"act": "act"}, subject="study/one").pk, 8)
    assert len(set(made)) == 1 and Job.objects.count() == 1


def test_job_runs_unit_by_unit_until_its_result() -> None:
    def count(work: Work) -> Mapping[str, Any]:
        work.commit(lambda: Job.objects.filter(pk=work.job.pk).update(step=now(work.job).step + 1))
        return {"units": 3} if now(work.job).step == 3 else MORE

    job = asked(count)
    assert workers.play("job", job.code) is True  # one unit, and more is left
    assert (now(job).step, now(job).status, now(job).lease_until) == (1, "running", None)
    assert played(job).result == {"units": 3}


# Takeover


def test_job_of_a_dead_worker_is_taken_over_and_done_once() -> None:
    done: list[int] = []

    def do(work: Work) -> Mapping[str, Any]:
        done.append(work.lease.fence)
        return work.finish(lambda: {"by": work.lease.fence})

    job = asked(do)
    dead = claimed(job)
    assert not workers.play_next(threading.Event())  # leased to another worker
    lapse(job)
    assert played(job).result == {"by": 2} and done == [2]
    with pytest.raises(interruptions.Fenced):
        Work(dead).finish(lambda: {"by": 1})
    assert now(job).result == {"by": 2}


def test_job_writes_under_an_old_fence_are_discarded() -> None:
    job, other = asked(lambda work: {}), asked(lambda work: {}, a=2)
    stale = Work(claimed(job))
    lapse(job)
    claimed(job)

    def write() -> None:
        Job.objects.filter(pk=other.pk).update(said="written too late")

    with pytest.raises(interruptions.Fenced):
        stale.commit(write)
    with pytest.raises(interruptions.Fenced):
        stale.tell(5, 10, "too late")
    with pytest.raises(interruptions.Fenced):
        stale.put("late.txt", "text/plain", [b"late"])
    assert now(other).said == now(job).said == "" and not job.files.exists()


def test_fence_control_without_it_a_stale_job_write_succeeds() -> None:
    """Control: with a lease that ignores the fence, the stale write succeeds."""

    class Unfenced(Lease[Job]):
        def _mine(self) -> Any:
            return Job.objects.filter(pk=self.row.pk)

    job, other = asked(lambda work: {}), asked(lambda work: {}, a=2)
    lease = claimed(job)
    stale = Work(Unfenced(lease.row, lease.fence))
    lapse(job)
    claimed(job)
    stale.commit(lambda: Job.objects.filter(pk=other.pk).update(said="written too late"))
    assert now(other).said == "written too late"


def test_job_that_loses_three_workers_in_a_row_fails() -> None:
    job = asked(lambda work: {})
    for _ in range(settings.LOST_LEASES_ALLOWED):
        claimed(job)
        lapse(job)
    assert played(job).status == "failed"
    assert now(job).reason == "worker_lost" and "3 workers in a row died" in now(job).error


def test_job_lease_of_a_dead_process_on_this_machine_expires_at_once() -> None:
    job = asked(lambda work: {})
    claimed(job)
    host = leases.owner_name().split(":")[0]
    Job.objects.update(lease_owner=f"{host}:4194399:gone")  # above the highest pid Linux gives
    assert leases.expire_dead() == 1 and played(job).status == "done"


@pytest.mark.django_db(transaction=True)
def test_job_lease_is_renewed_while_a_unit_runs(settings: Any) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    others = []

    def slow(work: Work) -> Mapping[str, Any]:
        time.sleep(0.8)  # twice the lease
        others.append(leases.claim(Job, work.job.code))
        return {}

    assert played(asked(slow)).status == "done" and others == [None]


def test_lost_message_of_a_job_is_repeated(settings: Any) -> None:
    job = asked(lambda work: {})
    assert workers.due() == [("job", str(job.code))]
    workers.rung("job", str(job.code))
    assert workers.due() == []
    settings.RING_AGAIN_SECONDS = 0  # as if the message had been lost long ago
    assert workers.due() == [("job", str(job.code))]


def test_jobs_run_before_episodes_but_in_at_most_half_of_the_threads(caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    looked: list[tuple[bool, int]] = []

    def look(work: Work) -> Mapping[str, Any]:
        """Run what a second thread finds now: an episode, although another job is queued."""
        asked(lambda work: {}, "other")
        found = workers.play_next(threading.Event(), among=2)
        looked.append((found, run.episodes.get().next_number))
        return {}

    asked(look)
    assert [kind for kind, _ in workers.due()] == ["job", "episode"]
    workers.play_next(threading.Event(), among=2)
    assert looked[0][0] is True and looked[0][1] > 1
    assert Job.objects.filter(status="queued").count() == 1


# Failures, cancellation, retries


def test_retry_of_a_failed_job_creates_a_new_one_with_the_same_file() -> None:
    def refuse(work: Work) -> Mapping[str, Any]:
        raise jobs.Failed(f"{work.input('in.txt').read().decode()} cannot be done: send another file.")

    ACTS["act"] = refuse
    upload = Upload("in.txt", "text/plain", io.BytesIO(b"This"))
    job = played(jobs.request("tested", {"act": "act"}, subject="study/one", files=[upload]))
    assert (job.status, job.error) == ("failed", "This cannot be done: send another file.")
    again = jobs.retry(job)
    assert again.retry_of == job and again != job and jobs.retry(job) == again
    ACTS["act"] = lambda work: {"read": work.input("in.txt").read().decode()}
    assert played(again).result == {"read": "This"}
    assert jobs.retry(job) == again  # finished: not retried


def test_job_fails_with_the_name_of_an_exception_and_logs_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    job = played(asked(lambda work: {"never": 1 / work.params["by"]}, by=0))
    assert (job.status, job.reason) == ("failed", "internal")
    assert job.error == "internal error: ZeroDivisionError: division by zero"
    assert any(record.exc_info for record in caplog.records)


class Panic(BaseException):
    """Like the BaseException that PyO3 raises when Rust code panics."""


@pytest.mark.parametrize("raised", [Panic("unwrap on None"), ValueError("half a pair \ud800, nul \x00"), MemoryError()])
def test_job_fails_but_its_thread_survives_any_exception_of_a_handler(raised: BaseException) -> None:
    def breaks(work: Work) -> Mapping[str, Any]:
        raise raised

    job = asked(breaks)
    logging.disable(
        logging.CRITICAL
    )  # pytest sends captured logs between processes, which fails for unpaired surrogates
    try:
        assert workers.play_next(threading.Event())
    finally:
        logging.disable(logging.NOTSET)
    assert (now(job).status, now(job).reason) == ("failed", "internal")
    assert type(raised).__name__ in now(job).error


@pytest.mark.parametrize(
    ("raised", "status", "reason"),
    [
        (interruptions.UnitSpent(), "running", ""),
        (interruptions.Wait(60, "rate_limit", "slow down"), "waiting", "rate_limit"),
        (interruptions.Held("credentials", "no key"), "failed", "credentials"),
        (interruptions.GaveUp("provider_unavailable", "ten tries"), "failed", "provider_unavailable"),
    ],
)
def test_job_status_follows_the_outcome_of_a_model_call(raised: Exception, status: str, reason: str) -> None:
    def call(work: Work) -> Mapping[str, Any]:
        raise raised

    job = asked(call)
    workers.play("job", job.code)
    assert (now(job).status, now(job).reason) == (status, reason)


def test_job_without_a_lease_is_cancelled_at_once() -> None:
    job = asked(lambda work: {})
    assert jobs.cancel(job) and now(job).status == "cancelled" and not jobs.cancel(job)
    assert played(job).status == "cancelled"
    assert jobs.retry(now(job)).status == "queued"


def test_job_under_way_is_cancelled_when_its_worker_reports_progress() -> None:
    def long(work: Work) -> Mapping[str, Any]:
        work.tell(1, 10, "The first")
        assert jobs.cancel(work.job) and now(work.job).status == "running"
        work._told = 0
        work.tell(2, 10, "The second")
        raise AssertionError("it went on")

    job = played(asked(long))
    assert (job.status, job.said, job.lease_until) == ("cancelled", "The second", None)


def test_request_withdraws_the_cancellation_of_the_same_job() -> None:
    job = asked(lambda work: {})
    lease = claimed(job)
    jobs.cancel(job)
    assert asked(lambda work: {}) == job
    assert not lease.stopped() and now(job).cancel_requested_at is None


def test_unit_runs_again_at_once_if_its_cancellation_is_withdrawn() -> None:
    begun: list[int] = []

    def do(work: Work) -> Mapping[str, Any]:
        begun.append(work.lease.fence)
        if len(begun) == 1:
            jobs.cancel(work.job)
            try:
                work.tell(1, 10, "The first")
            except jobs.Cancelled:
                assert asked(do) == work.job  # requested again in this moment
                raise
        return {"by": work.lease.fence}

    job = played(asked(do))  # without waiting for the first lease to expire
    assert (job.status, job.result, begun) == ("done", {"by": 2}, [1, 2])


def test_cancelling_a_waiting_job_clears_its_reason_and_time() -> None:
    def wait(work: Work) -> Mapping[str, Any]:
        raise interruptions.Wait(60, "rate_limit", "slow down")

    job = played(asked(wait))
    assert (job.status, job.reason, job.error) == ("waiting", "rate_limit", "slow down")
    assert job.not_before is not None
    assert jobs.cancel(job)
    job = now(job)
    assert (job.status, job.reason, job.error, job.not_before) == ("cancelled", "", "", None)


def test_sweep_ends_a_cancelled_job_of_a_dead_worker() -> None:
    job = asked(lambda work: {})
    claimed(job)
    jobs.cancel(job)
    jobs.sweep()
    assert now(job).status == "running"
    lapse(job)
    jobs.sweep()
    assert now(job).status == "cancelled"


def test_job_progress_is_stored_at_most_twice_per_poll(django_assert_num_queries: Any, settings: Any) -> None:
    settings.POLL_SECONDS = 60
    work = Work(claimed(asked(lambda work: {})))
    with django_assert_num_queries(2):  # the row under its fence, and the check for a cancellation
        for step in range(1000):
            work.tell(step, 1000, f"item {step}")
    assert (now(work.job).step, now(work.job).of, now(work.job).said) == (0, 1000, "item 0")


def test_command_runs_a_job_to_its_end() -> None:
    watched: list[str] = []
    job = asked(lambda work: MORE if work.lease.fresh else {"units": 2})
    assert jobs.play_here(job, lambda seen: watched.append(seen.status)).result == {"units": 2}
    assert watched == ["running"], "between its two units"


@pytest.mark.django_db(transaction=True)
def test_command_continues_when_the_database_is_available_again(caplog: pytest.LogCaptureFixture) -> None:
    away = [OperationalError("server closed the connection")]

    def do(work: Work) -> Mapping[str, Any]:
        if away:
            raise away.pop()
        return {"came": "back"}

    assert jobs.play_here(asked(do)).result == {"came": "back"}
    assert "the database is unavailable" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_command_waits_for_the_worker_that_holds_the_job() -> None:
    job = asked(lambda work: {"by": "the worker"})
    lease, watched = claimed(job), []

    def finish() -> None:
        jobs.advance(lease)
        connection.close()

    worker = threading.Timer(0.2, finish)
    worker.start()
    assert jobs.play_here(job, watched.append).result == {"by": "the worker"}
    worker.join()
    assert watched and watched[0].status == "running"


def test_command_does_not_run_a_job_of_a_paused_run(caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    Run.objects.filter(pk=run.pk).update(paused_at=timezone.now())
    ACTS["act"] = lambda work: {}
    job = jobs.request("tested", {"act": "act"}, subject="", run=run)
    assert jobs.play_here(job).status == "queued" and not workers.play("job", job.code)
