"""A report of what the laboratory can do: every reference protocol run offline, and the results of the checker.

May import: simulation.casts, simulation.checker, simulation.lab, simulation.offline.

Without Django.
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

_MAX_LINES_NAMED = 4  # maximum number of missed rubric lines named in a table cell
_MAX_TEXT_WIDTH = 76  # maximum number of characters of a text in a table cell


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
    line_ablations: tuple[Ablation, ...]  # one per rubric line that is met, without the steps that it counts
    unused_lines: tuple[str, ...]  # rubric lines for which no step of the protocol counts
    shortfall_ablations: tuple[Ablation, ...]

    @property
    def all_faults(self) -> list[str]:
        """Return every fault to correct; empty if the protocol is sufficient and every required part is necessary."""
        run, faults = self.reference, []
        if not run.valid:
            ended = run.ending == Ending.SUBMITTED
            failure = f"missed: {', '.join(run.missed)}" if ended else f"it ended as {run.ending}"
            faults.append(f"the reference protocol is not VALID: {failure}")
        faults += [f"the reference protocol is rejected at {reason}" for reason in run.refused]
        if run.missing_yield:
            faults.append(f"the reference protocol cannot continue after {run.missing_yield}")
        ablations = (*self.line_ablations, *self.shortfall_ablations)
        return faults + [f"{ablation.name}: {ablation.fault}" for ablation in ablations if ablation.fault]


def check_protocol(spec: ExperimentSpec, catalogue: Catalogue, seed: int) -> ProtocolCheck:
    """Run the reference protocol with all its steps, then once without the steps of each rubric line and shortfall."""
    reference = run_protocol(spec, catalogue, seed)
    # Several readings of one step may count for a line; the step is removed once.
    steps = {finding.line.line: sorted({reading.step for reading in finding.counted}) for finding in reference.findings}
    lines = [_run_ablation(spec, catalogue, seed, name, removed, "") for name, removed in steps.items() if removed]
    shortfalls = [
        _run_ablation(spec, catalogue, seed, entry["name"], entry["without"], entry["missing"])
        for entry in spec.shortfalls
    ]
    unused = tuple(name for name, removed in steps.items() if not removed)
    return ProtocolCheck(spec, reference, tuple(lines), unused, tuple(shortfalls))


def run_protocol(spec: ExperimentSpec, catalogue: Catalogue, seed: int, removed: Collection[int] = ()) -> ProtocolRun:
    """Run the protocol without the `removed` steps (counted from 1) and judge it. The same seed gives the same run."""
    # Steps are counted from 1, as in the data files and in the report.
    remaining = tuple(step for number, step in enumerate(spec.protocol, start=1) if number not in removed)
    agent = ProtocolAgent(replace(spec, protocol=remaining), seed)
    model = RuleBasedTransitionModel(seed, spec.truth)
    bench = Bench(spec.goal, catalogue, build_inventory(spec.initial_materials(), seed), seed, spec.max_steps)
    while bench.ending is None:
        bench.take_step(agent.choose_action(bench.get_situation()), model)
    classifier, transcript = ChecklistClassifier(spec.rubric), bench.get_transcript()
    verdict, findings = classifier.judge_evidence(spec.goal, transcript), classifier.evaluate_lines(transcript)
    rejected = [step for step in bench.history if not step.outcome.success]
    return ProtocolRun(
        steps=sum(step.action.name not in (SUBMIT, QUIT) for step in bench.history),
        elapsed=bench.elapsed,
        ending=str(bench.ending),
        valid=bench.ending == Ending.SUBMITTED and verdict.sufficient,
        missed=tuple(finding.line.line for finding in findings if not finding.met),
        refused=tuple(f"step {step.number}, {step.action.name}: {step.outcome.failure_reason}" for step in rejected),
        findings=tuple(findings),
        missing_yield=_find_missing_yield(remaining, bench.history),
    )


def _find_missing_yield(protocol: Iterable[Mapping[str, Any]], history: Iterable[Step]) -> str:
    for step, executed in zip(protocol, history, strict=False):
        for label, index in step.get("yields", {}).items():
            # A rejected step produces nothing and is reported by itself.
            if executed.outcome.success and index >= len(executed.barcodes):
                count = len(executed.barcodes)
                return f"step {executed.number}, {executed.action.name}: {label!r} is none of the {count} materials produced"
    return ""


def _run_ablation(
    spec: ExperimentSpec, catalogue: Catalogue, seed: int, name: str, removed: Sequence[int], missing: str
) -> Ablation:
    """Run the protocol without these steps. It must be invalid, and if `missing` is given, because of this line."""
    run = run_protocol(spec, catalogue, seed, removed)
    fault = f"still VALID without steps {', '.join(map(str, removed))}" if run.valid else ""
    # Invalid for another reason than the shortfall declares: the rubric or the shortfall is wrong.
    if not fault and missing and missing not in run.missed:
        fault = f"INVALID, but the line {missing!r} is met; missed: {', '.join(run.missed) or 'none'}"
    return Ablation(name, tuple(removed), run.valid, run.ending, run.missed, fault)


@dataclass(frozen=True)
class LabReport:
    """The actions, the checked experiments, and the checker's results on labelled files, all from one directory."""

    catalogue: Catalogue
    protocol_checks: tuple[ProtocolCheck, ...]
    suites: tuple[tuple[str, SuiteResult], ...]
    seed: int

    @property
    def all_faults(self) -> list[str]:
        return [f"{check.spec.slug}: {fault}" for check in self.protocol_checks for fault in check.all_faults]


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
    checks, suites = [], []
    for spec, _ in files:
        if not only or spec.slug in only:
            report_progress(spec.slug)
            checks.append(check_protocol(spec, actions, seed))
    # The checker's suites do not depend on the experiments, so a report on selected experiments omits the suites.
    for path in [] if only else sorted((directory / "checker").glob("*.jsonl")):
        report_progress(f"checker, {path.name}")
        suites.append((path.stem, measure_suite(path, actions)))
    return LabReport(actions, tuple(checks), tuple(suites), seed)


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
        "shortfalls": [_ablation_to_json(ablation) for ablation in check.shortfall_ablations],
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
        "steps: in the reference protocol, of: maximum allowed; lines, shortfalls: INVALID without them, as required",
        format_table(
            ("experiment", "group", "materials", "steps", "of", "time", "refused", "reference", "lines", "shortfalls"),
            map(_list_summary_cells, checks),
        ),
        *map(_format_details, checks),
        *([_format_checker_results(lab_report.suites)] if lab_report.suites else []),
        "\n".join(["FAULTS", *lab_report.all_faults])
        if lab_report.all_faults
        else "No faults: every required part is necessary.",
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
    groups = (check.line_ablations, check.shortfall_ablations)
    return (*size, *result, *(f"{sum(not ablation.fault for ablation in group)}/{len(group)}" for group in groups))


def _format_details(check: ProtocolCheck) -> str:
    """Return text with the initial materials and the verdicts without the steps of each rubric line and shortfall."""
    lines = {finding.line.line: finding.line for finding in check.reference.findings}
    texts = {name: f"{name}: {line.text}" for name, line in lines.items()}
    rows = [_list_ablation_cells(texts[ablation.name], ablation) for ablation in check.line_ablations]
    for name in check.unused_lines:
        reason = "of another route" if lines[name].route else "no step counts for it"
        rows.append((_shorten_text(texts[name]), "none", "-", reason))
    shortfalls = [_list_ablation_cells(ablation.name, ablation) for ablation in check.shortfall_ablations]
    headings = ("without steps", "verdict", "missed")
    parts = [
        f"{check.spec.slug}: reference {_format_verdict(check.reference.valid)}",
        f"On the bench: {'; '.join(draft.name for draft in check.spec.initial_materials())}",
        format_table(("line of the rubric", *headings), rows),
        *([format_table(("shortfall", *headings), shortfalls)] if shortfalls else []),
    ]
    return "\n".join(parts)


def _list_ablation_cells(text: str, ablation: Ablation) -> tuple[str, str, str, str]:
    """Return what was removed, the verdict, and the first few missed rubric lines; the JSON report lists all lines."""
    more = len(ablation.missed) - _MAX_LINES_NAMED
    note = ", ".join(ablation.missed[:_MAX_LINES_NAMED]) + (f" and {more} more" if more > 0 else "")
    # A run that was not submitted is INVALID for that reason alone.
    note = note if ablation.ending == Ending.SUBMITTED else f"{note} (ended as {ablation.ending})"
    note = f"{note} <- {ablation.fault}" if ablation.fault else note
    return _shorten_text(text), _format_steps(ablation.removed_steps), _format_verdict(ablation.valid), note


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
