"""How far a job has come, in words for people."""

from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.http import Http404
from django.utils import timezone

from ratings.studies import job_access
from simulation.jobs import job_files, job_kinds
from simulation.models import Job, JobFile, Leased
from simulation.runs import causes, queueing

_LABELS = {
    "queued": "Queued",
    "running": "Running",
    "waiting": "Waiting",
    "done": "Done",
    "failed": "Failed",
    "cancelled": "Stopped",
}
_TONES = {"running": "info", "waiting": "info", "done": "ok", "failed": "danger", "cancelled": "warn"}


class JobState(NamedTuple):
    """What a page shows of a job. `poll`: seconds until it should ask again, 0 when the job has ended."""

    job: Job
    title: str
    label: str
    tone: str  # of its pill in site.css, "" for a plain one
    said: str
    notice: str  # why nothing may be moving
    start_worker: bool  # whether the notice is to be followed by how to start one
    poll: int
    files: list[JobFile]
    removed: bool  # it had files, and they were kept as long as files are
    days: int
    may_cancel: bool
    may_retry: bool


def state(job: Job, user: Any = None) -> JobState:
    """At most five queries, whatever the job."""
    live = job.status in Leased.RUNNABLE
    paused = bool(live and job.run and job.run.paused_at)
    alive = live and not paused and queueing.workers_alive()
    silent = _silent(job)
    missing = live and not paused and not alive
    may_steer = _may_steer(job, user)
    return JobState(
        job=job,
        title=_title(job),
        label=_label(job, paused),
        tone="warn" if paused else _TONES.get(job.status, ""),
        said=_said(job),
        notice=_notice(job, missing, silent),
        start_worker=missing,
        poll=0 if not live else 10 if missing or paused or job.status != "running" else 2,
        files=job_files.whole(job) if job.status == "done" else [],
        removed="files_removed" in job.result,
        days=int(settings.JOB_FILE_DAYS),
        may_cancel=live and may_steer and job.cancel_requested_at is None,
        may_retry=may_steer and job.status in ("failed", "cancelled") and "inputs_removed" not in job.result,
    )


def _title(job: Job) -> str:
    """Of which of its variants it is, where its kind has some: two of them may stand on one page."""
    variant = job.params.get("variant")
    return f"{job_kinds.title(job.kind)}, {variant}" if variant else job_kinds.title(job.kind)


def _may_steer(job: Job, user: Any) -> bool:
    try:
        return user is not None and job_access.look(user, job).may_steer
    except Http404:  # shown in a page of somebody who could not open it
        return False


def _label(job: Job, paused: bool) -> str:
    if job.cancel_requested_at and job.status in Leased.RUNNABLE:
        return "Stopping"
    return "Paused" if paused else _LABELS[job.status]


def _said(job: Job) -> str:
    match job.status:
        case "queued":
            return "It begins as soon as a worker is free."
        case "waiting":
            again = f" It is tried again at {job.not_before:%H:%M:%S} UTC." if job.not_before else ""
            why = f"{causes.words(job.status, job.reason).capitalize()}. {causes.help(job.status, job.reason)}"
            return f"{why if job.reason else ''}{again}".strip()
        case "done":
            return str(job.result.get("said", ""))
        case "failed":
            return job.error or causes.words(job.status, job.reason)
        case "cancelled":
            return "It was stopped by hand."
        case _:
            return job.said


def _silent(job: Job) -> int:
    """Seconds since the worker that has the job last said that it lives; 0 where nobody has it, or it is not long."""
    if job.status != "running" or job.lease_until is None:
        return 0
    heard = job.lease_until - timedelta(seconds=settings.LEASE_SECONDS)
    silence = (timezone.now() - heard).total_seconds()
    return int(silence) if silence > settings.WORKER_SILENT_SECONDS else 0


def _notice(job: Job, missing: bool, silent: int) -> str:
    if silent:
        return f"No word from the worker for {silent} s." + ("" if missing else " Another one takes over soon.")
    return "No worker is running: start one with" if missing else ""
