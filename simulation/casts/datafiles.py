"""Reads the data files of a laboratory and checks everything that anyone will ask of them."""

from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import casting
from simulation.lab import catalogue, experiments, positions
from simulation.lab.actions import Catalogue
from simulation.lab.errors import CatalogueError
from simulation.lab.experiments import ExperimentSpec


class DataFiles(NamedTuple):
    """What a directory holds: each action and experiment built, and as written."""

    catalogue: Catalogue
    actions: list[dict[str, Any]]
    experiments: list[tuple[ExperimentSpec, dict[str, Any]]]


def read(directory: Path) -> DataFiles:
    """CatalogueError, with every problem of every file as "path:line: field: what is wrong and what is allowed"."""
    _need_files(directory)
    actions, written = catalogue.read_directory(directory / "actions")
    specs = experiments.read_directory(directory / "experiments", actions)
    problems = []
    for name, problem in casting.check_handlers(actions):
        problems += positions.located(directory / "actions" / f"{name}.json", [f"handler: {problem}"])
    for spec, data in specs:
        path = directory / "experiments" / f"{spec.slug}.json"
        problems += positions.located(path, casting.check_truth(data, actions))
    if problems:
        raise CatalogueError("\n".join(problems))
    return DataFiles(actions, written, specs)


def _need_files(directory: Path) -> None:
    """A wrong directory must not pass for a laboratory without actions: `load_lab` would forget those it has."""
    empty = [kind for kind in ("actions", "experiments") if not any((directory / kind).glob("*.json"))]
    if empty:
        missing = [f"{positions.shown(directory / kind)}: holds no data file; needed: *.json" for kind in empty]
        raise CatalogueError("\n".join(missing))
