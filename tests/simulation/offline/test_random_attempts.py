"""No random attempt and no attempt without measurements is judged sufficient."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulation.offline.agents import ProtocolAgent, RandomAgent
from simulation.offline.checklist import ChecklistClassifier

SLUGS = sorted(path.stem for path in (Path(__file__).parents[3] / "fixtures/experiments").glob("*.json"))
ATTEMPTS = [(SLUGS[number % len(SLUGS)], 5000 + number) for number in range(100)]


def judge_bench(lab, slug, bench):
    spec = lab.specs[slug]
    return ChecklistClassifier(spec.rubric, spec.goal).judge_evidence(spec.goal, bench.get_transcript())


def list_measurements(lab, bench):
    """Return the accepted steps that measured something."""
    kinds = lab.catalogue.types
    return [step for step in bench.history if step.outcome.success and kinds[step.action.name].kind == "measurement"]


def test_checklist_rejects_a_hundred_random_attempts(lab):
    benches = [(slug, lab.play_attempt(lab.specs[slug], RandomAgent(seed), seed)) for slug, seed in ATTEMPTS]
    sufficient = [slug for slug, bench in benches if judge_bench(lab, slug, bench).sufficient]
    assert sufficient == []
    # The attempts are real ones: they cover all experiments, and most of them measure. Hardly any meets a line by chance.
    assert {slug for slug, _ in benches} == set(SLUGS)
    assert sum(bool(list_measurements(lab, bench)) for _, bench in benches) > 50
    lines = [line["met"] for slug, bench in benches for line in judge_bench(lab, slug, bench).lines]
    assert sum(lines) < len(lines) / 10


@pytest.mark.parametrize("slug", SLUGS)
def test_the_reference_protocol_without_its_measurements_is_not_sufficient(lab, slug):
    spec = lab.specs[slug]
    kinds = lab.catalogue.types
    steps = tuple(step for step in spec.protocol if kinds[step["action"]].kind != "measurement")
    assert len(steps) < len(spec.protocol)
    blind = replace(spec, protocol=steps)
    bench = lab.play_attempt(blind, ProtocolAgent(blind, 11), 11)
    assert list_measurements(lab, bench) == []
    verdict = judge_bench(lab, slug, bench)
    assert not verdict.sufficient
    assert verdict.evidence_strength in ("weak", "moderate")
