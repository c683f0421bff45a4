"""A protocol of a test's own, played on an experiment's bench and judged by its rubric."""

from dataclasses import replace

from simulation.offline.agent import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier

SUBMIT = {"action": "SubmitMaterialsObservationsForReview", "materials": [], "parameters": {}}


def do(action, materials, yields=None, **parameters):
    return {"action": action, "materials": list(materials), "parameters": parameters, "yields": yields or {}}


def attempt(lab, slug, steps, seed=3):
    """The bench after these steps and the verdict on it; every step must have been accepted."""
    spec = lab.specs[slug]
    planned = replace(spec, protocol=tuple(steps))
    bench = lab.play(planned, ProtocolAgent(planned, seed), seed)
    assert [step.outcome.failure_reason for step in bench.history if not step.outcome.success] == []
    assert len(bench.history) == len(steps)
    return bench, ChecklistClassifier(spec.rubric, spec.goal).judge(spec.goal, bench.transcript())
