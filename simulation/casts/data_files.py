"""Load and validate the data files of a laboratory: actions, experiments, models, prices and casts.

Every problem has the form "path:line: field: is 'value'; allowed: ...". Models collect all problems of a file at once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import casting
from simulation.casts.file_entries import CastEntry, CodeCastEntry, ModelFile, Models
from simulation.casts.run_config import CODE
from simulation.lab import catalogue, experiments
from simulation.lab.actions import Catalogue
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.llm.coding.notes import TOOLS_OF_PIPELINE
from simulation.replication.tools import TOOLS
from wetbench_site.validation import find_problems, format_file, locate_problems, read_json_file

KINDS = ("models", "prices", "casts", "code_casts")


class ModelFileError(LabError):
    """Invalid files: all problems, each as "path:line: entry.field: what is wrong and what is allowed"."""


class DataFiles(NamedTuple):
    """The content of a directory: each action and experiment, as an object and as the JSON in its file."""

    catalogue: Catalogue
    actions: list[dict[str, Any]]
    experiments: list[tuple[ExperimentSpec, dict[str, Any]]]


class ModelFiles(NamedTuple):
    """The combined content of several files. `prices` has the prices listed outside a model; each names its model."""

    models: list[dict[str, Any]]
    prices: list[dict[str, Any]]
    casts: list[dict[str, Any]]
    code_casts: list[dict[str, Any]]


def load_data_files(directory: Path) -> DataFiles:
    """Return the actions and experiments of a directory. Raises CatalogueError with every problem."""
    # A wrong directory must not look like a laboratory without actions: `load_lab` would remove the existing ones.
    empty = [kind for kind in ("actions", "experiments") if not any((directory / kind).glob("*.json"))]
    if problems := [f"{format_file(directory / kind)}: contains no data file; needed: *.json" for kind in empty]:
        raise CatalogueError("\n".join(problems))
    actions, raw_actions = catalogue.load_catalogue(directory / "actions")
    specs = experiments.load_experiments(directory / "experiments", actions)
    # Handlers and hidden truth are checked here, because the pure laboratory must not import the simulator.
    for name, problem in casting.check_handlers(actions):
        problems += locate_problems(directory / "actions" / f"{name}.json", [f"handler: {problem}"])
    for spec, data in specs:
        path = directory / "experiments" / f"{spec.slug}.json"
        problems += locate_problems(path, casting.check_truth(data, actions))
    if problems:
        raise CatalogueError("\n".join(problems))
    return DataFiles(actions, raw_actions, specs)


def load_model_files(paths: Sequence[Path], known: Models) -> ModelFiles:
    """Return the combined content of all files, with the defaults of casts filled in.

    `known` are the existing models by name. Raises ModelFileError with every problem of every file. A cast may use a
    model from any of the files.
    """
    documents: list[tuple[Path, dict[str, Any]]] = []
    problems = []
    for path in paths:
        data, unreadable = read_json_file(path)
        if not unreadable and (not isinstance(data, dict) or not data):
            unreadable = [f"{format_file(path)}:1: must contain one object with {', '.join(KINDS)} or some of them"]
        problems += unreadable
        if not unreadable:
            documents.append((path, data))
    # Models of all files are collected first, so the order of the files does not matter.
    models = {**known, **_collect_models(documents)}
    for path, data in documents:
        problems += locate_problems(path, find_problems(ModelFile, data, models))
    problems += _find_duplicates(documents)
    if problems:
        raise ModelFileError("\n".join(problems))
    models_, prices, casts, code_casts = (
        [entry for _, data in documents for entry in data.get(kind, ())] for kind in KINDS
    )
    return ModelFiles(
        models_,
        prices,
        [complete_cast(cast, models) for cast in casts],
        [complete_code_cast(cast, models) for cast in code_casts],
    )


def _collect_models(documents: Sequence[tuple[Path, dict[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    """Return the models of all files by name, as far as they can be parsed, to check casts against them."""
    return {
        # An entry with invalid options still counts as a model, so that casts do not report it as unknown.
        entry["name"]: entry if isinstance(entry.get("options", {}), Mapping) else {}
        for _, data in documents
        for entry in (data.get("models") if isinstance(data.get("models"), list) else ()) or ()
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }


def _find_duplicates(documents: Sequence[tuple[Path, dict[str, Any]]]) -> list[str]:
    """Return a problem for each name that two files define: their order would decide which definition counts.

    Casts of both kinds are stored under their names together.
    """
    problems: list[str] = []
    first: dict[tuple[str, str], tuple[Path, str]] = {}
    for path, data in documents:
        for kind in ("models", "casts", "code_casts"):
            entries = data[kind] if isinstance(data.get(kind), list) else []
            names = [entry.get("name") for entry in entries if isinstance(entry, Mapping)]
            for name in sorted({name for name in names if isinstance(name, str)}):
                place = first.setdefault((kind.removeprefix("code_"), name), (path, kind))
                if place != (path, kind):
                    problems.append(f"{format_file(path)}: {kind}: {name!r} is also in {format_file(place[0])}")
    return problems


def complete_cast(data: Mapping[str, Any], models: Models) -> dict[str, Any]:
    """Return the same cast with all defaults written out, so that a later default does not change a stored cast."""
    cast = CastEntry.model_validate(data, context=models).model_dump()
    if "history" in cast["agent"]:
        cast["agent"]["history"] = {key: value for key, value in cast["agent"]["history"].items() if value is not None}
    # Left out when empty, because the configuration of casts without it must keep its digest.
    return cast if cast["successor_of"] else {key: value for key, value in cast.items() if key != "successor_of"}


def complete_code_cast(data: Mapping[str, Any], models: Models) -> dict[str, Any]:
    """Return the same code cast with its kind and all defaults written out."""
    entry = CodeCastEntry.model_validate(data, context=models)
    cast = {"kind": CODE, **entry.model_dump()}
    history = cast["agent"]["history"]
    cast["agent"]["history"] = {key: value for key, value in history.items() if value is not None}
    if entry.agent.scaffold == "fixed":
        cast["agent"]["tools"] = list(TOOLS_OF_PIPELINE)
    elif entry.agent.tools is None:
        cast["agent"]["tools"] = [name for name, tool in TOOLS.items() if entry.helper or tool.kind != "helper"]
    return cast
