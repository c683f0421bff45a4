"""The threads of workers, which find claimable rows in the database and run their units, and the periodic repairs."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connection
from django.utils import timezone

from simulation import leases
from simulation.calls import call_log, run_usage
from simulation.code_runs import sandboxes, stored_trees
from simulation.jobs import jobs
from simulation.leases import Lease, Row
from simulation.models import CodeEpisode, Episode, Job, Leased, ReplicationTask, Run, Twin, Worker
from simulation.runs import control, create
from wetbench_site.database import release_connection
from wetbench_site.observability import log_context

log = logging.getLogger("wetbench.workers")
CLEANUP_SECONDS = 3600
# In the order of the search: people wait for jobs.
ROW_MODELS: dict[str, type[Job] | type[Episode] | type[CodeEpisode] | type[Twin]] = {
    "job": Job, "episode": Episode, "code": CodeEpisode, "twin": Twin,
}  # fmt: skip
# Kind of the messages for code episodes that need a sandbox next: only workers that have one receive them.
SANDBOX_KIND = "sandbox"
# Held while this process runs a row that must be alone. A row that kills its workers would otherwise take along, at its third
# death, rows that only ran beside it.
_isolation_lock = threading.Lock()
_ISOLATED_FROM = 2  # lost leases: the next one may end the row
_job_threads = 0  # threads of this process that run a job
_job_threads_lock = threading.Lock()
_cleanups: list[Callable[[], object]] = []
_known_backend = [""]  # the sandbox of this process, once it is known
_next_cleanup_at = [0.0]  # monotonic seconds of this process


def run_row(kind: str, code: object, should_stop: Callable[[], bool]) -> bool:
    """Run a row unit after unit for up to TURN_SECONDS. Return True if work is left, which needs another message."""
    # All roles, which processes that only register a clean-up do not need.
    from simulation.code_runs import code_units
    from simulation.engine import runner

    # Keeping the lease between units spares a claim and a message for each. The limit lets other rows have their turn.
    deadline = time.monotonic() + settings.TURN_SECONDS
    if kind == "job":
        return _run_units(leases.claim_row(Job, code), jobs.run_job_unit, deadline, should_stop)
    if kind == "episode":
        return _run_units(leases.claim_row(Episode, code), runner.run_episode_unit, deadline, should_stop)
    if kind in ("code", SANDBOX_KIND):
        if sandboxes.list_foreign_phases() and not _select_claimable("code").filter(code=code).exists():
            return False  # its next unit belongs to other workers
        return _run_units(leases.claim_row(CodeEpisode, code), code_units.run_code_unit, deadline, should_stop)
    return _run_units(leases.claim_row(Twin, code), runner.run_twin_unit, deadline, should_stop)


def _run_units(
    lease: Lease[Row] | None, run_unit: Callable[[Lease[Row]], bool], deadline: float, should_stop: Callable[[], bool]
) -> bool:
    if lease is None:
        return False
    if lease.row.lost_leases < _ISOLATED_FROM:
        return _run_units_of_lease(lease, run_unit, deadline, should_stop)
    if not _isolation_lock.acquire(blocking=False):
        # Spread out, because many rows may have lost the same workers.
        lease.postpone_row(random.uniform(5, 15) * settings.POLL_SECONDS)
        return False
    try:
        return _run_units_of_lease(lease, run_unit, deadline, should_stop)
    finally:
        _isolation_lock.release()


def _run_units_of_lease(
    lease: Lease[Row], run_unit: Callable[[Lease[Row]], bool], deadline: float, should_stop: Callable[[], bool]
) -> bool:
    lease.keep_after_commit = True
    while _run_logged_unit(lease, run_unit) and lease.has_work_left:
        if should_stop() or time.monotonic() > deadline or _is_foreign(lease.row):
            return lease.release_between_units()
        if not lease.can_continue():
            return False
    return False


def _run_logged_unit(lease: Lease[Row], run_unit: Callable[[Lease[Row]], bool]) -> bool:
    """Run one unit. Its log lines contain the row and the step."""
    row = lease.row
    position: dict[str, str | int] = {}
    if isinstance(row, Episode | CodeEpisode):
        position = {"step": row.next_number, "phase": row.phase}
    with log_context.bind_facts(type(row).__name__.lower(), row.code, **position):
        return run_unit(lease)


def run_next_row(stop: threading.Event, run: Run | None = None, threads: int = 1) -> bool:
    """Run one of the oldest claimable rows with `run_row`. Return False if there was none."""
    for kind in ROW_MODELS:
        with _reserve_job_thread(kind, threads) as may_take:
            if not may_take:
                continue
            rows = _select_claimable(kind).order_by("pk")
            codes = list((rows.filter(run=run) if run else rows).values_list("code", flat=True)[:threads])
            if not codes:
                continue
            try:
                # One of as many rows as there are threads: if all took the oldest, all but one would fail to claim it.
                run_row(kind, random.choice(codes), stop.is_set)
            finally:
                release_connection()
            return True
    return False


def _select_claimable(kind: str) -> Any:
    """Return the rows of this kind that this process may run now."""
    rows = ROW_MODELS[kind].objects.claimable()
    if kind == "code":
        foreign = sandboxes.list_foreign_phases()
        return rows.exclude(phase__in=foreign) if foreign else rows
    return rows.none() if settings.SANDBOX_ONLY else rows


def _is_foreign(row: Leased) -> bool:
    """Return whether the next unit of this row belongs to other workers: those with a sandbox, or those with keys."""
    return isinstance(row, CodeEpisode) and row.phase in sandboxes.list_foreign_phases()


def try_next_row(stop: threading.Event, run: Run | None = None, threads: int = 1) -> bool:
    """Return the result of `run_next_row`. If it raises an exception, log the exception and return False."""
    try:
        return run_next_row(stop, run, threads)
    except leases.DATABASE_UNAVAILABLE as error:
        log.warning("the database is unavailable; trying again: %s", error)
    except Exception:  # the thread must survive for the next row; a row that always fails ends as "worker lost"
        log.exception("a row failed unexpectedly; it will be tried again")
    close_old_connections()
    return False


@contextmanager
def _reserve_job_thread(kind: str, threads: int) -> Iterator[bool]:
    """Count this thread among those that run jobs, if `kind` is "job"; yield whether it may run a row of this kind."""
    global _job_threads
    if kind != "job":
        yield True
        return
    with _job_threads_lock:
        # Jobs can take long. At most half of the threads run them, so that episodes continue.
        is_free = _job_threads < max(1, threads // 2)
        _job_threads += is_free
    try:
        yield is_free
    finally:
        with _job_threads_lock:
            _job_threads -= is_free


def run_worker(stop: threading.Event, threads: int) -> None:
    """Run claimable rows until `stop` is set. This worker needs no broker."""
    try:
        if expired := leases.expire_dead_leases():
            log.info("took over %d rows of workers that died on this machine", expired)
    except leases.DATABASE_UNAVAILABLE as error:
        log.warning("the database is unavailable; leases of workers that died expire by themselves: %s", error)
    with _row_threads(stop, None, threads, threads), worker_registered("embedded"), periodic_sweep():
        release_connection()
        while not stop.wait(settings.POLL_SECONDS):
            pass


def run_to_end(run: Run, threads: int, watch: Callable[[create.RunProgress], None]) -> create.RunProgress:
    """Run all rows of one run here, in `threads` threads including the caller's; `watch` is given the progress."""
    leases.expire_dead_leases()
    stop = threading.Event()
    with _row_threads(stop, run, threads, threads - 1), worker_registered("command"), periodic_sweep():
        while not (current := create.get_progress(run)).is_finished:
            watch(current)
            if not try_next_row(stop, run, threads):
                release_connection()
                stop.wait(settings.POLL_SECONDS / 5)
    watch(current)
    return current


def wait_for_run(run: Run, threads: int, watch: Callable[[create.RunProgress], None]) -> create.RunProgress:
    """Wait until a run has ended. If no worker is alive, run it in this process."""
    while not (current := create.get_progress(run)).is_finished:
        if not create.has_live_worker():
            return run_to_end(run, threads, watch)
        watch(current)
        release_connection()
        time.sleep(settings.POLL_SECONDS)
    watch(current)
    return current


@contextmanager
def _row_threads(stop: threading.Event, run: Run | None, threads: int, to_start: int) -> Iterator[None]:
    """Run claimable rows in `to_start` threads, of `threads` in all. At the end, set `stop` and wait for the rows under way."""
    arguments, daemon = (stop, run, threads), run is not None
    started = [
        threading.Thread(target=_run_rows, args=arguments, daemon=daemon, name=f"worker-{n}") for n in range(to_start)
    ]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in started:
            thread.join()


def _run_rows(stop: threading.Event, run: Run | None, threads: int) -> None:
    try:
        while not stop.is_set():
            if not try_next_row(stop, run, threads):
                release_connection()
                stop.wait(settings.POLL_SECONDS)
    finally:
        connection.close()


@contextmanager
def repeat_in_background(work: Callable[[threading.Event], object], seconds: float, name: str) -> Iterator[None]:
    """Call `work` every `seconds` in a thread of its own inside this context. It receives an event that is set at the end."""
    stop = threading.Event()

    def repeat_work() -> None:
        try:
            while not stop.wait(seconds):
                work(stop)
                release_connection()
        finally:
            # each thread has its own connection, and Django closes only those of requests
            connection.close()

    thread = threading.Thread(target=repeat_work, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def worker_registered(kind: str) -> Iterator[None]:
    """Register this process as a live worker in the database, renew the entry at every heartbeat, and remove it at the end."""
    _record_heartbeat(kind)
    try:
        with repeat_in_background(lambda _stop: _announce(kind), settings.HEARTBEAT_SECONDS, "announce"):
            # In a thread of its own: the self-test of a sandbox takes a moment, and work must not wait for it.
            first = threading.Thread(target=_announce_first, args=(kind,), daemon=True, name="sandbox")
            first.start()
            yield
            first.join()  # else it could register this worker again
    finally:
        with suppress(*leases.DATABASE_UNAVAILABLE):
            Worker.objects.filter(owner=leases.owner_name()).delete()


def _announce_first(kind: str) -> None:
    try:
        _announce(kind)
    finally:
        connection.close()


def _announce(kind: str) -> None:
    """Record a heartbeat with the sandbox of this worker, so that pages can see whether there is one."""
    try:
        # Without tasks nobody needs a sandbox, and none is tested.
        if kind in create.GENERAL_WORKER_KINDS and ReplicationTask.objects.exists():
            _known_backend[0] = sandboxes.describe_sandbox()
    except leases.DATABASE_UNAVAILABLE:
        close_old_connections()  # the next line reports it
    _record_heartbeat(kind)


def _record_heartbeat(kind: str) -> None:
    try:
        columns = {"kind": kind, "seen_at": timezone.now(), "sandbox": _known_backend[0]}
        Worker.objects.update_or_create(owner=leases.owner_name(), defaults=columns)
        # Workers that were killed cannot remove their own rows.
        Worker.objects.filter(seen_at__lt=timezone.now() - timedelta(days=1)).delete()
    except leases.DATABASE_UNAVAILABLE as error:
        log.warning("could not record this worker's heartbeat; trying again: %s", error)
        close_old_connections()


def periodic_sweep() -> AbstractContextManager[None]:
    # Calls of workers that died would otherwise occupy their slots for ever.
    return repeat_in_background(_sweep, settings.SWEEP_SECONDS, "sweep")


def _sweep(_stop: threading.Event) -> None:
    try:
        if lost := call_log.mark_lost_calls():
            log.info("%d calls were lost with their workers", lost)
        control.end_stopped_episodes()
        sandboxes.mark_lost_sandboxes()
        jobs.sweep_jobs()
        run_due_cleanup()
        run_usage.recount_live_runs()
    except leases.DATABASE_UNAVAILABLE as error:
        log.warning("could not sweep; trying again: %s", error)
        close_old_connections()
    except Exception:  # without this thread, lost calls would occupy their slots until a restart
        log.exception("could not sweep; trying again")
        close_old_connections()


def register_cleanup(task: Callable[[], object]) -> None:
    """Register a function that removes expired data, once an hour."""
    # Every process has its own timer, so functions must be safe to run twice and in two workers at once.
    if task not in _cleanups:
        _cleanups.append(task)


def run_due_cleanup() -> bool:
    """Run all registered functions if an hour has passed in this process. Return whether they ran."""
    if time.monotonic() < _next_cleanup_at[0]:
        return False
    for task in (stored_trees.remove_unused_trees, *_cleanups):
        task()
    _next_cleanup_at[0] = time.monotonic() + CLEANUP_SECONDS
    return True
