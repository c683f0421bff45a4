"""The stages of grading: extract, measure, perturb and probe. Each is at most one sandbox with an agent's code, and can be stored and resumed."""

from dataclasses import replace
from typing import Literal

from simulation.replication.grading.extracting import extract_patch
from simulation.replication.grading.grades import Grade, Stages, conclude, is_refused
from simulation.replication.grading.measuring import measure
from simulation.replication.grading.probing import Recording, probe
from simulation.replication.grading.work import GradingWork
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.values import BASE_VARIANT

Stage = Literal["extract", "measure", "perturb", "probe"]
STAGES: tuple[Stage, ...] = ("extract", "measure", "perturb", "probe")


def choose_stage(work: GradingWork, stages: Stages) -> Stage | None:
    """Return the stage that comes next, or None if the grade can be concluded.

    A patch that is refused or not filled in is not run. One that failed on the base data is neither run on secret data nor probed.
    """
    if stages.extraction is None:
        return "extract"
    if not stages.extraction.is_complete or is_refused(work.task, stages.extraction):
        return None
    if stages.base is None:
        return "measure"
    if not stages.base.is_usable:
        return None
    if stages.secret is None and work.secret_variants:
        return "perturb"
    return "probe" if stages.probes is None and work.function_ids else None


def run_stage(
    stage: Stage, work: GradingWork, stages: Stages, sandbox: Sandbox, recording: Recording | None = None
) -> Stages:
    """Run one stage and return all stages with its result. `recording` replaces the calls that "probe" would record.

    Raises SandboxFault and GradingStopped; the stage can then be run again. Raises ValueError if an earlier stage is missing.
    """
    if stage == "extract":
        extraction = extract_patch(work.task, work.function_ids, work.files, sandbox, work.initial)
        return replace(stages, extraction=extraction)
    if stages.extraction is None:
        raise ValueError(f"{stage} needs the result of extract")
    if stage == "measure":
        return replace(stages, base=measure(work, stages.extraction, [BASE_VARIANT], sandbox))
    if stage == "perturb":
        return replace(stages, secret=measure(work, stages.extraction, work.secret_variants, sandbox))
    return replace(stages, probes=probe(work, stages.extraction, sandbox, recording))


def grade_work(work: GradingWork, sandbox: Sandbox, recording: Recording | None = None) -> Grade:
    """Run all stages and return the grade. Raises SandboxFault and GradingStopped."""
    stages = Stages()
    while stage := choose_stage(work, stages):
        stages = run_stage(stage, work, stages, sandbox, recording)
    return conclude(work, stages)
