"""Format the laboratory report as text tables."""

from collections.abc import Iterable, Sequence
from typing import Any

from simulation.checker.suite import SuiteResult
from simulation.lab import rendering
from simulation.lab_report.protocol_check import Ablation, ProtocolCheck
from simulation.lab_report.report import LabReport, action_to_json, format_verdict

_MAX_LINES_NAMED = 4  # maximum number of missed rubric lines named in a table cell
_MAX_TEXT_WIDTH = 76  # maximum number of characters of a text in a table cell


def format_report(lab_report: LabReport) -> str:
    kinds = [action_to_json(kind) for kind in lab_report.catalogue.types.values()]
    parts = [
        f"ACTIONS ({len(kinds)}; {sum(kind['parameters'] for kind in kinds)} parameters)",
        format_table(
            ("action", "kind", "parameters", "badge", "time"),
            [(k["name"], k["kind"], k["parameters"], k["badge"], _shorten_text(k["time"])) for k in kinds],
        ),
        f"EXPERIMENTS ({len(lab_report.protocol_checks)}; {sum(r.reference.valid for r in lab_report.protocol_checks)} reference protocols "
        f"VALID offline, seed {lab_report.seed})\n"
        "steps: in the reference protocol, of: maximum allowed; lines, shortfalls: INVALID without them, as required",
        format_table(
            ("experiment", "group", "materials", "steps", "of", "time", "refused", "reference", "lines", "shortfalls"),
            [_format_summary_row(checked_protocol) for checked_protocol in lab_report.protocol_checks],
        ),
        *map(_format_details, lab_report.protocol_checks),
        *([_format_checker_results(lab_report.suites)] if lab_report.suites else []),
        "FAULTS\n" + "\n".join(lab_report.all_faults)
        if lab_report.all_faults
        else "No faults: every required part is necessary.",
    ]
    return "\n\n".join(parts)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a text table. Columns are as wide as their widest entry; columns of numbers are right-aligned."""
    lines = [tuple(map(str, row)) for row in (headings, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    right_aligned = [
        all(line[column].isdigit() for line in lines[1:]) and len(lines) > 1 for column in range(len(headings))
    ]
    return "\n".join(
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right_aligned, strict=True)
        ).rstrip()
        for line in lines
    )


def _format_summary_row(checked_protocol: ProtocolCheck) -> tuple[Any, ...]:
    spec, reference = checked_protocol.spec, checked_protocol.reference
    return (
        spec.slug,
        spec.group,
        len(spec.materials),
        reference.steps,
        spec.max_steps,
        rendering.format_clock(reference.elapsed),
        len(reference.refused),
        format_verdict(reference.valid),
        _format_score(checked_protocol.line_ablations),
        _format_score(checked_protocol.shortfall_ablations),
    )


def _format_score(ablations: Sequence[Ablation]) -> str:
    return f"{sum(not ablation.fault for ablation in ablations)}/{len(ablations)}"


def _format_details(checked_protocol: ProtocolCheck) -> str:
    """Return text with the initial materials and the verdicts without the steps of each rubric line and shortfall."""
    texts = {
        finding.line.line: f"{finding.line.line}: {finding.line.text}"
        for finding in checked_protocol.reference.findings
    }
    rows = [
        (
            _shorten_text(texts[c.name]),
            _format_steps(c.removed_steps),
            format_verdict(c.valid),
            _describe_missed_lines(c),
        )
        for c in checked_protocol.line_ablations
    ]
    routes = {finding.line.line: finding.line.route for finding in checked_protocol.reference.findings}
    reasons = {
        name: "of another route" if routes[name] else "no step counts for it" for name in checked_protocol.unused_lines
    }
    rows += [(_shorten_text(texts[name]), "none", "-", reasons[name]) for name in checked_protocol.unused_lines]
    shortfall_rows = [
        (_shorten_text(c.name), _format_steps(c.removed_steps), format_verdict(c.valid), _describe_missed_lines(c))
        for c in checked_protocol.shortfall_ablations
    ]
    parts = [
        f"{checked_protocol.spec.slug}: reference {format_verdict(checked_protocol.reference.valid)}",
        f"On the bench: {'; '.join(draft.name for draft in checked_protocol.spec.initial_materials())}",
        format_table(("line of the rubric", "without steps", "verdict", "missed"), rows),
    ]
    return "\n".join(
        [
            *parts,
            *(
                [format_table(("shortfall", "without steps", "verdict", "missed"), shortfall_rows)]
                if shortfall_rows
                else []
            ),
        ]
    )


def _shorten_text(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_WIDTH else f"{text[: _MAX_TEXT_WIDTH - 1]}…"


def _describe_missed_lines(ablation: Ablation) -> str:
    """Return the first few missed rubric lines and the fault, if any. The JSON report lists all lines."""
    missed = ", ".join(ablation.missed[:_MAX_LINES_NAMED]) + (
        f" and {len(ablation.missed) - _MAX_LINES_NAMED} more" if len(ablation.missed) > _MAX_LINES_NAMED else ""
    )
    # A run that was not submitted is INVALID for that reason alone.
    note = missed if ablation.ending == "submitted" else f"{missed} (ended as {ablation.ending})"
    return f"{note} <- {ablation.fault}" if ablation.fault else note


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
    headings = (
        "labelled file",
        "decidable errors found",
        "false alarms",
        "undecidable",
        "other errors found",
        "malformed",
    )
    return f"CHECKER (per code: docs/checker.md)\n{format_table(headings, rows)}"
