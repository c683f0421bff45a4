"""Requests for materials: outside benchmarks only, from the experiment's list, free of steps and time."""

import pytest

from simulation.lab import experiments
from simulation.lab.actions import Action
from simulation.lab.bench import Bench
from simulation.lab.materials import build_inventory
from tests.support.data_files import CATALOGUE
from tests.support.laboratory_factory import build_material, build_tubes

DATA = {
    "slug": "x", "name": "x", "group": "x", "goal": "x", "max_steps": 10, "provenance": "x",
    "materials": [build_material("tea")],
    "manifest": [{**build_tubes(), "name": "Centrifuge tubes"}, {**build_material("acid", contents={"nitric acid": "2 M"}), "name": "Nitric acid"}],
    "rubric": [{"line": "a", "text": "a", "actions": ["Mix"]}],
}  # fmt: skip


class UnusedModel:
    """A transition model that must not be called."""

    def predict_outcome(self, action, situation):
        raise AssertionError("the environment answers this itself")


def build_bench(manifest=True):
    spec = experiments.build_experiment(DATA)
    offered = tuple(draft for _, draft in spec.manifest) if manifest else None
    return Bench("x", CATALOGUE, build_inventory(spec.initial_materials(), 3), 3, 10, offered)


def request_material(bench, request):
    return bench.take_step(Action("ManifestMaterials", (), {"request": request}), UnusedModel())


def test_listed_material_is_added_to_the_bench_without_a_step_or_time():
    lab = build_bench()
    step = request_material(lab, "Please bring some centrifuge tubes, the 2 mL ones.")
    assert step.outcome.success
    assert [draft.name for draft in step.outcome.new_materials] == ["Centrifuge tubes"]
    assert [material.name for material in lab.inventory] == ["tea", "Centrifuge tubes"]
    assert (lab.steps_used, lab.elapsed) == (0, 0)


@pytest.mark.parametrize("request_", ["the answer", "a sample of coffee with known caffeine", "tube", ""])
def test_request_for_an_unlisted_material_is_refused(request_):
    lab = build_bench()
    step = request_material(lab, request_)
    assert step.outcome.rejected_by == "catalogue"
    assert not step.outcome.new_materials
    assert len(lab.inventory) == 1


def test_listed_material_can_be_requested_only_once():
    lab = build_bench()
    request_material(lab, "nitric acid")
    assert request_material(lab, "more nitric acid").outcome.failure_reason == "already on the bench: Nitric acid"


def test_manifest_action_does_not_exist_in_a_benchmark():
    lab = build_bench(manifest=False)
    assert "ManifestMaterials" not in lab.get_situation().catalogue.types
    assert request_material(lab, "nitric acid").outcome.failure_reason.startswith(
        "There is no action 'ManifestMaterials'"
    )


def test_manifest_entry_with_unknown_contents_is_refused():
    hidden = {**DATA, "manifest": [build_material("acid", hidden={"nitric acid": "2 M"})]}
    assert experiments.check_experiment(DATA, CATALOGUE) == []
    assert experiments.check_experiment(hidden, CATALOGUE) == [
        "manifest[0].contents.nitric acid: is unknown; allowed: what everybody knows"
    ]
