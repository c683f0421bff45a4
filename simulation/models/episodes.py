"""Episodes, their steps and verdicts, and twins of steps."""

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from simulation.lab.deviations import find_stratum
from simulation.lab.outcomes import Perturbation
from simulation.models.runs import REASONS, Experiment, Leased, Run

PERTURBATIONS = [
    (Perturbation.NONE.value, "none"),
    (Perturbation.OBVIOUS.value, "obvious (Error Type 1)"),
    (Perturbation.SUBTLE.value, "subtle (Error Type 2)"),
]


class Episode(Leased):
    """One execution of an experiment by a cast. For pass@k it is one sample."""

    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "queued": ("running", "cancelled"),
        "running": (
            "waiting", "submitted", "quit", "rejected_out", "truncated", "cancelled", "blocked", "failed",
        ),
        "waiting": ("running", "cancelled", "blocked", "failed"),
        "blocked": ("queued", "cancelled"),
        # An ended episode never starts again; a retry is a new row.
        "submitted": (), "quit": (), "rejected_out": (), "truncated": (), "cancelled": (), "failed": (),
    }  # fmt: skip
    ENDED: ClassVar[tuple[str, ...]] = ("submitted", "quit", "rejected_out", "truncated", "cancelled", "failed")
    SELECT_RELATED: ClassVar[tuple[str, ...]] = ("run", "experiment")
    DEFERRED_FIELDS: ClassVar[tuple[str, ...]] = ("experiment__data", "run__setup")
    RETRYABLE: ClassVar[tuple[str, ...]] = ("failed", "cancelled")
    STATUSES = [(name, name) for name in ("queued", "running", "waiting", "blocked", "submitted", "quit")]
    STATUSES += [("rejected_out", "three rejections in a row"), ("truncated", "out of steps")]
    STATUSES += [("cancelled", "stopped"), ("failed", "failed")]
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
    truth_seed = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="seed of the hidden truth, apart from that of the noise; null: the reference truth",
    )
    truth = models.JSONField(
        default=dict, blank=True, help_text="sealed: the drawn values of the hidden truth, for audits alone"
    )
    mask: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict,
        blank=True,
        help_text="the steps of the protocol that the agent is not shown: ProtocolMask.to_json; empty: it is shown no protocol",
    )
    mask_key = models.CharField(
        max_length=200, blank=True, default="", help_text="the hidden steps and the help, as text; empty: no protocol"
    )
    status = models.CharField(max_length=20, choices=STATUSES, default="queued")
    phase = models.CharField(max_length=12, choices=PHASES, default="agent")
    next_number = models.PositiveSmallIntegerField(default=1)
    pending = models.JSONField(null=True, blank=True, help_text="the action chosen and not yet answered")
    memory = models.JSONField(default=dict, help_text="what the agent wrote down for itself: plan, thoughts, summary")
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    verdict_requests = models.PositiveSmallIntegerField(
        default=0, help_text="how often missing verdicts of the panel were requested again, after the episode had ended"
    )

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                # A retry takes the place of the episode that it replaces.
                fields=["experiment", "cast", "mask_key", "replicate"],
                condition=Q(counts=True),
                name="episode_one_per_replicate",
            ),
            models.CheckConstraint(
                condition=~Q(status="failed") | (~Q(error="") & ~Q(reason="")), name="episode_failed_says_why"
            ),
            models.CheckConstraint(
                condition=Q(error="") | Q(status__in=("failed", "blocked", "waiting")),
                name="episode_error_only_when_held",
            ),
            models.CheckConstraint(
                condition=~Q(phase="transition") | Q(pending__isnull=False), name="episode_pending_in_transition"
            ),
        ]
        indexes = [models.Index(fields=["status", "lease_until"]), models.Index(fields=["run", "status"])]

    def __str__(self) -> str:
        hidden = f", hidden steps {self.mask_key}" if self.mask_key else ""
        return f"{self.experiment.name}, {self.cast}, replicate {self.replicate}{hidden}"

    @property
    def has_ended(self) -> bool:
        return self.status in self.ENDED


class Transition(models.Model):
    """One step of an episode: its input materials, the action and its outcome."""

    episode = models.ForeignKey(Episode, on_delete=models.PROTECT, related_name="transitions")
    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    number = models.PositiveSmallIntegerField()
    action_name = models.CharField(max_length=80)
    accepted = models.BooleanField()
    given = models.BooleanField(
        default=False, help_text="done for the agent, because it is before the first hidden step of the protocol"
    )
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
    primary = models.BooleanField(
        default=True, help_text="false: a panel member's, beside the verdict that ends the episode"
    )
    summarised = models.BooleanField(
        default=False, help_text="a summary was judged: the record exceeds the model's context"
    )
    sufficient = models.BooleanField()
    verdict = models.JSONField(help_text="simulation.lab.outcomes.Verdict.to_json")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["episode", "-primary", "classifier"]
        constraints = [models.UniqueConstraint(fields=["episode", "classifier"], name="review_once_per_classifier")]

    def __str__(self) -> str:
        return f"{self.classifier}: {'sufficient' if self.sufficient else 'insufficient'}"


class MissingReview(models.Model):
    """A panel member that gave no verdict, and why. The verdict of the episode's first classifier counts without it."""

    episode = models.ForeignKey(Episode, on_delete=models.PROTECT, related_name="missing_reviews")
    classifier = models.CharField(max_length=80)
    reason = models.CharField(max_length=24, choices=REASONS)
    error = models.TextField()
    requested_at = models.DateTimeField(
        null=True, blank=True, help_text="when it was requested again and not given yet"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["episode", "classifier"]
        constraints = [models.UniqueConstraint(fields=["episode", "classifier"], name="missing_review_once")]

    def __str__(self) -> str:
        return f"{self.classifier}: {self.reason}"


class Twin(Leased):
    """Another outcome for the same inventory and action: with a planted error, or from another model.

    A twin is never part of an episode.
    """

    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "queued": ("running", "cancelled"),
        "running": ("waiting", "done", "unsuited", "unusable", "blocked", "failed", "cancelled"),
        "waiting": ("running", "blocked", "failed", "cancelled"),
        "blocked": ("queued", "cancelled"),
        # Unlike an episode, a twin is retried in its own row.
        "done": (), "unsuited": (), "unusable": ("queued",), "failed": ("queued",), "cancelled": ("queued",),
    }  # fmt: skip
    ENDED: ClassVar[tuple[str, ...]] = ("done", "unsuited", "unusable", "failed", "cancelled")
    RETRYABLE: ClassVar[tuple[str, ...]] = ("failed", "cancelled", "unusable")
    STATUSES = [(name, name) for name in ("queued", "running", "waiting", "blocked", "done")]
    STATUSES += [("unsuited", "no error of this type fits")]
    STATUSES += [("unusable", "unusable: no difference, or no reason given")]
    STATUSES += [("failed", "failed"), ("cancelled", "stopped")]

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="twins")
    transition = models.ForeignKey(Transition, on_delete=models.PROTECT, related_name="twins")
    perturbation = models.CharField(max_length=8, choices=PERTURBATIONS)
    cast = models.CharField(max_length=80)
    number = models.PositiveSmallIntegerField()
    tries = models.PositiveSmallIntegerField(default=0, help_text="number of retries after it had ended")
    seed = models.BigIntegerField()
    status = models.CharField(max_length=20, choices=STATUSES, default="queued")
    outcome = models.JSONField(null=True, blank=True)
    kind = models.CharField(max_length=60, blank=True)
    rule = models.TextField(blank=True)
    field = models.CharField(max_length=200, blank=True)
    explanation = models.TextField(blank=True)
    diff = models.JSONField(
        default=list, help_text="simulation.lab.differences: every place where it is not the original"
    )
    vetted_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    vetted_at = models.DateTimeField(null=True, blank=True)
    vetting = models.CharField(
        max_length=8, blank=True, choices=[("", "not vetted"), ("accepted", "accepted"), ("rejected", "rejected")]
    )
    vetted_as = models.CharField(
        max_length=8, blank=True, choices=PERTURBATIONS, help_text="relabelled: the error type it counts as"
    )
    findings = models.JSONField(null=True, blank=True, help_text="simulation.checker's report; null: not checked yet")
    deviation = models.FloatField(
        null=True,
        blank=True,
        help_text="of the planted number from the true one, relative; null: the error does not change a number",
    )

    class Meta:
        ordering = ["transition", "perturbation", "number"]
        constraints = [
            models.UniqueConstraint(fields=["transition", "perturbation", "cast", "number"], name="twin_once"),
            models.CheckConstraint(
                condition=~Q(status="done")
                | (Q(outcome__isnull=False) & (~Q(explanation="") | Q(perturbation="none"))),
                name="twin_done_has_outcome",
            ),
        ]
        indexes = [models.Index(fields=["status", "lease_until"])]

    def __str__(self) -> str:
        return f"{self.perturbation} twin of {self.transition}"

    @property
    def stratum(self) -> str:
        """Return whether the deviation is below or above what a careful reader can detect, or has no size."""
        return find_stratum(self.deviation)


class TwinDecision(models.Model):
    """One decision on whether a twin may enter studies. Rows are only added, never changed.

    `by` is empty if rules decided. "unread": accepted without being read; "reopened": an earlier decision was undone.
    """

    DECISIONS = [(name, name) for name in ("accepted", "relabelled", "rejected")] + [("unread", "accepted unread")]
    DECISIONS += [("reopened", "reopened")]

    twin = models.ForeignKey(Twin, on_delete=models.CASCADE, related_name="decisions")
    decision = models.CharField(max_length=12, choices=DECISIONS)
    wrong = models.BooleanField(null=True, blank=True, help_text="is it wrong at all?")
    only_change = models.BooleanField(null=True, blank=True, help_text="is the error the only change?")
    tell = models.BooleanField(null=True, blank=True, help_text="does its form give it away?")
    perturbation = models.CharField(max_length=8, choices=PERTURBATIONS, help_text="the error type it counts as")
    field = models.CharField(max_length=200, blank=True)
    kind = models.CharField(max_length=60, blank=True, help_text="the kind of error, as it was named")
    note = models.TextField(blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["twin", "pk"]

    def __str__(self) -> str:
        return f"{self.decision} {self.at:%Y-%m-%d %H:%M}"
