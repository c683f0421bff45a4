"""Report what the laboratory can do and whether its data files are consistent, as values and as JSON.

`report_tables` formats the report as text tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.casts import datafiles
from simulation.checker.suite import SuiteResult, measure_suite
from simulation.lab import rendering
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.lab_report.protocol_check import Ablation, ProtocolCheck, check_protocol
from simulation.offline.checklist import Finding


@dataclass(frozen=True)
class LabReport:
    """The actions, the checked experiments, and the checker's results on labelled files, all from one directory."""

    catalogue: Catalogue
    protocol_checks: tuple[ProtocolCheck, ...]
    suites: tuple[tuple[str, SuiteResult], ...]
    seed: int

    @property
    def all_faults(self) -> list[str]:
        return [
            f"{checked_protocol.spec.slug}: {fault}"
            for checked_protocol in self.protocol_checks
            for fault in checked_protocol.all_faults
        ]


def build_report(
    directory: Path, seed: int, only: Sequence[str] = (), report_progress: Callable[[str], None] = lambda _: None
) -> LabReport:
    """Load the data files and check the protocol of every experiment, or only of those in `only`.

    Raises LabError for an unknown experiment and CatalogueError for an invalid file.
    """
    actions, _, files = datafiles.load_data_files(directory)
    specs = [spec for spec, _ in files]
    slugs = [spec.slug for spec in specs]
    if unknown := [slug for slug in only if slug not in slugs]:
        raise LabError(f"There is no experiment {unknown[0]!r}. Experiments: {', '.join(slugs)}")
    rehearsals = []
    for spec in specs:
        if not only or spec.slug in only:
            report_progress(spec.slug)
            rehearsals.append(check_protocol(spec, actions, seed))
    # The checker's suites do not depend on the experiments, so a report on selected experiments omits the suites.
    labelled_files = [] if only else sorted((directory / "checker").glob("*.jsonl"))
    suites = []
    for path in labelled_files:
        report_progress(f"checker, {path.name}")
        suites.append((path.stem, measure_suite(path, actions)))
    return LabReport(actions, tuple(rehearsals), tuple(suites), seed)


def report_to_json(lab_report: LabReport) -> dict[str, Any]:
    return {
        "seed": lab_report.seed,
        "actions": [action_to_json(kind) for kind in lab_report.catalogue.types.values()],
        "experiments": [_experiment_to_json(checked_protocol) for checked_protocol in lab_report.protocol_checks],
        "checker": {name: _suite_to_json(result) for name, result in lab_report.suites},
        "faults": lab_report.all_faults,
    }


def action_to_json(kind: ActionType) -> dict[str, Any]:
    return {
        "name": kind.name,
        "kind": kind.kind,
        "parameters": len(kind.parameters),
        "time": describe_duration(kind),
        "badge": kind.fidelity,
    }


def describe_duration(kind: ActionType) -> str:
    """Return the duration of an action type as text: a fixed time or the name of a parameter, plus any added terms."""
    duration = kind.duration
    text = duration.parameter or rendering.format_clock(duration.seconds)
    text += "".join(f" + {' x '.join(term)}" for term in duration.total)
    return f"{text}, each" if duration.per_material else text


def format_verdict(valid: bool) -> str:
    return "VALID" if valid else "INVALID"


def _experiment_to_json(checked_protocol: ProtocolCheck) -> dict[str, Any]:
    spec, reference = checked_protocol.spec, checked_protocol.reference
    return {
        "slug": spec.slug,
        "name": spec.name,
        "group": spec.group,
        "max_steps": spec.max_steps,
        "materials": [draft.name for draft in spec.initial_materials()],
        "protocol_steps": reference.steps,
        "elapsed_seconds": reference.elapsed,
        "refused": list(reference.refused),
        "reference": format_verdict(reference.valid),
        "rubric": [_finding_to_json(finding) for finding in reference.findings],
        "without_line": [_ablation_to_json(cut) for cut in checked_protocol.line_ablations],
        "unused_lines": list(checked_protocol.unused_lines),
        "shortfalls": [_ablation_to_json(cut) for cut in checked_protocol.shortfall_ablations],
        "faults": checked_protocol.all_faults,
    }


def _suite_to_json(result: SuiteResult) -> dict[str, Any]:
    shares = {name: getattr(result, name) for name in ("recall", "false_alarms", "undecidable", "beyond")}
    shares_json = {name: {"part": share.part, "whole": share.whole} for name, share in shares.items()}
    by_code = {code: {"part": s.part, "whole": s.whole} for code, s in sorted(result.recall_by_code.items())}
    return {**shares_json, "malformed": result.malformed, "recall_by_code": by_code}


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {"name": finding.line.line, **finding.to_dict()}


def _ablation_to_json(ablation: Ablation) -> dict[str, Any]:
    return {
        "name": ablation.name,
        "without": list(ablation.removed_steps),
        "verdict": format_verdict(ablation.valid),
        "ending": ablation.ending,
        "missed": list(ablation.missed),
        "fault": ablation.fault,
    }
