"""Digests of stored steps and gradings, by which `verify` finds changed rows."""

from simulation.models import CodeStep, Grading
from wetbench_site.text import hash_json

GRADING_COLUMNS = ("version", "outcome", "solved", "paper_pass", "measured", "robust", "variants", "grade", "stages")


def compute_step_digest(step: CodeStep) -> str:
    """Return the digest of what a step did: request, observation and both workspaces."""
    names = ("tool", "request", "observation", "outcome", "refused", "tree_before_id", "tree_after_id")
    return hash_json([getattr(step, name) for name in names])


def compute_grading_digest(grading: Grading) -> str:
    return hash_json({name: getattr(grading, name) for name in GRADING_COLUMNS})
