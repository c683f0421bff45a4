"""Claim, renew, commit and release rows for one worker.

Every claim raises the row's fence by one, and every later write requires that fence. A worker that was presumed dead
and continues has an old fence, so its writes change nothing.
"""

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, transaction
from django.db.models import F
from django.utils import timezone

from simulation.leases import heartbeats
from simulation.models import Episode, Job, Leased, Twin

log = logging.getLogger("wetbench.leases")
Row = TypeVar("Row", Episode, Twin, Job)
LEASED_MODELS = (Job, Episode, Twin)
# Errors of a database that is locked, restarting or unreachable. No row causes them, so no row may fail because of
# them.
DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)
# Fields of the run that people may change while a worker keeps one of its rows.
_RUN_LIMIT_FIELDS = ("paused_at", "max_cost", "max_tokens", "max_seconds", "first_call_at")
_PROCESS_TOKEN = uuid.uuid4().hex[:8]


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

    @contextmanager
    def keep_renewed(self) -> Iterator[None]:
        """Renew the lease while a slow call runs. A call shorter than a heartbeat costs no query."""
        with heartbeats.keep_renewed(type(self.row), self.row.pk, self.fence):
            yield

    def renew_lease(self) -> bool:
        """Extend the lease by its full duration from now. Return False if the row has a newer fence or has ended."""
        self.confirmed_at = time.monotonic()
        return bool(self._filter_own_row().update(lease_until=heartbeats.compute_lease_end()) == 1)

    def is_held(self) -> bool:
        """Return whether this worker still holds the row."""
        # A lease cannot have expired within a quarter of its duration, so no query is needed: this runs twice per
        # model call.
        return time.monotonic() - self.confirmed_at < settings.LEASE_SECONDS / 4 or self.renew_lease()

    def commit_changes(self, extra_write: Callable[[], object] | None = None, **changes: Any) -> bool:
        """Write `changes`, call `extra_write` in the same transaction, and release the lease unless it is kept.

        Return False and write nothing if the row has a newer fence or has ended.
        """
        _check_status_change(self.row, changes.get("status", self.row.status))
        released = {"lease_until": None, "not_before": None, "lost_leases": 0, "begun": False}
        changes = {**released, **changes}
        work_left, fresh = _has_work_left(self.row, changes), not changes["begun"]
        if work_left and self.keep_after_commit:
            changes |= {"lease_until": heartbeats.compute_lease_end(), "begun": True, "notified_at": None}
        else:
            # The caller sends the message for the next unit, so the row counts as notified. If the process dies before it
            # sends the message, the dispatcher sends it again after a while.
            changes["notified_at"] = timezone.now() if work_left else None
        # If the connection breaks here, the exception does not show whether the commit succeeded. No code depends on
        # it: the next claim reads the row.
        with transaction.atomic():
            if self._filter_own_row().update(**changes) != 1:
                log.warning("%s was taken over by another worker; this late result is discarded", self.row.code)
                return False
            if extra_write:
                extra_write()
        # Only after the transaction: a failed commit must leave the row in memory as it was.
        self.has_work_left, self.is_first_unit, self.confirmed_at = work_left, fresh, time.monotonic()
        for name, value in changes.items():
            setattr(self.row, name, value)
        return True

    def can_continue(self) -> bool:
        """Return whether the next unit of a kept row may start.

        Reload the run's limits and pause, and any request to cancel.
        """
        own_fields: list[str] = [] if isinstance(self.row, Twin) else ["cancel_requested_at"]
        rows = list(self._filter_own_row().values_list(*(f"run__{name}" for name in _RUN_LIMIT_FIELDS), *own_fields))
        # no row: a newer fence took over, or the row ended
        if not rows:
            return False
        for name, value in zip(own_fields, rows[0][len(_RUN_LIMIT_FIELDS) :], strict=True):
            setattr(self.row, name, value)
        if self.row.run is None:  # a job that calls no model
            return True
        for name, value in zip(_RUN_LIMIT_FIELDS, rows[0], strict=False):
            setattr(self.row.run, name, value)
        if self.row.run.paused_at is None:
            return True
        # Not notified, so that the dispatcher sends a message as soon as the run is resumed.
        self._filter_own_row().update(lease_until=None, notified_at=None)
        return False

    def release_between_units(self) -> bool:
        """Release a kept row between two units. Return False if the row has a newer fence or has ended."""
        # The caller sends a message for the row now: mark it, so that the dispatcher does not send a second one.
        return bool(self._filter_own_row().update(lease_until=None, notified_at=timezone.now()) == 1)

    def commit_progress(self, **changes: Any) -> bool:
        """Write `changes` that record progress, and keep the lease.

        Return False if the row has a newer fence or has ended. Call it as the last statement of a transaction.
        """
        self.confirmed_at = time.monotonic()
        # This locks the row until the transaction ends: nobody can claim it, and heartbeats wait. So it comes
        # last.
        return bool(self._filter_own_row().update(lease_until=heartbeats.compute_lease_end(), **changes) == 1)

    def cancel_if_requested(self) -> bool:
        """Cancel the row as a person requested.

        Return False if the request was withdrawn or the row has a newer fence.
        """
        ended = {"status": "cancelled", "ended_at": timezone.now(), "lease_until": None, "not_before": None}
        # The condition is part of the UPDATE: a request that is withdrawn at this moment must not cancel the row.
        return bool(self._filter_own_row().filter(cancel_requested_at__isnull=False).update(**ended) == 1)

    def finish_row(self, status: str, extra_write: Callable[[], object] | None = None, **changes: Any) -> bool:
        """Commit the final status of the row."""
        return self.commit_changes(extra_write, status=status, ended_at=timezone.now(), **changes)

    def schedule_retry(self, seconds: float, reason: str, error: str = "") -> bool:
        """Release the row until some seconds have passed, and store the reason for the wait."""
        retry_at = timezone.now() + timedelta(seconds=seconds)
        return self.commit_changes(status="waiting", begun=True, not_before=retry_at, reason=reason, error=error)

    def release_after_fault(self) -> None:
        """Release the row without a result after a fault of the database. If this fails too, the lease expires by itself."""
        # the connection that failed may still be in this thread
        close_old_connections()
        retry_at = timezone.now() + timedelta(seconds=settings.POLL_SECONDS)
        with suppress(*DATABASE_UNAVAILABLE):
            self._filter_own_row().update(lease_until=None, not_before=retry_at, notified_at=None)

    def _filter_own_row(self) -> Any:
        return type(self.row).objects.filter(pk=self.row.pk, fence=self.fence, status__in=Leased.RUNNABLE)


def claim_row(model: type[Row], code: object, replay: bool = False) -> Lease[Row] | None:
    """Claim a row for this worker. Return None if there is nothing to do on it or another worker was faster."""
    candidates = model.objects.unheld() if replay else model.objects.claimable()
    row = candidates.for_work().filter(code=code).first()
    if row is None:
        return None
    # An expired lease that nobody released belongs to a worker that died on this row.
    lost_leases = row.lost_leases + (row.lease_until is not None)
    changes = {
        "status": "running",
        "reason": "",
        "error": "",
        "lease_owner": owner_name(),
        "lease_until": heartbeats.compute_lease_end(),
        "lost_leases": lost_leases,
        "begun": True,
        "started_at": row.started_at or timezone.now(),
    }
    # Compare and set, without a lock: whatever changes an unleased row raises its fence, so the row that was read
    # above is the row that is claimed.
    if model.objects.unheld().filter(pk=row.pk, fence=row.fence).update(fence=F("fence") + 1, **changes) != 1:
        return None
    fresh = not row.begun
    for name, value in {**changes, "fence": row.fence + 1}.items():
        setattr(row, name, value)
    lease = Lease(row, row.fence, fresh)
    # A row that kills its workers (out of memory, say) would otherwise kill one after the other.
    if lost_leases >= settings.LOST_LEASES_ALLOWED:
        lease.finish_row(
            "failed", reason="worker_lost", error=f"worker lost: {lost_leases} workers in a row died on this step"
        )
        return None
    return lease


def expire_dead_leases() -> int:
    """Expire the leases of processes on this machine that no longer run. Return the number of leases.

    After a restart, work continues at once instead of after a full lease.
    """
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
        # signal 0 sends nothing and only checks that the process exists
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # the process runs, under another user
        return False
    return False


def _has_work_left(row: Episode | Twin | Job, changes: Mapping[str, Any]) -> bool:
    """Return whether the next unit of the row can start at once after these changes."""
    awaits = changes.get("awaits_person", row.awaits_person)
    return changes.get("status", row.status) in Leased.RUNNABLE and not awaits and changes["not_before"] is None


def _check_status_change(row: Episode | Twin | Job, status: str) -> None:
    if status != row.status and status not in row.MOVES[row.status]:
        raise ValueError(f"{row} cannot change from {row.status} to {status}")
