"""Stored analyses and their figures, ratings by models, and sets of runs for comparison."""

import uuid
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q
from django.utils import timezone

from ratings.models.items import Item
from ratings.models.studies import Study
from simulation.models import Episode, Run


class Benchmark(models.Model):
    """A frozen set of episodes whose agents are compared. Its content never changes."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=120)
    note = models.TextField(blank=True)
    runs = models.ManyToManyField(Run, related_name="+", help_text="the runs it was created from")
    episodes = models.ManyToManyField(Episode, related_name="+", help_text="the episodes that counted at that moment")
    sha256 = models.CharField(max_length=64, help_text="of the codes and outcomes of the episodes")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name


class Analysis(models.Model):
    """A stored result. Pages, files, figures and the API all read this row, so they cannot disagree.

    `state_digest` is the digest of the state of the ratings (ratings.studies.progress). `key` identifies
    the request: subject, state digest, filters, version, seed, resamples. `full` is true once intervals by resampling
    are included.
    """

    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE, related_name="analyses")
    benchmark = models.ForeignKey(Benchmark, null=True, blank=True, on_delete=models.CASCADE, related_name="analyses")
    key = models.CharField(max_length=64, unique=True)
    state_digest = models.CharField(max_length=64)
    filters: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    version = models.PositiveSmallIntegerField(help_text="of the document format")
    seed = models.BigIntegerField()
    resamples = models.PositiveIntegerField()
    full = models.BooleanField(default=False)
    data_sha256 = models.CharField(max_length=64, help_text="of the ratings it was computed from, in canonical form")
    n_ratings = models.PositiveIntegerField()
    document = models.JSONField()
    sha256 = models.CharField(max_length=64, help_text="of the document in canonical form")
    created_at = models.DateTimeField(default=timezone.now)
    seconds = models.FloatField(default=0)

    class Meta:
        ordering = ["-created_at", "-pk"]
        verbose_name_plural = "analyses"
        indexes = [models.Index(fields=["study", "created_at"])]
        constraints = [
            models.CheckConstraint(
                condition=Q(study__isnull=True) ^ Q(benchmark__isnull=True), name="analysis_of_one_thing"
            )
        ]

    def __str__(self) -> str:
        return f"analysis of {self.created_at:%Y-%m-%d %H:%M}"


class StoredFigure(models.Model):
    """A figure of an analysis as sanitised SVG for the screen; print versions are rendered on request."""

    analysis = models.ForeignKey(Analysis, on_delete=models.CASCADE, related_name="drawings")
    name = models.CharField(max_length=40)
    profile = models.CharField(max_length=8, choices=[("wide", "wide"), ("narrow", "narrow")])
    svg = models.TextField()
    summary = models.TextField(help_text="the figure in one sentence, with its numbers")

    class Meta:
        ordering = ["analysis", "pk"]
        constraints = [models.UniqueConstraint(fields=["analysis", "name", "profile"], name="drawing_once")]

    def __str__(self) -> str:
        return f"{self.name}, {self.profile}"


class RenderedResults(models.Model):
    """The HTML of an analysis on its study's page; it can be rendered again from the document."""

    analysis = models.OneToOneField(Analysis, on_delete=models.CASCADE, related_name="rendered")
    version = models.CharField(max_length=16, help_text="digest of the templates and code that rendered it")
    content = models.BinaryField(help_text="compressed JSON of ratings.web.results.rendered_results")

    def __str__(self) -> str:
        return f"results of analysis {self.analysis_id}"


class MachineRater(models.Model):
    """A model rater or the rule-based checker, which rates the items of a study in addition to people."""

    # Its answers have a table of their own, so that no forgotten filter can count them as answers of people.
    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="machine_raters")
    label = models.CharField(max_length=12, help_text="M1, M2, ...")
    cast = models.CharField(max_length=80, help_text="the value of --cast")
    name = models.CharField(max_length=120, help_text="public name of the model or rule set")
    run = models.ForeignKey(
        Run,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="the run to which its calls are charged",
    )
    setup: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="model, parameters and prompts, frozen"
    )
    changes = models.PositiveIntegerField(default=0, help_text="how often answers were stored or removed")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["study", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["study", "label"], name="machine_rater_label_once"),
            models.UniqueConstraint(fields=["study", "cast"], name="machine_rater_cast_once"),
        ]

    def __str__(self) -> str:
        return f"{self.label}, {self.name} (machine)"


class MachineRating(models.Model):
    """The verdict of a model rater on an item's frozen payload, or the reason why there is none."""

    rater = models.ForeignKey(MachineRater, on_delete=models.PROTECT, related_name="ratings")
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="machine_ratings")
    verdict = models.BooleanField(null=True, blank=True)
    confidence = models.PositiveSmallIntegerField(null=True, blank=True, help_text="empty if it gives none")
    marks: "models.JSONField[Any, Any]" = models.JSONField(default=list, help_text="keys of rows that look wrong")
    reasoning = models.TextField(blank=True)
    failed = models.CharField(max_length=24, blank=True, help_text="why there is no verdict; empty: there is one")
    error = models.TextField(blank=True)
    payload_sha256 = models.CharField(max_length=64, help_text="of the payload it was shown")
    round = models.PositiveSmallIntegerField(default=0, help_text="number of retries before this answer")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["rater", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["rater", "item"], name="machine_rating_once"),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True) ^ Q(failed=""), name="machine_rating_has_verdict_or_reason"
            ),
            models.CheckConstraint(
                condition=Q(confidence__isnull=True) | Q(confidence__gte=1, confidence__lte=5),
                name="machine_rating_confidence_1_to_5",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}, confidence {self.confidence}"
