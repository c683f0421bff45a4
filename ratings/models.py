"""Who is asked what, and what they answered. The unblinded side of an item lives in `ItemSource` alone."""

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from simulation.models import PERTURBATIONS, EvidenceReview, Transition, Twin

TRANSITION, EVIDENCE = "transition_plausibility", "evidence_sufficiency"


class Study(models.Model):
    """A question put to raters about a frozen set of blinded items."""

    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "draft": ("open",),
        "open": ("closed",),
        "closed": ("open", "unblinded"),
        "unblinded": (),
    }
    STATUSES = [(name, name) for name in MOVES]
    KINDS = [(TRANSITION, "transition plausibility"), (EVIDENCE, "evidence sufficiency")]

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(unique=True, max_length=80)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=30, choices=KINDS)
    question = models.CharField(max_length=300)
    protocol = models.JSONField(help_text="the study document, read by ratings.protocols; frozen at opening")
    seed = models.BigIntegerField()
    ratings_per_item = models.PositiveSmallIntegerField()
    status = models.CharField(max_length=12, choices=STATUSES, default="draft")
    guide = models.TextField(blank=True, help_text="instructions of this study's own, shown with the standing ones")
    guide_version = models.CharField(max_length=20)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    opened_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    unblinded_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        return self.status == "open"

    @property
    def is_unblinded(self) -> bool:
        return self.status == "unblinded"

    @property
    def answers(self) -> tuple[str, str]:
        """The words for verdict yes and no."""
        return ("Plausible", "Not plausible") if self.kind == TRANSITION else ("Sufficient", "Not sufficient")

    def may_become(self, status: str) -> bool:
        return status in self.MOVES[self.status]


class StudyEvent(models.Model):
    """One line of a study's log. Rows are only ever added."""

    KINDS = [
        (kind, kind)
        for kind in (
            "created",
            "opened",
            "closed",
            "reopened",
            "unblinded",
            "exported",
            "invited",
            "simulated",
            "replanned",
        )
    ]

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="events")
    kind = models.CharField(max_length=12, choices=KINDS)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    detail = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["at", "pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.at:%Y-%m-%d %H:%M}"


class Rater(models.Model):
    """A seat in a study: whoever holds its link, or a simulated rater, which is called so wherever it shows."""

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="raters")
    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="rater")
    label = models.CharField(max_length=12)
    simulated = models.BooleanField(default=False)
    invited_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["study", "label"]
        constraints = [
            models.UniqueConstraint(fields=["study", "label"], name="rater_label_once"),
            models.CheckConstraint(
                condition=Q(simulated=False) | Q(invited_at__isnull=True), name="rater_simulated_is_never_invited"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} (simulated)" if self.simulated else self.label


class Item(models.Model):
    """One blinded thing to rate: `payload` holds all that a rater may ever see of it."""

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="items")
    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    payload = models.JSONField(help_text="made by ratings.blinding")
    payload_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "payload_sha256"], name="item_payload_once_per_study"),
        ]

    def __str__(self) -> str:
        return f"item {self.code}"


class ItemSource(models.Model):
    """Where an item came from: the sealed side. Read by `reports` after unblinding, and by simulated raters."""

    item = models.OneToOneField(Item, on_delete=models.PROTECT, related_name="source")
    pair = models.UUIDField(help_text="shared by an original and its twins")
    label = models.CharField(max_length=80, help_text="the cast that made it")
    perturbation = models.CharField(max_length=8, choices=PERTURBATIONS)
    truth = models.BooleanField(null=True, blank=True, help_text="plausible by design; empty if unknown")
    experiment = models.CharField(max_length=80)
    action = models.CharField(max_length=80, blank=True)
    transition = models.ForeignKey(Transition, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    twin = models.ForeignKey(Twin, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    review = models.ForeignKey(EvidenceReview, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    verdicts: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="classifier name -> sufficient, as it stood when the study opened"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(transition__isnull=False, review__isnull=True)
                | Q(transition__isnull=True, twin__isnull=True, review__isnull=False),
                name="item_source_is_a_transition_or_a_review",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label}, {self.perturbation}"


class Assignment(models.Model):
    """One rater is to rate one item, at this place of their own order. `code` is all that a rater's address shows."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="assignments")
    rater = models.ForeignKey(Rater, on_delete=models.PROTECT, related_name="assignments")
    position = models.PositiveSmallIntegerField()
    pair = models.UUIDField()
    opened_at = models.DateTimeField(null=True, blank=True, help_text="when it was first shown")

    class Meta:
        ordering = ["rater", "position"]
        constraints = [
            models.UniqueConstraint(fields=["item", "rater"], name="assignment_once_per_rater"),
            models.UniqueConstraint(fields=["rater", "pair"], name="assignment_one_version_per_rater"),
            models.UniqueConstraint(fields=["rater", "position"], name="assignment_one_per_position"),
        ]

    def __str__(self) -> str:
        return f"{self.rater.label}, place {self.position}"


class Rating(models.Model):
    """A rater's answer, written once and never changed."""

    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="rating")
    verdict = models.BooleanField(help_text="plausible, or sufficient")
    confidence = models.PositiveSmallIntegerField()
    submission_id = models.UUIDField(unique=True)
    opened_at = models.DateTimeField()
    submitted_at = models.DateTimeField()
    seconds = models.FloatField(help_text="from the item's first showing to its submission, by the server's clock")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(confidence__gte=1, confidence__lte=5), name="rating_confidence_1_to_5"),
            models.CheckConstraint(condition=Q(seconds__gte=0), name="rating_seconds_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}, confidence {self.confidence}"


class SignInLink(models.Model):
    """A personal link. Only the hash of its token is kept; `used_at` is when it stopped working for other browsers."""

    PURPOSES = [("admin", "admin"), ("rater", "rater")]

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_in_links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    purpose = models.CharField(max_length=8, choices=PURPOSES)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.purpose} link of {self.created_at:%Y-%m-%d %H:%M}"
