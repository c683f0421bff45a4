"""Load the data files of fixtures/ into the database. Loading is safe to repeat.

If any file is invalid, nothing is loaded.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model

from simulation.casts import data_files
from simulation.casts.data_files import ModelFiles
from simulation.casts.file_entries import TOKEN_CLASSES
from simulation.models import CastDefinition, CatalogueEntry, Experiment, LanguageModel, ModelPrice
from simulation.offline import RULES_VERSION
from wetbench_site.text import hash_json


class LoadCounts(NamedTuple):
    """How many entries are new, changed and unchanged."""

    new: int
    changed: int
    same: int


def load_lab(directory: Path) -> dict[str, LoadCounts]:
    """Load actions, experiments, models and casts. Raises LabError with every problem before anything is written."""
    actions, action_files, specs = data_files.load_data_files(directory)
    players = parse_model_files([path for name in ("models", "casts") if (path := directory / f"{name}.json").exists()])
    # All or nothing: a laboratory with new actions and old experiments would reject its own protocols.
    with transaction.atomic():
        loaded = {
            "actions": _upsert_rows(
                CatalogueEntry,
                ["name"],
                [
                    {"name": data["name"], "kind": data["kind"], "data": data, "sha256": hash_json(data)}
                    for data in action_files
                ],
            ),
            "experiments": _upsert_rows(
                Experiment,
                ["slug"],
                [
                    {key: data[key] for key in ("slug", "name", "group", "goal", "max_steps")}
                    | {"data": data, "sha256": hash_experiment(data)}
                    for _, data in specs
                ],
            ),
        }
        # An experiment's essential steps depend on its own file and on the actions.
        if any(counts.new or counts.changed for counts in loaded.values()):
            Experiment.objects.update(essential_steps=None)
        # Actions that are no longer in the files are removed; experiments stay, because episodes refer to them.
        CatalogueEntry.objects.exclude(name__in=actions.types).delete()
        return loaded | load_models(players)


def hash_experiment(data: Mapping[str, Any], version: int = RULES_VERSION) -> str:
    """Return the digest that episodes store: of the experiment and of the version of the rules that simulate it.

    Attempts, study items and recordings of two digests are never mixed.
    """
    return hash_json({"experiment": data, "rules": version})


def has_digest(data: Mapping[str, Any], digest: str) -> bool:
    """Return whether an experiment was stored with this digest under any version of the rules.

    A site that was upgraded keeps the digests of the earlier version until `load_lab` runs; before version 2 they did not have one.
    """
    return digest == hash_json(data) or any(
        digest == hash_experiment(data, version) for version in range(2, RULES_VERSION + 1)
    )


def parse_model_files(paths: Sequence[Path]) -> ModelFiles:
    """Return the content of files with models, prices and casts, checked against the models in the database."""
    # A cast may use a model that an earlier load has stored.
    loaded_models = {row.name: {"options": row.options} for row in LanguageModel.objects.all()}
    return data_files.load_model_files(paths, loaded_models)


@transaction.atomic
def load_models(files: ModelFiles) -> dict[str, LoadCounts]:
    """Add new entries and replace those of the same name; a price replaces one of the same model and day.

    Nothing is removed.
    """
    models = _upsert_rows(
        LanguageModel,
        ["name"],
        [
            {
                "name": data["name"],
                "provider": data["provider"],
                "model_id": data["model_id"],
                "aliases": data.get("aliases", []),
                "options": data.get("options", {}),
                "context_limit": data.get("context_limit"),
                "lifecycle": data.get("lifecycle", "unknown"),
                "retires_on": _parse_day(data.get("retires_on")),
                "lifecycle_source": data.get("lifecycle_source", ""),
                "lifecycle_read_on": _parse_day(data.get("lifecycle_read_on")),
                "note": data.get("note", ""),
            }
            for data in files.models
        ],
    )
    keys = dict(LanguageModel.objects.values_list("name", "pk"))
    prices = [_price_row(keys[data["name"]], price) for data in files.models for price in data.get("prices", ())]
    prices += [_price_row(keys[price["model"]], price) for price in files.prices]
    return {
        "models": models,
        # Later files replace earlier prices of the same day.
        "prices": _upsert_rows(
            ModelPrice,
            ["model_id", "effective_from"],
            list({(row["model_id"], row["effective_from"]): row for row in prices}.values()),
        ),
        "casts": _upsert_rows(CastDefinition, ["name"], list(map(_cast_row, files.casts))),
        "code_casts": _upsert_rows(CastDefinition, ["name"], list(map(_cast_row, files.code_casts))),
    }


def _cast_row(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": data["name"], "description": data["description"], "data": data}


def _price_row(model: int, data: Mapping[str, Any]) -> dict[str, Any]:
    amounts = {key: None if data.get(key) is None else Decimal(data[key]) for key in TOKEN_CLASSES}
    source = {"source": data["source"], "read_on": _parse_day(data["read_on"])}
    return {"model_id": model, "effective_from": _parse_day(data["effective_from"]), **amounts, **source}


def _parse_day(written: str | None) -> date | None:
    return date.fromisoformat(written) if written else None


def _upsert_rows(model: type[Model], keys: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> LoadCounts:
    """Write new and changed rows with one statement, so that simultaneous loads give the same result."""
    before = {tuple(getattr(row, key) for key in keys): row for row in model._default_manager.all()}
    pairs = [(before.get(tuple(fields[key] for key in keys)), fields) for fields in rows]
    new = [fields for row, fields in pairs if row is None]
    # Unchanged rows are not written, so that their numbers are reported truthfully.
    changed = [
        fields for row, fields in pairs if row and any(getattr(row, name) != value for name, value in fields.items())
    ]
    # One statement with conflict handling: two simultaneous loads neither fail nor duplicate.
    model._default_manager.bulk_create(
        [model(**fields) for fields in (*new, *changed)],
        update_conflicts=True,
        unique_fields=list(keys),
        update_fields=[name for name in (rows[0] if rows else ()) if name not in keys],
    )
    return LoadCounts(len(new), len(changed), len(rows) - len(new) - len(changed))
