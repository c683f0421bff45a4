"""Run a protocol written by a test on an experiment's bench, and judge it by the experiment's rubric."""

from dataclasses import replace

from simulation.offline.agents import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier

SUBMIT = {"action": "SubmitMaterialsObservationsForReview", "materials": [], "parameters": {}}


def plan_step(action, materials, yields=None, **parameters):
    return {"action": action, "materials": list(materials), "parameters": parameters, "yields": yields or {}}


def run_attempt(lab, slug, steps, seed=3):
    """Return the bench after these steps and the verdict on it; every step must have been accepted."""
    spec = lab.specs[slug]
    changed_spec = replace(spec, protocol=tuple(steps))
    bench = lab.play_attempt(changed_spec, ProtocolAgent(changed_spec, seed), seed)
    assert [step.outcome.failure_reason for step in bench.history if not step.outcome.success] == []
    assert len(bench.history) == len(steps)
    return bench, ChecklistClassifier(spec.rubric, spec.goal).judge_evidence(spec.goal, bench.get_transcript())
