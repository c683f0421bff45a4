"""Plays reference protocols offline: whole, without what one line of the rubric counts, and short in named ways."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from simulation.lab.actions import QUIT, SUBMIT, Catalogue
from simulation.lab.bench import Bench, Ending, Step
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import place_all
from simulation.offline.agent import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier, Finding
from simulation.offline.rules import RuleBasedTransitionModel


class Play(NamedTuple):
    """One attempt by the protocol agent: `valid` when it was submitted and judged sufficient."""

    steps: int
    elapsed: int
    ending: str
    valid: bool
    missed: tuple[str, ...]  # the judged lines that were not met
    refused: tuple[str, ...]  # "step 3, Transfer: reason"
    findings: tuple[Finding, ...]
    unmade: str  # the first label that its step's outcome has no material for; "" if there is none


class Ablation(NamedTuple):
    """The protocol without some of its steps (from 1), which must not come out VALID."""

    name: str
    without: tuple[int, ...]
    valid: bool
    ending: str
    missed: tuple[str, ...]
    fault: str  # why this is not as it should be; "" if it is


@dataclass(frozen=True)
class Rehearsal:
    """An experiment's reference protocol, and what happens without parts of it."""

    spec: ExperimentSpec
    reference: Play
    lines: tuple[Ablation, ...]  # one for each line that the protocol meets, without the steps counted for it
    unused: tuple[str, ...]  # lines of another route, for which nothing of the protocol counts
    shortfalls: tuple[Ablation, ...]

    @property
    def faults(self) -> list[str]:
        """Everything that must be mended; none when the protocol suffices and no part of it can be left out."""
        found = [] if self.reference.valid else [f"the reference protocol is not VALID: {_why(self.reference)}"]
        found += [f"the reference protocol is refused at {reason}" for reason in self.reference.refused]
        found += [f"the reference protocol cannot go on after {self.reference.unmade}"] if self.reference.unmade else []
        return found + [f"{cut.name}: {cut.fault}" for cut in (*self.lines, *self.shortfalls) if cut.fault]


def rehearse(spec: ExperimentSpec, catalogue: Catalogue, seed: int) -> Rehearsal:
    """The reference protocol with all its steps, then once for each line of the rubric and each shortfall."""
    reference = play(spec, catalogue, seed)
    lines, unused = [], []
    for finding in reference.findings:
        without = tuple(sorted({reading.step for reading in finding.counted}))
        if without:
            lines.append(_without(finding.line.line, without, play(spec, catalogue, seed, without), ""))
        else:
            unused.append(finding.line.line)
    shortfalls = [
        _without(
            entry["name"],
            tuple(entry["without"]),
            play(spec, catalogue, seed, entry["without"]),
            entry["missing"],
        )
        for entry in spec.shortfalls
    ]
    return Rehearsal(spec, reference, tuple(lines), tuple(unused), tuple(shortfalls))


def play(spec: ExperimentSpec, catalogue: Catalogue, seed: int, without: Collection[int] = ()) -> Play:
    """The protocol without those steps (from 1), each tried once and submitted; the same seed gives the same play."""
    kept = tuple(step for number, step in enumerate(spec.protocol, start=1) if number not in without)
    agent = ProtocolAgent(replace(spec, protocol=kept), seed)
    model = RuleBasedTransitionModel(seed, spec.truth)
    bench = Bench(spec.goal, catalogue, place_all(spec.drafts(), seed), seed, spec.max_steps)
    while bench.ending is None:
        bench.step(agent.choose(bench.situation()), model)
    return _judged(spec, bench, _unmade(kept, bench.history))


def _unmade(protocol: Iterable[Mapping[str, Any]], history: Iterable[Step]) -> str:
    for step, done in zip(protocol, history, strict=False):
        for label, at in step.get("yields", {}).items():
            if done.outcome.success and at >= len(done.barcodes):
                made = len(done.barcodes)
                return f"step {done.number}, {done.action.name}: {label!r} is none of the {made} materials it made"
    return ""


def _judged(spec: ExperimentSpec, bench: Bench, unmade: str) -> Play:
    classifier, transcript = ChecklistClassifier(spec.rubric), bench.transcript()
    verdict, findings = classifier.judge(spec.goal, transcript), classifier.findings(transcript)
    done = [step for step in bench.history if step.action.name not in (SUBMIT, QUIT)]
    refused = [step for step in bench.history if not step.outcome.success]
    return Play(
        steps=len(done),
        elapsed=bench.elapsed,
        ending=str(bench.ending),
        valid=bench.ending == Ending.SUBMITTED and verdict.sufficient,
        missed=tuple(finding.line.line for finding in findings if not finding.met),
        refused=tuple(f"step {s.number}, {s.action.name}: {s.outcome.failure_reason}" for s in refused),
        findings=tuple(findings),
        unmade=unmade,
    )


def _without(name: str, without: tuple[int, ...], done: Play, missing: str) -> Ablation:
    fault = "" if not done.valid else f"still VALID without steps {', '.join(map(str, without))}"
    if not fault and missing and missing not in done.missed:
        fault = f"INVALID, yet the line {missing!r} is met; missed: {', '.join(done.missed) or 'none'}"
    return Ablation(name, without, done.valid, done.ending, done.missed, fault)


def _why(done: Play) -> str:
    if done.ending != Ending.SUBMITTED:
        return f"it ended as {done.ending}"
    return f"missed: {', '.join(done.missed)}"
