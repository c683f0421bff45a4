"""Leases: which worker may write to a row, and what happens to the row when its unit of work fails.

A claim raises the row's fence, and every commit requires that fence, so a worker that was presumed dead writes nothing.
A unit can stop early in several ways; `run_unit` turns each of them into a state of the row.

May import: simulation.casts, simulation.lab, simulation.llm, simulation.models, wetbench_site.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from simulation.casts.run_config import UnknownCastError
from simulation.lab.bench import Bench
from simulation.lab.errors import ExperimentChanged, LabError, TaskChanged
from simulation.llm import NoUsableAnswer, Refusal, TooLong
from simulation.models import (
    CodeEpisode,
    CodeStep,
    Episode,
    EvidenceReview,
    Grading,
    Job,
    Leased,
    Run,
    Transition,
    Twin,
)
from wetbench_site.database import transaction_if
from wetbench_site.prepared_queries import PreparedQuery, build_update, convert_value, insert_if_found
from wetbench_site.text import describe_error

log, unit_log = logging.getLogger("wetbench.leases"), logging.getLogger("wetbench.units")
Row = TypeVar("Row", Episode, Twin, Job, CodeEpisode)
LEASED_MODELS = (Job, Episode, CodeEpisode, Twin)
# Errors of a database that is locked, restarting or unreachable. No row causes them, so no row may fail for them.
DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)
_RUN_LIMIT_FIELDS = ("paused_at", "max_cost", "max_tokens", "max_seconds", "first_call_at")
_PROCESS_TOKEN = uuid.uuid4().hex[:8]
# A row that a unit of this process holds, by model and key, and the fence of its claim.
LeaseKey = tuple[type[Leased], int, int]
_lock = threading.Lock()
_renewed_at: dict[LeaseKey, float] = {}  # seconds of the monotonic clock
# What to call when a person stops a row, and when the row was last checked for that (monotonic seconds).
_stop_watches: dict[LeaseKey, tuple[Callable[[], None], float]] = {}
_STOP_CHECK_SECONDS = 0.9  # a stop must end a call within two seconds; shorter calls cost no query
_heartbeat_thread: threading.Thread | None = None


class CallDone(Exception):  # noqa: N818  # not an error: the next unit continues from the call log
    """The unit's one new call was answered; further calls belong to the next unit."""


class LeaseLost(Exception):  # noqa: N818  # as above
    """Another worker took over the row. The late answer is stored in the call log and is not used."""


class RetryLater(Exception):  # noqa: N818  # as above
    """The call cannot be made now, or failed with a transient error."""

    def __init__(self, seconds: float, reason: str, error: str = "") -> None:
        super().__init__(error or reason)
        self.seconds, self.reason, self.error = seconds, reason, error


class Blocked(Exception):  # noqa: N818  # as above
    """A person must act before the call can be made: add a key, raise a budget, or change a request that was refused."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason, self.error = reason, error


class RetriesExhausted(LabError):  # noqa: N818  # as above
    """The call or the sandbox failed as often as the retry policy allows."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason


# Faults of a model or its provider. Each has a reason in the closed list simulation.models.REASONS.
MODEL_FAULTS = (Refusal, NoUsableAnswer, TooLong, RetriesExhausted)


def compute_lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)


def owner_name() -> str:
    """Return host:pid:token of this process."""
    # Host and process id let a restarted worker find dead owners on its machine; the token keeps names unique when
    # the system uses a process id again.
    return f"{socket.gethostname()}:{os.getpid()}:{_PROCESS_TOKEN}"


@dataclass
class Lease(Generic[Row]):
    """The right to write to one row until another worker claims it."""

    row: Row
    fence: int
    is_first_unit: bool = False  # no unit of the row's phase was started before, so no calls are logged for it
    confirmed_at: float = field(default_factory=time.monotonic)  # monotonic seconds
    has_work_left: bool = False  # after a commit: the next unit can start at once
    keep_after_commit: bool = False  # keep the lease if work is left, which saves a claim and a message per unit
    bench: Bench | None = None  # an episode's, as the last unit left it
    history: list[Any] | None = None  # a code episode's steps, as the last unit left them

    @contextmanager
    def keep_renewed(self) -> Iterator[None]:
        """Renew the lease at every heartbeat while a slow call runs. A call shorter than a heartbeat costs no query."""
        global _heartbeat_thread
        key = type(self.row), self.row.pk, self.fence
        with _lock:
            _renewed_at[key] = time.monotonic()
            # The thread ends when nothing is leased, so an idle process has none, and fork and exit are clean.
            if _heartbeat_thread is None or not _heartbeat_thread.is_alive():
                _heartbeat_thread = threading.Thread(target=_run_heartbeat, daemon=True, name="heartbeat")
                _heartbeat_thread.start()
        try:
            yield
        finally:
            with _lock:
                _renewed_at.pop(key, None)

    @contextmanager
    def watch_for_stop(self, on_stop: Callable[[], None]) -> Iterator[None]:
        """Call `on_stop` once, from another thread, if a person stops the row during the block. Use it inside a unit."""
        key = type(self.row), self.row.pk, self.fence
        with _lock:
            _stop_watches[key] = on_stop, time.monotonic()
        try:
            yield
        finally:
            with _lock:
                _stop_watches.pop(key, None)

    def renew_lease(self) -> bool:
        """Extend the lease by its full duration from now. Return False if the row has a newer fence or has ended."""
        self.confirmed_at = time.monotonic()
        return bool(self._filter_own_row().update(lease_until=compute_lease_end()) == 1)

    def is_held(self) -> bool:
        # This runs twice per model call; within a quarter of its duration a lease cannot have expired.
        return time.monotonic() - self.confirmed_at < settings.LEASE_SECONDS / 4 or self.renew_lease()

    def commit_changes(
        self,
        extra_write: Callable[[], object] | None = None,
        new_row: Transition | EvidenceReview | CodeStep | Grading | None = None,
        **changes: Any,
    ) -> bool:
        """Write `changes`, insert `new_row` and call `extra_write` in one transaction. Release the lease unless it is kept.

        Return False and write nothing if the row has a newer fence or has ended.
        """
        status, awaits = changes.get("status", self.row.status), changes.get("awaits_person", self.row.awaits_person)
        if status != self.row.status and status not in self.row.MOVES[self.row.status]:
            raise ValueError(f"{self.row} cannot change from {self.row.status} to {status}")
        changes = {"lease_until": None, "not_before": None, "lost_leases": 0, "begun": False, **changes}
        # Whether the next unit of the row can start at once after these changes.
        work_left = status in Leased.RUNNABLE and not awaits and changes["not_before"] is None
        fresh = not changes["begun"]
        if work_left and self.keep_after_commit:
            changes |= {"lease_until": compute_lease_end(), "begun": True, "notified_at": None}
        else:
            # The caller sends the message for the next unit, so the row counts as notified. If the process dies before it
            # sends the message, the dispatcher sends it again after a while.
            changes["notified_at"] = timezone.now() if work_left else None
        # If the connection breaks here, the exception does not show whether the commit succeeded. No code depends on
        # it: the next claim reads the row.
        own_row = {"id": self.row.pk, "fence": self.fence, "status": Leased.RUNNABLE}
        update = build_update(type(self.row), changes, _format_control_columns(type(self.row)), **own_row)
        with transaction_if(extra_write is not None):
            rows = insert_if_found(new_row, update) if new_row else update.fetch_rows()
            if not rows:
                log.warning("%s was taken over by another worker; this late result is discarded", self.row.code)
                return False
            if extra_write:
                extra_write()
        # Only after the transaction: a failed commit must leave the row in memory as it was.
        self.has_work_left, self.is_first_unit, self.confirmed_at = work_left, fresh, time.monotonic()
        for name, value in changes.items():
            setattr(self.row, name, value)
        for column, value in zip(_list_control_fields(type(self.row)), rows[0], strict=True):
            owner = self.row.run if column.model is Run else self.row
            if owner is not None:  # a job that calls no model has no run
                setattr(owner, column.attname, convert_value(column, value))
        return True

    def can_continue(self) -> bool:
        """Return whether the next unit of a kept row may start. Release the row if its run was paused before the commit."""
        if self.row.run is None or self.row.run.paused_at is None:
            return True
        # Not notified, so that the dispatcher sends a message as soon as the run is resumed.
        self._filter_own_row().update(lease_until=None, notified_at=None)
        return False

    def release_between_units(self) -> bool:
        """Release a kept row between two units. Return False if the row has a newer fence or has ended."""
        # The caller sends a message for the row now: mark it, so that the dispatcher does not send a second one.
        return bool(self._filter_own_row().update(lease_until=None, notified_at=timezone.now()) == 1)

    def postpone_row(self, seconds: float) -> None:
        """Release the row before any unit was run, so that it can be claimed again after some seconds."""
        retry_at = timezone.now() + timedelta(seconds=seconds)
        self._filter_own_row().update(lease_until=None, not_before=retry_at, notified_at=None)

    def commit_progress(self, **changes: Any) -> bool:
        """Write `changes` that record progress, and keep the lease. Return False if the row was taken over or has ended."""
        self.confirmed_at = time.monotonic()
        # Call this last in a transaction: it locks the row until the transaction ends, and heartbeats wait.
        return bool(self._filter_own_row().update(lease_until=compute_lease_end(), **changes) == 1)

    def cancel_if_requested(self) -> bool:
        """Cancel the row as a person requested. Return False if the request was withdrawn or the row has a newer fence."""
        ended = {"status": "cancelled", "ended_at": timezone.now(), "lease_until": None, "not_before": None}
        # The condition is part of the UPDATE: a request that is withdrawn at this moment must not cancel the row.
        return bool(self._filter_own_row().filter(cancel_requested_at__isnull=False).update(**ended) == 1)

    def finish_row(self, status: str, extra_write: Callable[[], object] | None = None, **changes: Any) -> bool:
        """End the row with this status, and commit as `commit_changes` does."""
        return self.commit_changes(extra_write, status=status, ended_at=timezone.now(), **changes)

    def schedule_retry(self, seconds: float, reason: str, error: str = "") -> bool:
        """Release the row until some seconds have passed, and store the reason for the wait."""
        retry_at = timezone.now() + timedelta(seconds=seconds)
        return self.commit_changes(status="waiting", begun=True, not_before=retry_at, reason=reason, error=error)

    def release_after_fault(self) -> None:
        """Release the row without a result after a fault of the database. If this fails too, the lease expires by itself."""
        close_old_connections()  # the one that failed may still be in this thread
        retry_at = timezone.now() + timedelta(seconds=settings.POLL_SECONDS)
        with suppress(*DATABASE_UNAVAILABLE):
            self._filter_own_row().update(lease_until=None, not_before=retry_at, notified_at=None)

    def _filter_own_row(self) -> Any:
        return type(self.row).objects.filter(pk=self.row.pk, fence=self.fence, status__in=Leased.RUNNABLE)


@cache
def _list_control_fields(model: Any) -> list[Any]:
    """Return the fields that people may change while a worker keeps a row: its cancellation, its run's limits and pause."""
    own = [] if model is Twin else [model._meta.get_field("cancel_requested_at")]
    return [*own, *(Run._meta.get_field(name) for name in _RUN_LIMIT_FIELDS)]


@cache
def _format_control_columns(model: type[Leased]) -> str:
    """Return the columns of these fields for the commit, so that a worker need not query them before the next unit."""
    run = f'FROM "{Run._meta.db_table}" WHERE id = run_id'
    fields = _list_control_fields(model)
    return ", ".join(f"(SELECT {field.column} {run})" if field.model is Run else field.column for field in fields)


def claim_row(model: type[Row], code: object, replay: bool = False) -> Lease[Row] | None:
    """Claim a row for this worker. Return None if there is nothing to do on it or another worker was faster."""
    row = _prepare_claim(model, replay).find_first(uuid.UUID(str(code)), timezone.now())
    if row is None:
        return None
    # An expired lease that nobody released belongs to a worker that died on this row.
    lost_leases = row.lost_leases + (row.lease_until is not None and not _has_rebooted_since(row))
    changes = {"status": "running", "reason": "", "error": "", "begun": True, "lost_leases": lost_leases}
    changes |= {"lease_owner": owner_name(), "lease_until": compute_lease_end()}
    changes["started_at"] = row.started_at or timezone.now()
    changes["fence"] = row.fence + 1
    # Compare and set, without a lock. A late heartbeat changes the lease alone; whatever else changes an unleased row raises
    # its fence.
    unchanged = {name: getattr(row, name) for name in ("id", "fence", "status", "lease_until", "not_before")}
    with transaction_if(False):
        if not build_update(model, changes, **unchanged).fetch_rows():
            return None
    fresh = not row.begun
    for name, value in changes.items():
        setattr(row, name, value)
    lease = Lease(row, row.fence, fresh)
    # A row that kills its workers (out of memory, say) would otherwise kill one after the other.
    if lost_leases >= settings.LOST_LEASES_ALLOWED:
        error = f"worker lost: {lost_leases} workers in a row died on this step"
        lease.finish_row("failed", reason="worker_lost", error=error)
        return None
    return lease


@cache
def _prepare_claim(model: Any, replay: bool) -> PreparedQuery[Any]:
    """Return the query for a row that can be claimed, by its code and the time."""

    def build(code: object, now: datetime) -> Any:
        rows = model.objects.unheld(now) if replay else model.objects.claimable(now)
        return rows.for_work().filter(code=code)

    return PreparedQuery(build, "uuid", "time")


def _has_rebooted_since(row: Leased) -> bool:
    """Return whether the machine of the row's last worker, if it is this one, was started after that worker's last heartbeat."""
    # A reboot ends all workers, whatever they run, so it says nothing about the row.
    if row.lease_until is None or row.lease_owner.partition(":")[0] != socket.gethostname():
        return False
    return row.lease_until - timedelta(seconds=settings.LEASE_SECONDS) < compute_boot_time()


def compute_boot_time() -> datetime:
    """Return when this machine was started."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux alone counts the time of a suspension
    return timezone.now() - timedelta(seconds=time.clock_gettime(clock))


def _run_heartbeat() -> None:
    global _heartbeat_thread
    try:
        while True:
            # Sleep much less than a heartbeat, so that leases taken at any time are renewed in time and the thread
            # ends soon after the last lease.
            time.sleep(min(settings.HEARTBEAT_SECONDS / 3, 0.5))
            with _lock:
                if not _renewed_at:
                    _heartbeat_thread = None
                    return
                latest = time.monotonic() - settings.HEARTBEAT_SECONDS
                due = [key for key, renewed_at in _renewed_at.items() if renewed_at <= latest]
                latest_check = time.monotonic() - _STOP_CHECK_SECONDS
                watched = [key for key, (_, checked_at) in _stop_watches.items() if checked_at <= latest_check]
            if due:
                _renew_leases(due)
            if watched:
                _report_stops(watched)
    finally:
        connection.close()


def _renew_leases(due: list[LeaseKey]) -> None:
    """Renew these leases with one UPDATE per model, however many calls are under way."""
    now = time.monotonic()
    try:
        for model in {model for model, _, _ in due}:
            held = Q()
            for key_model, pk, fence in due:
                if key_model is model:
                    held |= Q(pk=pk, fence=fence)
            rows: Any = model.objects
            held_rows = rows.filter(held, status__in=Leased.RUNNABLE, lease_until__isnull=False)
            held_rows.update(lease_until=compute_lease_end())
    except DATABASE_UNAVAILABLE:
        log.warning("could not renew %d leases; trying again", len(due))
        # The entries stay due, so the next round tries again; a lease lasts for several heartbeats.
        close_old_connections()
        return
    connection.close()
    with _lock:
        # A unit may have ended during the UPDATE, and its lease must not be renewed for ever.
        _renewed_at.update({key: now for key in due if key in _renewed_at})


def _report_stops(watched: list[LeaseKey]) -> None:
    """Call the functions of those of these rows that a person has stopped, with one query per model."""
    now = time.monotonic()
    try:
        stopped: set[LeaseKey] = set()
        for model in {model for model, _, _ in watched}:
            keys_by_pk = {key[1]: key for key in watched if key[0] is model}
            # A twin is cancelled at once, and other rows as well if their lease had expired.
            is_stopped = Q(status="cancelled")
            if model is not Twin:
                is_stopped |= Q(cancel_requested_at__isnull=False)
            rows: Any = model.objects
            stopped |= {
                keys_by_pk[pk] for pk in rows.filter(is_stopped, pk__in=keys_by_pk).values_list("pk", flat=True)
            }
    except DATABASE_UNAVAILABLE:
        log.warning("could not check %d rows for a stop; trying again", len(watched))
        close_old_connections()
        return
    connection.close()
    with _lock:
        for key in watched:
            if key not in _stop_watches:  # its call has ended in the meantime
                continue
            on_stop, _ = _stop_watches[key]
            if key in stopped:
                del _stop_watches[key]
                on_stop()
            else:
                _stop_watches[key] = on_stop, now


def expire_dead_leases() -> int:
    """Expire the leases of processes on this machine that no longer run, so that their work continues. Return how many."""
    expired = 0
    for model in LEASED_MODELS:
        held = model.objects.filter(status__in=Leased.RUNNABLE, lease_until__gt=timezone.now())
        owners = set(held.values_list("lease_owner", flat=True))
        dead = [owner for owner in owners if _is_dead_owner(owner)]
        expired += held.filter(lease_owner__in=dead).update(lease_until=timezone.now() - timedelta(seconds=1))
    return expired


def _is_dead_owner(owner: str) -> bool:
    host, pid, _ = [*owner.split(":"), "", ""][:3]
    if host != socket.gethostname() or not pid.isdigit() or owner == owner_name():
        return False
    try:
        os.kill(int(pid), 0)  # signal 0 sends nothing and only checks that the process exists
    except ProcessLookupError:
        return True
    except PermissionError:  # the process runs, under another user
        pass
    return False


def run_unit(lease: Lease[Any], unit: Callable[[], bool]) -> bool:
    """Run a unit while its lease is renewed. Return True if its result is committed and the row may have more to do."""
    try:
        with lease.keep_renewed():
            return unit()
    except CallDone:
        return lease.commit_changes(begun=True)
    except LeaseLost:
        return False
    except RetryLater as retry:
        lease.schedule_retry(retry.seconds, retry.reason, retry.error)
        return False
    except Blocked as block:
        if block.reason == "budget" and _have_limits_changed(lease.row.run):
            # The budget was raised after the call was refused: blocking the row now would miss that.
            lease.schedule_retry(settings.POLL_SECONDS, block.reason)
        elif isinstance(lease.row, Job):
            # No page lists blocked jobs. A failed one can be requested again and continues where this one stopped.
            lease.finish_row("failed", reason=block.reason, error=block.error)
        else:
            lease.commit_changes(status="blocked", begun=True, reason=block.reason, error=block.error)
        return False
    except DATABASE_UNAVAILABLE:
        lease.release_after_fault()
        raise
    except LabError as error:
        # not the message: it may quote a model's reply
        unit_log.warning("%s failed: %s", lease.row.code, type(error).__name__)
        return lease.finish_row("failed", reason=classify_fault(error), error=describe_error(error)[:4000])
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:
        # A bug in this program must end the row: otherwise the row would use up lease after lease. BaseException,
        # because a panic in a library written in Rust is not an Exception and would end the thread.
        unit_log.exception("%s failed", lease.row.code)
        # Not the message, which is for programmers and may quote a prompt. The log has the row's code, too.
        message = f"internal error. The worker's log has the details, under {lease.row.code}."
        return lease.finish_row("failed", reason="internal", error=message)


def _have_limits_changed(run: Run) -> bool:
    limits = ("max_cost", "max_tokens", "max_seconds")
    current = Run.objects.values_list(*limits).get(pk=run.pk)
    return bool(current != tuple(getattr(run, name) for name in limits))


def classify_fault(error: Exception) -> str:
    """Return the fault's reason from the closed list `simulation.models.REASONS`."""
    match error:
        case Refusal():
            return "refused"
        case TooLong():
            return "context"
        case NoUsableAnswer(reason=said) | RetriesExhausted(reason=said) | Blocked(reason=said):
            return str(said)
        case ExperimentChanged():
            return "experiment_changed"
        case TaskChanged():
            return "task_changed"
        case UnknownCastError():
            return "internal"
    return "cannot_be"
