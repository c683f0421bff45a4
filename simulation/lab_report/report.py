"""Report what the laboratory can do and whether its data files are consistent, as values, as JSON and as text tables.

Reference protocols are run offline: complete, without the steps that a rubric line counts, and with each shortfall. A
reference protocol must be sufficient, and every required part of it must be necessary.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import data_files
from simulation.checker.suite import SuiteResult, measure_suite
from simulation.lab import rendering
from simulation.lab.actions import QUIT, SUBMIT, ActionType, Catalogue
from simulation.lab.bench import Bench, Ending, Step
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.offline.agents import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier, Finding
from simulation.offline.rules import RuleBasedTransitionModel


class ProtocolRun(NamedTuple):
    """One run by the protocol agent. `valid` is True if the run was submitted and judged sufficient."""

    steps: int
    elapsed: int
    ending: str
    valid: bool
    missed: tuple[str, ...]  # rubric lines that were not met
    refused: tuple[str, ...]  # "step 3, Transfer: reason"
    findings: tuple[Finding, ...]
    missing_yield: str  # the first label for which a step produced no material, with the step; "" if there is none


class Ablation(NamedTuple):
    """A run without `removed_steps` (counted from 1). Its verdict must not be VALID."""

    name: str
    removed_steps: tuple[int, ...]
    valid: bool
    ending: str
    missed: tuple[str, ...]
    fault: str  # what is wrong with the protocol or the rubric; "" if nothing


@dataclass(frozen=True)
class ProtocolCheck:
    """The results of an experiment's complete reference protocol and of the runs without some of its steps."""

    spec: ExperimentSpec
    reference: ProtocolRun
    line_ablations: tuple[
        Ablation, ...
    ]  # one per rubric line that the protocol meets, without the steps that it counts
    unused_lines: tuple[str, ...]  # rubric lines for which no step of the protocol counts
    shortfall_ablations: tuple[Ablation, ...]

    @property
    def all_faults(self) -> list[str]:
        """Return every fault to correct; empty if the protocol is sufficient and every required part is necessary."""
        faults = (
            []
            if self.reference.valid
            else [f"the reference protocol is not VALID: {_describe_failure(self.reference)}"]
        )
        faults += [f"the reference protocol is rejected at {reason}" for reason in self.reference.refused]
        faults += (
            [f"the reference protocol cannot continue after {self.reference.missing_yield}"]
            if self.reference.missing_yield
            else []
        )
        return faults + [
            f"{ablation.name}: {ablation.fault}"
            for ablation in (*self.line_ablations, *self.shortfall_ablations)
            if ablation.fault
        ]


def check_protocol(spec: ExperimentSpec, catalogue: Catalogue, seed: int) -> ProtocolCheck:
    """Run the reference protocol with all its steps, then once without the steps of each rubric line and shortfall."""
    reference = run_protocol(spec, catalogue, seed)
    lines, unused = [], []
    for finding in reference.findings:
        # Several readings of one step may count for a line; the step is removed once.
        removed = tuple(sorted({reading.step for reading in finding.counted}))
        if removed:
            lines.append(_judge_ablation(finding.line.line, removed, run_protocol(spec, catalogue, seed, removed), ""))
        else:
            unused.append(finding.line.line)
    shortfalls = [
        _judge_ablation(
            entry["name"],
            tuple(entry["without"]),
            run_protocol(spec, catalogue, seed, entry["without"]),
            entry["missing"],
        )
        for entry in spec.shortfalls
    ]
    return ProtocolCheck(spec, reference, tuple(lines), tuple(unused), tuple(shortfalls))


def run_protocol(spec: ExperimentSpec, catalogue: Catalogue, seed: int, removed: Collection[int] = ()) -> ProtocolRun:
    """Run the protocol without the `removed` steps (counted from 1) and judge it. The same seed gives the same run."""
    # Steps are counted from 1, as in the data files and in the report.
    remaining = tuple(step for number, step in enumerate(spec.protocol, start=1) if number not in removed)
    agent = ProtocolAgent(replace(spec, protocol=remaining), seed)
    model = RuleBasedTransitionModel(seed, spec.truth)
    bench = Bench(spec.goal, catalogue, build_inventory(spec.initial_materials(), seed), seed, spec.max_steps)
    while bench.ending is None:
        bench.take_step(agent.choose_action(bench.get_situation()), model)
    return _judge_run(spec, bench, _find_missing_yield(remaining, bench.history))


def _find_missing_yield(protocol: Iterable[Mapping[str, Any]], history: Iterable[Step]) -> str:
    for step, executed in zip(protocol, history, strict=False):
        for label, index in step.get("yields", {}).items():
            # A rejected step produces nothing and is reported by itself.
            if executed.outcome.success and index >= len(executed.barcodes):
                count = len(executed.barcodes)
                return f"step {executed.number}, {executed.action.name}: {label!r} is none of the {count} materials produced"
    return ""


def _judge_run(spec: ExperimentSpec, bench: Bench, missing_yield: str) -> ProtocolRun:
    classifier, transcript = ChecklistClassifier(spec.rubric), bench.get_transcript()
    verdict, findings = classifier.judge_evidence(spec.goal, transcript), classifier.evaluate_lines(transcript)
    steps_done = [step for step in bench.history if step.action.name not in (SUBMIT, QUIT)]
    rejected = [step for step in bench.history if not step.outcome.success]
    return ProtocolRun(
        steps=len(steps_done),
        elapsed=bench.elapsed,
        ending=str(bench.ending),
        valid=bench.ending == Ending.SUBMITTED and verdict.sufficient,
        missed=tuple(finding.line.line for finding in findings if not finding.met),
        refused=tuple(f"step {s.number}, {s.action.name}: {s.outcome.failure_reason}" for s in rejected),
        findings=tuple(findings),
        missing_yield=missing_yield,
    )


def _judge_ablation(name: str, removed: tuple[int, ...], run: ProtocolRun, missing: str) -> Ablation:
    fault = "" if not run.valid else f"still VALID without steps {', '.join(map(str, removed))}"
    # Invalid for another reason than the shortfall declares: the rubric or the shortfall is wrong.
    if not fault and missing and missing not in run.missed:
        fault = f"INVALID, but the line {missing!r} is met; missed: {', '.join(run.missed) or 'none'}"
    return Ablation(name, removed, run.valid, run.ending, run.missed, fault)


def _describe_failure(run: ProtocolRun) -> str:
    if run.ending != Ending.SUBMITTED:
        return f"it ended as {run.ending}"
    return f"missed: {', '.join(run.missed)}"


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
    actions, _, files = data_files.load_data_files(directory)
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
