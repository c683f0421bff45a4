"""Between rows and the lab's own values: the catalogue, an experiment's specification, the bench of an episode."""

import hashlib
import json
from functools import lru_cache
from typing import Any

from django.db.models import TextField
from django.db.models.functions import Cast

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.bench import Bench, Step, step_from_json
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import Draft, Inventory
from simulation.models import CatalogueEntry, Episode, Experiment


def current_catalogue() -> Catalogue:
    """As the rows are now. What they hold is compared as text and built once: every unit of work asks for it."""
    texts = CatalogueEntry.objects.annotate(text=Cast("data", TextField())).values_list("text", flat=True)
    return _built(tuple(texts))


@lru_cache(maxsize=4)
def _built(texts: tuple[str, ...]) -> Catalogue:
    return catalogue.build(map(json.loads, texts))


def specification(experiment: Experiment) -> ExperimentSpec:
    return experiments.build(experiment.data)


def refuse_changed(episode: Episode) -> None:
    """LabError if the experiment was loaded anew since: half of a protocol on the other half's bench proves nothing."""
    if episode.experiment.sha256 != episode.experiment_sha256:
        raise LabError("the experiment was changed after this episode was ordered; a retry plays it as it is now")


def bench(episode: Episode, before: int | None = None) -> Bench:
    """The bench after all committed steps, or as it stood before step number `before`."""
    rows = episode.transitions.order_by("number")
    if before is not None:
        rows = rows.filter(number__lt=before)
    return Bench.resume(
        [step_from_json(step) for step in rows.values_list("step", flat=True)],
        goal=episode.experiment.goal,
        catalogue=current_catalogue(),
        inventory=Inventory.from_json(episode.initial),
        seed=episode.seed,
        max_steps=episode.experiment.max_steps,
        manifest=_manifest(episode),
    )


def _manifest(episode: Episode) -> tuple[Draft, ...] | None:
    if not episode.run.manifest:
        return None
    return tuple(draft for _, draft in specification(episode.experiment).manifest)


def content_digest(step: Step) -> str:
    """The same for two steps that read the same: barcodes, times and the hidden ledger do not count."""
    names = {material.barcode: material.name for material in step.inputs}
    shown: dict[str, Any] = step.transcript()._asdict()
    for key in ("number", "started_at", "ended_at"):
        del shown[key]
    shown["inputs"] = [_without_identity(material) for material in shown["inputs"]]
    shown["outputs"] = [_without_identity(material) for material in shown["outputs"]]
    text = json.dumps(shown, sort_keys=True, default=str)
    for code in sorted({*names, *step.barcodes, *step.action.materials}):
        text = text.replace(code, names.get(code, "new"))
    return hashlib.sha256(text.encode()).hexdigest()


def _without_identity(material: dict[str, Any]) -> dict[str, Any]:
    hidden = ("barcode", "created_at", "last_modified", "replaces", "derived_from", "taken")
    return {key: value for key, value in material.items() if key not in hidden}
