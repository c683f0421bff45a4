"""Run reference protocols offline: complete, without the steps that a rubric line counts, and with each shortfall.

A reference protocol must be sufficient, and every required part of it must be necessary.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from simulation.lab.actions import QUIT, SUBMIT, Catalogue
from simulation.lab.bench import Bench, Ending, Step
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.offline.agent import ProtocolAgent
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
