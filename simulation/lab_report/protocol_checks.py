"""Run a reference protocol offline: as it is, without the steps of each rubric line, and with the edits of variants and alternatives."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from simulation.lab.actions import QUIT, SUBMIT, Catalogue
from simulation.lab.bench import Bench, Ending, Step
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.lab.protocols import apply_edits
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


class VariantCheck(NamedTuple):
    """A run of a variant, which must miss the rubric line `missing`, or of an alternative, which must be VALID."""

    name: str
    reason: str
    missing: str  # "" of an alternative
    valid: bool
    missed: tuple[str, ...]  # rubric lines that were not met, although the reference protocol meets them
    fault: str  # what is wrong with the variant or the rubric; "" if nothing

    @property
    def other_lines(self) -> tuple[str, ...]:
        return tuple(line for line in self.missed if line != self.missing)


@dataclass(frozen=True)
class ProtocolCheck:
    """The results of an experiment's complete reference protocol and of the runs that differ from it."""

    spec: ExperimentSpec
    reference: ProtocolRun
    line_ablations: tuple[Ablation, ...]  # one per rubric line that is met, without the steps that it counts
    unused_lines: tuple[str, ...]  # rubric lines for which no step of the protocol counts
    variants: tuple[VariantCheck, ...]
    alternatives: tuple[VariantCheck, ...]

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
        faults += [f"{ablation.name}: {ablation.fault}" for ablation in self.line_ablations if ablation.fault]
        return faults + [
            f"{check.name}: {check.fault}" for check in (*self.variants, *self.alternatives) if check.fault
        ]


def check_protocol(spec: ExperimentSpec, catalogue: Catalogue, seed: int) -> ProtocolCheck:
    """Run the reference protocol, then once without the steps of each rubric line, and each variant and alternative."""
    reference = run_protocol(spec, catalogue, seed)
    # Several readings of one step may count for a line; the step is removed once.
    steps = {finding.line.line: sorted({reading.step for reading in finding.counted}) for finding in reference.findings}
    return ProtocolCheck(
        spec,
        reference,
        line_ablations=tuple(
            _run_ablation(spec, catalogue, seed, name, removed) for name, removed in steps.items() if removed
        ),
        unused_lines=tuple(name for name, removed in steps.items() if not removed),
        variants=tuple(_check_variant(spec, catalogue, seed, reference, entry) for entry in spec.variants),
        alternatives=tuple(_check_variant(spec, catalogue, seed, reference, entry) for entry in spec.alternatives),
    )


def run_protocol(
    spec: ExperimentSpec, catalogue: Catalogue, seed: int, protocol: Sequence[Mapping[str, Any]] | None = None
) -> ProtocolRun:
    """Run the reference protocol, or `protocol` instead, and judge it. The same seed gives the same run."""
    protocol = spec.protocol if protocol is None else protocol
    agent = ProtocolAgent(replace(spec, protocol=tuple(protocol)), seed)
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
        missing_yield=_find_missing_yield(protocol, bench.history),
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
    spec: ExperimentSpec, catalogue: Catalogue, seed: int, name: str, removed: Collection[int]
) -> Ablation:
    """Run the protocol without these steps (counted from 1, as in data files and in the report). It must be INVALID."""
    remaining = [step for number, step in enumerate(spec.protocol, start=1) if number not in removed]
    run = run_protocol(spec, catalogue, seed, remaining)
    fault = f"still VALID without steps {', '.join(map(str, removed))}" if run.valid else ""
    return Ablation(name, tuple(removed), run.valid, run.ending, run.missed, fault)


def _check_variant(
    spec: ExperimentSpec, catalogue: Catalogue, seed: int, reference: ProtocolRun, entry: Mapping[str, Any]
) -> VariantCheck:
    run = run_protocol(spec, catalogue, seed, apply_edits(spec.protocol, entry))
    missing = entry.get("missing", "")
    return VariantCheck(
        name=entry["name"],
        reason=entry.get("reason", ""),
        missing=missing,
        valid=run.valid,
        missed=tuple(line for line in run.missed if line not in reference.missed or line == missing),
        fault=_find_variant_fault(run, missing),
    )


def _find_variant_fault(run: ProtocolRun, missing: str) -> str:
    """Return why the run is not what a variant (with `missing`) or an alternative promises, or ""."""
    if run.refused:
        # A fault that the bench prevents needs no rubric, and an alternative that it prevents is none.
        return f"rejected at {run.refused[0]}"
    if run.ending != Ending.SUBMITTED:
        return f"it ended as {run.ending}"
    if missing and run.valid:
        return "still VALID"
    if missing and missing not in run.missed:
        # INVALID for another reason than the variant declares: the rubric or the variant is wrong.
        return f"INVALID, but the line {missing!r} is met; missed: {', '.join(run.missed) or 'none'}"
    if not missing and not run.valid:
        return f"not VALID; missed: {', '.join(run.missed)}"
    return ""
