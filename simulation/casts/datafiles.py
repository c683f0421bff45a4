"""Load and validate the data files of a laboratory."""

from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import casting
from simulation.lab import catalogue, experiments, json_lines
from simulation.lab.actions import Catalogue
from simulation.lab.errors import CatalogueError
from simulation.lab.experiments import ExperimentSpec


class DataFiles(NamedTuple):
    """The content of a directory: each action and experiment, as an object and as the JSON in its file."""

    catalogue: Catalogue
    actions: list[dict[str, Any]]
    experiments: list[tuple[ExperimentSpec, dict[str, Any]]]


def load_data_files(directory: Path) -> DataFiles:
    """Return the content of a directory. Raises CatalogueError with every problem as "path:line: field: what is wrong and what is allowed"."""
    # Checked first: an empty directory would otherwise be valid.
    _check_not_empty(directory)
    actions, raw_actions = catalogue.load_catalogue(directory / "actions")
    specs = experiments.load_experiments(directory / "experiments", actions)
    problems = []
    # Handlers and hidden truth are checked here, because the pure laboratory must not import the simulator.
    for name, problem in casting.check_handlers(actions):
        problems += json_lines.locate_problems(directory / "actions" / f"{name}.json", [f"handler: {problem}"])
    for spec, data in specs:
        path = directory / "experiments" / f"{spec.slug}.json"
        problems += json_lines.locate_problems(path, casting.check_truth(data, actions))
    if problems:
        raise CatalogueError("\n".join(problems))
    return DataFiles(actions, raw_actions, specs)


def _check_not_empty(directory: Path) -> None:
    # A wrong directory must not look like a laboratory without actions: `load_lab` would remove the existing
    # ones.
    empty = [kind for kind in ("actions", "experiments") if not any((directory / kind).glob("*.json"))]
    if empty:
        missing = [
            f"{json_lines.format_path(directory / kind)}: contains no data file; needed: *.json" for kind in empty
        ]
        raise CatalogueError("\n".join(missing))
