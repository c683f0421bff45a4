"""What the laboratory can do and whether its data files are consistent, as values and as JSON. Tables are in report_tables.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.casts import datafiles
from simulation.checker.suite import SuiteResult, measure
from simulation.lab import telling
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.lab_report.rehearsal import Ablation, Rehearsal, rehearse
from simulation.offline.checklist import Finding


@dataclass(frozen=True)
class LabReport:
    """Actions, checked experiments, and the checker's results on the labelled files of a directory of data files."""

    catalogue: Catalogue
    rehearsals: tuple[Rehearsal, ...]
    suites: tuple[tuple[str, SuiteResult], ...]
    seed: int

    @property
    def faults(self) -> list[str]:
        return [f"{rehearsal.spec.slug}: {fault}" for rehearsal in self.rehearsals for fault in rehearsal.faults]


def report(
    directory: Path, seed: int, only: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> LabReport:
    """Load the data files and check the protocol of every experiment, or only of those in `only`.

    Raises LabError for an unknown experiment, CatalogueError if a file is wrong.
    """
    actions, _, files = datafiles.read(directory)
    specs = [spec for spec, _ in files]
    slugs = [spec.slug for spec in specs]
    if unknown := [slug for slug in only if slug not in slugs]:
        raise LabError(f"There is no experiment {unknown[0]!r}. Experiments: {', '.join(slugs)}")
    rehearsals = []
    for spec in specs:
        if not only or spec.slug in only:
            say(spec.slug)
            rehearsals.append(rehearse(spec, actions, seed))
    # The checker's suites do not depend on the experiments, so a report of some of them leaves them out.
    labelled_files = [] if only else sorted((directory / "checker").glob("*.jsonl"))
    suites = []
    for path in labelled_files:
        say(f"checker, {path.name}")
        suites.append((path.stem, measure(path, actions)))
    return LabReport(actions, tuple(rehearsals), tuple(suites), seed)


def to_json(told: LabReport) -> dict[str, Any]:
    return {
        "seed": told.seed,
        "actions": [action_json(kind) for kind in told.catalogue.types.values()],
        "experiments": [_experiment_json(rehearsal) for rehearsal in told.rehearsals],
        "checker": {name: _suite_json(result) for name, result in told.suites},
        "faults": told.faults,
    }


def action_json(kind: ActionType) -> dict[str, Any]:
    return {
        "name": kind.name,
        "kind": kind.kind,
        "parameters": len(kind.parameters),
        "time": time_taken(kind),
        "badge": kind.fidelity,
    }


def time_taken(kind: ActionType) -> str:
    """Describe how long an action takes: a fixed time or a parameter, and what is added to it."""
    duration = kind.duration
    text = duration.parameter or telling.clock(duration.seconds)
    text += "".join(f" + {' x '.join(term)}" for term in duration.total)
    return f"{text}, each" if duration.per_material else text


def verdict(valid: bool) -> str:
    return "VALID" if valid else "INVALID"


def _experiment_json(rehearsal: Rehearsal) -> dict[str, Any]:
    spec, reference = rehearsal.spec, rehearsal.reference
    return {
        "slug": spec.slug,
        "name": spec.name,
        "group": spec.group,
        "max_steps": spec.max_steps,
        "materials": [draft.name for draft in spec.drafts()],
        "protocol_steps": reference.steps,
        "elapsed_seconds": reference.elapsed,
        "refused": list(reference.refused),
        "reference": verdict(reference.valid),
        "rubric": [_finding_json(finding) for finding in reference.findings],
        "without_line": [_cut_json(cut) for cut in rehearsal.lines],
        "unused_lines": list(rehearsal.unused),
        "shortfalls": [_cut_json(cut) for cut in rehearsal.shortfalls],
        "faults": rehearsal.faults,
    }


def _suite_json(result: SuiteResult) -> dict[str, Any]:
    shares = {name: getattr(result, name) for name in ("recall", "false_alarms", "undecidable", "beyond")}
    shares_json = {name: {"part": share.part, "whole": share.whole} for name, share in shares.items()}
    by_code = {code: {"part": s.part, "whole": s.whole} for code, s in sorted(result.recall_by_code.items())}
    return {**shares_json, "malformed": result.malformed, "recall_by_code": by_code}


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {"name": finding.line.line, **finding.to_json()}


def _cut_json(cut: Ablation) -> dict[str, Any]:
    return {
        "name": cut.name,
        "without": list(cut.without),
        "verdict": verdict(cut.valid),
        "ending": cut.ending,
        "missed": list(cut.missed),
        "fault": cut.fault,
    }
