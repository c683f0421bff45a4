"""Between rows and the lab's own values: the catalogue, an experiment's specification, the bench of an episode."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any
from uuid import UUID

from django.db.models import TextField
from django.db.models.functions import Cast

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.bench import Bench, Step, step_from_json
from simulation.lab.errors import ExperimentChanged
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import Draft, Inventory
from simulation.models import CatalogueEntry, Episode, Experiment


def current_catalogue() -> Catalogue:
    """As the rows are now, built once for each state of them: every unit of work asks for it, so it asks for hashes alone."""
    hashes = tuple(CatalogueEntry.objects.order_by("name").values_list("sha256", flat=True))
    if not all(hashes):
        return _built(_texts())
    return _known(hashes)


@lru_cache(maxsize=4)
def _known(hashes: tuple[str, ...]) -> Catalogue:
    return _built(_texts())


@lru_cache(maxsize=4)
def _built(texts: tuple[str, ...]) -> Catalogue:
    return catalogue.build(map(json.loads, texts))


def _texts() -> tuple[str, ...]:
    rows = CatalogueEntry.objects.order_by("name").annotate(text=Cast("data", TextField()))
    return tuple(rows.values_list("text", flat=True))


def specification(experiment: Experiment) -> ExperimentSpec:
    """The row's specification. Rows of the same hash hold the same data, which is then not even fetched."""
    known = _specifications.get(experiment.sha256) if experiment.sha256.strip("0") else None
    if known is None:
        known = experiments.build(_data(experiment))
        if len(_specifications) > 100:
            _specifications.clear()
        _specifications[experiment.sha256] = known
    return known


def _data(experiment: Experiment) -> Any:
    """The row's data file. Where it was left out at first, it is read with its hash: it may have been loaded anew since."""
    if "data" not in experiment.get_deferred_fields():
        return experiment.data
    sha256, data = Experiment.objects.values_list("sha256", "data").get(pk=experiment.pk)
    if sha256 != experiment.sha256:
        raise ExperimentChanged("the experiment is being loaded anew; a retry plays it as it is then")
    return data


_specifications: dict[str, ExperimentSpec] = {}


def refuse_changed(episode: Episode) -> None:
    """ExperimentChanged if so: half of a protocol on the other half's bench proves nothing."""
    if episode.experiment.sha256 != episode.experiment_sha256:
        raise ExperimentChanged(
            "the experiment was changed after this episode was ordered; a retry plays it as it is now"
        )


def bench(episode: Episode, before: int | None = None) -> Bench:
    """The bench after all committed steps, or as it stood before step number `before`.

    Committed steps never change, so this process remembers the bench as it last saw it and reads only what came after.
    """
    until = episode.next_number if before is None else before
    known = _benches.get(episode.code)
    start = known if known is not None and len(known.history) < until else None
    made = _copied(start, current_catalogue()) if start else _fresh(episode)
    rows = episode.transitions.filter(number__gt=len(made.history), number__lt=until).order_by("number")
    if len(made.history) + 1 < until:
        made.replay(step_from_json(step) for step in rows.values_list("step", flat=True))
    if before is None:
        _remember(episode, made)
    return made


_benches: OrderedDict[UUID, Bench] = OrderedDict()
_benches_lock = Lock()
_MOST_BENCHES = 256


def _fresh(episode: Episode) -> Bench:
    return Bench(
        goal=episode.experiment.goal,
        catalogue=current_catalogue(),
        inventory=Inventory.from_json(episode.initial),
        seed=episode.seed,
        max_steps=episode.experiment.max_steps,
        manifest=_manifest(episode),
    )


def _copied(known: Bench, now: Catalogue) -> Bench:
    """A bench of one's own: whoever plays on it changes it, and may not be the one whose step stands."""
    return replace(known, catalogue=now, history=list(known.history))


def _remember(episode: Episode, made: Bench) -> None:
    with _benches_lock:
        _benches[episode.code] = replace(made, history=list(made.history))
        _benches.move_to_end(episode.code)
        while len(_benches) > _MOST_BENCHES:
            _benches.popitem(last=False)


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
