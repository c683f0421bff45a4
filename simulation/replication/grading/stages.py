"""The stages of grading: extract, measure, perturb and probe. Each is at most one sandbox with an agent's code, and can be stored and resumed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from simulation.replication.grading.extracting import Extraction, extract_patch
from simulation.replication.grading.grades import Grade, conclude, is_refused
from simulation.replication.grading.measuring import Measurement, measure
from simulation.replication.grading.probing import Probes, Recording, probe
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.trees import Files
from simulation.replication.values import BASE_VARIANT, Task, TaskValues

Stage = Literal["extract", "measure", "perturb", "probe"]
STAGES: tuple[Stage, ...] = ("extract", "measure", "perturb", "probe")


@dataclass(frozen=True)
class GradingWork:
    """What is graded, and the data for it. `data` has the base variant (0) and the secret variants by number.

    `cases` are the test cases that reach a hidden function; all of them if none is hidden. `initial` is the workspace that the agent got.
    """

    task: Task
    function_ids: tuple[str, ...]
    files: Files
    data: Mapping[int, Files]
    cases: tuple[str, ...]
    profile: str = "full"
    initial: Files | None = None

    @property
    def secret_data(self) -> dict[int, Files]:
        return {number: files for number, files in self.data.items() if number != BASE_VARIANT}


@dataclass(frozen=True)
class Stages:
    """What the stages returned so far."""

    extraction: Extraction | None = None
    base: Measurement | None = None
    secret: Measurement | None = None
    probes: Probes | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            name: None if value is None else value.to_json()
            for name, value in (
                ("extraction", self.extraction),
                ("base", self.base),
                ("secret", self.secret),
                ("probes", self.probes),
            )
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Stages":
        extraction, base, secret, probes = (data.get(name) for name in ("extraction", "base", "secret", "probes"))
        return cls(
            None if extraction is None else Extraction.from_json(extraction),
            None if base is None else Measurement.from_json(base),
            None if secret is None else Measurement.from_json(secret),
            None if probes is None else Probes.from_json(probes),
        )


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
    if stages.secret is None and work.secret_data:
        return "perturb"
    return "probe" if stages.probes is None and work.function_ids else None


def run_stage(
    stage: Stage, work: GradingWork, stages: Stages, sandbox: Sandbox, recording: Recording | None = None
) -> Stages:
    """Run one stage and return all stages with its result. `recording` replaces the calls that "probe" would record.

    Raises SandboxFault and GradingStopped; the stage can then be run again. Raises ValueError if an earlier stage is missing.
    """
    task, functions = work.task, work.function_ids
    if stage == "extract":
        return replace(stages, extraction=extract_patch(task, functions, work.files, sandbox, work.initial))
    if stages.extraction is None:
        raise ValueError(f"{stage} needs the result of extract")
    if stage == "measure":
        variants: Mapping[int, Files] = {BASE_VARIANT: work.data[BASE_VARIANT]}
        return replace(
            stages, base=measure(task, functions, stages.extraction, variants, sandbox, work.profile, work.cases)
        )
    if stage == "perturb":
        return replace(
            stages,
            secret=measure(task, functions, stages.extraction, work.secret_data, sandbox, work.profile, work.cases),
        )
    base_data = work.data[BASE_VARIANT]
    return replace(
        stages, probes=probe(task, functions, stages.extraction, base_data, sandbox, work.profile, recording)
    )


def conclude_stages(
    work: GradingWork,
    stages: Stages,
    reported: str | Mapping[str, Any] | None,
    ending: str,
    gold: Mapping[int, TaskValues],
    fault: str = "",
) -> Grade:
    """Return the grade of stages. `gold` has the values of all variants in `work.data`; other variants are left out."""
    needed = {number: values for number, values in gold.items() if number in work.data}
    return conclude(
        work.task,
        work.cases,
        ending,
        reported,
        stages.extraction,
        stages.base,
        stages.secret,
        stages.probes,
        needed,
        fault or _find_missing_gold(work, gold),
    )


def _find_missing_gold(work: GradingWork, gold: Mapping[int, TaskValues]) -> str:
    missing = sorted(number for number in work.data if number not in gold)
    return f"no gold values for {len(missing)} of {len(work.data)} variants" if missing else ""


def grade_tree(
    task: Task,
    function_ids: Sequence[str],
    files: Files,
    reported: str | Mapping[str, Any] | None,
    ending: str,
    data: Mapping[int, Files],
    gold: Mapping[int, TaskValues],
    sandbox: Sandbox,
    cases: Sequence[str] | None = None,
    profile: str = "full",
    initial: Files | None = None,
    recording: Recording | None = None,
) -> Grade:
    """Run all stages and return the grade. `cases` are the test cases that reach a hidden function; all of the task by default.

    Raises SandboxFault and GradingStopped.
    """
    chosen = tuple(case.id for case in task.test_cases) if cases is None else tuple(cases)
    work = GradingWork(task, tuple(function_ids), files, data, chosen, profile, initial)
    stages = Stages()
    while stage := choose_stage(work, stages):
        stages = run_stage(stage, work, stages, sandbox, recording)
    return conclude_stages(work, stages, reported, ending, gold)
