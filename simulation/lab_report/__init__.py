"""A report of what the laboratory can do: every reference protocol run offline, and the results of the checker.

May import: simulation.casts, simulation.checker, simulation.lab, simulation.offline.

Without Django.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulation.casts import data_files
from simulation.checker.suite import SuiteResult, measure_suite
from simulation.lab import rendering
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.bench import Ending
from simulation.lab.errors import LabError
from simulation.lab_report.protocol_checks import Ablation, ProtocolCheck, VariantCheck, check_protocol
from simulation.lab_report.reading_ranges import find_reading_problems

_MAX_LINES_NAMED = 4  # maximum number of missed rubric lines named in a table cell
_MAX_TEXT_WIDTH = 76  # maximum number of characters of a text in a table cell


@dataclass(frozen=True)
class LabReport:
    """The actions, the checked experiments, and the checker's results on labelled files, all from one directory."""

    catalogue: Catalogue
    protocol_checks: tuple[ProtocolCheck, ...]
    suites: tuple[tuple[str, SuiteResult], ...]
    seed: int
    reading_problems: tuple[str, ...] = ()  # responses that leave the range of their instrument

    @property
    def all_faults(self) -> list[str]:
        faults = [f"{check.spec.slug}: {fault}" for check in self.protocol_checks for fault in check.all_faults]
        return [*faults, *self.reading_problems]


def build_report(
    directory: Path, seed: int, only: Sequence[str] = (), report_progress: Callable[[str], None] = lambda _: None
) -> LabReport:
    """Load the data files and check the protocol of every experiment, or only of those in `only`.

    Raises LabError for an unknown experiment and CatalogueError for an invalid file.
    """
    actions, _, files = data_files.load_data_files(directory)
    slugs = [spec.slug for spec, _ in files]
    if unknown := [slug for slug in only if slug not in slugs]:
        raise LabError(f"There is no experiment {unknown[0]!r}. Experiments: {', '.join(slugs)}")
    checks, suites, reading_problems = [], [], []
    for spec, _ in files:
        if not only or spec.slug in only:
            report_progress(spec.slug)
            checks.append(check_protocol(spec, actions, seed))
            reading_problems += [f"{spec.slug}: {problem}" for problem in find_reading_problems(spec, actions)]
    # The checker's suites do not depend on the experiments, so a report on selected experiments omits the suites.
    for path in [] if only else sorted((directory / "checker").glob("*.jsonl")):
        report_progress(f"checker, {path.name}")
        suites.append((path.stem, measure_suite(path, actions)))
    return LabReport(actions, tuple(checks), tuple(suites), seed, tuple(reading_problems))


def report_to_json(lab_report: LabReport) -> dict[str, Any]:
    return {
        "seed": lab_report.seed,
        "actions": [_action_to_json(kind) for kind in lab_report.catalogue.types.values()],
        "experiments": [_experiment_to_json(check) for check in lab_report.protocol_checks],
        "checker": {name: _suite_to_json(result) for name, result in lab_report.suites},
        "faults": lab_report.all_faults,
    }


def _action_to_json(kind: ActionType) -> dict[str, Any]:
    duration = kind.duration
    # A fixed time or the name of a parameter, plus any added terms.
    time = duration.parameter or rendering.format_clock(duration.seconds)
    time += "".join(f" + {' x '.join(term)}" for term in duration.total) + (", each" if duration.per_material else "")
    time += "".join(f" + {' x '.join(term)}" for term in duration.once)
    facts = {"name": kind.name, "kind": kind.kind, "parameters": len(kind.parameters)}
    return {**facts, "time": time, "badge": kind.fidelity}


def _format_verdict(valid: bool) -> str:
    return "VALID" if valid else "INVALID"


def _experiment_to_json(check: ProtocolCheck) -> dict[str, Any]:
    spec, reference = check.spec, check.reference
    return {
        "slug": spec.slug,
        "name": spec.name,
        "group": spec.group,
        "max_steps": spec.max_steps,
        "materials": [draft.name for draft in spec.initial_materials()],
        "protocol_steps": reference.steps,
        "elapsed_seconds": reference.elapsed,
        "refused": list(reference.refused),
        "reference": _format_verdict(reference.valid),
        "rubric": [{"name": finding.line.line, **finding.to_dict()} for finding in reference.findings],
        "without_line": [_ablation_to_json(ablation) for ablation in check.line_ablations],
        "unused_lines": list(check.unused_lines),
        "variants": [_variant_to_json(variant) for variant in check.variants],
        "alternatives": [_variant_to_json(alternative) for alternative in check.alternatives],
        "faults": check.all_faults,
    }


def _suite_to_json(result: SuiteResult) -> dict[str, Any]:
    shares = {name: getattr(result, name) for name in ("recall", "false_alarms", "undecidable", "beyond")}
    by_code = dict(sorted(result.recall_by_code.items()))
    overall, codes = (
        {name: {"part": share.part, "whole": share.whole} for name, share in group.items()}
        for group in (shares, by_code)
    )
    return {**overall, "malformed": result.malformed, "recall_by_code": codes}


def _ablation_to_json(ablation: Ablation) -> dict[str, Any]:
    verdict, missed = _format_verdict(ablation.valid), list(ablation.missed)
    removed = {"name": ablation.name, "without": list(ablation.removed_steps)}
    return {**removed, "verdict": verdict, "ending": ablation.ending, "missed": missed, "fault": ablation.fault}


def _variant_to_json(variant: VariantCheck) -> dict[str, Any]:
    return {
        "name": variant.name,
        "reason": variant.reason,
        "missing": variant.missing,
        "verdict": _format_verdict(variant.valid),
        "other_lines": list(variant.other_lines),
        "fault": variant.fault,
    }


def format_variants(lab_report: LabReport) -> str:
    """Return text tables of the variants, with the line that refuses each and its reason, and of the alternatives."""
    checks = lab_report.protocol_checks
    variants = [variant for check in checks for variant in check.variants]
    alternatives = [(check.spec.slug, alternative) for check in checks for alternative in check.alternatives]
    n_refused = sum(not variant.fault for variant in variants)
    n_accepted = sum(not alternative.fault for _, alternative in alternatives)
    return "\n\n".join(
        [
            f"VARIANTS ({n_refused} of {len(variants)} refused for the named reason, seed {lab_report.seed})",
            *(f"{check.spec.slug}\n{_format_variant_table(check)}" for check in checks if check.variants),
            f"ALTERNATIVES ({n_accepted} of {len(alternatives)} accepted)",
            format_table(
                ("experiment", "alternative", "verdict"),
                [(slug, way.name, _add_fault(_format_verdict(way.valid), way.fault)) for slug, way in alternatives],
            ),
            _format_faults(lab_report),
        ]
    )


def _format_variant_table(check: ProtocolCheck) -> str:
    # The reason comes last, because it is the longest.
    rows = [
        (
            variant.name,
            "-" if variant.fault else variant.missing,
            _list_names(variant.other_lines) or "none",
            _add_fault(variant.reason, variant.fault),
        )
        for variant in check.variants
    ]
    return format_table(("variant", "refused by line", "other lines missed", "reason"), rows)


def _list_names(names: Sequence[str]) -> str:
    """Return the first few names, and the number of the others; the JSON report lists all."""
    more = len(names) - _MAX_LINES_NAMED
    return ", ".join(names[:_MAX_LINES_NAMED]) + (f" and {more} more" if more > 0 else "")


def _add_fault(text: str, fault: str) -> str:
    return f"{text} <- {fault}" if fault else text


def _format_faults(lab_report: LabReport) -> str:
    faults = lab_report.all_faults
    return "\n".join(["FAULTS", *faults]) if faults else "No faults: every required part is necessary."


def format_report(lab_report: LabReport) -> str:
    """Return the report as text tables."""
    actions = [_action_to_json(kind) for kind in lab_report.catalogue.types.values()]
    checks, columns = lab_report.protocol_checks, ("name", "kind", "parameters", "badge", "time")
    parts = [
        f"ACTIONS ({len(actions)}; {sum(action['parameters'] for action in actions)} parameters)",
        format_table(
            ("action", *columns[1:]), [[_shorten_text(str(action[name])) for name in columns] for action in actions]
        ),
        f"EXPERIMENTS ({len(checks)}; {sum(check.reference.valid for check in checks)} reference protocols "
        f"VALID offline, seed {lab_report.seed})\n"
        "steps: in the reference protocol, of: maximum allowed; lines: INVALID without them, as required; "
        "variants: refused for the named reason; alternatives: accepted",
        format_table(
            (
                *("experiment", "group", "materials", "steps", "of", "time", "refused", "reference"),
                *("lines", "variants", "alternatives"),
            ),
            map(_list_summary_cells, checks),
        ),
        *map(_format_details, checks),
        *([_format_checker_results(lab_report.suites)] if lab_report.suites else []),
        _format_faults(lab_report),
    ]
    return "\n\n".join(parts)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a text table. Columns are as wide as their widest entry; columns of numbers are right-aligned."""
    columns = [list(map(str, column)) for column in zip(headings, *rows, strict=True)]
    aligned = []
    for column in columns:
        width, numeric = max(map(len, column)), len(column) > 1 and all(text.isdigit() for text in column[1:])
        aligned.append([text.rjust(width) if numeric else text.ljust(width) for text in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*aligned, strict=True))


def _list_summary_cells(check: ProtocolCheck) -> tuple[Any, ...]:
    spec, reference = check.spec, check.reference
    size = spec.slug, spec.group, len(spec.materials), reference.steps, spec.max_steps
    result = rendering.format_clock(reference.elapsed), len(reference.refused), _format_verdict(reference.valid)
    groups = (check.line_ablations, check.variants, check.alternatives)
    return (*size, *result, *(f"{sum(not ablation.fault for ablation in group)}/{len(group)}" for group in groups))


def _format_details(check: ProtocolCheck) -> str:
    """Return text with the initial materials and the verdicts without the steps of each rubric line."""
    lines = {finding.line.line: finding.line for finding in check.reference.findings}
    texts = {name: f"{name}: {line.text}" for name, line in lines.items()}
    rows = [_list_ablation_cells(texts[ablation.name], ablation) for ablation in check.line_ablations]
    for name in check.unused_lines:
        reason = "of another route" if lines[name].route else "no step counts for it"
        rows.append((_shorten_text(texts[name]), "none", "-", reason))
    parts = [
        f"{check.spec.slug}: reference {_format_verdict(check.reference.valid)}",
        f"On the bench: {'; '.join(draft.name for draft in check.spec.initial_materials())}",
        format_table(("line of the rubric", "without steps", "verdict", "missed"), rows),
    ]
    return "\n".join(parts)


def _list_ablation_cells(text: str, ablation: Ablation) -> tuple[str, str, str, str]:
    """Return what was removed, the verdict, and the first few missed rubric lines."""
    note = _list_names(ablation.missed)
    # A run that was not submitted is INVALID for that reason alone.
    note = note if ablation.ending == Ending.SUBMITTED else f"{note} (ended as {ablation.ending})"
    verdict = _format_verdict(ablation.valid)
    return _shorten_text(text), _format_steps(ablation.removed_steps), verdict, _add_fault(note, ablation.fault)


def _shorten_text(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_WIDTH else f"{text[: _MAX_TEXT_WIDTH - 1]}…"


def _format_steps(steps: Sequence[int]) -> str:
    """Return step numbers as text, with consecutive numbers joined: 3-5, 8."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][-1] == step - 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _format_checker_results(suites: Sequence[tuple[str, SuiteResult]]) -> str:
    rows = [(name, r.recall, r.false_alarms, r.undecidable, r.beyond, r.malformed) for name, r in suites]
    checked = ("decidable errors found", "false alarms", "undecidable", "other errors found", "malformed")
    return f"CHECKER (per code: docs/checker.md)\n{format_table(('labelled file', *checked), rows)}"
