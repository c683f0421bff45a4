"""Blinded items and, separately, their sources."""

import uuid
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.utils import timezone

from ratings.models.studies import Study
from ratings.protocol import reference
from simulation.models import PERTURBATIONS, EvidenceReview, Transition, Twin

NO_CONTEXT_SHA256 = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # of {}


class Item(models.Model):
    """One blinded thing to rate. `payload` and `context` contain everything that a rater may ever see of it."""

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="items")
    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    payload = models.JSONField(help_text="created by ratings.blinding")
    # Stored, so that lists of items are sorted and searched without reading payloads.
    name = models.CharField(
        max_length=120,
        blank=True,
        default="",
        help_text="action and first material, by ratings.blinding.item_names: the same for all versions of a pair",
    )
    payload_sha256 = models.CharField(max_length=64)
    pair_sha256 = models.CharField(
        max_length=64,
        blank=True,
        help_text="of the action and the materials before it: the same for all versions of one item, in every study",
    )
    context: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="goal and earlier steps, made by ratings.blinding; empty if no arm shows them"
    )
    context_sha256 = models.CharField(max_length=64, default=NO_CONTEXT_SHA256)
    screen = models.PositiveSmallIntegerField(
        default=0, help_text="crossover over screens: 1 or 2, the display arm that this version has; 0 in all others"
    )
    created_at = models.DateTimeField()

    class Meta:
        # For finding the studies with another version of the same transition, which could reveal the source.
        indexes = [models.Index(fields=["pair_sha256", "study"], name="item_pair_in_studies")]
        constraints = [
            models.UniqueConstraint(fields=["study", "payload_sha256", "screen"], name="item_once_per_screen")
        ]

    def __str__(self) -> str:
        return f"item {self.code}"


class RenderedItem(models.Model):
    """The HTML of an item in one display arm, without marked rows; it can be rendered again from the frozen payload."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="rendered", db_index=False)
    layout = models.CharField(max_length=8)
    with_context = models.BooleanField()
    marks = models.CharField(max_length=16)
    stage = models.CharField(
        max_length=8, help_text="first: before the balance sheet of the confirm layout; else final"
    )
    version = models.CharField(max_length=16, help_text="digest of the templates and code that rendered it")
    html = models.TextField()
    # NULL and no default: SQLite adds the column without copying the table, which is as large as all pages together.
    layout_shown = models.CharField(  # noqa: DJ001
        max_length=8,
        null=True,
        blank=True,
        help_text="plain if lineage is unknown; empty: rendered by an older version",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["item", "layout", "with_context", "marks", "stage"], name="rendered_item_once_per_arm"
            )
        ]

    def __str__(self) -> str:
        return f"item {self.item_id}, {self.layout}"


class ImportedItem(models.Model):
    """An item imported into a draft: its record in the file, and the payload that raters will see."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="imported_items")
    key = models.CharField(max_length=120, help_text="its id in the file")
    record = models.JSONField(help_text="the imported line")
    payload = models.JSONField(help_text="created by ratings.blinding")
    payload_sha256 = models.CharField(max_length=64)
    context: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    context_sha256 = models.CharField(max_length=64, default=NO_CONTEXT_SHA256)
    target: "models.JSONField[Any, Any]" = models.JSONField(
        default=list, help_text="mark keys of the rows with the error; empty: unknown"
    )
    label = models.CharField(max_length=80, help_text="its source, as named in the file")
    perturbation = models.CharField(max_length=8, choices=PERTURBATIONS)
    truth = models.BooleanField(null=True, blank=True, help_text="declared correct or not; empty: unknown")
    reference = models.CharField(
        max_length=14, blank=True, choices=reference.CHOICES, help_text="what verdicts are compared with"
    )
    pair = models.CharField(
        max_length=120, blank=True, help_text="shared by versions of one item; empty: derived from the content"
    )
    experiment = models.CharField(max_length=80, blank=True)
    action = models.CharField(max_length=80, blank=True)
    verdicts: "models.JSONField[Any, Any]" = models.JSONField(default=dict, help_text="classifier -> sufficient")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["study", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["study", "key"], name="imported_item_key_once"),
            models.UniqueConstraint(fields=["study", "payload_sha256"], name="imported_item_payload_once"),
        ]

    def __str__(self) -> str:
        return f"imported item {self.key}"


class ItemSource(models.Model):
    """The sealed source of an item. People may see it only after the study is unblinded."""

    # A table of its own, so that queries for raters cannot include it by accident.
    item = models.OneToOneField(Item, on_delete=models.PROTECT, related_name="source")
    pair = models.UUIDField(help_text="shared by an original and its twins")
    label = models.CharField(max_length=80, help_text="the cast that created it")
    perturbation = models.CharField(max_length=8, choices=PERTURBATIONS)
    truth = models.BooleanField(null=True, blank=True, help_text="whether the outcome is right; empty if unknown")
    reference = models.CharField(
        max_length=14, blank=True, choices=reference.CHOICES, help_text="what verdicts are compared with"
    )
    experiment = models.CharField(max_length=80, blank=True)
    action = models.CharField(max_length=80, blank=True)
    transition = models.ForeignKey(Transition, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    twin = models.ForeignKey(Twin, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    review = models.ForeignKey(EvidenceReview, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    imported = models.ForeignKey(ImportedItem, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    target: "models.JSONField[Any, Any]" = models.JSONField(
        default=list, help_text="mark keys of the rows with the planted error; empty: unknown"
    )
    verdicts: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="classifier name -> sufficient, as of the opening of the study"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(transition__isnull=False, review__isnull=True, imported__isnull=True)
                | Q(transition__isnull=True, twin__isnull=True, review__isnull=False, imported__isnull=True)
                | Q(transition__isnull=True, twin__isnull=True, review__isnull=True, imported__isnull=False),
                name="item_source_is_one_thing",
            )
        ]

    def __str__(self) -> str:
        return f"{self.label}, {self.perturbation}"


class Quarantine(models.Model):
    """A candidate whose text might reveal its source. It is not used unless a person releases it."""

    DECISIONS = [("", "undecided"), ("released", "released"), ("dropped", "dropped")]

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="quarantine")
    payload_sha256 = models.CharField(max_length=64)
    payload = models.JSONField()
    reasons: "models.JSONField[Any, Any]" = models.JSONField(default=list, help_text="[[location, finding]]")
    decision = models.CharField(max_length=8, blank=True, choices=DECISIONS)
    things: "models.JSONField[Any, Any]" = models.JSONField(
        default=list, blank=True, help_text="[[name found, its meaning in the laboratory]], declared at the release"
    )
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["study", "pk"]
        constraints = [models.UniqueConstraint(fields=["study", "payload_sha256"], name="quarantine_once")]

    def __str__(self) -> str:
        return f"quarantined item {self.pk}"
