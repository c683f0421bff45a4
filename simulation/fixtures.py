"""Brings the data files of fixtures/ into the database. Safe to repeat; a wrong file loads nothing."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model

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
            "actions": _store(CatalogueEntry, "name", [_action(data) for data in action_files]),
            "experiments": _store(Experiment, "slug", [_experiment(data) for _, data in specs]),
        }
        CatalogueEntry.objects.exclude(name__in=actions.types).delete()
    return loaded


def _action(data: dict[str, Any]) -> dict[str, Any]:
    return {"name": data["name"], "kind": data["kind"], "data": data}


def _experiment(data: dict[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    return {key: data[key] for key in ("slug", "name", "group", "goal", "max_steps")} | {"data": data, "sha256": digest}


def _store(model: type[Model], key: str, wanted: Sequence[Mapping[str, Any]]) -> Loaded:
    """Write what is new or changed, all at once: whoever loads at the same time writes the same."""
    before = {getattr(row, key): row for row in model._default_manager.all()}
    new = [fields for fields in wanted if fields[key] not in before]
    changed = [
        fields
        for fields in wanted
        if fields[key] in before and any(getattr(before[fields[key]], name) != value for name, value in fields.items())
    ]
    model._default_manager.bulk_create(
        [model(**fields) for fields in (*new, *changed)],
        update_conflicts=True,
        unique_fields=[key],
        update_fields=[name for name in (wanted[0] if wanted else ()) if name != key],
    )
    return Loaded(len(new), len(changed), len(wanted) - len(new) - len(changed))
