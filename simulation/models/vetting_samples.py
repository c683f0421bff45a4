"""Random samples of twins, vetted by two people independently before the rest is accepted together."""

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from simulation.models.episodes import Twin, TwinDecision


class VettingSample(models.Model):
    """A random sample of the twins that waited for a person under these filters, and what was accepted on its basis."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    filters = models.JSONField(default=dict, help_text="simulation.runs.twin_filters, as chosen when it was drawn")
    share = models.PositiveSmallIntegerField(help_text="per cent of the waiting twins")
    seed = models.BigIntegerField()
    waiting = models.PositiveIntegerField(help_text="number of twins that waited when it was drawn")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    agreement = models.JSONField(default=dict, help_text="agreement of the two decisions when the rest was accepted")
    accepted = models.PositiveIntegerField(null=True, blank=True, help_text="number of twins accepted on its basis")
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    accepted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.share} % of {self.waiting} twins, seed {self.seed}"


class SampledTwin(models.Model):
    """A twin of a sample, the first person's decision on it, and a second person's, made without seeing the first."""

    sample = models.ForeignKey(VettingSample, on_delete=models.CASCADE, related_name="sampled")
    twin = models.ForeignKey(Twin, on_delete=models.CASCADE, related_name="samples")
    position = models.PositiveIntegerField()
    first = models.ForeignKey(
        TwinDecision,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="the one that counts",
    )
    second = models.JSONField(default=dict, help_text="simulation.runs.vetting.VettingAnswers; empty: not given yet")
    second_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    second_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["sample", "position"]
        constraints = [
            models.UniqueConstraint(fields=["sample", "position"], name="sampled_twin_once_per_position"),
            models.UniqueConstraint(fields=["sample", "twin"], name="sampled_twin_once"),
        ]

    def __str__(self) -> str:
        return f"twin {self.position} of sample {self.sample_id}"
