"""Request, run and cancel jobs.

Each kind of job is declared with the module of its handler, which is imported when a job of the kind is first run: web
processes, which only request jobs, never load what the work needs. The handler receives a `Work`, which has the job's
parameters and the only methods that write results, all under the job's fence.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from io import BufferedReader
from types import MappingProxyType
from typing import Any, Final, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, close_old_connections, transaction
from django.db.models import F
from django.utils import timezone

from simulation import leases
from simulation.jobs import job_files
from simulation.jobs.job_files import Upload as Upload
from simulation.leases import Lease, LeaseLost
from simulation.leases import RetryLater as RetryLater
from simulation.models import Job, JobFile, Leased, Run
from wetbench_site.database import release_connection
from wetbench_site.text import hash_text

log = logging.getLogger("wetbench.jobs")
Made = TypeVar("Made")
Outcome = Mapping[str, Any]
Handler = Callable[["Work"], Outcome]
_declared_kinds: dict[str, tuple[str, str]] = {}  # title for people, and the module whose import registers the handler
_handlers: dict[str, Handler] = {}
_MAX_ATTEMPTS = 5  # attempts of a request while concurrent requests for the same work interfere
_UNKNOWN_KIND_SECONDS = 30
MORE_WORK: Final[Outcome] = MappingProxyType({})
"""What a handler returns (this very object, not a copy) if its unit is over and the job has another one."""


def declare_kind(kind: str, title: str, module: str) -> None:
    """Declare a kind without importing its module. Raise ValueError if another module has declared it."""
    if _declared_kinds.setdefault(kind, (title, module)) != (title, module):
        raise ValueError(f"jobs of kind {kind!r} are declared twice")


def register_handler(kind: str) -> Callable[[Handler], Handler]:
    def register_function(handler: Handler) -> Handler:
        if _handlers.setdefault(kind, handler) is not handler:
            raise ValueError(f"two handlers for jobs of kind {kind!r}")
        return handler

    return register_function


def find_handler(kind: str) -> Handler | None:
    """Return the handler of this kind, importing its module if necessary, or None if there is none."""
    if kind not in _handlers and kind in _declared_kinds:
        import_module(_declared_kinds[kind][1])
    return _handlers.get(kind)


def is_declared(kind: str) -> bool:
    return kind in _declared_kinds


def get_title(kind: str) -> str:
    """Return the kind's title for people. Imports nothing."""
    # A kind of a newer or older release may be in the database without being declared here.
    return _declared_kinds[kind][0] if kind in _declared_kinds else kind.replace("_", " ").capitalize()


class JobFailed(Exception):  # noqa: N818  # a message for people, not a fault of this program
    """The work cannot be done. The message gives the reason and what to do, for people."""


class JobCancelled(Exception):  # noqa: N818  # a state, not a fault
    """A person cancelled the job. Handlers must not catch this."""


@dataclass
class Work:
    """One unit of a job. Its methods write only while this worker holds the job."""

    lease: Lease[Job]
    stored_result: Outcome | None = None  # set by `finish_job`
    _reported_at: float = field(default=-1e9, repr=False)  # monotonic seconds

    @property
    def job(self) -> Job:
        return self.lease.row

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.job.params)

    def report_progress(self, step: int, total: int = 0, message: str = "") -> None:
        """Store how far the job is (`total` 0: unknown) and a message for people.

        Raises LeaseLost if another worker took over the job, JobCancelled if a person cancelled it. Do not call it inside a
        transaction: the progress would not be visible before the transaction ends.
        """
        # At most twice per poll of a page, so that handlers may call this in a tight loop.
        if time.monotonic() - self._reported_at < settings.POLL_SECONDS / 2:
            return
        self._reported_at = time.monotonic()
        if not self.lease.commit_progress(step=step, of=total, message=message[:200]):
            raise LeaseLost
        if Job.objects.filter(pk=self.job.pk, cancel_requested_at__isnull=False).exists():
            raise JobCancelled

    def commit_write(self, write: Callable[[], Made]) -> Made:
        """Call `write` in a transaction that also checks the lease: write nothing and raise LeaseLost if it is lost."""
        with transaction.atomic():
            result = write()
            # The check comes last: the row is not locked while `write` works, so heartbeats are not delayed.
            if not self.lease.commit_progress():
                raise LeaseLost
        return result

    def finish_job(self, write: Callable[[], Outcome]) -> Outcome:
        """Call `write` and end the job with its result, in one transaction. The handler must return the same result."""
        with transaction.atomic():
            result = dict(write())
            if not self.lease.finish_row("done", result=result, message=""):
                raise LeaseLost
        self.stored_result = result
        return result

    def store_file(self, name: str, content_type: str, pieces: job_files.Pieces) -> JobFile:
        """Store an output file of the job, piece by piece. Replaces an unfinished file of the same name."""
        return job_files.store_output(self.job, name, content_type, pieces, self.commit_write)

    def open_input(self, name: str) -> BufferedReader:
        """Open the input file of that name for reading and seeking. Raise KeyError if there is none.

        Reading it reports progress, so do not read it inside a transaction.
        """

        def report_position(position: int, size: int) -> None:
            self.report_progress(position >> 10, size >> 10, "KiB of the file read")

        return job_files.open_input(self.job, name, report_position)


def request_job(
    kind: str,
    params: Mapping[str, Any],
    *,
    subject: str,
    user: AbstractBaseUser | None = None,
    run: Run | None = None,
    files: Sequence[Upload] = (),
    reuse: bool = False,
) -> Job:
    """Return the job for this work: one that is under way, or a new one that workers will find.

    With `reuse`, a finished job is also returned while it has its files. Two requests are the same if kind, subject,
    params and the contents of the files are the same. Raises ValueError if the kind is not declared.
    """
    if not is_declared(kind):
        raise ValueError(f"no handler is declared for jobs of kind {kind!r}")
    parts = [kind, subject, params, [list(upload.compute_digest()) for upload in files]]
    key = hash_text(json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    finished = Job.objects.filter(key=key, status="done").exclude(result__has_key="files_removed")
    done: Job | None = finished.order_by("-pk").first() if reuse else None
    if done:
        return done
    row = Job(kind=kind, key=key, params=dict(params), subject=subject, run=run, asked_by=user)  # type: ignore[misc]
    return _find_or_create(row, lambda job: job_files.store_inputs(job, files))


def cancel_job(job: Job) -> bool:
    """Cancel the job: at once if no worker holds it, else when its worker next checks. Return False if it has ended.

    A request for the same work withdraws the cancellation while the job is still running.
    """
    now, unfinished = timezone.now(), Job.objects.filter(pk=job.pk, status__in=Leased.RUNNABLE)
    return _cancel_unleased(unfinished, cancel_requested_at=now) or unfinished.update(cancel_requested_at=now) == 1


def retry_job(job: Job, user: AbstractBaseUser | None = None) -> Job:
    """Return a new job that repeats a failed or cancelled one. A second call returns the same new job.

    Raises JobFailed if its input has been removed.
    """
    newer: Job | None = job
    while newer:
        job, newer = newer, Job.objects.filter(retry_of=newer).order_by("-pk").first()
    if job.status not in ("failed", "cancelled"):
        return job
    if (job.result or {}).get("inputs_removed"):
        raise JobFailed("The uploaded file has been removed since. Upload it again.")
    retried = Job(
        kind=job.kind, key=job.key, params=job.params, subject=job.subject, run=job.run, retry_of=job,
        asked_by=user or job.asked_by,  # type: ignore[misc]
    )  # fmt: skip
    return _find_or_create(retried, lambda created: job.files.filter(role="in").update(job=created))


def run_job_unit(lease: Lease[Job]) -> bool:
    """Run one unit of a job. Return True if its result is committed and there may be more to do."""
    return leases.run_unit(lease, lambda: _run_handler(lease))


def run_job_here(job: Job, on_progress: Callable[[Job], None] = lambda _: None) -> Job:
    """Run a job in this process, or wait for the worker that holds it, until it has ended. For commands.

    A job whose run is paused is returned as it is. `on_progress` is called with the job after every unit that runs
    here, and periodically while another worker runs it.
    """
    while True:
        try:
            row: Job = Job.objects.select_related("run").get(pk=job.pk)
            if row.status in Job.ENDED or (row.run and row.run.paused_at):
                return row
            if lease := leases.claim_row(Job, row.code):
                lease.keep_after_commit = True
                try:
                    while run_job_unit(lease) and lease.has_work_left and lease.can_continue():
                        on_progress(lease.row)
                except BaseException:
                    # Ctrl-C must not leave the job leased: release it at once, so that another worker can continue.
                    with suppress(*leases.DATABASE_UNAVAILABLE):
                        lease.release_between_units()
                    raise
                continue
            on_progress(row)
        except leases.DATABASE_UNAVAILABLE as error:
            log.warning("the database is unavailable; trying again: %s", error)
            close_old_connections()
        release_connection()
        time.sleep(settings.POLL_SECONDS / 5)


def sweep_jobs() -> int:
    """End cancelled jobs that no worker holds, and remove the files of old jobs. Return how many jobs lost their files."""
    _cancel_unleased(Job.objects.filter(cancel_requested_at__isnull=False, status__in=Leased.RUNNABLE))
    return job_files.remove_expired_files(timezone.now() - timedelta(days=settings.JOB_FILE_DAYS))


def _run_handler(lease: Lease[Job]) -> bool:
    job, work = lease.row, Work(lease)
    try:
        if job.cancel_requested_at:
            raise JobCancelled
        handler = find_handler(job.kind)
        if handler is None:
            # requested by a newer version; its workers will start soon
            raise RetryLater(_UNKNOWN_KIND_SECONDS, "old_worker")
        result = handler(work)
    except JobCancelled:
        if not lease.cancel_if_requested():
            # The cancellation was withdrawn at this moment: release the job, so that this unit runs again.
            lease.release_between_units()
        return False
    except JobFailed as error:
        return lease.finish_row("failed", error=str(error)[:4000])
    if work.stored_result is not None:
        return True
    if result is MORE_WORK:
        return lease.commit_changes(begun=True)
    return lease.finish_row("done", result=dict(result), message="")


def _find_or_create(row: Job, fill: Callable[[Job], object]) -> Job:
    """Return the job under way with the key of `row`. If there is none, store `row`, call `fill` with it, and return it."""
    for attempts_left in reversed(range(_MAX_ATTEMPTS)):
        under_way = Job.objects.filter(key=row.key, status__in=Leased.RUNNABLE)
        existing: Job | None = under_way.first()
        if existing is not None:
            # A cancellation is withdrawn, unless the job has ended in the meantime.
            withdrawn = under_way.filter(pk=existing.pk)
            if existing.cancel_requested_at is None or withdrawn.update(cancel_requested_at=None) == 1:
                return existing
            continue
        try:
            with transaction.atomic():
                row.save(force_insert=True)
                fill(row)
                return row
        except IntegrityError:  # a concurrent request was faster (constraint job_once_under_way)
            row.pk = None
            if not attempts_left:
                raise
    raise RuntimeError(f"{row} ended {_MAX_ATTEMPTS} times while it was requested")


def _cancel_unleased(rows: Any, **changes: Any) -> bool:
    """Cancel those of these jobs that no worker holds. Return whether there was any."""
    ended = {"status": "cancelled", "ended_at": timezone.now(), "reason": "", "error": "", "not_before": None}
    # The fence rises, so a worker that was presumed dead cannot write to the job any more.
    return bool(rows.unleased().update(fence=F("fence") + 1, lease_until=None, **ended, **changes))
