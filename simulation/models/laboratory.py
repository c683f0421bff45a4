"""Experiments and the action catalogue."""

from django.db import models


class Experiment(models.Model):
    """A goal, the materials on the bench at the start, and the maximum number of actions."""

    slug = models.SlugField(unique=True, max_length=80)
    name = models.CharField(max_length=120)
    group = models.CharField(max_length=80)
    goal = models.TextField()
    max_steps = models.PositiveSmallIntegerField()
    data = models.JSONField(help_text="the whole data file, read by simulation.lab.experiments.build_experiment")
    sha256 = models.CharField(max_length=64)

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
