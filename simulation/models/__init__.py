"""The rows of simulations: runs, episodes, steps, twins, calls, jobs. Import every model from here.

May import: simulation.lab.
"""

from simulation.models.calls import (
    CallText,
    CastDefinition,
    LanguageModel,
    ModelCall,
    ModelPrice,
    PromptSet,
    ProviderGate,
)
from simulation.models.episodes import (
    PERTURBATIONS,
    Episode,
    EvidenceReview,
    MissingReview,
    Transition,
    Twin,
    TwinDecision,
)
from simulation.models.jobs import Job, JobChunk, JobFile, JobQuerySet
from simulation.models.replication import (
    Blob,
    CodeEpisode,
    CodeStep,
    GoldResult,
    Grading,
    Mask,
    ReplicationTask,
    SandboxRun,
    Tree,
)
from simulation.models.runs import (
    REASONS,
    BenchPerson,
    CatalogueEntry,
    Experiment,
    Leased,
    LeasedQuerySet,
    PaperPlan,
    Run,
    Worker,
)
from simulation.models.vetting_samples import SampledTwin, VettingSample

__all__ = [
    "PERTURBATIONS",
    "REASONS",
    "BenchPerson",
    "Blob",
    "CallText",
    "CastDefinition",
    "CatalogueEntry",
    "CodeEpisode",
    "CodeStep",
    "Episode",
    "EvidenceReview",
    "Experiment",
    "GoldResult",
    "Grading",
    "Job",
    "JobChunk",
    "JobFile",
    "JobQuerySet",
    "LanguageModel",
    "Leased",
    "LeasedQuerySet",
    "Mask",
    "MissingReview",
    "ModelCall",
    "ModelPrice",
    "PaperPlan",
    "PromptSet",
    "ProviderGate",
    "ReplicationTask",
    "Run",
    "SampledTwin",
    "SandboxRun",
    "Transition",
    "Tree",
    "Twin",
    "TwinDecision",
    "VettingSample",
    "Worker",
]
