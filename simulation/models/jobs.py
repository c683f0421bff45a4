"""Longer work that a page or command requests: statistics, figures, files. Leased and fenced like episodes."""

from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from simulation.models.runs import Leased, LeasedQuerySet, Run


class JobQuerySet(LeasedQuerySet):
    def claimable(self, now: datetime | None = None) -> "JobQuerySet":
        """Return the jobs that workers can run now. A job without a run is never paused."""
        return self.unheld(now).filter(Q(run__isnull=True) | Q(run__paused_at__isnull=True, run__replay=False))  # type: ignore[return-value]


class Job(Leased):
    """One request for longer work. Equal requests share one job while it is under way.

    `kind` names its handler (simulation.jobs.jobs), `key` identifies equal requests, and `params` is all that the
    handler receives. A job runs unit by unit. Each unit stores its own results, under the job's fence.
    """

    RUNNABLE: ClassVar[tuple[str, ...]] = ("queued", "running", "waiting")
    SELECT_RELATED: ClassVar[tuple[str, ...]] = ()
    # results can be large, and units do not need them
    DEFERRED_FIELDS: ClassVar[tuple[str, ...]] = ("result",)
    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "queued": ("running", "failed", "cancelled"),
        "running": ("waiting", "done", "failed", "cancelled", "queued"),
        "waiting": ("running", "failed", "cancelled", "done"),
        "done": (),
        "failed": (),
        "cancelled": (),
    }
    STATUSES = [(name, name) for name in MOVES]
    ENDED: ClassVar[tuple[str, ...]] = ("done", "failed", "cancelled")

    kind = models.CharField(max_length=30)
    key = models.CharField(
        max_length=64,
        help_text="SHA-256 of kind, subject, params and the files' digests: identical requests share a job",
    )
    params = models.JSONField(default=dict)
    subject = models.CharField(max_length=80, blank=True, help_text='whose it is: "study/<slug>", "benchmark/<code>"')
    status = models.CharField(max_length=10, choices=STATUSES, default="queued")
    run = models.ForeignKey(
        Run,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="jobs",
        help_text="the run to which its calls are charged",
    )
    step = models.PositiveIntegerField(default=0)
    of = models.PositiveIntegerField(default=0, help_text="0: not known yet")
    message = models.CharField(max_length=200, blank=True, help_text="progress message for people")
    result: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    retry_of = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    objects = JobQuerySet.as_manager()  # type: ignore[misc]  # a wider queryset than Leased has

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=Q(status__in=["queued", "running", "waiting"]), name="job_once_under_way"
            )
        ]
        indexes = [
            models.Index(fields=["status", "lease_until"]),
            models.Index(fields=["subject", "kind"]),
            models.Index(fields=["key"], name="job_key"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class JobFile(models.Model):
    """An input or output file of a job, stored in pieces in the database because workers may run on any host."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="files")
    role = models.CharField(max_length=4, choices=[("in", "in"), ("out", "out")])
    name = models.CharField(max_length=200)
    content_type = models.CharField(max_length=100)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["job", "name"]
        constraints = [models.UniqueConstraint(fields=["job", "role", "name"], name="job_file_once")]

    def __str__(self) -> str:
        return self.name


class JobChunk(models.Model):
    """A piece of a file. The pieces are numbered from 0."""

    file = models.ForeignKey(JobFile, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        ordering = ["file", "number"]
        constraints = [models.UniqueConstraint(fields=["file", "number"], name="job_chunk_once")]

    def __str__(self) -> str:
        return f"piece {self.number}"
