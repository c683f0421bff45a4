"""The embedded worker's threads, and the dispatcher that sends messages to Celery workers.

Both find claimable rows in the database and run them with the same function. A message only names a row.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from django.conf import settings
from django.db import close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from simulation.calls import ledger, spending
from simulation.engine import runner, tidying, twinning
from simulation.jobs import jobs
from simulation.leases import Lease, leases
from simulation.leases.leases import Row
from simulation.models import Episode, Job, Run, Twin, Worker
from simulation.runs import control, queueing
from wetbench_site.database import release_connection
from wetbench_site.observability import log_context

log = logging.getLogger("wetbench.workers")
BELLS = 500  # without workers, repeated messages would fill the broker
# In the order of the search: people wait for jobs.
ROWS: dict[str, type[Job] | type[Episode] | type[Twin]] = {"job": Job, "episode": Episode, "twin": Twin}
_at_jobs = 0  # threads of this process that run a job
_counting = threading.Lock()


def play(kind: str, code: object) -> bool:
    """Run the next unit of a row and no more. Return True if the row was claimed and its next unit can start at once."""
    return play_on(kind, code, lambda: True)


def play_on(kind: str, code: object, stop: Callable[[], bool]) -> bool:
    """Run a row unit after unit for up to TURN_SECONDS. Return True if it was released with work left: send a message for it."""
    # Keeping the lease between units spares a claim and a message for each. The limit lets other rows have their
    # turn.
    deadline = time.monotonic() + settings.TURN_SECONDS
    if kind == "job":
        return _play_on(leases.claim(Job, code), jobs.advance, deadline, stop)
    if kind == "episode":
        return _play_on(leases.claim(Episode, code), runner.advance, deadline, stop)
    return _play_on(leases.claim(Twin, code), twinning.advance, deadline, stop)


def _play_on(
    lease: Lease[Row] | None, advance: Callable[[Lease[Row]], bool], until: float, stop: Callable[[], bool]
) -> bool:
    if lease is None:
        return False
    lease.keep = True
    while _advance(lease, advance) and lease.left:
        if stop() or time.monotonic() > until:
            return lease.hand_back()
        if not lease.go_on():
            return False
    return False


def _advance(lease: Lease[Row], advance: Callable[[Lease[Row]], bool]) -> bool:
    """Run one unit. Log lines of the unit have the row and the step."""
    row = lease.row
    position: dict[str, str | int] = {"step": row.next_number, "phase": row.phase} if isinstance(row, Episode) else {}
    with log_context.bind(type(row).__name__.lower(), row.code, **position):
        return advance(lease)


def play_next(stop: threading.Event, run: Run | None = None, among: int = 1) -> bool:
    """Find a claimable row, one of the oldest, and run it as far as possible. Return False if there was none."""
    for kind, model in ROWS.items():
        with _place_at(kind, among) as may_take:
            if not may_take:
                continue
            rows = model.objects.claimable().order_by("pk")
            if run:
                rows = rows.filter(run=run)
            codes = list(rows.values_list("code", flat=True)[:among])
            if not codes:
                continue
            # One of as many rows as there are threads: if all threads took the oldest row, all but one would fail
            # to claim it.
            code = random.choice(codes)
            try:
                play_on(kind, code, stop.is_set)
            finally:
                release_connection()
            return True
    return False


@contextmanager
def _place_at(kind: str, threads: int) -> Iterator[bool]:
    """Yield whether this thread may run a row of that kind."""
    global _at_jobs
    if kind != "job":
        yield True
        return
    with _counting:
        # Jobs can take long. At most half of the threads run them, so that episodes continue.
        is_free = _at_jobs < max(1, threads // 2)
        _at_jobs += is_free
    try:
        yield is_free
    finally:
        with _counting:
            _at_jobs -= is_free


def work(stop: threading.Event, threads: int) -> None:
    """Run claimable rows until `stop` is set. This worker needs no broker."""
    try:
        if expired := leases.expire_dead():
            log.info("took over %d rows of workers that died on this machine", expired)
    except leases.DATABASE_AWAY as error:
        log.warning("the database is unavailable; leases of workers that died expire by themselves: %s", error)
    worker_threads = [
        threading.Thread(target=_work_on, args=(stop, None, threads), name=f"worker-{n}") for n in range(threads)
    ]
    for thread in worker_threads:
        thread.start()
    with announced("embedded"), sweeping():
        release_connection()
        while not stop.wait(settings.POLL_SECONDS):
            pass
    for thread in worker_threads:
        thread.join()


def play_run(run: Run, threads: int, watch: Callable[[queueing.RunProgress], None]) -> queueing.RunProgress:
    """Run all rows of one run in this process, and call `watch` with its progress. With one thread, only the caller's thread works."""
    leases.expire_dead()
    stop = threading.Event()
    worker_threads = [
        threading.Thread(target=_work_on, args=(stop, run, threads), daemon=True) for _ in range(threads - 1)
    ]
    for thread in worker_threads:
        thread.start()
    try:
        with announced("command"), sweeping():
            while not (current := queueing.progress(run)).finished:
                watch(current)
                if not try_next(stop, run, threads):
                    release_connection()
                    stop.wait(settings.POLL_SECONDS / 5)
    finally:
        stop.set()
        for thread in worker_threads:
            thread.join()
    watch(current)
    return current


def see_through(run: Run, threads: int, watch: Callable[[queueing.RunProgress], None]) -> queueing.RunProgress:
    """Wait until a run has ended. If no worker is alive, run it in this process."""
    while not (current := queueing.progress(run)).finished:
        if not queueing.workers_alive():
            return play_run(run, threads, watch)
        watch(current)
        release_connection()
        time.sleep(settings.POLL_SECONDS)
    watch(current)
    return current


def dispatch(stop: threading.Event, ring: Callable[[str, str], bool], waiting: Callable[[], int]) -> None:
    """Every POLL_SECONDS, send messages for claimable rows that got none recently, so lost messages are repeated."""
    with announced("dispatcher"), sweeping():
        while not stop.wait(settings.POLL_SECONDS):
            try:
                for kind, code in due(max(0, BELLS - waiting())):
                    # If the broker rejects one message, the others are not tried: each could block for seconds.
                    if stop.is_set() or not ring(kind, code):
                        break
            except leases.DATABASE_AWAY as error:
                log.warning("the database is unavailable; trying again: %s", error)
                close_old_connections()
            release_connection()


def due(limit: int = BELLS) -> list[tuple[str, str]]:
    """Return the kind and code of rows that need a message now: jobs first, then the oldest."""
    since = timezone.now() - timedelta(seconds=settings.RING_AGAIN_SECONDS)
    rows = [
        (kind, str(code))
        for kind, model in ROWS.items()
        for code in model.objects.claimable()
        .filter(Q(rung_at__isnull=True) | Q(rung_at__lt=since))
        .order_by("pk")
        .values_list("code", flat=True)[:limit]
    ]
    return rows[:limit]


def rung(kind: str, code: str) -> None:
    ROWS[kind].objects.filter(code=code).update(rung_at=timezone.now())


@contextmanager
def announced(kind: str) -> Iterator[None]:
    """Register this process as a live worker in the database, refresh that at every heartbeat, and remove it at the end."""
    stop = threading.Event()
    _say(kind)
    heartbeat = threading.Thread(target=_announce, args=(kind, stop), daemon=True, name="announce")
    heartbeat.start()
    try:
        yield
    finally:
        stop.set()
        heartbeat.join()
        with suppress(*leases.DATABASE_AWAY):
            Worker.objects.filter(owner=leases.owner_name()).delete()


@contextmanager
def sweeping() -> Iterator[None]:
    """Run the periodic repairs in a thread of this process."""
    stop = threading.Event()
    # Calls of workers that died would otherwise occupy their slots for ever.
    sweeper = threading.Thread(target=_sweep, args=(stop,), daemon=True, name="sweep")
    sweeper.start()
    try:
        yield
    finally:
        stop.set()
        sweeper.join()


def _sweep(done: threading.Event) -> None:
    try:
        while not done.wait(settings.SWEEP_SECONDS):
            try:
                if lost := ledger.sweep():
                    log.info("%d calls were lost with their workers", lost)
                control.end_stopped()
                jobs.sweep()
                tidying.tidy()
                spending.recount_live()
            except leases.DATABASE_AWAY as error:
                log.warning("could not sweep; trying again: %s", error)
                close_old_connections()
            except (
                Exception
            ):  # any part may fail: without this thread, lost calls would occupy their slots until a restart
                log.exception("could not sweep; trying again")
                close_old_connections()
            release_connection()
    finally:
        # each thread has its own connection, and Django closes only those of requests
        connection.close()


def _announce(kind: str, done: threading.Event) -> None:
    try:
        while not done.wait(settings.HEARTBEAT_SECONDS):
            _say(kind)
            release_connection()
    finally:
        connection.close()


def _say(kind: str) -> None:
    try:
        Worker.objects.update_or_create(owner=leases.owner_name(), defaults={"kind": kind, "seen_at": timezone.now()})
        # Workers that were killed cannot remove their own rows.
        Worker.objects.filter(seen_at__lt=timezone.now() - timedelta(days=1)).delete()
    except leases.DATABASE_AWAY as error:
        log.warning("could not record this worker's heartbeat; trying again: %s", error)
        close_old_connections()


def _work_on(stop: threading.Event, run: Run | None, among: int) -> None:
    try:
        while not stop.is_set():
            if not try_next(stop, run, among):
                release_connection()
                stop.wait(settings.POLL_SECONDS)
    finally:
        connection.close()


def try_next(stop: threading.Event, run: Run | None = None, among: int = 1) -> bool:
    """Return `run_next_row`, or False after logging an exception."""
    try:
        return play_next(stop, run, among)
    except leases.DATABASE_AWAY as error:
        log.warning("the database is unavailable; trying again: %s", error)
    except Exception:  # the thread must survive for the next row; a row that always fails ends as "worker lost"
        log.exception("a row failed unexpectedly; it will be tried again")
    close_old_connections()
    return False
