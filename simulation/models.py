"""What happened in the laboratory, and who may write to it now."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from simulation.lab.outcomes import Perturbation

PERTURBATIONS = [
    (Perturbation.NONE.value, "none"),
    (Perturbation.OBVIOUS.value, "obvious (Error Type 1)"),
    (Perturbation.SUBTLE.value, "subtle (Error Type 2)"),
]


class Experiment(models.Model):
    """A goal, what stands on the bench at the start, and how many actions may be tried."""

    slug = models.SlugField(unique=True, max_length=80)
    name = models.CharField(max_length=120)
    group = models.CharField(max_length=80)
    goal = models.TextField()
    max_steps = models.PositiveSmallIntegerField()
    data = models.JSONField(help_text="the whole data file, read by simulation.lab.experiments.build")
    sha256 = models.CharField(max_length=64)

    class Meta:
        ordering = ["group", "name"]

    def __str__(self) -> str:
        return self.name


class CatalogueEntry(models.Model):
    """One action type as data; `simulation.lab.catalogue.build` reads it."""

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=20)
    data = models.JSONField()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "catalogue entries"

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """One order of episodes or twins. The same submission id never orders twice."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    submission_id = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=10, choices=[("episodes", "episodes"), ("twins", "twins")])
    cast = models.CharField(max_length=80)
    seed = models.BigIntegerField()
    manifest = models.BooleanField(
        default=False, help_text="ManifestMaterials may be used; such episodes are no benchmark"
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind} by {self.cast}, seed {self.seed}"


class LeasedQuerySet(models.QuerySet):  # type: ignore[type-arg]  # shared by two models
    def claimable(self) -> "LeasedQuerySet":
        """Rows with work left that nobody holds: never leased, or the lease ran out, and not told to wait."""
        now = timezone.now()
        return self.filter(
            Q(lease_until__isnull=True) | Q(lease_until__lt=now),
            Q(not_before__isnull=True) | Q(not_before__lte=now),
            status__in=self.model.RUNNABLE,
        )


class Leased(models.Model):
    """A row that workers play one unit at a time. Every write of a worker carries the fence it was given."""

    RUNNABLE: ClassVar[tuple[str, ...]] = ("queued", "running", "waiting")

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveIntegerField(default=0)
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    rung_at = models.DateTimeField(null=True, blank=True)
    lost_leases = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(blank=True)

    objects = LeasedQuerySet.as_manager()

    class Meta:
        abstract = True


class Episode(Leased):
    """One play of an experiment by a cast: replicate r of pass@k."""

    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "queued": ("running", "cancelled"),
        "running": (
            "waiting", "submitted", "quit", "rejected_out", "truncated", "cancelled", "blocked", "failed",
        ),
        "waiting": ("running", "cancelled", "failed"),
        "blocked": ("queued", "cancelled"),
        "submitted": (), "quit": (), "rejected_out": (), "truncated": (), "cancelled": (), "failed": (),
    }  # fmt: skip
    ENDED: ClassVar[tuple[str, ...]] = ("submitted", "quit", "rejected_out", "truncated", "cancelled", "failed")
    RETRIED: ClassVar[tuple[str, ...]] = ("failed", "cancelled")
    STATUSES = [
        ("queued", "queued"),
        ("running", "running"),
        ("waiting", "waiting"),
        ("blocked", "blocked"),
        ("submitted", "submitted"),
        ("quit", "quit"),
        ("rejected_out", "three rejections running"),
        ("truncated", "out of steps"),
        ("cancelled", "stopped"),
        ("failed", "failed"),
    ]
    PHASES = [("agent", "agent chooses"), ("transition", "transition model answers"), ("verdict", "classifier judges")]

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="episodes")
    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="episodes")
    experiment_sha256 = models.CharField(max_length=64)
    cast = models.CharField(max_length=80)
    replicate = models.PositiveIntegerField()
    retry_of = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="retried_as")
    counts = models.BooleanField(default=True, help_text="false once a retry took this replicate's place")
    seed = models.BigIntegerField()
    initial = models.JSONField(help_text="the inventory at the start")
    status = models.CharField(max_length=20, choices=STATUSES, default="queued")
    phase = models.CharField(max_length=12, choices=PHASES, default="agent")
    next_number = models.PositiveSmallIntegerField(default=1)
    pending = models.JSONField(null=True, blank=True, help_text="the action chosen and not yet answered")
    cancel_requested_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["experiment", "cast", "replicate"], condition=Q(counts=True), name="episode_one_per_replicate"
            ),
            models.CheckConstraint(
                condition=(Q(status="failed") & ~Q(error="")) | (~Q(status="failed") & Q(error="")),
                name="episode_error_only_when_failed",
            ),
            models.CheckConstraint(
                condition=~Q(phase="transition") | Q(pending__isnull=False), name="episode_pending_in_transition"
            ),
        ]
        indexes = [models.Index(fields=["status", "lease_until"]), models.Index(fields=["run", "status"])]

    def __str__(self) -> str:
        return f"{self.experiment.name}, {self.cast}, replicate {self.replicate}"

    @property
    def ended(self) -> bool:
        return self.status in self.ENDED


class Transition(models.Model):
    """One step of an episode: the materials it was done to, the action, and what came of it."""

    episode = models.ForeignKey(Episode, on_delete=models.PROTECT, related_name="transitions")
    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    number = models.PositiveSmallIntegerField()
    action_name = models.CharField(max_length=80)
    accepted = models.BooleanField()
    rejected_by = models.CharField(max_length=20, blank=True)
    step = models.JSONField(help_text="simulation.lab.bench.step_to_json")
    content_sha256 = models.CharField(max_length=64, help_text="of action and outcome without barcodes and noise seeds")
    findings = models.JSONField(null=True, blank=True, help_text="simulation.checker's report; null: not checked yet")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["episode", "number"]
        constraints = [models.UniqueConstraint(fields=["episode", "number"], name="transition_once_per_step")]

    def __str__(self) -> str:
        return f"step {self.number}: {self.action_name}"


class EvidenceReview(models.Model):
    """One classifier's verdict on a submitted episode."""

    episode = models.ForeignKey(Episode, on_delete=models.PROTECT, related_name="reviews")
    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    classifier = models.CharField(max_length=80)
    sufficient = models.BooleanField()
    verdict = models.JSONField(help_text="simulation.lab.outcomes.Verdict.to_json")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["episode", "classifier"]
        constraints = [models.UniqueConstraint(fields=["episode", "classifier"], name="review_once_per_classifier")]

    def __str__(self) -> str:
        return f"{self.classifier}: {'sufficient' if self.sufficient else 'insufficient'}"


class Twin(Leased):
    """Another outcome for the same inventory and action, with an error planted in it. Never part of an episode."""

    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "queued": ("running", "cancelled"),
        "running": ("done", "unsuited", "failed", "cancelled"),
        "done": (), "unsuited": (), "failed": ("queued",), "cancelled": ("queued",),
    }  # fmt: skip
    STATUSES = [
        ("queued", "queued"),
        ("running", "running"),
        ("done", "done"),
        ("unsuited", "no error of this type fits"),
        ("failed", "failed"),
        ("cancelled", "stopped"),
    ]

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="twins")
    transition = models.ForeignKey(Transition, on_delete=models.PROTECT, related_name="twins")
    perturbation = models.CharField(max_length=8, choices=PERTURBATIONS)
    cast = models.CharField(max_length=80)
    number = models.PositiveSmallIntegerField()
    seed = models.BigIntegerField()
    status = models.CharField(max_length=20, choices=STATUSES, default="queued")
    outcome = models.JSONField(null=True, blank=True)
    kind = models.CharField(max_length=60, blank=True)
    rule = models.TextField(blank=True)
    field = models.CharField(max_length=200, blank=True)
    why = models.TextField(blank=True)
    findings = models.JSONField(null=True, blank=True, help_text="simulation.checker's report; null: not checked yet")

    class Meta:
        ordering = ["transition", "perturbation", "number"]
        constraints = [
            models.UniqueConstraint(fields=["transition", "perturbation", "cast", "number"], name="twin_once"),
            models.CheckConstraint(
                condition=~Q(status="done") | (Q(outcome__isnull=False) & ~Q(why="")), name="twin_done_has_outcome"
            ),
        ]
        indexes = [models.Index(fields=["status", "lease_until"])]

    def __str__(self) -> str:
        return f"{self.perturbation} twin of {self.transition}"


class Worker(models.Model):
    """A process that plays episodes, and when it last said so."""

    owner = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=20)
    seen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.kind} {self.owner}"
