"""Run a reference protocol offline: as it is, without the steps of each rubric line, and with the edits of variants and alternatives."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulation.lab.actions import Catalogue
from simulation.lab.bench import Ending
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.protocols import apply_edits
from simulation.offline.hidden_steps.protocol_runs import ProtocolRun, run_protocol


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
