"""Check that every experiment can be solved whatever truth is drawn: its reference protocol with the truths of many seeds."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import data_files
from simulation.lab.actions import Catalogue
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.truths import truth_seeds
from simulation.offline.hidden_steps.protocol_runs import run_protocol

_MAX_NAMED = 3  # faults of an experiment that are printed in full


class TruthCheck(NamedTuple):
    """The runs of one experiment's reference protocol with the truths of many seeds."""

    slug: str
    draws: int  # number of values that are drawn
    seeds: int
    distinct: int  # number of different truths among them
    valid: int
    faults: tuple[str, ...]  # one for each seed whose run was not VALID or had a rejected step

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "faults": list(self.faults)}


def check_all_truths(
    directory: Path,
    split: str,
    number: int,
    only: Sequence[str] = (),
    processes: int = 1,
    report_progress: Callable[[str], None] = lambda _: None,
) -> list[TruthCheck]:
    """Run every reference protocol, or only those of `only`, with the truths of the first `number` seeds of a split.

    Raises LabError for an unknown experiment and CatalogueError for an invalid file.
    """
    actions, _, files = data_files.load_data_files(directory)
    specs = [spec for spec, _ in files]
    if unknown := [slug for slug in only if slug not in {spec.slug for spec in specs}]:
        raise LabError(f"There is no experiment {unknown[0]!r}. Experiments: {', '.join(spec.slug for spec in specs)}")
    chosen = [spec for spec in specs if not only or spec.slug in only]
    check = partial(check_truths, actions=actions, split=split, number=number)
    checks: list[TruthCheck] = []
    with ProcessPoolExecutor(processes) as pool:
        for truth_check in pool.map(check, chosen) if processes > 1 else map(check, chosen):
            checks.append(truth_check)
            report_progress(f"{len(checks)} of {len(chosen)} experiments: {truth_check.slug}")
    return checks


def check_truths(spec: ExperimentSpec, actions: Catalogue, split: str, number: int) -> TruthCheck:
    """Run the reference protocol with the truths of the first `number` seeds of a split, each with noise of its own."""
    seen, faults = set(), []
    for index in range(number):
        seed = truth_seeds.get_truth_seed(split, index)
        drawn = spec.draw_truth(seed)
        seen.add(json.dumps(drawn.drawn, sort_keys=True))
        run = run_protocol(drawn, actions, index + 1)
        if run.valid and not run.refused:
            continue
        reason = f"rejected at {run.refused[0]}" if run.refused else f"missed: {', '.join(run.missed) or run.ending}"
        faults.append(f"seed {seed}: {reason}; drawn: {_format_values(drawn.drawn)}")
    values = sum(len(value) if isinstance(value, dict) else 1 for value in spec.drawn.values())
    return TruthCheck(spec.slug, values, number, len(seen), number - len(faults), tuple(faults))


def _format_values(drawn: Any) -> str:
    return json.dumps(drawn, ensure_ascii=False, separators=(", ", "="))


def list_rows(checks: Sequence[TruthCheck]) -> list[tuple[object, ...]]:
    """Return the rows of the table: experiment, drawn values, seeds, different truths, valid runs."""
    return [(check.slug, check.draws, check.seeds, check.distinct, check.valid) for check in checks]


def list_fault_lines(checks: Sequence[TruthCheck]) -> list[str]:
    """Return a line for each of the first few faults of every experiment, and the number of the others."""
    lines = []
    for check in checks:
        lines += [f"{check.slug}: {fault}" for fault in check.faults[:_MAX_NAMED]]
        if further := len(check.faults) - _MAX_NAMED:
            lines += [f"{check.slug}: {further} more"] if further > 0 else []
    return lines
