"""Longer work that a page or a command asks for: asked for once, played by any worker, never done twice.

A kind of job is a function that registers itself (`handles`; declared in job_kinds). It is given a `Work`: what it was told, and the only ways
to write anything down, all under the job's fence. This module knows the rows and nothing of what is done with them.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, close_old_connections, transaction
from django.db.models import F, Q
from django.utils import timezone

from simulation.jobs import job_files, job_kinds
from simulation.jobs.job_files import Reading
from simulation.jobs.job_files import Upload as Upload
from simulation.jobs.job_kinds import Outcome as Outcome
from simulation.jobs.job_kinds import handles as handles
from simulation.leases import Fenced, Lease, leases, units
from simulation.leases import Wait as Wait
from simulation.models import Job, JobFile, Leased, Run
from wetbench_site.database import release_connection

log = logging.getLogger("wetbench.jobs")
Made = TypeVar("Made")

_TRIES = 5  # of a request that meets others for the same work
_UNKNOWN_SECONDS = 30

MORE: Final[Outcome] = MappingProxyType({})
"""What a handler returns, itself and no copy, when its unit is over and another one waits."""


class Failed(Exception):  # noqa: N818  # what people are told, not a fault of ours
    """The work cannot be done; the message says why and what to do, for people."""


class Cancelled(Exception):  # noqa: N818  # a state, not a fault
    """Somebody asked for an end: the handler is to leave by letting this pass."""


@dataclass
class Work:
    """One unit of a job in a worker's hands. Whatever it writes is written only while the job is still this worker's."""

    lease: Lease[Job]
    finished: Outcome | None = None  # what `finish` stored
    _told: float = field(default=-1e9, repr=False)

    @property
    def job(self) -> Job:
        return self.lease.row

    @property
    def params(self) -> dict[str, Any]:
        """What was asked for."""
        return dict(self.job.params)

    def tell(self, step: int, of: int = 0, said: str = "") -> None:
        """Say how far it is (`of` 0: not known) and what it does; at most twice a poll, so that it may be called often.

        Fenced if another worker took the job over, Cancelled if somebody asked for an end. Not for use inside a
        transaction: nobody would see it before that ends.
        """
        if time.monotonic() - self._told < settings.POLL_SECONDS / 2:
            return
        self._told = time.monotonic()
        if not self.lease.still_ours(step=step, of=of, said=said[:200]):
            raise Fenced
        if Job.objects.filter(pk=self.job.pk, cancel_requested_at__isnull=False).exists():
            raise Cancelled

    def commit(self, also: Callable[[], Made]) -> Made:
        """Do `also` in one transaction with the question whether the job is still ours; Fenced, and nothing done, if not.

        The question comes last: the row is not locked while `also` is at work, so heartbeats go on.
        """
        with transaction.atomic():
            made = also()
            if not self.lease.still_ours():
                raise Fenced
        return made

    def finish(self, also: Callable[[], Outcome]) -> Outcome:
        """Do the last of the work and end the job with what it returns, in one transaction: both happen, or neither.

        The handler returns what this returns.
        """
        with transaction.atomic():
            result = dict(also())
            if not _finish(self.lease, result):
                raise Fenced
        self.finished = result
        return result

    def put(self, name: str, content_type: str, pieces: job_files.Pieces) -> JobFile:
        """Store a file that comes out of the job, piece by piece; one of that name that was begun before is replaced."""
        return job_files.put(self.job, name, content_type, pieces, self.commit)

    def input(self, name: str) -> Reading:
        """The file of that name that came with the request, to be read and sought in. KeyError if there is none.

        Reading it tells how far it is, so it is not for use inside a transaction.
        """
        return job_files.opened(
            self.job, name, lambda at, size: self.tell(at >> 10, size >> 10, "KiB of the file read")
        )


def request(
    kind: str,
    params: Mapping[str, Any],
    *,
    subject: str,
    by: AbstractBaseUser | None = None,
    run: Run | None = None,
    files: Sequence[Upload] = (),
    reuse: bool = False,
) -> Job:
    """The job of this work: one that is under way already, or a new one that workers will find.

    `reuse` gives a done one back as well, while it has its files. Whether two requests are the same is decided by kind,
    subject, params and what the files hold. ValueError if no handler of this kind is known.
    """
    if not job_kinds.known(kind):
        raise ValueError(f"nobody handles jobs of kind {kind!r}")
    hashed = [upload.hashed() for upload in files]
    key = _key(kind, subject, params, hashed)
    if reuse and (done := _done(key)):
        return done
    row = Job(kind=kind, key=key, params=dict(params), subject=subject, run=run, asked_by=by)  # type: ignore[misc]
    return _shared(row, lambda job: job_files.take_in(job, files))


def cancel(job: Job) -> bool:
    """Ask for an end: at once if nobody holds the job, else as its worker looks up. False if it has ended already.

    Whoever asks for the same work while it is being stopped takes the stop back.
    """
    now = timezone.now()
    left = Job.objects.filter(pk=job.pk, status__in=Leased.RUNNABLE)
    return _end(left.filter(_nobodys(now)), cancel_requested_at=now) or left.update(cancel_requested_at=now) == 1


def retry(job: Job, by: AbstractBaseUser | None = None) -> Job:
    """A new job for the same work as one that failed or was stopped; whoever asks twice gets the same.

    Failed if what it was to read has been removed meanwhile.
    """
    later: Job | None = job
    while later:
        job, later = later, Job.objects.filter(retry_of=later).order_by("-pk").first()
    if job.status not in ("failed", "cancelled"):
        return job
    if (job.result or {}).get("inputs_removed"):
        raise Failed("The file it was to read has been removed meanwhile: send it again.")
    again = Job(
        kind=job.kind, key=job.key, params=job.params, subject=job.subject, run=job.run, retry_of=job,
        asked_by=by or job.asked_by,  # type: ignore[misc]
    )  # fmt: skip
    return _shared(again, lambda made: job_files.hand_on(job, made))


def advance(lease: Lease[Job]) -> bool:
    """Play one unit of a job. True if this worker's result stands and there may be more to do."""
    return units.played(lease, lambda: _play(lease))


def play_here(job: Job, watch: Callable[[Job], None] = lambda _: None) -> Job:
    """For commands: see a job to its end, in this process or, where a worker has it, by waiting for that one.

    A job whose run is paused is given back as it stands. `watch` is called with it after every unit that is played here,
    and now and then while others play it.
    """
    while True:
        try:
            row: Job = Job.objects.select_related("run").get(pk=job.pk)
            if row.status in Job.ENDED or (row.run and row.run.paused_at):
                return row
            if lease := leases.claim(Job, row.code):
                _play_on(lease, watch)
                continue
            watch(row)
        except leases.DATABASE_AWAY as error:
            log.warning("the database did not answer; trying again: %s", error)
            close_old_connections()
        release_connection()
        time.sleep(settings.POLL_SECONDS / 5)


def sweep() -> int:
    """End what was to stop and is held by nobody; remove the files of jobs that ended long ago. The number of jobs."""
    told = Job.objects.filter(cancel_requested_at__isnull=False, status__in=Leased.RUNNABLE)
    _end(told.filter(_nobodys(timezone.now())))
    return job_files.remove_old(timezone.now() - timedelta(days=settings.JOB_FILE_DAYS))


def _play(lease: Lease[Job]) -> bool:
    job, work = lease.row, Work(lease)
    try:
        if job.cancel_requested_at:
            raise Cancelled
        handler = job_kinds.handler(job.kind)
        if handler is None:
            raise Wait(_UNKNOWN_SECONDS, "old_worker")  # asked for by a newer version, whose workers are to come
        result = handler(work)
    except Cancelled:
        if not lease.stopped():  # taken back in this moment: whoever claims it next begins this unit anew
            lease.hand_back()
        return False
    except Failed as error:
        return lease.finish("failed", error=str(error)[:4000])
    if work.finished is not None:
        return True
    return lease.commit(begun=True) if result is MORE else _finish(lease, dict(result))


def _finish(lease: Lease[Job], result: Outcome) -> bool:
    return lease.finish("done", result=result, said="")


def _play_on(lease: Lease[Job], watch: Callable[[Job], None]) -> None:
    """Units until nothing is left; what is interrupted by hand is given back at once."""
    lease.keep = True
    try:
        while advance(lease) and lease.left and lease.go_on():
            watch(lease.row)
    except BaseException:
        with suppress(*leases.DATABASE_AWAY):
            lease.hand_back()
        raise


def _shared(row: Job, fill: Callable[[Job], None]) -> Job:
    """`row` stored and filled, or the job under way that has its key."""
    for left in reversed(range(_TRIES)):
        found: Job | None = Job.objects.filter(key=row.key, status__in=Leased.RUNNABLE).first()
        if found is not None:
            if found.cancel_requested_at is None or _taken_back(found):
                return found
            continue
        try:
            with transaction.atomic():
                row.save(force_insert=True)
                fill(row)
                return row
        except IntegrityError:  # another request was first
            row.pk = None
            if not left:
                raise
    raise RuntimeError(f"{row} was ended again and again while it was asked for")


def _taken_back(job: Job) -> bool:
    """Whether the job goes on although somebody wanted it stopped."""
    return Job.objects.filter(pk=job.pk, status__in=Leased.RUNNABLE).update(cancel_requested_at=None) == 1


def _done(key: str) -> Job | None:
    kept = Job.objects.filter(key=key, status="done").exclude(result__has_key="files_removed")
    done: Job | None = kept.order_by("-pk").first()
    return done


def _end(rows: Any, **more: Any) -> bool:
    ended = {"status": "cancelled", "ended_at": timezone.now(), "reason": "", "error": "", "not_before": None}
    return bool(rows.update(fence=F("fence") + 1, lease_until=None, **ended, **more))


def _nobodys(now: datetime) -> Q:
    return Q(lease_until__isnull=True) | Q(lease_until__lt=now)


def _key(kind: str, subject: str, params: Mapping[str, Any], files: Sequence[tuple[str, str]]) -> str:
    said = [kind, subject, params, [list(file) for file in files]]
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
