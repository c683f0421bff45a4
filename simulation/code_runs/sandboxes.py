"""The sandbox of this process, and the record of every sandbox that runs for a code episode."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from simulation import leases
from simulation.leases import Blocked, CallDone, Lease, LeaseLost, RetryLater
from simulation.models import CodeEpisode, SandboxRun
from simulation.replication.sandbox.base import Limits, Sandbox, SandboxFault, SandboxResult, SandboxUnavailable
from simulation.replication.sandbox.choosing import SandboxSettings, open_sandbox
from simulation.replication.sandbox.slots import take_slot
from simulation.replication.trees import Files
from wetbench_site.database import release_connection
from wetbench_site.text import UNSTORABLE, hash_json

_SLOT_SECONDS = 2.0  # a unit waits this long for a slot, then releases its row
_SLOT_POLL_SECONDS = 0.05
_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**31), 2**31 - 1
_MAX_COMMAND = 20_000  # characters of a command that are stored
_retest_at = 0.0  # monotonic seconds; a machine without a sandbox is not tested again before
_unavailable = ""  # why there was none at the last test


def get_sandbox() -> Sandbox:
    """Return the sandbox of this process. Raises SandboxUnavailable, whose message states how to get one."""
    global _retest_at, _unavailable
    # The self-test of a backend that fails may take a second, and every page and heartbeat calls this.
    if _unavailable and time.monotonic() < _retest_at:
        raise SandboxUnavailable(_unavailable)
    try:
        sandbox = open_sandbox()
    except SandboxUnavailable as error:
        _unavailable, _retest_at = str(error), time.monotonic() + settings.SWEEP_SECONDS
        raise
    _unavailable = ""
    return sandbox


def describe_sandbox() -> str:
    """Return the backend of this process for the worker's heartbeat, or "" if it has none."""
    try:
        return get_sandbox().name
    except SandboxUnavailable:
        return ""


def is_switched_off() -> bool:
    """Return whether this process must leave everything that needs a sandbox to other workers."""
    return SandboxSettings.from_environment().mode == "off"


def list_foreign_phases() -> tuple[str, ...]:
    """Return the phases of code episodes that other workers must run."""
    if is_switched_off():
        return CodeEpisode.SANDBOX_PHASES
    if settings.SANDBOX_ONLY:
        return tuple(phase for phase, _ in CodeEpisode.PHASES if phase not in CodeEpisode.SANDBOX_PHASES)
    return ()


def mark_lost_sandboxes() -> int:
    """Mark sandboxes under way as lost if their episode is no longer leased under their fence. Return how many."""
    now = timezone.now()
    dead = Q(episode__lease_until__isnull=True) | Q(episode__lease_until__lt=now) | Q(episode__fence__gt=F("fence"))
    under_way = SandboxRun.objects.filter(state="started")
    keys = list(under_way.filter(dead).values_list("pk", flat=True)[:1000])
    return under_way.filter(pk__in=keys).update(state="lost", ended_at=now)


@contextmanager
def open_recorded(lease: Lease[CodeEpisode], purpose: str) -> Iterator["RecordedSandbox"]:
    """Yield the sandbox of this process for one unit of a code episode. Raises Blocked if there is none.

    The unit passes `write_results` to its commit. If the commit is refused because another worker has taken over, the sandboxes
    of the unit are stored as fenced.
    """
    try:
        recorded = RecordedSandbox(lease, purpose, get_sandbox())
    except SandboxUnavailable as error:
        raise Blocked("no_sandbox", str(error)) from error
    try:
        yield recorded
    except BaseException:
        with suppress(*leases.DATABASE_UNAVAILABLE):
            recorded.write_results()
        raise
    recorded.write_results("fenced")


class RecordedSandbox:
    """A sandbox that stores each run before it starts, under the episode's fence, takes a slot, and ends when a person stops the episode.

    It has the methods of `simulation.replication.sandbox.base.Sandbox`. While a command runs, no database connection is held.
    """

    def __init__(self, lease: Lease[CodeEpisode], purpose: str, sandbox: Sandbox) -> None:
        self.name = sandbox.name
        self._lease, self._purpose, self._sandbox = lease, purpose, sandbox
        self._count = 0
        self._results: list[tuple[int, SandboxResult]] = []  # completed and not yet stored

    def run(
        self,
        command: Sequence[str],
        files: Files,
        read_only: Files | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        with_result: bool = False,
        stop: Event | None = None,
    ) -> SandboxResult:
        """Run a command as `Sandbox.run` does. Raises RetryLater without a free slot, CallDone after a stop, LeaseLost."""
        stopped = stop or Event()
        with _wait_for_slot() as is_free:
            if not is_free:
                raise RetryLater(settings.SLOT_WAIT_SECONDS, "no_sandbox_slot")
            row = self._store_start(command, limits)
            release_connection()
            try:
                with self._lease.watch_for_stop(stopped.set):
                    result = self._sandbox.run(
                        command, files, read_only, limits, packages, environment, with_result, stopped
                    )
            except SandboxFault as fault:
                _store_end(row.pk, {"state": "fault", "error": UNSTORABLE.sub("\ufffd", str(fault))[:4000]})
                raise
        if result.killed == "stop":
            _store_end(row.pk, {"state": "stopped", **describe_result(result)})
            # The next unit ends the episode, or runs the command again if the stop was withdrawn.
            raise CallDone
        self._results.append((row.pk, result))
        return result

    def write_results(self, state: str = "done") -> None:
        """Store the results of the runs that have ended since the last call."""
        for pk, result in self._results:
            _store_end(pk, {"state": state, **describe_result(result)})
        self._results = []

    def _store_start(self, command: Sequence[str], limits: Limits) -> SandboxRun:
        """Store that the command starts, if the episode's fence still matches. Mark unfinished runs of a former holder as lost."""
        episode, fence = self._lease.row, self._lease.fence
        text = command[-1] if command[:2] == ("bash", "-c") else " ".join(command)
        row = SandboxRun(
            episode=episode,
            number=episode.next_number if self._purpose == "tool" else episode.next_number - 1,
            purpose=self._purpose,
            index=self._count,
            fence=fence,
            backend=self.name,
            limits=limits._asdict(),
            tree_in_id=episode.present_id,
            command=clean_command(text) if self._purpose == "tool" else "",
            command_sha256=hash_json([UNSTORABLE.sub("\ufffd", part) for part in command]),
        )
        with transaction.atomic():
            former = SandboxRun.objects.filter(episode=episode, state="started", fence__lt=fence)
            former.update(state="lost", ended_at=timezone.now())
            row.save(force_insert=True)
            # Last: it locks the episode until the transaction ends.
            if not self._lease.commit_progress():
                raise LeaseLost
        self._count += 1
        return row


def clean_command(text: str) -> str:
    """Return a command as it is stored."""
    return UNSTORABLE.sub("\ufffd", text)[:_MAX_COMMAND]


def describe_result(result: SandboxResult) -> dict[str, Any]:
    """Return the columns of a result. All its numbers are hostile, except the time that the host measured."""
    return {
        "exit": None if result.exit is None else _fit_integer(result.exit),
        "seconds": _fit_number(result.seconds),
        "cpu": _fit_number(result.cpu),
        "resident_mib": max(0, _fit_integer(result.resident_mib)),
        "output_bytes": max(0, _fit_integer(result.output_bytes)),
        "killed": result.killed[:12],
    }


def _fit_integer(value: float) -> int:
    return int(min(max(value, _SMALLEST_INTEGER), _LARGEST_INTEGER)) if math.isfinite(value) else 0


def _fit_number(value: float) -> float:
    return float(min(max(value, 0.0), 1e9)) if math.isfinite(value) else 0.0


def _store_end(pk: int, columns: Mapping[str, Any]) -> None:
    # A run that the clean-up marked as lost is completed too: its worker was only slow.
    SandboxRun.objects.filter(pk=pk, state__in=("started", "lost")).update(ended_at=timezone.now(), **columns)


@contextmanager
def _wait_for_slot() -> Iterator[bool]:
    """Yield whether a slot was free within _SLOT_SECONDS. The kernel frees the slot if this process dies."""
    # Short waits here: releasing the row and claiming it again would cost two writes and a second.
    release_connection()
    deadline = time.monotonic() + _SLOT_SECONDS
    while True:
        with take_slot(settings.VAR_DIR / "sandboxes", SandboxSettings.from_environment().slots) as is_free:
            if is_free or time.monotonic() > deadline:
                yield is_free
                return
        time.sleep(_SLOT_POLL_SECONDS)
