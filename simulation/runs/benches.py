"""Build lab values from rows: the action catalogue, the specification of an experiment, the bench of an episode."""

import json
from functools import lru_cache
from typing import Any

from django.db.models import TextField
from django.db.models.functions import Cast

from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.bench import Bench, Step, step_from_json
from simulation.lab.errors import ExperimentChanged
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import ProtocolMask
from simulation.lab.hidden_steps.written_protocols import write_protocol
from simulation.lab.materials import Inventory
from simulation.models import CatalogueEntry, Episode, Experiment, Transition
from wetbench_site.prepared_queries import PreparedQuery
from wetbench_site.text import hash_text

_CATALOGUE_HASHES = PreparedQuery(lambda: CatalogueEntry.objects.order_by("name").values_list("sha256"))
_STEPS = PreparedQuery(
    lambda episode, end: (
        Transition.objects.filter(episode=episode, number__lt=end).order_by("number").values_list("step")
    ),
    "number",
    "number",
)
_specifications: dict[str, ExperimentSpec] = {}
_drawn_specifications: dict[tuple[str, int], ExperimentSpec] = {}


def get_current_catalogue() -> Catalogue:
    """Return the action catalogue, built from the current rows."""
    # Every unit needs the catalogue. It is built once per state of the rows, so only their hashes are queried.
    hashes = tuple(sha256 for [sha256] in _CATALOGUE_HASHES.fetch_rows())
    return _get_catalogue(hashes) if all(hashes) else _load_catalogue()


@lru_cache(maxsize=4)
def _get_catalogue(hashes: tuple[str, ...]) -> Catalogue:
    return _load_catalogue()


def _load_catalogue() -> Catalogue:
    rows = CatalogueEntry.objects.order_by("name").annotate(text=Cast("data", TextField()))
    return _build_catalogue(tuple(rows.values_list("text", flat=True)))


@lru_cache(maxsize=4)
def _build_catalogue(texts: tuple[str, ...]) -> Catalogue:
    return catalogue.build_catalogue(map(json.loads, texts))


def get_specification(experiment: Experiment, truth_seed: int | None = None) -> ExperimentSpec:
    """Return the experiment with the hidden truth of this seed, or with its reference truth."""
    # Rows with the same hash have the same data, which then need not be fetched. An all-zero hash is a placeholder.
    cached = _specifications.get(experiment.sha256) if experiment.sha256.strip("0") else None
    if cached is None:
        cached = experiments.build_experiment(_load_data(experiment))
        if len(_specifications) > 100:
            _specifications.clear()
        _specifications[experiment.sha256] = cached
    return cached if truth_seed is None else _draw_truth(experiment.sha256, cached, truth_seed)


def _draw_truth(sha256: str, spec: ExperimentSpec, truth_seed: int) -> ExperimentSpec:
    # An episode runs one unit at a time, and every unit needs its truth.
    key = (sha256, truth_seed)
    if key not in _drawn_specifications or not sha256.strip("0"):
        if len(_drawn_specifications) > 100:
            _drawn_specifications.clear()
        _drawn_specifications[key] = spec.draw_truth(truth_seed)
    return _drawn_specifications[key]


def _load_data(experiment: Experiment) -> Any:
    """Return the data of the experiment. Raise ExperimentChanged if it has been reloaded since its row was read."""
    if "data" not in experiment.get_deferred_fields():
        return experiment.data
    # The data column was deferred. Read it with its hash: the experiment may have been reloaded in the meantime.
    sha256, data = Experiment.objects.values_list("sha256", "data").get(pk=experiment.pk)
    if sha256 != experiment.sha256:
        raise ExperimentChanged("the experiment is being reloaded; a retry uses the new version")
    return data


def check_unchanged(episode: Episode) -> None:
    """Raise ExperimentChanged if the experiment has changed since the episode was created."""
    # Half of an episode on one version and half on another would be no valid attempt at either.
    if episode.experiment.sha256 != episode.experiment_sha256:
        message = "the experiment has changed since this episode was created; a retry uses the current version"
        raise ExperimentChanged(message)


def build_bench(episode: Episode, before: int | None = None) -> Bench:
    """Return the bench after all committed steps, or as it was before step number `before`."""
    next_number = episode.next_number if before is None else before
    manifest = None
    if episode.run.manifest:
        manifest = tuple(draft for _, draft in get_specification(episode.experiment).manifest)
    bench = Bench(
        goal=episode.experiment.goal,
        catalogue=get_current_catalogue(),
        inventory=Inventory.from_json(episode.initial),
        seed=episode.seed,
        max_steps=episode.experiment.max_steps,
        manifest=manifest,
        protocol=write_masked_protocol(episode),
    )
    if next_number > 1:
        bench.replay_steps(step_from_json(step) for [step] in _STEPS.fetch_rows(episode.pk, next_number))
    return bench


def write_masked_protocol(episode: Episode) -> str:
    """Return the protocol that the agent of this episode reads; "" if the episode has no mask."""
    mask = ProtocolMask.from_json(episode.mask)
    if mask is None:
        return ""
    # The experiment with its reference truth: the text must not depend on the truth of the episode.
    return write_protocol(get_specification(episode.experiment), mask.hidden)


def compute_content_digest(step: Step) -> str:
    """Return a digest that is equal for steps that look the same. Barcodes, times and the hidden ledger do not count."""
    names = {material.barcode: material.name for material in step.inputs}
    transcript: dict[str, Any] = step.to_transcript()._asdict()
    for key in ("number", "started_at", "ended_at"):
        del transcript[key]
    hidden = ("barcode", "created_at", "last_modified", "replaces", "derived_from", "taken")
    for key in ("inputs", "outputs"):
        transcript[key] = [{k: v for k, v in material.items() if k not in hidden} for material in transcript[key]]
    text = json.dumps(transcript, sort_keys=True, default=str)
    for code in sorted({*names, *step.barcodes, *step.action.materials}):
        text = text.replace(code, names.get(code, "new"))
    return hash_text(text)
