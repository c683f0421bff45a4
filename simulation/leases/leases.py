"""Who may write to a row now: claim, heartbeat, fence, release.

Every claim raises the row's fence by one, and every later write asks for that fence. A worker that was thought
dead and wakes up holds an old fence, so what it writes changes nothing.
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
LEASED = (Job, Episode, Twin)
DATABASE_AWAY = (OperationalError, InterfaceError)  # locked, restarted, unreachable: never the fault of a row
_ASKED = ("paused_at", "max_cost", "max_tokens", "max_seconds", "first_call_at")  # of a run, while it is played
_PROCESS = uuid.uuid4().hex[:8]


def owner_name() -> str:
    """host:pid:token, so that a restart on the same machine can tell which owners are dead."""
    return f"{socket.gethostname()}:{os.getpid()}:{_PROCESS}"


@dataclass
class Lease(Generic[Row]):
    """The right to write to one row until another worker claims it."""

    row: Row
    fence: int
    fresh: bool = False  # no unit of the row's phase was begun before
    since: float = field(default_factory=time.monotonic)  # when it was last known to be held
    left: bool = False  # after a commit: whether anybody may play on at once
    keep: bool = False  # a commit then holds on to what is left, for the next unit of the same worker

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renews the lease while a slow call runs. A call shorter than a heartbeat costs no query."""
        with heartbeats.kept(type(self.row), self.row.pk, self.fence):
            yield

    def renew(self) -> bool:
        """Hold the row for a whole lease from now; False if a newer fence took over."""
        self.since = time.monotonic()
        return bool(self._mine().update(lease_until=heartbeats.lease_end()) == 1)

    def held(self) -> bool:
        """Whether the row is still ours. Within a quarter of its time a lease cannot have run out: no query then."""
        return time.monotonic() - self.since < settings.LEASE_SECONDS / 4 or self.renew()

    def commit(self, also: Callable[[], object] | None = None, **changes: Any) -> bool:
        """Write `changes`, do `also` with it, and give the lease back unless it is kept; False if a newer fence took over.

        The outcome of a commit is never inferred from an exception: whoever claims next reads the row.
        """
        _check_move(self.row, changes.get("status", self.row.status))
        given_back = {"lease_until": None, "not_before": None, "lost_leases": 0, "begun": False}
        changes = {**given_back, **changes}
        left, fresh = _left(self.row, changes), not changes["begun"]
        if left and self.keep:
            changes |= {"lease_until": heartbeats.lease_end(), "begun": True, "rung_at": None}
        else:
            # Whoever commits rings for what is left; if they die before that, the dispatcher does after a while.
            changes["rung_at"] = timezone.now() if left else None
        with transaction.atomic():
            if self._mine().update(**changes) != 1:
                log.warning("%s was taken over; its late result is dropped", self.row.code)
                return False
            if also:
                also()
        self.left, self.fresh, self.since = left, fresh, time.monotonic()
        for name, value in changes.items():
            setattr(self.row, name, value)
        return True

    def go_on(self) -> bool:
        """Whether the next unit of a kept row may be played; what others may have asked of it meanwhile is read anew."""
        own: list[str] = [] if isinstance(self.row, Twin) else ["cancel_requested_at"]
        found = list(self._mine().values_list(*(f"run__{name}" for name in _ASKED), *own))
        if not found:
            return False
        for name, value in zip(own, found[0][len(_ASKED) :], strict=True):
            setattr(self.row, name, value)
        if self.row.run is None:  # a job that calls no model
            return True
        for name, value in zip(_ASKED, found[0], strict=False):
            setattr(self.row.run, name, value)
        if self.row.run.paused_at is None:
            return True
        self._mine().update(lease_until=None, rung_at=None)  # so that it is rung for as soon as the run is resumed
        return False

    def hand_back(self) -> bool:
        """Give a kept row back between two units; False if a newer fence took over."""
        return bool(self._mine().update(lease_until=None, rung_at=timezone.now()) == 1)

    def still_ours(self, **changes: Any) -> bool:
        """Write `changes` of progress and hold on; False if a newer fence took over. The last statement of a transaction:
        until it ends, nobody else can take the row, and heartbeats wait."""
        self.since = time.monotonic()
        return bool(self._mine().update(lease_until=heartbeats.lease_end(), **changes) == 1)

    def stopped(self) -> bool:
        """End the row as a person asked; False if they took it back meanwhile, or a newer fence took over."""
        ended = {"status": "cancelled", "ended_at": timezone.now(), "lease_until": None, "not_before": None}
        return bool(self._mine().filter(cancel_requested_at__isnull=False).update(**ended) == 1)

    def finish(self, status: str, also: Callable[[], object] | None = None, **changes: Any) -> bool:
        """The last write of all."""
        return self.commit(also, status=status, ended_at=timezone.now(), **changes)

    def wait(self, seconds: float, reason: str, error: str = "") -> bool:
        """Give the row back until some seconds have passed, and say what it waits for."""
        later = timezone.now() + timedelta(seconds=seconds)
        return self.commit(status="waiting", begun=True, not_before=later, reason=reason, error=error)

    def release(self) -> None:
        """Give the row back unplayed after a fault that was not its own. If that fails too, the lease runs out."""
        close_old_connections()
        later = timezone.now() + timedelta(seconds=settings.POLL_SECONDS)
        with suppress(*DATABASE_AWAY):
            self._mine().update(lease_until=None, not_before=later, rung_at=None)

    def _mine(self) -> Any:
        return type(self.row).objects.filter(pk=self.row.pk, fence=self.fence, status__in=Leased.RUNNABLE)


def claim(model: type[Row], code: object, replay: bool = False) -> Lease[Row] | None:
    """Take a row for this worker; None if there is nothing to do on it or another got there first.

    Whatever changes an unheld row raises its fence, so what was read here is what was taken.
    """
    rows = model.objects.unheld() if replay else model.objects.claimable()
    row = rows.for_work().filter(code=code).first()
    if row is None:
        return None
    lost = row.lost_leases + (row.lease_until is not None)
    changes = {
        "status": "running",
        "reason": "",
        "error": "",
        "lease_owner": owner_name(),
        "lease_until": heartbeats.lease_end(),
        "lost_leases": lost,
        "begun": True,
        "started_at": row.started_at or timezone.now(),
    }
    if model.objects.unheld().filter(pk=row.pk, fence=row.fence).update(fence=F("fence") + 1, **changes) != 1:
        return None
    fresh = not row.begun
    for name, value in {**changes, "fence": row.fence + 1}.items():
        setattr(row, name, value)
    lease = Lease(row, row.fence, fresh)
    if lost >= settings.LOST_LEASES_ALLOWED:
        lease.finish("failed", reason="worker_lost", error=f"worker lost: {lost} workers in a row died on this step")
        return None
    return lease


def expire_dead() -> int:
    """Lapse at once the leases of processes of this machine that no longer run, instead of waiting them out."""
    lapsed = 0
    for model in LEASED:
        held = model.objects.filter(status__in=Leased.RUNNABLE, lease_until__gt=timezone.now())
        owners = set(held.values_list("lease_owner", flat=True))
        dead = [owner for owner in owners if _is_dead(owner)]
        lapsed += held.filter(lease_owner__in=dead).update(lease_until=timezone.now() - timedelta(seconds=1))
    return lapsed


def _is_dead(owner: str) -> bool:
    host, pid, _ = [*owner.split(":"), "", ""][:3]
    if host != socket.gethostname() or not pid.isdigit() or owner == owner_name():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _left(row: Episode | Twin | Job, changes: Mapping[str, Any]) -> bool:
    """Whether the row can be played on at once after these changes."""
    awaits = changes.get("awaits_person", row.awaits_person)
    return changes.get("status", row.status) in Leased.RUNNABLE and not awaits and changes["not_before"] is None


def _check_move(row: Episode | Twin | Job, status: str) -> None:
    if status != row.status and status not in row.MOVES[row.status]:
        raise ValueError(f"{row} cannot go from {row.status} to {status}")
