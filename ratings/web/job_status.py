"""Describe the progress of a job in words for people."""

from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.http import Http404
from django.utils import timezone

from ratings.studies import access
from simulation.jobs import job_files, jobs
from simulation.models import Job, JobFile, Leased
from simulation.runs import create, failure_reasons

_TONES = {"running": "info", "waiting": "info", "done": "ok", "failed": "danger", "cancelled": "warn"}


class JobStatus(NamedTuple):
    """What a page shows of a job. `poll` is the number of seconds until the next poll, 0 once the job has ended."""

    job: Job
    title: str
    label: str
    tone: str  # colour of its pill in site.css, "" for a plain pill
    message: str
    notice: str  # why the job may not be progressing, or ""
    start_worker: bool  # show the command that starts a worker after the notice
    poll: int
    files: list[JobFile]
    removed: bool  # its files were deleted after the retention period
    days: int  # for how many days files are kept
    may_cancel: bool
    may_retry: bool


def describe_job(job: Job, user: Any = None) -> JobStatus:
    """Return what a page shows of this job. Runs at most five queries."""
    live = job.status in Leased.RUNNABLE
    paused = bool(live and job.run and job.run.paused_at)
    # Asked only for live jobs: the check costs a query.
    alive = live and not paused and create.has_live_worker()
    no_worker = live and not paused and not alive
    notice = "No worker is running: start one with" if no_worker else ""
    if silent := _count_silent_seconds(job):
        takeover = "" if no_worker else " Another worker will take over soon."
        notice = f"The worker has not responded for {silent} s.{takeover}"
    # A page may show jobs of two variants.
    variant, may_steer = job.params.get("variant"), _can_control(job, user)
    label = "Stopped" if job.status == "cancelled" else job.status.capitalize()
    if live and (paused or job.cancel_requested_at):
        label = "Stopping" if job.cancel_requested_at else "Paused"
    return JobStatus(
        job=job,
        title=jobs.get_title(job.kind) + (f", {variant}" if variant else ""),
        label=label,
        tone="warn" if paused else _TONES.get(job.status, ""),
        message=_describe_progress(job),
        notice=notice,
        start_worker=no_worker,
        # A job that nobody works on changes rarely: every open page would poll in vain.
        poll=0 if not live else 10 if no_worker or paused or job.status != "running" else 2,
        files=job_files.list_finished_files(job) if job.status == "done" else [],
        removed="files_removed" in job.result,
        days=int(settings.JOB_FILE_DAYS),
        may_cancel=live and may_steer and job.cancel_requested_at is None,
        may_retry=may_steer and job.status in ("failed", "cancelled") and "inputs_removed" not in job.result,
    )


def _can_control(job: Job, user: Any) -> bool:
    try:
        return user is not None and access.get_job_access(user, job).may_control
    except Http404:  # the job is shown on a page of a user who may not open the job itself
        return False


def _describe_progress(job: Job) -> str:
    match job.status:
        case "queued":
            return "It starts as soon as a worker is free."
        case "waiting":
            retry_note = f" Next attempt at {job.not_before:%H:%M:%S} UTC." if job.not_before else ""
            reason = failure_reasons.describe_reason(job.status, job.reason).capitalize()
            explanation = f"{reason}. {failure_reasons.describe_remedy(job.status, job.reason)}"
            return f"{explanation if job.reason else ''}{retry_note}".strip()
        case "done":
            return str(job.result.get("said", ""))
        case "failed":
            return job.error or failure_reasons.describe_reason(job.status, job.reason)
        case "cancelled":
            return "It was stopped by a user."
        case _:
            return job.message


def _count_silent_seconds(job: Job) -> int:
    """Return the seconds since the worker's last heartbeat, or 0 if no worker has the job or the silence is short."""
    if job.status != "running" or job.lease_until is None:
        return 0
    # Each heartbeat sets the lease to end LEASE_SECONDS later, so the end of the lease gives the heartbeat's time.
    last_heartbeat = job.lease_until - timedelta(seconds=settings.LEASE_SECONDS)
    silence = (timezone.now() - last_heartbeat).total_seconds()
    return int(silence) if silence > settings.WORKER_SILENT_SECONDS else 0
