"""Load the data files of fixtures/ into the database. Safe to repeat; an invalid file loads nothing."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model

from simulation.casts import datafiles, model_files
from simulation.casts.model_entries import TOKEN_CLASSES
from simulation.casts.model_files import ModelFiles
from simulation.models import CastDefinition, CatalogueEntry, Experiment, LanguageModel, ModelPrice


class Loaded(NamedTuple):
    """How many entries are new, changed and unchanged."""

    new: int
    changed: int
    same: int


def load_lab(directory: Path) -> dict[str, Loaded]:
    """Load actions, experiments, models and casts. Raises LabError with every problem before anything is written."""
    actions, action_files, specs = datafiles.read(directory)
    players = read_models([path for name in ("models", "casts") if (path := directory / f"{name}.json").exists()])
    # All or nothing: a laboratory with new actions and old experiments would reject its own protocols.
    with transaction.atomic():
        loaded = {
            "actions": _store(CatalogueEntry, ["name"], [_action(data) for data in action_files]),
            "experiments": _store(Experiment, ["slug"], [_experiment(data) for _, data in specs]),
        }
        # Actions that are no longer in the files are removed; experiments stay, because episodes refer to them.
        CatalogueEntry.objects.exclude(name__in=actions.types).delete()
        return loaded | load_models(players)


def read_models(paths: Sequence[Path]) -> ModelFiles:
    """Return files of models, prices and casts, checked against the loaded models."""
    # A cast may use a model that an earlier load has stored.
    loaded_models = {row.name: {"options": row.options} for row in LanguageModel.objects.all()}
    return model_files.read(paths, loaded_models)


@transaction.atomic
def load_models(files: ModelFiles) -> dict[str, Loaded]:
    """Add new entries and replace those of the same name; a price replaces one of the same day. Nothing is removed."""
    models = _store(LanguageModel, ["name"], [_model(data) for data in files.models])
    prices = [(data["name"], price) for data in files.models for price in data.get("prices", ())]
    prices += [(price["model"], price) for price in files.prices]
    keys = dict(LanguageModel.objects.values_list("name", "pk"))
    return {
        "models": models,
        "prices": _store(ModelPrice, ["model_id", "effective_from"], _latest(keys, prices)),
        "casts": _store(CastDefinition, ["name"], [_cast(data) for data in files.casts]),
    }


def _action(data: dict[str, Any]) -> dict[str, Any]:
    return {"name": data["name"], "kind": data["kind"], "data": data, "sha256": _digest(data)}


def _experiment(data: dict[str, Any]) -> dict[str, Any]:
    columns = {key: data[key] for key in ("slug", "name", "group", "goal", "max_steps")}
    return columns | {"data": data, "sha256": _digest(data)}


def _model(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": data["name"],
        "provider": data["provider"],
        "model_id": data["model_id"],
        "aliases": data.get("aliases", []),
        "options": data.get("options", {}),
        "context_limit": data.get("context_limit"),
        "lifecycle": data.get("lifecycle", "unknown"),
        "retires_on": _day(data.get("retires_on")),
        "lifecycle_source": data.get("lifecycle_source", ""),
        "lifecycle_read_on": _day(data.get("lifecycle_read_on")),
        "note": data.get("note", ""),
    }


def _latest(keys: Mapping[str, int], prices: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return one price per model and day: the last one given."""
    rows = [_price(keys[name], price) for name, price in prices]
    # Later files replace earlier prices of the same day.
    return list({(row["model_id"], row["effective_from"]): row for row in rows}.values())


def _price(model: int, data: Mapping[str, Any]) -> dict[str, Any]:
    amounts = {key: None if data.get(key) is None else Decimal(data[key]) for key in TOKEN_CLASSES}
    source = {"source": data["source"], "read_on": _day(data["read_on"])}
    return {"model_id": model, "effective_from": _day(data["effective_from"]), **amounts, **source}


def _cast(data: dict[str, Any]) -> dict[str, Any]:
    return {"name": data["name"], "description": data["description"], "data": data}


def _day(written: str | None) -> date | None:
    return date.fromisoformat(written) if written else None


def _digest(data: Any) -> str:  # sorted keys, so that the order in a file does not change it
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _store(model: type[Model], keys: Sequence[str], wanted: Sequence[Mapping[str, Any]]) -> Loaded:
    """Write new and changed rows at once, so that simultaneous loads give the same result."""
    before = {tuple(getattr(row, key) for key in keys): row for row in model._default_manager.all()}
    rows = [(before.get(tuple(fields[key] for key in keys)), fields) for fields in wanted]
    new = [fields for row, fields in rows if row is None]
    # Unchanged rows are not written, so that their numbers are reported truthfully.
    changed = [
        fields for row, fields in rows if row and any(getattr(row, name) != value for name, value in fields.items())
    ]
    # One statement with conflict handling instead of a save for each row: two simultaneous loads neither fail nor
    # duplicate.
    model._default_manager.bulk_create(
        [model(**fields) for fields in (*new, *changed)],
        update_conflicts=True,
        unique_fields=list(keys),
        update_fields=[name for name in (wanted[0] if wanted else ()) if name not in keys],
    )
    return Loaded(len(new), len(changed), len(wanted) - len(new) - len(changed))
