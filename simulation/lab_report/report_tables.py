"""Format the laboratory report as text tables."""

from collections.abc import Iterable, Sequence
from typing import Any

from simulation.checker.suite import SuiteResult
from simulation.lab import telling
from simulation.lab_report.rehearsal import Ablation, Rehearsal
from simulation.lab_report.report import LabReport, action_json, verdict

_FEW = 4  # missed rubric lines named in a table
_WIDEST = 76  # characters of a line's text in a table


def to_text(told: LabReport) -> str:
    kinds = [action_json(kind) for kind in told.catalogue.types.values()]
    parts = [
        f"ACTIONS ({len(kinds)}; {sum(kind['parameters'] for kind in kinds)} parameters)",
        table(
            ("action", "kind", "parameters", "badge", "time"),
            [(k["name"], k["kind"], k["parameters"], k["badge"], _cut(k["time"])) for k in kinds],
        ),
        f"EXPERIMENTS ({len(told.rehearsals)}; {sum(r.reference.valid for r in told.rehearsals)} reference protocols "
        f"VALID offline, seed {told.seed})\n"
        "steps: in the reference protocol, of: maximum allowed; lines, shortfalls: INVALID without them, as required",
        table(
            ("experiment", "group", "materials", "steps", "of", "time", "refused", "reference", "lines", "shortfalls"),
            [_summary(rehearsal) for rehearsal in told.rehearsals],
        ),
        *map(_details, told.rehearsals),
        *([_checker(told.suites)] if told.suites else []),
        "FAULTS\n" + "\n".join(told.faults) if told.faults else "No faults: every required part is necessary.",
    ]
    return "\n\n".join(parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return columns as wide as their widest entry, numbers right-aligned."""
    lines = [tuple(map(str, row)) for row in (heads, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    right_aligned = [
        all(line[column].isdigit() for line in lines[1:]) and len(lines) > 1 for column in range(len(heads))
    ]
    return "\n".join(
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right_aligned, strict=True)
        ).rstrip()
        for line in lines
    )


def _summary(rehearsal: Rehearsal) -> tuple[Any, ...]:
    spec, reference = rehearsal.spec, rehearsal.reference
    return (
        spec.slug,
        spec.group,
        len(spec.materials),
        reference.steps,
        spec.max_steps,
        telling.clock(reference.elapsed),
        len(reference.refused),
        verdict(reference.valid),
        _score(rehearsal.lines),
        _score(rehearsal.shortfalls),
    )


def _score(cuts: Sequence[Ablation]) -> str:
    return f"{sum(not ablation.fault for ablation in cuts)}/{len(cuts)}"


def _details(rehearsal: Rehearsal) -> str:
    """Return the bench, the verdict without the steps of each rubric line, and the verdict of each shortfall."""
    texts = {finding.line.line: f"{finding.line.line}: {finding.line.text}" for finding in rehearsal.reference.findings}
    rows = [(_cut(texts[c.name]), _numbers(c.without), verdict(c.valid), _note(c)) for c in rehearsal.lines]
    routes = {finding.line.line: finding.line.route for finding in rehearsal.reference.findings}
    reasons = {name: "of another route" if routes[name] else "no step counts for it" for name in rehearsal.unused}
    rows += [(_cut(texts[name]), "none", "-", reasons[name]) for name in rehearsal.unused]
    shortfall_rows = [(_cut(c.name), _numbers(c.without), verdict(c.valid), _note(c)) for c in rehearsal.shortfalls]
    parts = [
        f"{rehearsal.spec.slug}: reference {verdict(rehearsal.reference.valid)}",
        f"On the bench: {'; '.join(draft.name for draft in rehearsal.spec.drafts())}",
        table(("line of the rubric", "without steps", "verdict", "missed"), rows),
    ]
    return "\n".join(
        [
            *parts,
            *([table(("shortfall", "without steps", "verdict", "missed"), shortfall_rows)] if shortfall_rows else []),
        ]
    )


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _note(cut: Ablation) -> str:
    """Return the first missed lines and the fault; the JSON report lists all lines."""
    missed = ", ".join(cut.missed[:_FEW]) + (f" and {len(cut.missed) - _FEW} more" if len(cut.missed) > _FEW else "")
    # A run that was not submitted is INVALID for that reason alone.
    note = missed if cut.ending == "submitted" else f"{missed} (ended as {cut.ending})"
    return f"{note} <- {cut.fault}" if cut.fault else note


def _numbers(steps: Sequence[int]) -> str:
    """Return step numbers with neighbours joined: 3-5, 8."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][-1] == step - 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _checker(suites: Sequence[tuple[str, SuiteResult]]) -> str:
    rows = [(name, r.recall, r.false_alarms, r.undecidable, r.beyond, r.malformed) for name, r in suites]
    headings = (
        "labelled file",
        "decidable errors found",
        "false alarms",
        "undecidable",
        "other errors found",
        "malformed",
    )
    return f"CHECKER (per code: docs/checker.md)\n{table(headings, rows)}"
