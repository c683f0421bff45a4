"""Run a reference protocol offline, whole or in part, and judge its record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from simulation.lab.actions import QUIT, SUBMIT, Catalogue
from simulation.lab.bench import Bench, Ending, Step
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
