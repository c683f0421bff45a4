"""Brings the data files of fixtures/ into the database. Safe to repeat; a wrong file loads nothing."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction

from simulation import datafiles
from simulation.models import CatalogueEntry, Experiment


class Loaded(NamedTuple):
    """How many files were new, changed and as before."""

    new: int
    changed: int
    same: int


def load_lab(directory: Path) -> dict[str, Loaded]:
    """Actions and experiments. CatalogueError, with every problem of every file, before anything is written."""
    actions, action_files, specs = datafiles.read(directory)
    with transaction.atomic():
        loaded = {
            "actions": _count(_load_action(data) for data in action_files),
            "experiments": _count(_load_experiment(data) for _, data in specs),
        }
        CatalogueEntry.objects.exclude(name__in=actions.types).delete()
    return loaded


def _load_action(data: dict[str, Any]) -> str:
    fields = {"kind": data["kind"], "data": data}
    entry, created = CatalogueEntry.objects.get_or_create(name=data["name"], defaults=fields)
    if created or entry.data == data:
        return "new" if created else "same"
    CatalogueEntry.objects.filter(pk=entry.pk).update(**fields)
    return "changed"


def _load_experiment(data: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    fields = {key: data[key] for key in ("name", "group", "goal", "max_steps")} | {"data": data, "sha256": digest}
    row, created = Experiment.objects.get_or_create(slug=data["slug"], defaults=fields)
    if created or row.sha256 == digest:
        return "new" if created else "same"
    Experiment.objects.filter(pk=row.pk).update(**fields)
    return "changed"


def _count(results: Any) -> Loaded:
    results = list(results)
    return Loaded(*(results.count(word) for word in ("new", "changed", "same")))
