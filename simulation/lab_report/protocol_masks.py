"""The essential steps of the experiments in the data files, as a report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from simulation.casts import data_files
from simulation.lab.errors import LabError
from simulation.offline.hidden_steps.essential_steps import SEED, EssentialSteps, find_essential_steps


def count_all(
    directory: Path, only: Sequence[str] = (), seed: int = SEED, report_progress: Callable[[str], None] = lambda _: None
) -> list[EssentialSteps]:
    """Find the essential steps of every experiment of the data files, or only of those in `only`.

    Raises LabError for an unknown experiment and for a reference protocol that is not VALID.
    """
    catalogue, _, files = data_files.load_data_files(directory)
    specs = {spec.slug: spec for spec, _ in files}
    if unknown := [slug for slug in only if slug not in specs]:
        raise LabError(f"There is no experiment {unknown[0]!r}. Experiments: {', '.join(specs)}")
    counted = []
    for slug in [slug for slug in specs if not only or slug in only]:
        report_progress(slug)
        counted.append(find_essential_steps(specs[slug], catalogue, seed))
    return counted


def list_rows(counted: Sequence[EssentialSteps]) -> list[tuple[Any, ...]]:
    """Return the rows of a table, the last of which has the sums."""
    rows = [(one.slug, one.steps, len(one.essential), ", ".join(map(str, one.essential))) for one in counted]
    total = sum(one.steps for one in counted), sum(len(one.essential) for one in counted)
    return [*rows, ("all", *total, "")]
