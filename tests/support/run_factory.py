"""Rows of the laboratory for tests: experiments, runs, episodes, steps and twins, made from values of the lab."""

import zlib
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.bench import Step, step_to_json
from simulation.lab.materials import UNLIMITED, Material, NewMaterial, make_barcode
from simulation.lab.outcomes import Observation, Outcome, Verdict
from simulation.models import Episode, EvidenceReview, Experiment, Run, Transition, Twin
from simulation.runs import benches

ACTIONS = ("Transfer", "Wash", "Mix", "Dilute")


def create_experiment(slug: str = "caffeine", **fields: Any) -> Experiment:
    defaults = {"name": slug.title(), "group": "Chemistry", "goal": f"Measure {slug}", "max_steps": 100, "data": {}}
    return Experiment.objects.get_or_create(slug=slug, defaults={**defaults, "sha256": "0" * 64, **fields})[0]


def create_run(kind: str = "episodes", cast: str = "offline") -> Run:
    return Run.objects.get_or_create(
        submission_id=f"test-{kind}-{cast}", defaults={"kind": kind, "cast": cast, "seed": 1}
    )[0]


def create_episode(
    slug: str = "caffeine", cast: str = "offline", replicate: int = 1, status: str = "submitted"
) -> Episode:
    return Episode.objects.create(
        run=create_run("episodes", cast), experiment=create_experiment(slug), experiment_sha256="0" * 64, cast=cast,
        replicate=replicate, seed=replicate, initial=[], status=status, error="broke" if status == "failed" else "", reason="internal" if status == "failed" else "",
    )  # fmt: skip


def build_lab_material(code: str, name: str, volume: str, available: str = "available_for_further_use") -> Material:
    return Material(code, name, {"volume": volume}, available, "static", "room_temp", 0, 0, {"key": "LEAK-ledger"})


def build_lab_step(number: int, place: str = "", action: str = "Transfer", success: bool = True) -> Step:
    """Return a step on a sample and an unlimited buffer: 10 mL are transferred, the sample is returned and a tube is new."""
    sample, buffer, tube = (make_barcode(1, place, number, i) for i in range(3))
    new_materials = (
        NewMaterial("Sample", {"volume": f"{number + 110} mL"}, replaces=sample, derived_from=(sample, buffer)),
        NewMaterial("Tube", {"volume": f"{number} mL", "made in": place}, ledger={"key": "LEAK-ledger"}),
    )
    outcome = (
        Outcome(True, new_materials, (Observation(f"{sample} looks clear", "visual"),), reasoning="LEAK-reasoning",
                fidelity="LEAK-fidelity")
        if success
        else Outcome.make_rejected(f"{sample} is frozen")
    )  # fmt: skip
    return Step(
        number=number,
        started_at=number * 600,
        ended_at=number * 600 + 60,
        action=Action(action, (sample, buffer), {"volume": "10 mL", "destination": sample}),
        inputs=(
            build_lab_material(sample, "Sample", f"{number + 100} mL"),
            build_lab_material(buffer, "PBS", "1 L", UNLIMITED),
        ),
        outcome=outcome,
        barcodes=(sample, tube) if success else (),
    )


def create_transition(of: Episode, number: int, accepted: bool = True) -> Transition:
    action = ACTIONS[number % len(ACTIONS)]
    # Not the name of the cast: a name in the payload would quarantine the item.
    cast = "offline" if of.cast == "offline" else f"c{zlib.crc32(of.cast.encode()) % 1000}"
    built_step = build_lab_step(number, f"{of.experiment.slug} {cast} {of.replicate}", action, accepted)
    return Transition.objects.create(
        episode=of, number=number, action_name=action, accepted=accepted, step=step_to_json(built_step),
        rejected_by="" if accepted else "transition_model", content_sha256=benches.compute_content_digest(built_step),
    )  # fmt: skip


def create_twin(of: Transition, perturbation: str, number: int = 1, cast: str = "offline", **fields: Any) -> Twin:
    """Create a finished twin in which the volume of the sample is wrong."""
    outcome = {**of.step["outcome"], "reasoning": "SECRET: LEAK-secret"}
    sample, *others = outcome["new_materials"]
    volume = {"obvious": f"{number} kL", "subtle": f"{of.number + 120 + number} mL"}[perturbation]
    outcome["new_materials"] = [{**sample, "properties": {"volume": volume}}, *others]
    values = {
        "kind": "LEAK-kind",
        "rule": "LEAK-rule",
        "field": "LEAK-field",
        "explanation": "LEAK-why",
        "outcome": outcome,
    }
    return Twin.objects.create(
        run=create_run("twins", cast), transition=of, perturbation=perturbation, cast=cast, number=number, seed=1,
        **{"status": "done", **values, **fields},
    )  # fmt: skip


def create_pool(
    transitions: int = 10, experiments: tuple[str, ...] = ("caffeine", "zebrafish"), cast: str = "offline"
) -> None:
    """Create this many transitions in all, each with an obvious and a subtle twin."""
    episodes = [create_episode(slug, cast) for slug in experiments]
    for number in range(1, transitions + 1):
        original = create_transition(episodes[number % len(episodes)], number)
        create_twin(original, "obvious", cast=cast)
        create_twin(original, "subtle", cast=cast)


def create_evidence_pool(episodes: int = 6, cast: str = "offline") -> None:
    """Create submitted episodes of two steps, judged sufficient and insufficient in turn."""
    for replicate in range(1, episodes + 1):
        submitted = create_episode("caffeine", cast, replicate)
        for number in (1, 2):
            create_transition(submitted, number)
        verdict = Verdict(replicate % 2 == 0, "LEAK-reasoning", 0.9)
        EvidenceReview.objects.create(
            episode=submitted, classifier="offline/checklist", sufficient=verdict.sufficient, verdict=verdict.to_json()
        )
