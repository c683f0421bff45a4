"""Jobs: asked for once, played by whoever comes, never done twice."""

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


def test_the_embedded_worker_does_a_job_and_keeps_what_it_returned() -> None:
    job = played(asked(lambda work: {"sum": work.params["a"] + 1}, a=2))
    assert (job.status, job.result, job.fence) == ("done", {"sum": 3}, 1)
    assert job.ended_at is not None and job.lease_until is None


def test_two_requests_for_the_same_share_a_job_while_it_is_under_way() -> None:
    first, second = asked(lambda work: {}, a=1), asked(lambda work: {}, a=1)
    assert first == second and Job.objects.count() == 1
    assert asked(lambda work: {}, a=2) != first
    played(first)
    assert asked(lambda work: {}, a=1) != first


def test_the_same_work_for_another_subject_is_another_job() -> None:
    mine = asked(lambda work: {})
    assert jobs.request("tested", mine.params, subject="study/two") != mine


def test_a_done_job_is_given_back_to_who_can_use_it() -> None:
    done = played(asked(lambda work: {}))
    again = jobs.request("tested", done.params, subject=done.subject, reuse=True)
    assert again == done
    Job.objects.filter(pk=done.pk).update(result={"files_removed": "then"})
    assert jobs.request("tested", done.params, subject=done.subject, reuse=True) != done


def test_work_that_nobody_does_is_not_taken() -> None:
    with pytest.raises(ValueError, match="no handler is declared for jobs of kind 'unheard of'"):
        jobs.request("unheard of", {}, subject="")
    with pytest.raises(ValueError, match="two handlers"):
        jobs.handles("tested")(lambda work: {})


def test_a_worker_of_an_older_version_leaves_what_it_does_not_know_to_newer_ones() -> None:
    job = asked(lambda work: {"done": 1})
    Job.objects.filter(pk=job.pk).update(kind="of a later version")
    job = played(job)
    assert (job.status, job.reason, job.begun) == ("waiting", "old_worker", True)
    assert job.not_before is not None and job.not_before > timezone.now()
    Job.objects.filter(pk=job.pk).update(kind="tested", not_before=None)  # the newer worker comes
    assert played(job).result == {"done": 1}


@pytest.mark.django_db(transaction=True)
def test_eight_requests_at_once_make_one_job() -> None:
    ACTS["act"] = lambda work: {}
    made = race(lambda: jobs.request("tested", {"act": "act"}, subject="study/one").pk, 8)
    assert len(set(made)) == 1 and Job.objects.count() == 1


def test_a_job_goes_on_unit_by_unit_until_its_result() -> None:
    def count(work: Work) -> Mapping[str, Any]:
        work.commit(lambda: Job.objects.filter(pk=work.job.pk).update(step=now(work.job).step + 1))
        return {"units": 3} if now(work.job).step == 3 else MORE

    job = asked(count)
    assert workers.play("job", job.code) is True  # one unit, and more is left
    assert (now(job).step, now(job).status, now(job).lease_until) == (1, "running", None)
    assert played(job).result == {"units": 3}


# Taken over


def test_a_job_whose_worker_died_is_taken_over_and_done_once() -> None:
    done: list[int] = []

    def do(work: Work) -> Mapping[str, Any]:
        done.append(work.lease.fence)
        return work.finish(lambda: {"by": work.lease.fence})

    job = asked(do)
    dead = claimed(job)
    assert not workers.play_next(threading.Event())  # held: nobody else gets it
    lapse(job)
    assert played(job).result == {"by": 2} and done == [2]
    with pytest.raises(interruptions.Fenced):
        Work(dead).finish(lambda: {"by": 1})
    assert now(job).result == {"by": 2}


def test_what_a_worker_brings_that_was_taken_over_is_dropped() -> None:
    job, other = asked(lambda work: {}), asked(lambda work: {}, a=2)
    zombie = Work(claimed(job))
    lapse(job)
    claimed(job)

    def write() -> None:
        Job.objects.filter(pk=other.pk).update(said="written too late")

    with pytest.raises(interruptions.Fenced):
        zombie.commit(write)
    with pytest.raises(interruptions.Fenced):
        zombie.tell(5, 10, "too late")
    with pytest.raises(interruptions.Fenced):
        zombie.put("late.txt", "text/plain", [b"late"])
    assert now(other).said == now(job).said == "" and not job.files.exists()


def test_without_the_fence_it_would_have_been_written() -> None:
    """The control: the same story with a lease that does not ask does the damage that the fence prevents."""

    class Unfenced(Lease[Job]):
        def _mine(self) -> Any:
            return Job.objects.filter(pk=self.row.pk)

    job, other = asked(lambda work: {}), asked(lambda work: {}, a=2)
    lease = claimed(job)
    zombie = Work(Unfenced(lease.row, lease.fence))
    lapse(job)
    claimed(job)
    zombie.commit(lambda: Job.objects.filter(pk=other.pk).update(said="written too late"))
    assert now(other).said == "written too late"


def test_a_job_that_three_workers_died_on_has_failed() -> None:
    job = asked(lambda work: {})
    for _ in range(settings.LOST_LEASES_ALLOWED):
        claimed(job)
        lapse(job)
    assert played(job).status == "failed"
    assert now(job).reason == "worker_lost" and "3 workers in a row died" in now(job).error


def test_the_lease_of_a_dead_process_of_this_machine_lapses_at_once() -> None:
    job = asked(lambda work: {})
    claimed(job)
    host = leases.owner_name().split(":")[0]
    Job.objects.update(lease_owner=f"{host}:4194399:gone")  # above the highest pid Linux gives
    assert leases.expire_dead() == 1 and played(job).status == "done"


@pytest.mark.django_db(transaction=True)
def test_a_job_is_held_while_it_takes_longer_than_a_lease(settings: Any) -> None:
    settings.HEARTBEAT_SECONDS, settings.LEASE_SECONDS = 0.05, 0.4
    others = []

    def slow(work: Work) -> Mapping[str, Any]:
        time.sleep(0.8)  # twice the lease
        others.append(leases.claim(Job, work.job.code))
        return {}

    assert played(asked(slow)).status == "done" and others == [None]


def test_a_bell_that_was_lost_is_rung_again(settings: Any) -> None:
    job = asked(lambda work: {})
    assert workers.due() == [("job", str(job.code))]
    workers.rung("job", str(job.code))
    assert workers.due() == []
    settings.RING_AGAIN_SECONDS = 0  # as if the message had been lost long ago
    assert workers.due() == [("job", str(job.code))]


def test_jobs_come_before_episodes_but_get_half_of_the_threads(caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    looked: list[tuple[bool, int]] = []

    def look(work: Work) -> Mapping[str, Any]:
        """What the other of two threads finds meanwhile: an episode, though another job waits."""
        asked(lambda work: {}, "other")
        found = workers.play_next(threading.Event(), among=2)
        looked.append((found, run.episodes.get().next_number))
        return {}

    asked(look)
    assert [kind for kind, _ in workers.due()] == ["job", "episode"]
    workers.play_next(threading.Event(), among=2)
    assert looked[0][0] is True and looked[0][1] > 1
    assert Job.objects.filter(status="queued").count() == 1


# What goes wrong, and what people want


def test_a_failed_job_says_why_and_retry_makes_a_new_one_with_the_same_file() -> None:
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
    assert jobs.retry(job) == again  # it is done: nothing to try again


def test_a_bug_fails_the_job_with_its_name_and_the_traceback_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    job = played(asked(lambda work: {"never": 1 / work.params["by"]}, by=0))
    assert (job.status, job.reason) == ("failed", "internal")
    assert job.error == "internal error: ZeroDivisionError: division by zero"
    assert any(record.exc_info for record in caplog.records)


class Panic(BaseException):
    """As PyO3 raises where Rust panicked: no Exception."""


@pytest.mark.parametrize("raised", [Panic("unwrap on None"), ValueError("half a pair \ud800, nul \x00"), MemoryError()])
def test_whatever_a_handler_raises_fails_its_job_and_costs_no_thread(raised: BaseException) -> None:
    def breaks(work: Work) -> Mapping[str, Any]:
        raise raised

    job = asked(breaks)
    logging.disable(logging.CRITICAL)  # what pytest captures goes between processes, where half a pair cannot
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
def test_what_a_model_call_comes_to_is_the_jobs_state(raised: Exception, status: str, reason: str) -> None:
    def call(work: Work) -> Mapping[str, Any]:
        raise raised

    job = asked(call)
    workers.play("job", job.code)
    assert (now(job).status, now(job).reason) == (status, reason)


def test_a_job_that_nobody_has_is_cancelled_at_once() -> None:
    job = asked(lambda work: {})
    assert jobs.cancel(job) and now(job).status == "cancelled" and not jobs.cancel(job)
    assert played(job).status == "cancelled"
    assert jobs.retry(now(job)).status == "queued"


def test_a_job_under_way_is_cancelled_when_its_worker_looks_up() -> None:
    def long(work: Work) -> Mapping[str, Any]:
        work.tell(1, 10, "The first")
        assert jobs.cancel(work.job) and now(work.job).status == "running"
        work._told = 0
        work.tell(2, 10, "The second")
        raise AssertionError("it went on")

    job = played(asked(long))
    assert (job.status, job.said, job.lease_until) == ("cancelled", "The second", None)


def test_who_asks_for_work_that_is_being_stopped_takes_the_stop_back() -> None:
    job = asked(lambda work: {})
    lease = claimed(job)
    jobs.cancel(job)
    assert asked(lambda work: {}) == job
    assert not lease.stopped() and now(job).cancel_requested_at is None


def test_a_unit_that_was_left_for_a_stop_taken_back_is_begun_anew_at_once() -> None:
    begun: list[int] = []

    def do(work: Work) -> Mapping[str, Any]:
        begun.append(work.lease.fence)
        if len(begun) == 1:
            jobs.cancel(work.job)
            try:
                work.tell(1, 10, "The first")
            except jobs.Cancelled:
                assert asked(do) == work.job  # somebody wants it after all, in this moment
                raise
        return {"by": work.lease.fence}

    job = played(asked(do))  # nobody waits for the first worker's lease to run out
    assert (job.status, job.result, begun) == ("done", {"by": 2}, [1, 2])


def test_a_job_that_waits_and_is_cancelled_says_no_more_why_and_until_when_it_waited() -> None:
    def wait(work: Work) -> Mapping[str, Any]:
        raise interruptions.Wait(60, "rate_limit", "slow down")

    job = played(asked(wait))
    assert (job.status, job.reason, job.error) == ("waiting", "rate_limit", "slow down")
    assert job.not_before is not None
    assert jobs.cancel(job)
    job = now(job)
    assert (job.status, job.reason, job.error, job.not_before) == ("cancelled", "", "", None)


def test_a_job_to_be_stopped_whose_worker_died_is_ended_by_the_sweep() -> None:
    job = asked(lambda work: {})
    claimed(job)
    jobs.cancel(job)
    jobs.sweep()
    assert now(job).status == "running"
    lapse(job)
    jobs.sweep()
    assert now(job).status == "cancelled"


def test_progress_is_written_at_most_twice_a_poll(django_assert_num_queries: Any, settings: Any) -> None:
    settings.POLL_SECONDS = 60
    work = Work(claimed(asked(lambda work: {})))
    with django_assert_num_queries(2):  # the row under its fence, and whether somebody wants an end
        for step in range(1000):
            work.tell(step, 1000, f"item {step}")
    assert (now(work.job).step, now(work.job).of, now(work.job).said) == (0, 1000, "item 0")


def test_a_command_sees_a_job_through_itself() -> None:
    watched: list[str] = []
    job = asked(lambda work: MORE if work.lease.fresh else {"units": 2})
    assert jobs.play_here(job, lambda seen: watched.append(seen.status)).result == {"units": 2}
    assert watched == ["running"], "between its two units"


@pytest.mark.django_db(transaction=True)
def test_a_command_goes_on_when_the_database_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    away = [OperationalError("server closed the connection")]

    def do(work: Work) -> Mapping[str, Any]:
        if away:
            raise away.pop()
        return {"came": "back"}

    assert jobs.play_here(asked(do)).result == {"came": "back"}
    assert "the database is unavailable" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_command_waits_for_the_worker_that_has_its_job() -> None:
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


def test_a_command_leaves_a_job_of_a_paused_run(caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    Run.objects.filter(pk=run.pk).update(paused_at=timezone.now())
    ACTS["act"] = lambda work: {}
    job = jobs.request("tested", {"act": "act"}, subject="", run=run)
    assert jobs.play_here(job).status == "queued" and not workers.play("job", job.code)
