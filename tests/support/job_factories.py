"""Job rows in any state for tests of pages, without a worker."""

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from simulation.jobs import job_files
from simulation.models import Job, JobFile


def create_job(subject: str, status: str = "queued", kind: str = "drawn", **fields: Any) -> Job:
    """Create a job in this state; a running one has a worker with a fresh heartbeat."""
    lease = {"lease_until": timezone.now() + timedelta(seconds=3), "lease_owner": "elsewhere:1:x"}
    end = {"ended_at": timezone.now()} if status in Job.ENDED else {}
    defaults = {"key": uuid.uuid4().hex, "params": {}, **end, **(lease if status == "running" else {})}
    return Job.objects.create(subject=subject, status=status, kind=kind, **{**defaults, **fields})


def create_job_file(
    of: Job, name: str = "results.zip", body: bytes = b"the results", content_type: str = "text/csv"
) -> JobFile:
    """Create a finished file of the job."""
    with transaction.atomic():
        return job_files.store_output(of, name, content_type, [body], lambda write: write())
