"""Grading: extract the hidden functions' bodies, run them in a clean checkout, and compare numbers outside the sandbox.

`stages` runs the stages one by one; `grades` has the rules. Reference bodies of hidden functions, gold values and secret numbers of
variants never enter a sandbox in which an agent's code runs.
"""

from simulation.replication.grading.extracting import (
    ExtractedFunction,
    Extraction,
    GradingStopped,
    ScreenFinding,
    build_checkout,
    extract_patch,
)
from simulation.replication.grading.grades import (
    FINDING_KINDS,
    GRADING_VERSION,
    OUTCOME_TEXTS,
    OUTCOMES,
    Grade,
    GradeFinding,
    Outcome,
    Stages,
    conclude,
    describe_patch,
)
from simulation.replication.grading.measuring import Measurement, measure
from simulation.replication.grading.probing import Probes, RecordingError, probe, record_calls
from simulation.replication.grading.stages import (
    STAGES,
    Stage,
    choose_stage,
    grade_work,
    run_stage,
)
from simulation.replication.grading.work import GradingWork

__all__ = [
    "FINDING_KINDS",
    "GRADING_VERSION",
    "OUTCOMES",
    "OUTCOME_TEXTS",
    "STAGES",
    "ExtractedFunction",
    "Extraction",
    "Grade",
    "GradeFinding",
    "GradingStopped",
    "GradingWork",
    "Measurement",
    "Outcome",
    "Probes",
    "RecordingError",
    "ScreenFinding",
    "Stage",
    "Stages",
    "build_checkout",
    "choose_stage",
    "conclude",
    "describe_patch",
    "extract_patch",
    "grade_work",
    "measure",
    "probe",
    "record_calls",
    "run_stage",
]
