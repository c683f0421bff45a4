"""Rows of jobs for tests of pages, in any state, without anybody who does them."""

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from simulation.jobs import job_files
from simulation.models import Job, JobFile


def job(subject: str, status: str = "queued", kind: str = "drawn", **fields: Any) -> Job:
    """A job in that state; a running one has a worker that just said it lives."""
    held = {"lease_until": timezone.now() + timedelta(seconds=3), "lease_owner": "elsewhere:1:x"}
    ended = {"ended_at": timezone.now()} if status in Job.ENDED else {}
    plain = {"key": uuid.uuid4().hex, "params": {}, **ended, **(held if status == "running" else {})}
    return Job.objects.create(subject=subject, status=status, kind=kind, **{**plain, **fields})


def file(of: Job, name: str = "results.zip", body: bytes = b"the results", content_type: str = "text/csv") -> JobFile:
    """A finished file of the job."""
    with transaction.atomic():
        return job_files.put(of, name, content_type, [body], lambda write: write())
