"""Runs, and what all rows that workers run have in common."""

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from simulation.lab.deviations import DEFAULT_SIZES, SizeRange
from simulation.lab.truths import truth_seeds

# Why a row failed, is blocked or waits. A closed list: simulation.runs.failure_reasons has the cause of each.
REASONS = [
    ("internal", "an error in WetBench"),
    ("worker_lost", "three workers in a row died while running it"),
    ("experiment_changed", "the experiment was changed after the request"),
    ("cannot_be", "a physically impossible outcome"),
    ("invalid_transition", "the transition model gave no usable answer"),
    ("no_verdict", "the classifier gave no usable verdict"),
    ("no_twin", "the transition model gave no usable twin"),
    ("refused", "the model refused"),
    ("context", "the prompt exceeds the model's context window"),
    ("provider_unavailable", "the provider did not respond"),
    ("credentials", "the provider rejected the key"),
    ("bad_request", "the provider rejected the request"),
    ("budget", "the run's budget is used up"),
    ("rate_limit", "the provider asked to wait"),
    ("no_slot", "the maximum number of calls is in progress"),
    ("old_worker", "the worker does not support this kind of job"),
    ("moving", "its input keeps changing"),
    ("no_sandbox", "no sandbox can be used"),
    ("no_sandbox_slot", "the maximum number of sandboxes is in use"),
    ("sandbox_fault", "the sandbox failed repeatedly"),
    ("task_changed", "the replication task was changed after the request"),
    ("unvalidated", "the mask is not validated on this machine"),
]


class Run(models.Model):
    """One request for episodes, twins or ratings. The same submission id never creates a second run."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    submission_id = models.CharField(max_length=64, unique=True)
    kind = models.CharField(
        max_length=10,
        choices=[("episodes", "episodes"), ("twins", "twins"), ("ratings", "ratings"), ("code", "code episodes")],
    )
    cast = models.CharField(max_length=80)
    seed = models.BigIntegerField()
    manifest = models.BooleanField(
        default=False, help_text="ManifestMaterials may be used; such episodes are no benchmark"
    )
    truths = models.CharField(
        max_length=12,
        choices=[(name, name) for name in truth_seeds.CHOICES],
        default=truth_seeds.REFERENCE,
        help_text="the split whose seeds draw the hidden truths: replicate 1 has its first seed",
    )
    practice = models.BooleanField(
        default=False, help_text="a person practises: rejections cost no step; such episodes are no benchmark"
    )
    smallest_deviation = models.FloatField(
        null=True,
        blank=True,
        help_text="of subtle numeric errors that rules plant, relative; null: the run has no twins",
    )
    largest_deviation = models.FloatField(null=True, blank=True)
    setup = models.JSONField(
        default=dict, help_text="the cast with its models and prompt set as they were ordered; empty: rules alone"
    )
    setup_sha256 = models.CharField(max_length=64, blank=True)
    conditions: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="what agents see: of code episodes, with their limits; of episodes with hidden steps"
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    replay = models.BooleanField(default=False, help_text="played from a recording: workers leave it alone")
    max_cost = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True, help_text="US dollars")
    max_tokens = models.BigIntegerField(null=True, blank=True)
    max_seconds = models.PositiveIntegerField(null=True, blank=True, help_text="from the first call on")
    first_call_at = models.DateTimeField(null=True, blank=True)
    held_cost = models.DecimalField(
        max_digits=14,
        decimal_places=6,
        default=0,
        help_text="spent or reserved; kept beside the ledger for the cap alone",
    )
    held_tokens = models.BigIntegerField(default=0)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind} by {self.cast}, seed {self.seed}"

    @property
    def sizes(self) -> SizeRange:
        """Return the range from which the deviations of its subtle twins are drawn."""
        if self.smallest_deviation is None or self.largest_deviation is None:
            return DEFAULT_SIZES
        return SizeRange(self.smallest_deviation, self.largest_deviation)

    @property
    def has_usage_limit(self) -> bool:
        """Return whether calls must be reserved in the run's budget."""
        return self.max_cost is not None or self.max_tokens is not None


class BenchPerson(models.Model):
    """A person who plays experiments. Their episodes carry the pseudonym as their cast, never the name of the account."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="bench_person")
    pseudonym = models.CharField(max_length=20, unique=True)

    def __str__(self) -> str:
        return self.pseudonym


class PaperPlan(models.Model):
    """The data sets of `make paper` under one name, and their last plan. Their runs are found by submission id."""

    name = models.CharField(max_length=64, unique=True)
    plan = models.JSONField(help_text="ratings.paper.plan, as it was read")

    def __str__(self) -> str:
        return self.name


class LeasedQuerySet(models.QuerySet):  # type: ignore[type-arg]  # shared by all leased models
    def unleased(self, now: datetime | None = None) -> "LeasedQuerySet":
        """Return the rows that no worker holds."""
        return self.filter(Q(lease_until__isnull=True) | Q(lease_until__lt=now or timezone.now()))

    def unheld(self, now: datetime | None = None) -> "LeasedQuerySet":
        """Return unfinished rows without a valid lease, except those that wait for a later time or for a person."""
        due = Q(not_before__isnull=True) | Q(not_before__lte=now or timezone.now())
        return self.unleased(now).filter(due, status__in=self.model.RUNNABLE, awaits_person=False)

    def claimable(self, now: datetime | None = None) -> "LeasedQuerySet":
        """Return the rows that workers can run now: not leased, and the run is neither paused nor a replay."""
        return self.unheld(now).filter(run__paused_at__isnull=True, run__replay=False)

    def for_work(self) -> "LeasedQuerySet":
        """Return the rows with the related rows that every unit needs, without the long columns that few units need."""
        return self.select_related(*self.model.SELECT_RELATED).defer(*self.model.DEFERRED_FIELDS)


class Leased(models.Model):
    """A row that workers run one unit at a time. Every write of a worker carries the fence of its claim."""

    RUNNABLE: ClassVar[tuple[str, ...]] = ("queued", "running", "waiting")
    SELECT_RELATED: ClassVar[tuple[str, ...]] = ("run",)
    DEFERRED_FIELDS: ClassVar[tuple[str, ...]] = ("run__setup",)

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveIntegerField(default=0)  # raised by every claim, and by every change that bypasses the lease
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    notified_at = models.DateTimeField(null=True, blank=True)
    lost_leases = models.PositiveSmallIntegerField(default=0)
    begun = models.BooleanField(
        default=False, help_text="a unit of this phase was begun before: the ledger may hold its calls"
    )
    awaits_person = models.BooleanField(default=False, help_text="a person has the next move")
    reason = models.CharField(
        max_length=24, blank=True, choices=REASONS, help_text="reason why it failed, is blocked or waits"
    )
    error = models.TextField(blank=True)

    objects = LeasedQuerySet.as_manager()

    class Meta:
        abstract = True


class Worker(models.Model):
    """A process that runs rows, and the time of its last heartbeat."""

    owner = models.CharField(max_length=120, unique=True)
    kind = models.CharField(max_length=20)
    seen_at = models.DateTimeField(default=timezone.now)
    sandbox = models.CharField(
        max_length=40,
        blank=True,
        default="",
        help_text='its backend, as in "bubblewrap/root"; empty: it runs no sandbox',
    )

    def __str__(self) -> str:
        return f"{self.kind} {self.owner}"


class Experiment(models.Model):
    """A goal, the materials on the bench at the start, and the maximum number of actions."""

    slug = models.SlugField(unique=True, max_length=80)
    name = models.CharField(max_length=120)
    group = models.CharField(max_length=80)
    goal = models.TextField()
    max_steps = models.PositiveSmallIntegerField()
    data = models.JSONField(help_text="the whole data file, read by simulation.lab.experiments.build_experiment")
    sha256 = models.CharField(max_length=64)
    essential_steps: "models.JSONField[Any, Any]" = models.JSONField(
        null=True,
        blank=True,
        editable=False,
        help_text="numbers of the protocol's steps without which the record is insufficient; null: not computed yet",
    )

    class Meta:
        ordering = ["group", "name"]

    def __str__(self) -> str:
        return self.name


class CatalogueEntry(models.Model):
    """One action type as data; `simulation.lab.catalogue.build_catalogue` parses it."""

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=20)
    data = models.JSONField()
    sha256 = models.CharField(max_length=64, blank=True, help_text="of the data; empty: not known")

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "catalogue entries"

    def __str__(self) -> str:
        return self.name
