"""Who plays: the embedded worker's threads, and the dispatcher that rings for Celery workers.

Both find claimable rows in the database and call the same `play`; a message only says where to look.
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
BELLS = 500  # messages that may wait at once: without workers, ringing again and again would fill the broker
# In the order in which they are looked for: people wait for jobs.
ROWS: dict[str, type[Job] | type[Episode] | type[Twin]] = {"job": Job, "episode": Episode, "twin": Twin}
_at_jobs = 0  # threads of this process that play one
_counting = threading.Lock()


def play(kind: str, code: object) -> bool:
    """Play the next unit of a row and no more. True if it was ours to play, and more is left to do at once."""
    return play_on(kind, code, lambda: True)


def play_on(kind: str, code: object, stop: Callable[[], bool]) -> bool:
    """Play a row unit after unit, for a while. True if it was given back with more left to do: ring for it.

    The lease is kept between units, which spares a claim and a message for each; nobody waits long for a turn.
    """
    until = time.monotonic() + settings.TURN_SECONDS
    if kind == "job":
        return _play_on(leases.claim(Job, code), jobs.advance, until, stop)
    if kind == "episode":
        return _play_on(leases.claim(Episode, code), runner.advance, until, stop)
    return _play_on(leases.claim(Twin, code), twinning.advance, until, stop)


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
    """One unit; whatever is logged meanwhile says of which row and step."""
    row = lease.row
    far: dict[str, str | int] = {"step": row.next_number, "phase": row.phase} if isinstance(row, Episode) else {}
    with log_context.bind(type(row).__name__.lower(), row.code, **far):
        return advance(lease)


def play_next(stop: threading.Event, run: Run | None = None, among: int = 1) -> bool:
    """Find a claimable row, an old one first, and play it as far as it goes. False if there was none.

    So many threads that look at once each take one of as many rows: all after the oldest, only one would get it.
    """
    for kind, model in ROWS.items():
        with _place_at(kind, among) as free:
            if not free:
                continue
            rows = model.objects.claimable().order_by("pk")
            if run:
                rows = rows.filter(run=run)
            codes = list(rows.values_list("code", flat=True)[:among])
            if not codes:
                continue
            code = random.choice(codes)
            try:
                play_on(kind, code, stop.is_set)
            finally:
                release_connection()
            return True
    return False


@contextmanager
def _place_at(kind: str, threads: int) -> Iterator[bool]:
    """Whether this thread may look for that kind: jobs, which can take long, get half of the threads at most."""
    global _at_jobs
    if kind != "job":
        yield True
        return
    with _counting:
        free = _at_jobs < max(1, threads // 2)
        _at_jobs += free
    try:
        yield free
    finally:
        with _counting:
            _at_jobs -= free


def work(stop: threading.Event, threads: int) -> None:
    """The worker that needs no broker: plays whatever is claimable until told to stop."""
    try:
        if lapsed := leases.expire_dead():
            log.info("took over %d rows of workers that died on this machine", lapsed)
    except leases.DATABASE_AWAY as error:
        log.warning("the database did not answer; leases of workers that died run out by themselves: %s", error)
    crew = [threading.Thread(target=_work_on, args=(stop, None, threads), name=f"worker-{n}") for n in range(threads)]
    for member in crew:
        member.start()
    with announced("embedded"), sweeping():
        release_connection()
        while not stop.wait(settings.POLL_SECONDS):
            pass
    for member in crew:
        member.join()


def play_run(run: Run, threads: int, watch: Callable[[queueing.RunProgress], None]) -> queueing.RunProgress:
    """Play one run to its end in this process, calling `watch` as it goes on. One thread means the caller's own."""
    leases.expire_dead()
    stop = threading.Event()
    crew = [threading.Thread(target=_work_on, args=(stop, run, threads), daemon=True) for _ in range(threads - 1)]
    for member in crew:
        member.start()
    try:
        with announced("command"), sweeping():
            while not (now := queueing.progress(run)).finished:
                watch(now)
                if not try_next(stop, run, threads):
                    release_connection()
                    stop.wait(settings.POLL_SECONDS / 5)
    finally:
        stop.set()
        for member in crew:
            member.join()
    watch(now)
    return now


def see_through(run: Run, threads: int, watch: Callable[[queueing.RunProgress], None]) -> queueing.RunProgress:
    """Wait until a run has ended: watch live workers play it, or play it here when there is none."""
    while not (now := queueing.progress(run)).finished:
        if not queueing.workers_alive():
            return play_run(run, threads, watch)
        watch(now)
        release_connection()
        time.sleep(settings.POLL_SECONDS)
    watch(now)
    return now


def dispatch(stop: threading.Event, ring: Callable[[str, str], bool], waiting: Callable[[], int]) -> None:
    """Every second, ring for claimable rows that nobody rang for lately. Lost messages are rung for again.

    A broker that does not take one bell is not offered the others: each could hang for seconds.
    """
    with announced("dispatcher"), sweeping():
        while not stop.wait(settings.POLL_SECONDS):
            try:
                for kind, code in due(max(0, BELLS - waiting())):
                    if stop.is_set() or not ring(kind, code):
                        break
            except leases.DATABASE_AWAY as error:
                log.warning("the database did not answer; trying again: %s", error)
                close_old_connections()
            release_connection()


def due(limit: int = BELLS) -> list[tuple[str, str]]:
    """Rows to ring for now, jobs before others, oldest first."""
    since = timezone.now() - timedelta(seconds=settings.RING_AGAIN_SECONDS)
    found = [
        (kind, str(code))
        for kind, model in ROWS.items()
        for code in model.objects.claimable()
        .filter(Q(rung_at__isnull=True) | Q(rung_at__lt=since))
        .order_by("pk")
        .values_list("code", flat=True)[:limit]
    ]
    return found[:limit]


def rung(kind: str, code: str) -> None:
    ROWS[kind].objects.filter(code=code).update(rung_at=timezone.now())


@contextmanager
def announced(kind: str) -> Iterator[None]:
    """Says in the database, every heartbeat, that this process plays; takes the word back at the end."""
    done = threading.Event()
    _say(kind)
    voice = threading.Thread(target=_announce, args=(kind, done), daemon=True, name="announce")
    voice.start()
    try:
        yield
    finally:
        done.set()
        voice.join()
        with suppress(*leases.DATABASE_AWAY):
            Worker.objects.filter(owner=leases.owner_name()).delete()


@contextmanager
def sweeping() -> Iterator[None]:
    """Every so often, write off the calls that died with their workers: they would hold their slots for ever."""
    done = threading.Event()
    sweeper = threading.Thread(target=_sweep, args=(done,), daemon=True, name="sweep")
    sweeper.start()
    try:
        yield
    finally:
        done.set()
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
            except Exception:  # of any part: without this thread lost calls would hold their slots until a restart
                log.exception("could not sweep; trying again")
                close_old_connections()
            release_connection()
    finally:
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
        Worker.objects.filter(seen_at__lt=timezone.now() - timedelta(days=1)).delete()
    except leases.DATABASE_AWAY as error:
        log.warning("could not say that this worker is alive; trying again: %s", error)
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
    """`play_next`, or False if it broke down."""
    try:
        return play_next(stop, run, among)
    except leases.DATABASE_AWAY as error:
        log.warning("the database did not answer; trying again: %s", error)
    except Exception:  # the next row needs this thread; a row that always breaks it ends as "worker lost"
        log.exception("a row could not be played; it is tried again")
    close_old_connections()
    return False
