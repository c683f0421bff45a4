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

from simulation import leases
from simulation.engine import notifications, workers
from simulation.jobs import Work, jobs
from simulation.jobs.job_files import Upload
from simulation.jobs.jobs import MORE_WORK
from simulation.leases import Lease
from simulation.models import Experiment, Job, Run
from simulation.runs import create
from tests.support.embedded_worker import run_one_unit
from tests.support.job_steps import ACTIONS_BY_NAME, claim_job, expire_lease, reload_job, request_test_job, run_job
from tests.support.steps import run_concurrently

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_job_is_run_by_the_embedded_worker_and_its_result_stored() -> None:
    job = run_job(request_test_job(lambda work: {"sum": work.params["a"] + 1}, a=2))
    assert (job.status, job.result, job.fence) == ("done", {"sum": 3}, 1)
    assert job.ended_at is not None and job.lease_until is None


def test_equal_requests_share_a_job_while_it_is_under_way() -> None:
    first, second = request_test_job(lambda work: {}, a=1), request_test_job(lambda work: {}, a=1)
    assert first == second and Job.objects.count() == 1
    assert request_test_job(lambda work: {}, a=2) != first
    run_job(first)
    assert request_test_job(lambda work: {}, a=1) != first


def test_request_for_another_subject_creates_another_job() -> None:
    mine = request_test_job(lambda work: {})
    assert jobs.request_job("tested", mine.params, subject="study/two") != mine


def test_finished_job_is_reused_on_request() -> None:
    done = run_job(request_test_job(lambda work: {}))
    again = jobs.request_job("tested", done.params, subject=done.subject, reuse=True)
    assert again == done
    Job.objects.filter(pk=done.pk).update(result={"files_removed": "then"})
    assert jobs.request_job("tested", done.params, subject=done.subject, reuse=True) != done


def test_request_of_an_undeclared_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no handler is declared for jobs of kind 'unheard of'"):
        jobs.request_job("unheard of", {}, subject="")
    with pytest.raises(ValueError, match="two handlers"):
        jobs.register_handler("tested")(lambda work: {})


def test_job_of_an_unknown_kind_waits_for_a_newer_worker() -> None:
    job = request_test_job(lambda work: {"done": 1})
    Job.objects.filter(pk=job.pk).update(kind="of a later version")
    job = run_job(job)
    assert (job.status, job.reason, job.begun) == ("waiting", "old_worker", True)
    assert job.not_before is not None and job.not_before > timezone.now()
    Job.objects.filter(pk=job.pk).update(kind="tested", not_before=None)  # the newer worker comes
    assert run_job(job).result == {"done": 1}


@pytest.mark.django_db(transaction=True)
def test_eight_concurrent_requests_create_one_job() -> None:
    ACTIONS_BY_NAME["act"] = lambda work: {}
    made = run_concurrently(lambda: jobs.request_job("tested", {"act": "act"}, subject="study/one").pk, 8)
    assert len(set(made)) == 1 and Job.objects.count() == 1


def test_job_runs_unit_by_unit_until_its_result() -> None:
    def count(work: Work) -> Mapping[str, Any]:
        work.commit_write(lambda: Job.objects.filter(pk=work.job.pk).update(step=reload_job(work.job).step + 1))
        return {"units": 3} if reload_job(work.job).step == 3 else MORE_WORK

    job = request_test_job(count)
    assert run_one_unit("job", job.code) is True  # one unit, and more is left
    assert (reload_job(job).step, reload_job(job).status, reload_job(job).lease_until) == (1, "running", None)
    assert run_job(job).result == {"units": 3}


# Takeover


def test_job_of_a_dead_worker_is_taken_over_and_done_once() -> None:
    done: list[int] = []

    def do(work: Work) -> Mapping[str, Any]:
        done.append(work.lease.fence)
        return work.finish_job(lambda: {"by": work.lease.fence})

    job = request_test_job(do)
    dead = claim_job(job)
    assert not workers.run_next_row(threading.Event())  # leased to another worker
    expire_lease(job)
    assert run_job(job).result == {"by": 2} and done == [2]
    with pytest.raises(leases.LeaseLost):
        Work(dead).finish_job(lambda: {"by": 1})
    assert reload_job(job).result == {"by": 2}


def test_job_writes_under_an_old_fence_are_discarded() -> None:
    job, other = request_test_job(lambda work: {}), request_test_job(lambda work: {}, a=2)
    stale = Work(claim_job(job))
    expire_lease(job)
    claim_job(job)

    def write() -> None:
        Job.objects.filter(pk=other.pk).update(message="written too late")

    with pytest.raises(leases.LeaseLost):
        stale.commit_write(write)
    with pytest.raises(leases.LeaseLost):
        stale.report_progress(5, 10, "too late")
    with pytest.raises(leases.LeaseLost):
        stale.store_file("late.txt", "text/plain", [b"late"])
    assert reload_job(other).message == reload_job(job).message == "" and not job.files.exists()


def test_control_stale_job_write_succeeds_without_the_fence() -> None:
    """Control: with a lease that ignores the fence, the stale write succeeds."""

    class Unfenced(Lease[Job]):
        def _filter_own_row(self) -> Any:
            return Job.objects.filter(pk=self.row.pk)

    job, other = request_test_job(lambda work: {}), request_test_job(lambda work: {}, a=2)
    lease = claim_job(job)
    stale = Work(Unfenced(lease.row, lease.fence))
    expire_lease(job)
    claim_job(job)
    stale.commit_write(lambda: Job.objects.filter(pk=other.pk).update(message="written too late"))
    assert reload_job(other).message == "written too late"


def test_job_that_loses_three_workers_in_a_row_fails() -> None:
    job = request_test_job(lambda work: {})
    for _ in range(settings.LOST_LEASES_ALLOWED):
        claim_job(job)
        expire_lease(job)
    assert run_job(job).status == "failed"
    assert reload_job(job).reason == "worker_lost" and "3 workers in a row died" in reload_job(job).error


def test_job_lease_of_a_dead_process_on_this_machine_expires_at_once() -> None:
    job = request_test_job(lambda work: {})
    claim_job(job)
    host = leases.owner_name().split(":")[0]
    Job.objects.update(lease_owner=f"{host}:4194399:gone")  # above the highest pid Linux gives
    assert leases.expire_dead_leases() == 1 and run_job(job).status == "done"


@pytest.mark.django_db(transaction=True)
def test_job_lease_is_renewed_while_a_unit_runs(settings: Any) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    others = []

    def slow(work: Work) -> Mapping[str, Any]:
        time.sleep(0.8)  # twice the lease
        others.append(leases.claim_row(Job, work.job.code))
        return {}

    assert run_job(request_test_job(slow)).status == "done" and others == [None]


def test_lost_message_of_a_job_is_repeated(settings: Any) -> None:
    job = request_test_job(lambda work: {})
    assert notifications.list_rows_to_notify() == [("job", str(job.code))]
    Job.objects.filter(pk=job.pk).update(notified_at=timezone.now())
    assert notifications.list_rows_to_notify() == []
    settings.RING_AGAIN_SECONDS = 0  # as if the message had been lost long ago
    assert notifications.list_rows_to_notify() == [("job", str(job.code))]


def test_jobs_run_before_episodes_but_in_at_most_half_of_the_threads(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    looked: list[tuple[bool, int]] = []

    def look(work: Work) -> Mapping[str, Any]:
        """Run what a second thread finds now: an episode, although another job is queued."""
        request_test_job(lambda work: {}, "other")
        found = workers.run_next_row(threading.Event(), threads=2)
        looked.append((found, run.episodes.get().next_number))
        return {}

    request_test_job(look)
    assert [kind for kind, _ in notifications.list_rows_to_notify()] == ["job", "episode"]
    workers.run_next_row(threading.Event(), threads=2)
    assert looked[0][0] is True and looked[0][1] > 1
    assert Job.objects.filter(status="queued").count() == 1


# Failures, cancellation, retries


def test_retry_of_a_failed_job_creates_a_new_one_with_the_same_file() -> None:
    def refuse(work: Work) -> Mapping[str, Any]:
        raise jobs.JobFailed(f"{work.open_input('in.txt').read().decode()} cannot be done: send another file.")

    ACTIONS_BY_NAME["act"] = refuse
    upload = Upload("in.txt", "text/plain", io.BytesIO(b"This"))
    job = run_job(jobs.request_job("tested", {"act": "act"}, subject="study/one", files=[upload]))
    assert (job.status, job.error) == ("failed", "This cannot be done: send another file.")
    again = jobs.retry_job(job)
    assert again.retry_of == job and again != job and jobs.retry_job(job) == again
    ACTIONS_BY_NAME["act"] = lambda work: {"read": work.open_input("in.txt").read().decode()}
    assert run_job(again).result == {"read": "This"}
    assert jobs.retry_job(job) == again  # finished: not retried


def test_job_fails_with_a_plain_message_and_logs_the_traceback_of_the_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = run_job(request_test_job(lambda work: {"never": 1 / work.params["by"]}, by=0))
    assert (job.status, job.reason) == ("failed", "internal")
    assert job.error == f"internal error. The worker's log has the details, under {job.code}."
    assert any(record.exc_info for record in caplog.records)


class Panic(BaseException):
    """Like the BaseException that PyO3 raises when Rust code panics."""


@pytest.mark.parametrize("raised", [Panic("unwrap on None"), ValueError("half a pair \ud800, nul \x00"), MemoryError()])
def test_job_fails_but_its_thread_survives_any_exception_of_a_handler(raised: BaseException) -> None:
    def breaks(work: Work) -> Mapping[str, Any]:
        raise raised

    job = request_test_job(breaks)
    logging.disable(
        logging.CRITICAL
    )  # pytest sends captured logs between processes, which fails for unpaired surrogates
    try:
        assert workers.run_next_row(threading.Event())
    finally:
        logging.disable(logging.NOTSET)
    assert (reload_job(job).status, reload_job(job).reason) == ("failed", "internal")
    assert reload_job(job).error.startswith("internal error. The worker's log has the details")


@pytest.mark.parametrize(
    ("raised", "status", "reason"),
    [
        (leases.CallDone(), "running", ""),
        (leases.RetryLater(60, "rate_limit", "slow down"), "waiting", "rate_limit"),
        (leases.Blocked("credentials", "no key"), "failed", "credentials"),
        (leases.RetriesExhausted("provider_unavailable", "ten tries"), "failed", "provider_unavailable"),
    ],
)
def test_job_status_depends_on_the_exception_of_its_model_call(raised: Exception, status: str, reason: str) -> None:
    def call(work: Work) -> Mapping[str, Any]:
        raise raised

    job = request_test_job(call)
    run_one_unit("job", job.code)
    assert (reload_job(job).status, reload_job(job).reason) == (status, reason)


def test_job_without_a_lease_is_cancelled_at_once() -> None:
    job = request_test_job(lambda work: {})
    assert jobs.cancel_job(job) and reload_job(job).status == "cancelled" and not jobs.cancel_job(job)
    assert run_job(job).status == "cancelled"
    assert jobs.retry_job(reload_job(job)).status == "queued"


def test_job_under_way_is_cancelled_when_its_worker_reports_progress() -> None:
    def long(work: Work) -> Mapping[str, Any]:
        work.report_progress(1, 10, "The first")
        assert jobs.cancel_job(work.job) and reload_job(work.job).status == "running"
        work._reported_at = 0
        work.report_progress(2, 10, "The second")
        raise AssertionError("it went on")

    job = run_job(request_test_job(long))
    assert (job.status, job.message, job.lease_until) == ("cancelled", "The second", None)


def test_job_requested_again_is_no_longer_cancelled() -> None:
    job = request_test_job(lambda work: {})
    lease = claim_job(job)
    jobs.cancel_job(job)
    assert request_test_job(lambda work: {}) == job
    assert not lease.cancel_if_requested() and reload_job(job).cancel_requested_at is None


def test_unit_runs_again_at_once_if_its_cancellation_is_withdrawn() -> None:
    begun: list[int] = []

    def do(work: Work) -> Mapping[str, Any]:
        begun.append(work.lease.fence)
        if len(begun) == 1:
            jobs.cancel_job(work.job)
            try:
                work.report_progress(1, 10, "The first")
            except jobs.JobCancelled:
                assert request_test_job(do) == work.job  # requested again in this moment
                raise
        return {"by": work.lease.fence}

    job = run_job(request_test_job(do))  # without waiting for the first lease to expire
    assert (job.status, job.result, begun) == ("done", {"by": 2}, [1, 2])


def test_cancelling_a_waiting_job_clears_its_reason_and_time() -> None:
    def wait(work: Work) -> Mapping[str, Any]:
        raise leases.RetryLater(60, "rate_limit", "slow down")

    job = run_job(request_test_job(wait))
    assert (job.status, job.reason, job.error) == ("waiting", "rate_limit", "slow down")
    assert job.not_before is not None
    assert jobs.cancel_job(job)
    job = reload_job(job)
    assert (job.status, job.reason, job.error, job.not_before) == ("cancelled", "", "", None)


def test_sweep_ends_a_cancelled_job_of_a_dead_worker() -> None:
    job = request_test_job(lambda work: {})
    claim_job(job)
    jobs.cancel_job(job)
    jobs.sweep_jobs()
    assert reload_job(job).status == "running"
    expire_lease(job)
    jobs.sweep_jobs()
    assert reload_job(job).status == "cancelled"


def test_job_progress_is_stored_at_most_twice_per_poll(django_assert_num_queries: Any, settings: Any) -> None:
    settings.POLL_SECONDS = 60
    work = Work(claim_job(request_test_job(lambda work: {})))
    with django_assert_num_queries(2):  # the row under its fence, and the check for a cancellation
        for step in range(1000):
            work.report_progress(step, 1000, f"item {step}")
    assert (reload_job(work.job).step, reload_job(work.job).of, reload_job(work.job).message) == (0, 1000, "item 0")


def test_command_runs_a_job_to_its_end() -> None:
    watched: list[str] = []
    job = request_test_job(lambda work: MORE_WORK if work.lease.is_first_unit else {"units": 2})
    assert jobs.run_job_here(job, lambda seen: watched.append(seen.status)).result == {"units": 2}
    assert watched == ["running"], "between its two units"


@pytest.mark.django_db(transaction=True)
def test_command_continues_when_the_database_is_available_again(caplog: pytest.LogCaptureFixture) -> None:
    away = [OperationalError("server closed the connection")]

    def do(work: Work) -> Mapping[str, Any]:
        if away:
            raise away.pop()
        return {"came": "back"}

    assert jobs.run_job_here(request_test_job(do)).result == {"came": "back"}
    assert "the database is unavailable" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_command_waits_for_the_worker_that_holds_the_job() -> None:
    job = request_test_job(lambda work: {"by": "the worker"})
    lease, watched = claim_job(job), []

    def finish() -> None:
        jobs.run_job_unit(lease)
        connection.close()

    worker = threading.Timer(0.2, finish)
    worker.start()
    assert jobs.run_job_here(job, watched.append).result == {"by": "the worker"}
    worker.join()
    assert watched and watched[0].status == "running"


def test_command_does_not_run_a_job_of_a_paused_run(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    Run.objects.filter(pk=run.pk).update(paused_at=timezone.now())
    ACTIONS_BY_NAME["act"] = lambda work: {}
    job = jobs.request_job("tested", {"act": "act"}, subject="", run=run)
    assert jobs.run_job_here(job).status == "queued" and not run_one_unit("job", job.code)
